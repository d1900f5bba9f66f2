//! The state in a watched file. Something else writes it; each probe reads it anew.
//!
//! ```text
//! # A line for all addresses, as "up" or "down" and why.
//! down maintenance until 14:00
//! # Or lines for single ones, which count before a line for all.
//! * up
//! 192.0.2.10 down disk is full
//! ```

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::Path;

use crate::probe::failure::{Failure, Stage, is_exhausted, plain};
use crate::probe::{Deadline, LIMIT, Success};

/// Reads what the file says of the address.
pub(super) async fn probe(
    path: &Path,
    address: IpAddr,
    deadline: Deadline,
) -> Result<Success, Failure> {
    // A file system can hang; then a thread of the pool waits for it, and not the prober.
    let owned = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read(&owned));
    let text = match deadline.within(Stage::File, reading).await? {
        Ok(Ok(text)) => text,
        Ok(Err(error)) if is_exhausted(&error) => {
            return Err(Failure::ThisMachine(error.to_string()));
        }
        Ok(Err(error)) => {
            return Err(Failure::File(format!("cannot read {}: {error}", path.display())));
        }
        Err(error) => return Err(Failure::ThisMachine(error.to_string())),
    };
    judge(&text, address).map(|()| Success { rtt: None })
}

fn read(path: &Path) -> io::Result<String> {
    // To open a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    let limit = LIMIT as u64;
    if File::open(path)?.take(limit + 1).read_to_string(&mut text)? > LIMIT {
        return Err(io::Error::other("it has more than 64 KiB"));
    }
    Ok(text)
}

/// The address' own line decides, else the first line for all.
fn judge(text: &str, address: IpAddr) -> Result<(), Failure> {
    let mut for_all = None;
    let mut unreadable = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (first, rest) = split_word(line);
        if first.parse() == Ok(address) {
            return state(rest).unwrap_or_else(|| Err(unreadable_line(number)));
        }
        let found = if first == "*" { state(rest) } else { state(line) };
        match found {
            Some(found) => _ = for_all.get_or_insert(found),
            None if first.parse::<IpAddr>().is_ok() => {}
            None => _ = unreadable.get_or_insert(number),
        }
    }
    // A line that cannot be read might be the one that was meant.
    match (unreadable, for_all) {
        (Some(number), _) => Err(unreadable_line(number)),
        (None, Some(found)) => found,
        (None, None) => Err(Failure::File(format!("the file says nothing of {address}"))),
    }
}

/// Reads "up" or "down" and a reason.
fn state(text: &str) -> Option<Result<(), Failure>> {
    let (word, reason) = split_word(text);
    match word {
        "up" => Some(Ok(())),
        "down" => Some(Err(Failure::Down((!reason.is_empty()).then(|| plain(reason))))),
        _ => None,
    }
}

fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn unreadable_line(number: usize) -> Failure {
    Failure::File(format!(
        "line {number} of the file is none of \"up\", \"down REASON\", \"ADDRESS up\", \"ADDRESS down REASON\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> String {
        match judge(text, IpAddr::from([192, 0, 2, 1])) {
            Ok(()) => "up".to_owned(),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn a_line_of_the_address_counts_before_one_for_all() {
        assert_eq!(judged("up\n"), "up");
        assert_eq!(judged("# why\n\n  down  in repair \n"), "the file says down: in repair");
        assert_eq!(judged("* up\n192.0.2.1 down\n"), "the file says down");
        assert_eq!(judged("192.0.2.1 up\ndown\n"), "up");
        assert_eq!(judged("192.0.2.2 up\n"), "the file says nothing of 192.0.2.1");
        assert_eq!(judged(""), "the file says nothing of 192.0.2.1");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_passed_over() {
        for text in ["UP", "upwards", "up\n192.0.2.l down", "192.0.2.1 dwon\nup", "* maybe"] {
            assert!(judged(text).starts_with("line "), "{text:?}: {}", judged(text));
        }
        assert_eq!(judged("192.0.2.1 up\nnonsense"), "up", "the line that counts is read");
    }
}
