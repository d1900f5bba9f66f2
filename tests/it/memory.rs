//! Memory: what a server holds after many reloads is about what it held at the start.

use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Server, Site, ZONE_HEAD};

/// How many records the zone has.
const RECORDS: u32 = 20_000;
const RELOADS: u32 = 8;
/// How many times what it held at the start a server may hold after the reloads.
const MOST: u64 = 2;
/// How long it may take to give memory back.
const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// A master file of which every record has another address in each version.
fn records(version: u32) -> String {
    let mut records = String::from("$TTL 300\n");
    for number in 0..RECORDS {
        let [_, a, b, c] = number.to_be_bytes();
        writeln!(records, "host-{number} IN A {}.{a}.{b}.{c}", 10 + version).expect("a text");
    }
    records
}

/// The resident memory of a server in kB.
fn resident(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid());
    let status = fs::read_to_string(path).expect("the status of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn reloads_leave_no_memory_behind() {
    let site = Site::new();
    let zone = ZONE_HEAD.replace("ttl = 300", "ttl = 300\nzonefile = \"../records.zone\"");
    site.write("zones/example.test.toml", zone);
    site.write("records.zone", records(0));
    let mut server = Server::start(&site);
    let start = resident(&server);
    for version in 1..=RELOADS {
        site.write("records.zone", records(version));
        server.reload("reloaded");
    }
    let deadline = Instant::now() + DEADLINE;
    let mut now = resident(&server);
    while now >= MOST * start && Instant::now() < deadline {
        thread::sleep(POLL);
        now = resident(&server);
    }
    eprintln!("memory: {start} kB at the start, {now} kB after {RELOADS} reloads");
    assert!(now < MOST * start, "{start} kB became {now} kB");
}
