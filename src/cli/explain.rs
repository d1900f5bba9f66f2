//! `meridian explain`: why a client gets its answer, from the files alone or from a running server.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::cli::client::{Answer, Client, Problem, TokenArguments, encode};
use crate::cli::terminal::harmless;
use crate::cli::{EXIT_NO, EXIT_USAGE, FileArguments, print_diagnostics, print_text};
use crate::config::files::{Paths, load};
use crate::config::report::{Report, Severity};
use crate::config::rtt::parse_milliseconds;
use crate::explain::{Asker, Assumption, ClientText, Explanation, Scene, assume, explain};
use crate::name::Name;
use crate::rr::RecordType;
use crate::serial::Serials;
use crate::steer::plan::Plan;

/// The arguments of `meridian explain`.
#[derive(Args, Debug)]
pub(super) struct Explain {
    /// The name that is asked for
    #[arg(value_parser = parse_name)]
    name: Name,
    /// The type that is asked for
    #[arg(value_name = "TYPE", default_value = "A", value_parser = parse_type)]
    record_type: RecordType,
    /// The client: IP for a query from there, IP/LEN for a client subnet in a query
    #[arg(long, value_name = "IP[/LEN]")]
    client: ClientText,
    /// The resolver that a client subnet comes from [default: one without a location]
    #[arg(long, value_name = "IP")]
    resolver: Option<IpAddr>,
    #[command(flatten)]
    assumptions: Assumptions,
    /// Explain what this running server answers now, instead of what the files say
    #[arg(long, value_name = "URL", conflicts_with_all = ["down", "up", "rtt", "zones", "geo", "config"])]
    at: Option<String>,
    #[command(flatten)]
    token: TokenArguments,
    #[command(flatten)]
    files: FileArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is assumed of health and round-trip times.
#[derive(Args, Debug)]
pub(super) struct Assumptions {
    /// Assume that an origin or a whole pool is down; can be given several times
    #[arg(long, value_name = "ORIGIN|POOL/ORIGIN|POOL")]
    down: Vec<String>,
    /// Assume that an origin or a whole pool is up, after all --down
    #[arg(long, value_name = "ORIGIN|POOL/ORIGIN|POOL")]
    up: Vec<String>,
    /// Assume a round-trip time from the client to a pool, in milliseconds
    #[arg(long, value_name = "POOL=MS", value_parser = parse_rtt)]
    rtt: Vec<(String, Duration)>,
}

impl Assumptions {
    /// In the order in which they take effect.
    pub(super) fn into_list(self) -> Vec<Assumption> {
        let forced =
            |names: Vec<String>, up| names.into_iter().map(move |n| Assumption::Forced(n, up));
        forced(self.down, false)
            .chain(forced(self.up, true))
            .chain(self.rtt.into_iter().map(|(pool, time)| Assumption::Rtt(pool, time)))
            .collect()
    }
}

fn parse_name(text: &str) -> Result<Name, String> {
    Name::parse_absolute(text).map_err(|error| error.to_string())
}

fn parse_type(text: &str) -> Result<RecordType, String> {
    RecordType::parse(text).ok_or_else(|| "give a record type, as A or AAAA".to_owned())
}

fn parse_rtt(text: &str) -> Result<(String, Duration), String> {
    let parse = || {
        let (pool, milliseconds) = text.rsplit_once('=')?;
        Some((pool.to_owned(), parse_milliseconds(milliseconds)?))
    };
    parse().ok_or_else(|| "give a pool and milliseconds, as use=92.5".to_owned())
}

impl Explain {
    pub(super) fn run(self) -> ExitCode {
        let Ok(asker) = Asker::new(self.client, self.resolver) else {
            eprintln!(
                "meridian: --resolver goes with --client IP/LEN: an address alone is the resolver"
            );
            return ExitCode::from(EXIT_USAGE);
        };
        if let Some(at) = &self.at {
            return match self.ask(at) {
                Ok(answer) if self.json => {
                    answer.print_json();
                    exit_code(&answer.document)
                }
                Ok(answer) => {
                    print_text(&harmless(&answer.document.to_string()));
                    exit_code(&answer.document)
                }
                Err(problem) => problem.tell(),
            };
        }
        let report = Report::default();
        let (server, state) = load(&Paths::from(self.files), &report);
        let mut diagnostics = report.into_sorted();
        let Some(mut state) = state else {
            print_diagnostics(&diagnostics);
            return ExitCode::from(EXIT_NO);
        };
        diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
        // Only the serial in a negative answer depends on what was served; nothing is kept here.
        Serials::read(&server.state).unwrap_or_default().assign(&mut state);
        let assumptions = self.assumptions.into_list();
        let health = match assume(&mut state, &self.name, &assumptions) {
            Ok(health) => health,
            Err(error) => {
                eprintln!("meridian: {error}");
                return ExitCode::from(EXIT_USAGE);
            }
        };
        let plan = Plan::new(&state.pools, &health);
        let scene = Scene::assumed(&state, &health, &plan);
        let explanation = explain(&scene, &self.name, self.record_type, asker);
        if self.json {
            match serde_json::to_string_pretty(&explanation) {
                Ok(document) => print_text(&format!("{document}\n")),
                Err(error) => {
                    eprintln!("meridian: the explanation cannot be written: {error}");
                    return ExitCode::from(EXIT_NO);
                }
            }
        } else {
            print_text(&explanation.to_string());
        }
        exit_code(&explanation)
    }

    /// Asks a running server.
    fn ask(&self, at: &str) -> Result<Answer<Explanation>, Problem> {
        let client = match self.client {
            ClientText::Address(ip) => ip.to_string(),
            ClientText::Subnet(subnet) => subnet.to_string(),
        };
        let (name, record_type) = (self.name.to_string(), self.record_type.to_string());
        let mut path = format!(
            "/api/v1/explain?name={}&type={}&client={}",
            encode(&name),
            encode(&record_type),
            encode(&client)
        );
        if let Some(resolver) = self.resolver {
            path.push_str(&format!("&resolver={}", encode(&resolver.to_string())));
        }
        Client::new(at, &self.token)?.get(&path)
    }
}

fn exit_code(explanation: &Explanation) -> ExitCode {
    if explanation.is_failure() { ExitCode::from(EXIT_NO) } else { ExitCode::SUCCESS }
}
