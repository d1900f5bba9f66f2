//! Health (spec/health.md, and "Availability" in spec/steering.md): real origins on loopback
//! addresses are killed, hung and started again, and the server is seen to follow. Each test has a
//! block of addresses and a port of its own, so that tests may run side by side.
//!
//! Times are asserted as the specification's bound plus [`ALLOWANCE`]; the true figures are printed
//! (`cargo test --test it health -- --nocapture`).

mod asker;
mod changes;
mod detection;
mod families;
mod hostile;
mod nginx;
mod origin;
mod pace;
mod reload;
mod start;
mod times;
mod types;

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Server, Site, ZONE_HEAD};
use crate::wire::{Query, rcode, rtype};

/// What a bound may be exceeded by: a program without optimisation on a machine where other tests
/// run too. A release build has next to none.
const ALLOWANCE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 250 });
/// How long to wait for what has no bound of its own.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the answers are looked at.
const LOOK: Duration = Duration::from_millis(5);

const ZONE: &str = "zones/example.test.toml";
const WWW: &str = "www.example.test";

/// The usual pace of these tests.
const QUICK: &str = "interval = \"1s\"\ntimeout = \"500ms\"\nfall = 2\nrise = 2\n";
/// A pace at which nothing but a first probe happens during a test.
const SLOW: &str = "interval = \"1m\"\ntimeout = \"1s\"\nfall = 3\nrise = 2\n";
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(500);

/// The longest time from a change of an origin to the changed answer, at the pace [`QUICK`]:
/// `results` x interval + timeout + 100 ms.
fn bound(results: u32) -> Duration {
    INTERVAL * results + TIMEOUT + Duration::from_millis(100)
}

// ---------------------------------------------------------------------------------- Addresses

/// A block of loopback addresses of one test, and a port that is free on all of them.
struct Net {
    block: [u8; 3],
    port: u16,
}

impl Net {
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Runs of other checkouts at the same time have other process ids.
        let process = std::process::id();
        let second = 16 + u8::try_from(process % 200).expect("a number below 200");
        // Below the ports that the system gives to clients: one of those could meet a port that an
        // origin has just left. Not to be met by another test's choice either.
        let first = 20_000 + u16::try_from(process % 40).expect("a small number") * 250;
        let port = (first + u16::from(number)..32_000).step_by(7).find(|&port| is_free(port));
        Self { block: [127, second, number], port: port.expect("a free port") }
    }

    fn ip(&self, number: u8) -> IpAddr {
        let [a, b, c] = self.block;
        IpAddr::V4(Ipv4Addr::new(a, b, c, number))
    }

    fn socket(&self, number: u8) -> SocketAddr {
        SocketAddr::new(self.ip(number), self.port)
    }

    /// These addresses as they stand in answers, sorted.
    fn set(&self, numbers: &[u8]) -> Vec<String> {
        let mut set: Vec<_> = numbers.iter().map(|&number| self.ip(number).to_string()).collect();
        set.sort();
        set
    }

    /// A monitor `web` of the type `http`.
    fn web(&self, more: &str) -> String {
        self.monitor("web", "http", more)
    }

    fn monitor(&self, name: &str, kind: &str, more: &str) -> String {
        format!("[monitors.{name}]\ntype = \"{kind}\"\nport = {}\n{more}\n", self.port)
    }

    /// A pool of the origins o1, o2, …, with the monitor `web`.
    fn pool(&self, name: &str, head: &str, numbers: &[u8]) -> String {
        self.monitored_pool(name, "web", head, numbers)
    }

    fn monitored_pool(&self, name: &str, monitor: &str, head: &str, numbers: &[u8]) -> String {
        let mut text = format!("[pools.{name}]\nmonitor = \"{monitor}\"\n{head}\norigins = [\n");
        for number in numbers {
            let address = self.ip(*number);
            writeln!(text, "  {{ name = \"o{number}\", address = \"{address}\" }},").unwrap();
        }
        text + "]\n"
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
        && UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// A load balancer that answers every eligible origin, of these pools.
fn load_balancer(name: &str, pools: &[&str]) -> String {
    format!("[load_balancers.{name}]\npools = {pools:?}\nanswers = \"all\"\n")
}

/// The load balancer `www` of these pools.
fn www(pools: &[&str]) -> String {
    load_balancer("www", pools)
}

/// The zone's file, of these parts.
fn zone(parts: &[String]) -> String {
    format!("{ZONE_HEAD}{}", parts.concat())
}

/// A folder with the zone of these parts.
fn site(parts: &[String]) -> Site {
    let site = Site::new();
    site.write(ZONE, zone(parts));
    site
}

// ---------------------------------------------------------------------------------- Observation

/// The addresses in an answer for a name, sorted.
fn answered_for(server: &Server, name: &str, qtype: u16) -> Vec<String> {
    let reply = server.ask(&Query::new(name, qtype));
    assert_eq!(reply.rcode(), rcode::NOERROR, "{name}");
    let mut found: Vec<_> = reply.data(qtype).into_iter().map(str::to_owned).collect();
    found.sort();
    found
}

/// The addresses of `www`, sorted.
fn answered(server: &Server) -> Vec<String> {
    answered_for(server, WWW, rtype::A)
}

/// Waits until something is so; gives the time that it took.
fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    loop {
        if holds() {
            return start.elapsed();
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(LOOK);
    }
}

/// Waits until `www` has these addresses; says what it had otherwise.
fn until_answered(server: &Server, expected: &[String], limit: Duration, what: &str) -> Duration {
    let mut last = Vec::new();
    let start = Instant::now();
    while start.elapsed() < limit {
        last = answered(server);
        if last == expected {
            return start.elapsed();
        }
        thread::sleep(LOOK);
    }
    panic!("{what}: not within {limit:?}: {last:?} is answered, not {expected:?}");
}

/// The same where the specification gives a bound; prints the figure.
fn within_bound(server: &Server, expected: &[String], bound: Duration, what: &str) -> Duration {
    let took = until_answered(server, expected, bound + ALLOWANCE, what);
    eprintln!("{what}: {} ms, the bound is {} ms", took.as_millis(), bound.as_millis());
    took
}

/// A line of the log that tells of a change of health.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    monitor: String,
    address: String,
    origins: String,
    from: String,
    to: String,
    reason: String,
}

/// The changes that were logged so far.
fn changes(server: &mut Server) -> Vec<Change> {
    let lines = server.log_so_far().iter().map(|line| &line["fields"]);
    let changes = lines.filter(|fields| fields["message"] == "health changed");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let change = |fields: &Value| Change {
        monitor: text(&fields["monitor"]),
        address: text(&fields["address"]),
        origins: text(&fields["origins"]),
        from: text(&fields["from"]),
        to: text(&fields["to"]),
        reason: text(&fields["reason"]),
    };
    changes.map(change).collect()
}

/// Waits for the change of an address to a state; gives the newest.
fn wait_for_change(server: &mut Server, address: IpAddr, to: &str) -> Change {
    let address = address.to_string();
    let start = Instant::now();
    loop {
        let all = changes(server);
        let newest = all.iter().rfind(|change| change.address.contains(&address));
        if let Some(change) = newest.filter(|change| change.to == to) {
            return change.clone();
        }
        assert!(start.elapsed() < PATIENCE, "{address} did not become {to}: {all:#?}");
        thread::sleep(LOOK);
    }
}
