//! `[cookies]`: DNS cookies (RFC 7873), and the file of their secrets.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER_PERMISSIVE;

use crate::config::reader::{Place, Table};
use crate::cookies::{SECRET, Secret, Secrets};

/// The settings of cookies.
#[derive(Clone, Debug, Default)]
pub struct CookieSettings {
    /// Whether a client that knows cookies gets data over UDP only with a valid one.
    pub require: bool,
    /// The file of the secrets, and where it is named; without one the server makes its own.
    pub secret_file: Option<(PathBuf, Place)>,
}

impl CookieSettings {
    /// Reads the table; paths are relative to `folder`.
    pub(super) fn parse(table: &Table<'_, '_>, folder: &Path) -> Self {
        let secret_file = table
            .optional("secret_file")
            .and_then(|value| Some((folder.join(value.string("a path")?), value.place())));
        let require = table.optional("require").and_then(|value| value.boolean()).unwrap_or(false);
        table.finish();
        Self { require, secret_file }
    }
}

/// Why a text is no file of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// There is no line, or more than two.
    #[error("it has {0} lines with secrets, not one or two")]
    Lines(usize),
    /// A line, counted from 1, is not a secret.
    #[error("line {0} is not a secret of 32 hexadecimal digits")]
    Line(usize),
}

/// Reads the content of the file: the secret, and below it the one before. Empty lines and white space do
/// not count.
///
/// # Errors
/// [`SecretsError`].
pub fn parse_secrets(text: &str) -> Result<Secrets, SecretsError> {
    let lines = text.lines().map(str::trim_ascii).enumerate();
    let mut lines = lines.filter(|(_, line)| !line.is_empty());
    let count = lines.clone().count();
    let mut secret = || {
        let (number, line) = lines.next()?;
        let octets = HEXLOWER_PERMISSIVE.decode(line.as_bytes()).ok();
        let secret = octets.and_then(|octets| <[u8; SECRET]>::try_from(octets).ok());
        Some(secret.map(Secret).ok_or(SecretsError::Line(number + 1)))
    };
    match (secret().transpose()?, secret().transpose()?, count) {
        (Some(current), previous, 1..=2) => Ok(Secrets { current, previous }),
        _ => Err(SecretsError::Lines(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_secrets_are_read() {
        let (a, b) = ("00112233445566778899aabbccddeeff", "FFEEDDCCBBAA99887766554433221100");
        let secrets = parse_secrets(&format!("{a}\n\n {b} \n")).unwrap();
        assert_eq!(secrets.current.0[..2], [0, 0x11]);
        assert_eq!(secrets.previous.unwrap().0[..2], [0xff, 0xee]);
        assert_eq!(parse_secrets(a).unwrap().previous, None);
        assert_eq!(parse_secrets(""), Err(SecretsError::Lines(0)));
        assert_eq!(parse_secrets(&format!("{a}\n{a}\n{a}")), Err(SecretsError::Lines(3)));
        assert_eq!(parse_secrets(&format!("\n{a}0")), Err(SecretsError::Line(2)));
        assert_eq!(parse_secrets(&format!("{a}\nsecret")), Err(SecretsError::Line(2)));
    }
}
