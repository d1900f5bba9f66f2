//! How long `meridian simulate` takes: a log of a million queries for the zone that ships, from
//! random clients, through one configuration and compared with a second one. Prints figures; run it
//! with `cargo bench --bench simulate`.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on should stop where it is"
)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use meridian::config::files::{Paths, load};
use meridian::config::report::Report;
use meridian::simulate::Simulation;
use meridian::simulate::replay::Replay;
use meridian::state::State;
use meridian::steer::availability::{Health, HealthState};

/// How many queries the log has.
const QUERIES: usize = 1_000_000;
/// How many it has where it is only to be seen that all goes well.
const FEW_QUERIES: usize = 10_000;
/// What a million queries may take on one core.
const MOST_TIME: Duration = Duration::from_secs(2);

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let log = log(if is_test { FEW_QUERIES } else { QUERIES });
    let state = state();
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let simulation = || Simulation::new(&state, &health);
    measure("one configuration", Replay::new(simulation(), None), &log);
    measure("two, compared", Replay::new(simulation(), Some(simulation())), &log);
}

fn state() -> State {
    let (_, state) = load(&Paths::default(), &Report::default());
    state.expect("the configuration that ships")
}

/// Queries for the steered names, with client subnets.
fn log(queries: usize) -> String {
    let mut random: u64 = 1;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 16
    };
    let names = ["www", "api", "media", "shop", "a.apps", "b.apps"];
    let mut log = String::new();
    for name in names.into_iter().cycle().take(queries) {
        let [a, b, c, six, ..] = next().to_le_bytes();
        let record_type = if six < 64 { "AAAA" } else { "A" };
        let first = a % 223 + 1;
        writeln!(log, "{first}.{b}.{c}.0/24 {name}.example.com {record_type}").expect("memory");
    }
    log
}

fn measure(what: &str, mut replay: Replay<'_>, log: &str) {
    let start = Instant::now();
    log.as_bytes().split(|&octet| octet == b'\n').for_each(|line| replay.line(line));
    let report = replay.report();
    let time = start.elapsed();
    let each = time.as_nanos() / u128::from(report.queries.max(1));
    let verdict = if time <= MOST_TIME { "as wanted" } else { "TOO MUCH" };
    println!("{what}: {} queries in {time:.2?}, {each} ns each: {verdict}", report.queries);
}
