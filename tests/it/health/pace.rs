//! How often, and how many at a time: an address is probed once an interval, never twice at a time,
//! and many addresses are spread over the interval.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::asker::Asker;
use super::origin::{Everywhere, Mode, Origin, Request};
use super::{INTERVAL, Net, PATIENCE, QUICK, ZONE, answered, answered_for, load_balancer};
use super::{site, until, www, zone};
use crate::harness::{Server, Site};
use crate::wire::rtype;

/// Two probes of one address are at least so far apart, on a machine that wakes late at times.
const APART: Duration = Duration::from_millis(600);

/// Asserts that requests are an interval apart. The first is at once, and the second where the
/// address has its place in the interval.
fn assert_paced(requests: &[Request]) {
    let gaps: Vec<_> = requests[1..].windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps.iter().all(|gap| *gap > APART), "{gaps:?}");
    let mean = gaps.iter().sum::<Duration>() / u32::try_from(gaps.len()).expect("few");
    eprintln!("mean interval {mean:?}");
    assert!(mean > INTERVAL * 8 / 10 && mean < INTERVAL * 13 / 10, "{mean:?}");
}

// "An origin address that several pools share with the same monitor is probed once", also if it is
// the monitor of shared.toml.
#[test]
fn a_shared_address_is_probed_once_an_interval() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2]);
    let site = site(&[
        net.pool("p", "", &[1, 2]),
        net.pool("q", "", &[2, 1]),
        www(&["p"]),
        load_balancer("other", &["q"]),
    ]);
    site.write("zones/shared.toml", net.web(QUICK) + &net.pool("r", "", &[1]));
    let server = Server::start(&site);
    until(PATIENCE, "probes", || origins[0].request_count() >= 6);
    assert_paced(&origins[0].requests());
    assert_eq!(origins[0].most_open(), 1);
    // And both pools see the result.
    origins[0].kill();
    until(PATIENCE, "both pools", || {
        answered(&server) == net.set(&[2])
            && answered_for(&server, "other.example.test", rtype::A) == net.set(&[2])
    });
}

// "weight, role and enabled are per pool, health per monitor".
#[test]
fn two_monitors_of_one_address_have_a_result_each() {
    let net = Net::new();
    let origin = Origin::start(&net, 1);
    let server = Server::start(&site(&[
        net.web(QUICK),
        net.monitor(
            "strict",
            "http",
            &format!("{QUICK}expected_codes = \"204\"\npath = \"/strict\"\n"),
        ),
        net.pool("p", "", &[1]),
        net.monitored_pool("q", "strict", "", &[1]),
        net.pool("spare", "", &[9]).replace("monitor = \"web\"\n", ""),
        www(&["p", "spare"]),
        load_balancer("strict", &["q", "spare"]),
    ]));
    assert_eq!(answered(&server), net.set(&[1]));
    assert_eq!(answered_for(&server, "strict.example.test", rtype::A), net.set(&[9]));
    let count = |path: &str| origin.requests().iter().filter(|r| r.path() == path).count();
    until(PATIENCE, "probes of both", || count("/") >= 2 && count("/strict") >= 2);
}

// A probe that hangs nearly as long as the interval is over before the next one begins, also where
// a changed monitor wants to probe at once.
#[test]
fn an_address_is_never_probed_twice_at_a_time() {
    let net = Net::new();
    let hung = Origin::at(net.socket(1), Mode::Hang);
    let parts = |path: &str| {
        let pace = "interval = \"1s\"\ntimeout = \"950ms\"\n";
        let monitor = net.web(&format!("{pace}path = \"{path}\"\n"));
        [monitor, net.pool("p", "", &[1]), net.pool("q", "", &[1]), www(&["p", "q"])]
    };
    let site: Site = site(&parts("/0"));
    let mut server = Server::start(&site);
    until(PATIENCE, "probes", || hung.request_count() >= 3);
    for number in 1..=3 {
        site.write(ZONE, zone(&parts(&format!("/{number}"))));
        server.reload("reloaded");
        let count = hung.request_count();
        until(PATIENCE, "more probes", || hung.request_count() > count);
    }
    assert_eq!(hung.most_open(), 1, "connections at a time");
}

const MANY: u8 = 50;

// "starts spread over the interval, so that a large zone does not probe in bursts".
#[test]
fn probes_of_many_addresses_are_spread_over_the_interval() {
    let net = Net::new();
    let numbers: Vec<u8> = (1..=MANY).collect();
    let everywhere = Everywhere::start(net.port);
    let monitor = net.monitor("web", "tcp", "interval = \"2s\"\ntimeout = \"1s\"\n");
    let _server = Server::start(&site(&[monitor, net.pool("p", "", &numbers), www(&["p"])]));
    let probes = || {
        let mut by_address: BTreeMap<IpAddr, Vec<Instant>> = BTreeMap::new();
        for (address, at) in everywhere.seen() {
            by_address.entry(address).or_default().push(at);
        }
        by_address
    };
    until(PATIENCE, "four probes of each", || {
        let probes = probes();
        probes.len() == usize::from(MANY) && probes.values().all(|times| times.len() >= 4)
    });
    // Without the first round, which is at once.
    let probes = probes();
    let mut times: Vec<Instant> =
        probes.values().flat_map(|times| times.iter().skip(1).copied()).collect();
    times.sort();
    let window = Duration::from_millis(100);
    let in_window = |start: &Instant| {
        times.iter().filter(|time| *time >= start && **time - *start < window).count()
    };
    let most = times.iter().map(in_window).max().expect("probes");
    eprintln!("at most {most} of {MANY} probes in {window:?}");
    assert!(most <= usize::from(MANY) * 3 / 10, "{most} probes in {window:?}");
}

// No probe for what can never be answered is asked for; but what is drained (weight 0) is probed, so
// that `minimum_origins` can count it.
#[test]
fn drained_origins_are_probed_and_count() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2, 3]);
    let pool = net.pool("p", "minimum_origins = 2", &[1, 2]);
    let drained = format!("address = \"{}\"", net.ip(2));
    let pool = pool.replace(&drained, &format!("{drained}, weight = 0"));
    let server =
        Server::start(&site(&[net.web(QUICK), pool, net.pool("q", "", &[3]), www(&["p", "q"])]));
    assert_eq!(answered(&server), net.set(&[1]));
    origins[1].kill();
    super::within_bound(&server, &net.set(&[3]), super::bound(2), "a drained one is missed");
}

// A server that was stopped for a while (a suspended machine, a debugger) has no results of that time:
// its own pause is no failure of an origin.
#[test]
fn a_pause_of_the_server_takes_no_origin_down() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2, 3]);
    let server =
        Server::start(&site(&[net.web(QUICK), net.pool("p", "", &[1, 2, 3]), www(&["p"])]));
    let asker = Asker::start(&server);
    for _ in 0..2 {
        let count = origins[0].request_count();
        until(PATIENCE, "probes", || origins[0].request_count() >= count + 2);
        server.signal("STOP");
        std::thread::sleep(INTERVAL * 3);
        server.signal("CONT");
    }
    let count = origins[0].request_count();
    until(PATIENCE, "probes", || origins[0].request_count() >= count + 3);
    // What came meanwhile may have been too much for the socket's buffer.
    let tally = asker.stop();
    for number in 1..=3 {
        tally.assert_always(&net.ip(number).to_string());
    }
}
