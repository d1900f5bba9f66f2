//! `meridian check`: the validation of `serve`, and what `serve` would say of the files that it writes.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::cli::{EXIT_NO, EXIT_USAGE, FileArguments, print_diagnostics, print_text};
use crate::config::files::{Paths, load, read_secrets};
use crate::config::report::{Diagnostic, Report, Severity};
use crate::config::server::Server;
use crate::query_log::{Settings, Target};
use crate::serve::query_log::{QueryLogError, look_at};
use crate::state::State;
use crate::state_folder;

/// The arguments of `meridian check`.
#[derive(Args, Debug)]
pub(super) struct Check {
    /// The folder with meridian.toml, zones/ and geo/ [default: the working directory]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    files: FileArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> ExitCode {
        let mut paths = Paths::from(self.files);
        if let Some(file) = self.folder.as_ref().filter(|folder| folder.is_file()) {
            eprintln!("meridian: {} is a file: give the folder that zones/ is in", file.display());
            return ExitCode::from(EXIT_USAGE);
        }
        paths.folder = self.folder;
        let report = Report::default();
        let (server, state) = load(&paths, &report);
        read_secrets(&server, &report);
        look_at_outputs(&server, &report);
        let state = state.filter(|_| !report.has_errors());
        let diagnostics = report.into_sorted();
        if self.json {
            let of = |severity| -> Vec<&Diagnostic> {
                diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).collect()
            };
            let document =
                json!({ "errors": of(Severity::Error), "warnings": of(Severity::Warning) });
            print_text(&format!("{document:#}\n"));
        } else {
            print_diagnostics(&diagnostics);
            print_text(&format!("{}\n", summary(state.as_ref(), &diagnostics)));
        }
        if state.is_some() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NO) }
    }
}

/// Looks at what the server writes, without writing: what `serve` would not start without is an error, and
/// what it would warn of a warning.
fn look_at_outputs(server: &Server, report: &Report) {
    if let Err(error) = state_folder::look_at(&server.state) {
        let message = format!("the state folder cannot be written: {error}");
        let help = "name another with state = \"DIR\"; what it keeps would be lost at a restart";
        report.warning(&server.state, None, "", message, help);
    }
    let user = server.privileges.as_ref().map(|privileges| privileges.user.as_str());
    if let Some((Settings { target, .. }, place)) = &server.query_log
        && let Err(QueryLogError::File { path, error, remedy }) = look_at(target, user)
    {
        let message = format!("cannot write the query log {path}: {error}");
        match target {
            Target::Lines(_) if error.kind() != io::ErrorKind::PermissionDenied => {
                place.error(report, message, remedy);
            }
            // A reader may come yet, and who serves may have other rights.
            _ => place.warning(report, message, remedy),
        }
    }
}

fn summary(state: Option<&State>, diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    match state {
        Some(state) => format!(
            "valid: {}, {}, {}, {}; {}",
            counted(state.zones.len(), "zone"),
            counted(state.balancers.len(), "load balancer"),
            counted(state.pools.len(), "pool"),
            counted(state.pools.iter().map(|pool| pool.origins.len()).sum(), "origin"),
            counted(warnings, "warning")
        ),
        None => format!("invalid: {}, {}", counted(errors, "error"), counted(warnings, "warning")),
    }
}

/// A number and its noun.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
