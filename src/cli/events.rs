//! `meridian events`: what happened in a running server, and with `-f` what happens.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Deserialize;

use crate::cli::client::{Client, Problem, ServerArguments, exit_code};
use crate::cli::print_more;
use crate::cli::terminal::{Terminal, Tone, harmless};

/// A stream that ended sooner than this is not asked for again at once.
const SHORTEST: Duration = Duration::from_secs(1);

/// The arguments of `meridian events`.
#[derive(Args, Debug)]
pub(super) struct Events {
    /// Go on, and print each event when it happens
    #[arg(short, long)]
    follow: bool,
    /// How many of the latest events are printed first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    limit: u32,
    #[command(flatten)]
    server: ServerArguments,
    /// Print JSON: one document, or with --follow one a line
    #[arg(long)]
    json: bool,
}

/// The journal, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Journal {
    events: Vec<serde_json::Value>,
    next: u64,
}

/// An event, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Shown {
    at: String,
    kind: String,
    to: Option<String>,
    text: String,
}

impl Events {
    pub(super) fn run(self) -> ExitCode {
        exit_code(self.try_run().map(|()| true))
    }

    fn try_run(&self) -> Result<(), Problem> {
        let client = self.server.client()?;
        let path = format!("/api/v1/journal?limit={}", self.limit);
        let answer = client.get::<Journal>(&path)?;
        if self.json && !self.follow {
            answer.print_json();
            return Ok(());
        }
        let goes_on = answer.document.events.iter().all(|event| self.print(event));
        if self.follow && goes_on { self.follow(&client, answer.document.next) } else { Ok(()) }
    }

    /// Prints each event from this number on, until the server cannot be reached or the output is not
    /// read any more.
    fn follow(&self, client: &Client, next: u64) -> Result<(), Problem> {
        let mut after = next.saturating_sub(1);
        loop {
            let began = Instant::now();
            let path = format!("/api/v1/events?after={after}");
            let goes_on = client.follow(&path, |data| {
                let Ok(event) = serde_json::from_str::<serde_json::Value>(data) else {
                    return true;
                };
                after = event["seq"].as_u64().unwrap_or(after);
                self.print(&event)
            })?;
            if !goes_on {
                return Ok(());
            }
            // The server lets followers go now and then, and when it stops.
            std::thread::sleep(SHORTEST.saturating_sub(began.elapsed()));
        }
    }

    /// Prints an event; false if nothing more can be printed.
    fn print(&self, event: &serde_json::Value) -> bool {
        if self.json {
            return print_more(&harmless(&format!("{event}\n")));
        }
        // What a newer server tells otherwise is left out.
        Shown::deserialize(event)
            .map_or(true, |event| print_more(&format!("{}\n", event.line(Terminal::of_output()))))
    }
}

impl Shown {
    /// Time, kind and sentence in a line.
    fn line(&self, terminal: Terminal) -> String {
        // To the second, as all other times.
        let at = self.at.split('.').next().unwrap_or_default().trim_end_matches('Z');
        let tone = match self.to.as_deref() {
            Some("healthy" | "available" | "ok") => Tone::Good,
            Some("unhealthy" | "unavailable" | "refused") => Tone::Bad,
            _ if self.kind == "override" => Tone::Odd,
            _ => Tone::Plain,
        };
        let text: String =
            self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        terminal.line(&[
            (Tone::Aside, format!("{at}Z  ")),
            (Tone::Plain, format!("{:<10}  ", self.kind)),
            (tone, text),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let event = Shown {
            at: "2026-11-30T14:00:00.123Z".to_owned(),
            kind: "health".to_owned(),
            to: Some("unhealthy".to_owned()),
            text: "weu/ams-1 in example.com. is unhealthy: two\nlines".to_owned(),
        };
        let line = |width| event.line(Terminal::plain(width));
        let whole =
            "2026-11-30T14:00:00Z  health      weu/ams-1 in example.com. is unhealthy: two lines";
        assert_eq!(line(200), whole);
        assert_eq!(line(60).chars().count(), 60);
        assert!(line(60).ends_with('…'));
    }
}
