//! `meridian serve`: answers queries until it is told to stop.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGHUP;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::cli::{EXIT_NO, FileArguments, print_diagnostics};
use crate::config::files::{Paths, load, read_secrets};
use crate::config::log_filter;
use crate::config::report::{Report, Severity};
use crate::serve::reload::log_diagnostics;

/// The log filter where none is given.
const DEFAULT_LOG: Level = Level::INFO;
/// What a log filter is set before: hickory writes a line for each query at INFO, and for some
/// packets at WARN, so that anyone could fill the log.
const QUIET: [&str; 3] = ["hickory_resolver", "hickory_net", "hickory_proto"];

/// The arguments of `meridian serve`.
#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    files: FileArguments,
    /// Listen on this address and port instead of the configured ones; can be given several times
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// The folder of what must outlast a restart [default: state]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Become this user once everything is listened on
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// What to log: a level, or target=level pairs
    #[arg(long, value_name = "FILTER", env = "MERIDIAN_LOG", value_parser = parse_log)]
    log: Option<Targets>,
}

impl Serve {
    pub(super) fn run(self) -> ExitCode {
        let Self { files, listen, state, user, log } = self;
        let paths = Paths { listen, state, user, ..Paths::from(files) };
        // A hangup while the files are read is no reason to die, and is not forgotten.
        let early_hangup = Arc::new(AtomicBool::new(false));
        if let Err(error) = signal_hook::flag::register(SIGHUP, Arc::clone(&early_hangup)) {
            eprintln!("meridian: cannot handle signals: {error}");
            return ExitCode::from(EXIT_NO);
        }
        raise_open_files();
        let report = Report::default();
        let (server, state) = load(&paths, &report);
        let secrets = read_secrets(&server, &report);
        let inputs = report.take_inputs();
        let state = state.filter(|_| !report.has_errors());
        let diagnostics = report.into_sorted();
        let configured = || server.log.as_deref().and_then(log_filter::parse);
        let default = || Targets::new().with_default(DEFAULT_LOG);
        let filter = log.or_else(configured).unwrap_or_else(default);
        let Some(state) = state else {
            print_diagnostics(&diagnostics);
            let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
            if errors > 1 {
                eprintln!("meridian: not started: the configuration has {errors} errors");
            }
            return ExitCode::from(EXIT_NO);
        };
        start_log(filter);
        log_diagnostics(&diagnostics);
        match crate::serve::serve(paths, server, state, secrets, inputs, early_hangup) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("meridian: {error}");
                ExitCode::from(EXIT_NO)
            }
        }
    }
}

fn parse_log(text: &str) -> Result<Targets, &'static str> {
    log_filter::parse(text).ok_or(log_filter::HELP)
}

/// Lets the process have as many open files, and so connections, as it is allowed to ask for. Without
/// that it has fewer, which is no reason not to start.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _unchanged = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Starts the log: for people on a terminal, JSON elsewhere.
fn start_log(filter: Targets) {
    let mut filter = filter;
    for target in QUIET {
        let named = filter.iter().any(|(name, _)| name.starts_with(target));
        if !named {
            filter = filter.with_target(target, Level::ERROR);
        }
    }
    let layer = if std::io::stderr().is_terminal() {
        fmt::layer().with_writer(std::io::stderr).with_target(false).boxed()
    } else {
        fmt::layer().json().with_writer(std::io::stderr).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}
