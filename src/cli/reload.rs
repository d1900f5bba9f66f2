//! `meridian reload`: a running server reads its files again, and the outcome is shown.

use std::process::ExitCode;

use axum::http::{Method, StatusCode};
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::changes::Changes;
use crate::cli::client::{Problem, ServerArguments, exit_code};
use crate::cli::print_text;
use crate::cli::terminal::harmless;

/// The arguments of `meridian reload`.
#[derive(Args, Debug)]
pub(super) struct Reload {
    #[command(flatten)]
    server: ServerArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What the server answers.
#[derive(Debug, Deserialize)]
struct Outcome {
    reloaded: bool,
    generation: u64,
    changes: Option<Changes>,
    #[serde(default)]
    errors: Vec<Mistake>,
    #[serde(default)]
    warnings: Vec<Mistake>,
    #[serde(default)]
    at_next_start: Vec<String>,
    error: Option<String>,
}

/// A mistake, as `meridian check --json` has it.
#[derive(Debug, Deserialize)]
struct Mistake {
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    key: String,
    message: String,
    help: String,
}

impl Reload {
    pub(super) fn run(self) -> ExitCode {
        exit_code(self.try_run())
    }

    fn try_run(&self) -> Result<bool, Problem> {
        let client = self.server.client()?;
        let (status, text) = client.exchange(Method::POST, "/api/v1/reload", &json!({}))?;
        let outcome: Option<Outcome> = serde_json::from_slice(&text).ok();
        let outcome = match outcome {
            Some(outcome)
                if [StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY].contains(&status) =>
            {
                outcome
            }
            _ => return Err(client.refused(status, &text)),
        };
        if self.json {
            print_text(&harmless(&String::from_utf8_lossy(&text)));
        } else {
            outcome.show();
        }
        Ok(outcome.reloaded)
    }
}

impl Outcome {
    fn show(&self) {
        for (severity, mistakes) in [("error", &self.errors), ("warning", &self.warnings)] {
            for Mistake { file, line, column, key, message, help } in mistakes {
                let place = match (line, column) {
                    (Some(line), Some(column)) => format!(":{line}:{column}"),
                    _ => String::new(),
                };
                let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
                let text = format!("{file}{place}: {severity}: {key}{message}\n    help: {help}");
                eprintln!("{}", harmless(&text));
            }
        }
        for key in &self.at_next_start {
            eprintln!("{}: the setting takes effect at the next start", harmless(key));
        }
        let generation = self.generation;
        match &self.changes {
            Some(Changes { zones, names, pools, origins, location, settings }) => {
                let text = format!(
                    "reloaded: generation {generation}\n\
                     zones     {zones}\nnames     {names}\npools     {pools}\norigins   {origins}\n\
                     location  {location}\nsettings  {settings}\n"
                );
                print_text(&harmless(&text));
            }
            None => {
                // What no file is to blame for stands here alone.
                if self.errors.is_empty() {
                    let error = self.error.as_deref().unwrap_or_default();
                    eprintln!("meridian: {}", harmless(error));
                }
                print_text(&format!("refused: generation {generation} is still served\n"));
            }
        }
    }
}
