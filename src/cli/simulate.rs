//! `meridian simulate`: what the load balancers would answer to a query log or to a mix of clients,
//! and what a new configuration would change of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::explain::Assumptions;
use crate::cli::{EXIT_NO, EXIT_USAGE, FileArguments, print_diagnostics, print_text};
use crate::config::files::{Paths, load, read_text};
use crate::config::report::{Report, Severity};
use crate::explain::assume_everywhere;
use crate::scope::FindError;
use crate::simulate::Simulation;
use crate::simulate::log::MAX_LINE;
use crate::simulate::mix::Mix;
use crate::simulate::replay::Replay;
use crate::simulate::report::Unreadable;
use crate::state::State;

/// Inputs of fewer octets have no progress bar: they are over before it is read.
const LONG: u64 = 4 << 20;
/// After so many octets the progress bar moves.
const STEP: u64 = 1 << 18;
/// How much is read at once.
const BUFFER: usize = 1 << 17;

/// The arguments of `meridian simulate`.
#[derive(Args, Debug)]
pub(super) struct Simulate {
    #[command(flatten)]
    input: Input,
    /// Compare with the configuration in this folder (meridian.toml, zones/, geo/)
    #[arg(long, value_name = "DIR")]
    new: Option<PathBuf>,
    #[command(flatten)]
    assumptions: Assumptions,
    #[command(flatten)]
    files: FileArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Where the queries come from.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Input {
    /// A query log, one query a line: client[/len] name [type]; - for standard input
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Clients by region, region/zone or country, for every load balancer: as weu=0.6,nam=0.4, or a
    /// file with one REGION=SHARE a line
    #[arg(long, value_name = "FILE|REGION=SHARE,…")]
    mix: Option<String>,
}

/// Why there is nothing to show.
enum Fault {
    /// It has been said.
    Told,
    No(String),
    Usage(String),
}

impl Simulate {
    pub(super) fn run(self) -> ExitCode {
        let (message, code) = match self.simulate() {
            Ok(()) => return ExitCode::SUCCESS,
            Err(Fault::Told) => return ExitCode::from(EXIT_NO),
            Err(Fault::No(message)) => (message, EXIT_NO),
            Err(Fault::Usage(message)) => (message, EXIT_USAGE),
        };
        eprintln!("meridian: {message}");
        ExitCode::from(code)
    }

    fn simulate(self) -> Result<(), Fault> {
        let mut before = read(&Paths::from(self.files))?;
        let mut after = match self.new {
            Some(folder) => Some(read(&Paths { folder: Some(folder), ..Paths::default() })?),
            None => None,
        };
        let assumptions = self.assumptions.into_list();
        let usage = |error: FindError| Fault::Usage(error.to_string());
        let (health, mut unknown) = assume_everywhere(&mut before, &assumptions).map_err(usage)?;
        let mut new_health = None;
        if let Some(state) = &mut after {
            let (health, unknown_too) = assume_everywhere(state, &assumptions).map_err(usage)?;
            // What only one of both has is down there, and cannot be in the other.
            unknown.retain(|error| unknown_too.iter().any(|other| other.name() == error.name()));
            new_health = Some(health);
        }
        if let Some(error) = unknown.into_iter().next() {
            return Err(usage(error));
        }
        let simulated = after.as_ref().zip(new_health.as_ref());
        let simulated = simulated.map(|(state, health)| Simulation::new(state, health));
        let mut replay = Replay::new(Simulation::new(&before, &health), simulated);
        match (self.input.queries, self.input.mix) {
            (Some(file), _) => replay_file(&file, &mut replay)?,
            (None, Some(mix)) => {
                let mix = read_mix(&mix)?;
                replay.mix(&mix).map_err(|error| Fault::Usage(error.to_string()))?;
            }
            // clap asks for one of them.
            (None, None) => {}
        }
        let is_empty = replay.queries() == 0;
        let report = replay.report();
        tell_unreadable(&report.unreadable);
        if is_empty {
            let message = "no query could be read: give one a line, as 192.0.2.1 www.example.com A";
            return Err(Fault::No(message.to_owned()));
        }
        if self.json {
            let document = serde_json::to_string_pretty(&report)
                .map_err(|error| Fault::No(format!("the findings cannot be written: {error}")))?;
            print_text(&format!("{document}\n"));
        } else {
            print_text(&report.to_string());
        }
        Ok(())
    }
}

/// Reads a configuration; what is wrong with it is printed.
fn read(paths: &Paths) -> Result<State, Fault> {
    let report = Report::default();
    let (_, state) = load(paths, &report);
    state.ok_or_else(|| {
        let mut diagnostics = report.into_sorted();
        diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
        print_diagnostics(&diagnostics);
        Fault::Told
    })
}

fn read_mix(argument: &str) -> Result<Mix, Fault> {
    let parsed = if argument.contains('=') {
        Mix::parse(argument)
    } else {
        let path = Path::new(argument);
        let text = read_text(path).map_err(|error| {
            let given = "give REGION=SHARE,… or a file with them";
            Fault::No(format!("{} cannot be read: {error}; {given}", path.display()))
        })?;
        Mix::parse(&text)
    };
    parsed.map_err(|error| Fault::Usage(error.to_string()))
}

fn replay_file(path: &Path, replay: &mut Replay<'_>) -> Result<(), Fault> {
    let unreadable =
        |error: io::Error| Fault::No(format!("{} cannot be read: {error}", path.display()));
    let (reader, length): (Box<dyn Read>, u64) = if path == Path::new("-") {
        (Box::new(io::stdin().lock()), 0)
    } else {
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(file), length)
    };
    let bar = progress_bar(length);
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let mut line = Vec::new();
    let (mut read, mut shown) = (0_u64, 0);
    loop {
        line.clear();
        let mut count = read_part(&mut reader, &mut line).map_err(unreadable)?;
        if count == 0 {
            break;
        }
        replay.line(&line);
        while !line.ends_with(b"\n") {
            // The rest of a line that is too long, or nothing at the end of the file.
            line.clear();
            match read_part(&mut reader, &mut line).map_err(unreadable)? {
                0 => break,
                more => count += more,
            }
        }
        read += count as u64;
        if read - shown >= STEP {
            shown = read;
            bar.set_position(read);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Reads a line, of one that is too long a part that is too long.
fn read_part(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', line)
}

/// A bar on a terminal, for inputs that take a while; else one that does not show.
fn progress_bar(length: u64) -> ProgressBar {
    if length < LONG || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let template = "{wide_bar} {bytes} of {total_bytes}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn tell_unreadable(unreadable: &Unreadable) {
    for line in &unreadable.first {
        eprintln!("meridian: line {} cannot be read: {}", line.line, line.message);
    }
    let more = unreadable.count.saturating_sub(unreadable.first.len() as u64);
    if more > 0 {
        let lines = if more == 1 { "line" } else { "lines" };
        eprintln!("meridian: {more} more {lines} cannot be read");
    }
}
