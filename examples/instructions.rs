//! Answers a workload's queries in memory, to count what one costs: no socket, one thread, the same
//! answers every time. Everything is read, and answered once, before [`answer_all`] is entered; under
//! callgrind that function alone is counted (see benches/instructions.sh).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command that prints its result")]

mod queries;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use meridian::config::files::{Paths, load};
use meridian::config::report::Report;
use meridian::cookies::Cookies;
use meridian::quick::Quick;
use meridian::respond::Responder;
use meridian::serve::live::Moment;
use meridian::serve::mmsg::MAX_REPLY;
use meridian::serve::udp::{OwnSequences, answer_one};

use crate::queries::Query;

/// Where the queries come from; their subnets say where the clients are.
const RESOLVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers the queries of a workload's folder, twice.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder that the workload example wrote
    workload: PathBuf,
    /// How many of its queries
    #[arg(long, default_value_t = 20_000)]
    count: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(count) => {
            println!("{count} queries");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<usize> {
    let report = Report::default();
    let config = Some(arguments.workload.join("meridian/meridian.toml"));
    let (_, state) = load(&Paths { config, ..Paths::default() }, &report);
    let Some(state) = state else {
        let mistakes: Vec<_> = report.into_sorted().iter().map(ToString::to_string).collect();
        return Err(io::Error::other(mistakes.join("\n")));
    };
    let moment = Moment::healthy(state);
    let mut sequences = OwnSequences::default();
    sequences.follow(&moment);
    let responder = Responder { state: &moment.state, plan: &moment.plan, sequences: &sequences };
    let mut queries = queries::read(&arguments.workload.join("queries"), true)?;
    queries.truncate(arguments.count);

    let mut out = [0; MAX_REPLY];
    let right = |query: &Query, out: &mut [u8]| {
        let length =
            answer_one(&query.octets, RESOLVER, &Cookies::OFF, &moment.quick, &responder, out)?;
        out.get(..length).filter(|reply| query.is_answered_by(reply, 0)).map(|_| ())
    };
    if !queries.iter().all(|query| right(query, &mut out).is_some()) {
        return Err(io::Error::other("a query has a wrong answer"));
    }
    if answer_all(&queries, &moment.quick, &responder, &mut out) == 0 {
        return Err(io::Error::other("no query has an answer"));
    }
    Ok(queries.len())
}

/// What is counted. Gives the length of all replies.
#[inline(never)]
fn answer_all(
    queries: &[Query],
    quick: &Quick,
    responder: &Responder<'_, OwnSequences>,
    out: &mut [u8; MAX_REPLY],
) -> usize {
    let answers = queries
        .iter()
        .map(|query| answer_one(&query.octets, RESOLVER, &Cookies::OFF, quick, responder, out));
    answers.map(Option::unwrap_or_default).sum()
}
