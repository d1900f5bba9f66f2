//! The command line: a file for each command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where the program speaks")]

mod check;
mod client;
mod events;
mod explain;
mod overrides;
mod reload;
mod schema;
mod serve;
mod shell;
mod simulate;
mod status;
mod terminal;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Parser, Subcommand};

use crate::config::files::Paths;
use crate::config::report::{Diagnostic, Severity};
use crate::health::overrides::Word;

/// The answer is no: an invalid configuration, or no answer for a client (operations.md).
const EXIT_NO: u8 = 1;
/// The command line is wrong.
const EXIT_USAGE: u8 = 2;
/// The server could not be reached.
const EXIT_UNREACHABLE: u8 = 3;

/// Authoritative DNS-based global load balancer.
#[derive(Debug, Parser)]
#[command(name = "meridian", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer DNS queries.
    Serve(Box<serve::Serve>),
    /// Validate the configuration and print every mistake.
    Check(check::Check),
    /// Show why a client gets its answer, from the files alone or from a running server.
    Explain(explain::Explain),
    /// Show the pools and origins of a running server.
    Status(status::StatusCommand),
    /// Show what happened in a running server, and with -f what happens.
    Events(events::Events),
    /// Send no new traffic to an origin or a pool.
    Drain(overrides::Say),
    /// Take an origin or a pool out, as if it were not configured.
    Disable(overrides::Say),
    /// Count an origin or a pool as healthy, whatever its probes say.
    ForceUp(overrides::Say),
    /// Count an origin or a pool as unhealthy, whatever its probes say.
    ForceDown(overrides::Say),
    /// Lift all that was said of an origin or a pool.
    Enable(overrides::Lift),
    /// Let a running server read its files again.
    Reload(reload::Reload),
    /// Replay a query log, or a mix of clients, and show which share each pool and origin gets.
    Simulate(simulate::Simulate),
    /// Print a JSON Schema of the configuration's files, for editors.
    Schema(schema::Schema),
    /// Print the reference of all keys in Markdown.
    #[command(hide = true)]
    Reference,
    /// Print a script that completes commands in a shell.
    Completions(shell::Completions),
    /// Write man pages into a folder.
    Man(shell::Man),
}

/// Which files are read.
#[derive(Args, Clone, Debug)]
struct FileArguments {
    /// The server's settings [default: meridian.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of the zone files [default: zones]
    #[arg(long, value_name = "DIR")]
    zones: Option<PathBuf>,
    /// The folder of the location data [default: geo]
    #[arg(long, value_name = "DIR")]
    geo: Option<PathBuf>,
}

impl From<FileArguments> for Paths {
    fn from(arguments: FileArguments) -> Self {
        let FileArguments { config, zones, geo } = arguments;
        Self { config, zones, geo, ..Self::default() }
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let code = run(Arguments::parse().command);
    // What could not be printed was not done.
    if OUTPUT_IS_LOST.load(Ordering::Relaxed) { ExitCode::FAILURE } else { code }
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Serve(serve) => serve.run(),
        Command::Check(check) => check.run(),
        Command::Explain(explain) => explain.run(),
        Command::Status(status) => status.run(),
        Command::Events(events) => events.run(),
        Command::Drain(say) => say.run(Word::Drained),
        Command::Disable(say) => say.run(Word::Disabled),
        Command::ForceUp(say) => say.run(Word::ForcedUp),
        Command::ForceDown(say) => say.run(Word::ForcedDown),
        Command::Enable(lift) => lift.run(),
        Command::Reload(reload) => reload.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Schema(schema) => schema.run(),
        Command::Reference => schema::print_reference(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}

/// Whether something could not be printed that should have been.
static OUTPUT_IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints a text to standard output. That the reader had enough of it (`| head`) is no fault. False if
/// nothing more can be printed.
fn print_more(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != ErrorKind::BrokenPipe {
                eprintln!("meridian: cannot write to standard output: {error}");
                OUTPUT_IS_LOST.store(true, Ordering::Relaxed);
            }
            false
        }
    }
}

/// Prints a text that is all there is to say.
fn print_text(text: &str) {
    print_more(text);
}

/// Prints what was found in the files for people; true if there is an error.
fn print_diagnostics(diagnostics: &[Diagnostic]) -> bool {
    for diagnostic in diagnostics {
        eprintln!("{diagnostic}");
    }
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}
