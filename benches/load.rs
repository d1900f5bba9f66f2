//! How long a large configuration takes to load, and how much memory it then takes: a zone of 10,000
//! load balancers with three pools of three origins each, all their own, and the database of
//! countries that ships. Prints figures; run it with `cargo bench --bench load`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on should stop where it is"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::locate::place::AvailabilityZones;
use meridian::locate::{Locator, LocatorInput};
use meridian::serve::live::Moment;
use meridian::steer::availability::HealthState;
use meridian::steer::pool::{PoolId, ProbeId};

/// How many load balancers the zone has.
const BALANCERS: usize = 10_000;
/// What a load may take.
const MOST_TIME: Duration = Duration::from_secs(2);
/// What a change of health may take before it is in the answers (health.md), and more than that.
const MOST_DELAY: Duration = Duration::from_millis(50);
/// What the process may take, in kilobytes.
const MOST_MEMORY: u64 = 500_000;

fn main() {
    // The harness flags that cargo passes do not matter; a filter does.
    let wanted = |name: &str| {
        let mut filters = std::env::args().skip(1).filter(|flag| !flag.starts_with("--"));
        let first = filters.next();
        first.is_none_or(|filter| name.contains(&filter))
    };
    if wanted("zone") {
        load_zone();
    }
    if wanted("database") {
        load_database();
    }
}

fn load_zone() {
    let text = zone();
    println!("zone: {} load balancers, {} MB of text", BALANCERS, text.len() / 1_000_000);
    show_memory("before the load");
    let files =
        Files { zones: vec![Source::new("zones/large.test.toml", text)], ..Files::default() };
    let report = Report::default();
    let start = Instant::now();
    let state = build(&files, &Server::default(), &|path| fs::read_to_string(path), &report);
    let state = state.expect("a valid configuration");
    show_time("text to state", start, MOST_TIME);
    let start = Instant::now();
    let moment = Moment::healthy(state);
    show_time("state to moment", start, MOST_TIME);
    let memory = show_memory("with text, state and moment");
    let pools = moment.state.pools.len();
    println!("  {pools} pools; memory is {}", verdict(memory < MOST_MEMORY));
    let mut health = moment.health.clone();
    health.set_probe(ProbeId(0), HealthState::Unhealthy);
    let start = Instant::now();
    let next = moment.with_health(health, &[PoolId(0)]);
    show_time("a change of one origin's health to the next moment", start, MOST_DELAY);
    show_memory("with both");
    drop((moment, next, files));
}

fn load_database() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("geo/iptoasn-country.mmdb");
    let Ok(content) = fs::read(&path) else {
        println!("database: {} is not here", path.display());
        return;
    };
    println!("database: {} MB", content.len() / 1_000_000);
    let report = Report::default();
    let input = LocatorInput { database: Some((&path, &content)), ..LocatorInput::default() };
    let start = Instant::now();
    let locator = Locator::load(input, &mut AvailabilityZones::default(), &report);
    show_time("file to table", start, MOST_TIME);
    println!("  the table takes {} kB", locator.table().memory() / 1000);
    show_memory("with the table");
    assert!(report.into_sorted().is_empty());
}

/// A zone of load balancers whose pools are all their own, with everything that a pool can have.
fn zone() -> String {
    let mut text = String::from(
        "zone = \"large.test\"\n\
         [[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns.elsewhere.test.\"]\n\
         [monitors.web]\ntype = \"https\"\npath = \"/healthz\"\n",
    );
    let mut address = 0x0a00_0000_u32;
    for balancer in 0..BALANCERS {
        for (pool, region) in ["weu", "enam", "oc"].into_iter().enumerate() {
            write!(
                text,
                "[pools.p{balancer}-{pool}]\nregion = \"{region}\"\nmonitor = \"web\"\n\
                 zonal_affinity = {{ mode = \"spill_cross_zone\", spillover_ratio = 0.8 }}\n"
            )
            .unwrap();
            for origin in ["a", "b", "c"] {
                address += 1;
                let v4 = std::net::Ipv4Addr::from(address);
                write!(
                    text,
                    "[[pools.p{balancer}-{pool}.origins]]\nname = \"{origin}\"\n\
                     address = [\"{v4}\", \"2001:db8::{v4}\"]\nzone = \"{region}-{origin}\"\n\
                     weight = 0.3\n"
                )
                .unwrap();
            }
        }
        write!(
            text,
            "[load_balancers.\"name-{balancer}\"]\nsteering = \"geo\"\n\
             pools = [\"p{balancer}-0\", \"p{balancer}-1\", \"p{balancer}-2\"]\n"
        )
        .unwrap();
    }
    text
}

fn show_time(what: &str, start: Instant, most: Duration) {
    let took = start.elapsed();
    println!("  {what}: {} ms, {}", took.as_millis(), verdict(took < most));
}

/// Prints the resident memory of the moment and the most there was, and gives that in kilobytes.
fn show_memory(when: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let (now, most) = (field("VmRSS:"), field("VmHWM:"));
    println!("  {when}: {} MB resident, {} MB at most", now / 1000, most / 1000);
    most
}

fn verdict(holds: bool) -> &'static str {
    if holds { "as wanted" } else { "TOO MUCH" }
}
