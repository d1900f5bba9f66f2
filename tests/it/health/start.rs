//! The start: what is answered first, how long it waits for first results, and what ends it at once.

use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::asker::Asker;
use super::origin::{Mode, Origin};
use super::{
    ALLOWANCE, Net, PATIENCE, SLOW, ZONE, answered, answered_for, load_balancer, site, until,
    until_answered, www, zone,
};
use crate::harness::{Server, Site, framed, read_framed, receive};
use crate::wire::{Query, rcode, rtype};

/// A hanging origin tells nothing for as long as this.
const PATIENT: &str = "interval = \"10s\"\ntimeout = \"4s\"\n";

fn with_startup_wait(site: &Site, wait: &str) {
    let settings =
        format!("[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\nstartup_wait = \"{wait}\"\n");
    site.write("meridian.toml", settings);
}

/// A server that has bound its sockets, on the last address of the block: a connection says so, even
/// if nobody accepts it yet.
fn bound_server(site: &Site, net: &Net) -> Server {
    let listen = net.socket(250);
    let mut server = Server::spawn(site, &["serve", "--listen", &listen.to_string()]);
    server.address = listen;
    until(PATIENCE, "the socket is bound", || TcpStream::connect(listen).is_ok());
    server
}

// "the very first result counts at once", although many failures are needed later.
#[test]
fn an_origin_that_is_down_at_the_start_is_never_answered() {
    let net = Net::new();
    let _origins = Origin::start_all(&net, &[1, 2]);
    let monitor = net.web("interval = \"1s\"\ntimeout = \"500ms\"\nfall = 10\nrise = 10\n");
    let site = site(&[monitor, net.pool("p", "", &[1, 2, 3]), www(&["p"])]);
    with_startup_wait(&site, "30s");
    let start = Instant::now();
    let server = Server::start(&site);
    eprintln!("ready after {:?}, all first results are there", start.elapsed());
    // Far from the wait: it ends with the last first result.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let asker = Asker::start(&server);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    // Its return needs ten successes, then.
    let third = Origin::start(&net, 3);
    until(PATIENCE, "three probes", || third.request_count() >= 3);
    asker.finish().assert_never(&net.ip(3).to_string());
}

// "the sockets are bound first (errors at once) and not read; then the server waits for the first
// results, `startup_wait` at most, before it answers; an address without a result is unknown": it
// is eligible only where no other is known to be healthy, and counts toward `minimum_origins`.
#[test]
fn the_server_waits_for_first_results_and_not_longer_than_it_may() {
    let net = Net::new();
    let _good = Origin::start(&net, 1);
    let _hung = [2, 3, 4].map(|number| Origin::at(net.socket(number), Mode::Hang));
    let site = site(&[
        net.web(PATIENT),
        net.pool("p", "minimum_origins = 2", &[1, 2]),
        net.pool("q", "", &[3, 4]),
        net.pool("unmonitored", "", &[9]).replace("monitor = \"web\"\n", ""),
        www(&["p", "unmonitored"]),
        load_balancer("unknown", &["q"]),
        load_balancer("plain", &["unmonitored"]),
    ]);
    with_startup_wait(&site, "2s");
    let started = Instant::now();
    let mut server = bound_server(&site, &net);
    assert_eq!(server.next_address(), server.address, "the log tells of it");
    let listening = started.elapsed();
    let socket = server.socket();
    let mut stream = server.connect();
    let plain = Query::new("ns1.example.test", rtype::A);
    stream.write_all(&framed(&plain.octets())).expect("a query sent");
    socket.send(&Query::new("www.example.test", rtype::A).octets()).expect("a query sent");
    socket.send(&Query::new("ns1.example.test", rtype::A).octets()).expect("a query sent");
    let reply = receive(&socket);
    let replied = started.elapsed();
    eprintln!("listening after {listening:?}, the first reply after {replied:?}");
    assert!(listening < Duration::from_millis(500) + ALLOWANCE, "bound first: {listening:?}");
    assert!(replied >= Duration::from_millis(1900), "nothing is answered before: {replied:?}");
    assert!(replied < Duration::from_millis(2500) + ALLOWANCE, "and not long after: {replied:?}");
    assert_eq!(reply.data(rtype::A), [net.ip(1).to_string()], "the unknown one counts");
    assert_eq!(receive(&socket).rcode(), rcode::NOERROR, "what has waited is answered");
    assert_eq!(read_framed(&mut stream).id, plain.id, "over TCP too");
    server.wait_for("ready");
    assert_eq!(answered_for(&server, "unknown.example.test", rtype::A), net.set(&[3, 4]));
    assert_eq!(answered_for(&server, "plain.example.test", rtype::A), net.set(&[9]));
    // The first result is a failure, and counts at once.
    let limit = Duration::from_secs(4) + ALLOWANCE;
    until_answered(&server, &net.set(&[9]), limit, "one healthy is below the minimum");
}

#[test]
fn the_wait_may_be_none() {
    let net = Net::new();
    let _hung = Origin::at(net.socket(1), Mode::Hang);
    let site = site(&[net.web(PATIENT), net.pool("p", "", &[1]), www(&["p"])]);
    with_startup_wait(&site, "0s");
    let start = Instant::now();
    let server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1]), "unknown, and nothing better is known");
    assert!(start.elapsed() < Duration::from_secs(2) + ALLOWANCE, "{:?}", start.elapsed());
}

// "A port in use ...: one clear line, exit 1", also where there is much to wait for.
#[test]
fn a_port_in_use_ends_the_start_at_once() {
    let net = Net::new();
    let _hung = Origin::at(net.socket(1), Mode::Hang);
    let site = site(&[net.web(PATIENT), net.pool("p", "", &[1]), www(&["p"])]);
    with_startup_wait(&site, "60s");
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let start = Instant::now();
    let run = site.run(&["serve", "--listen", &address]);
    assert!(start.elapsed() < Duration::from_secs(2) + ALLOWANCE, "{:?}", start.elapsed());
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains(&address), "{run:?}");
}

// Nothing is lost that comes during the wait, a reload included.
#[test]
fn a_reload_during_the_wait_takes_effect() {
    let net = Net::new();
    let _good = Origin::start(&net, 1);
    let _hung = Origin::at(net.socket(2), Mode::Hang);
    let parts = |numbers: &[u8]| [net.web(PATIENT), net.pool("p", "", numbers), www(&["p"])];
    let site = site(&parts(&[2]));
    with_startup_wait(&site, "3s");
    let mut server = bound_server(&site, &net);
    site.write(ZONE, zone(&parts(&[1, 2])));
    server.signal("HUP");
    until(PATIENCE, "both are told", || {
        let lines = server.log_so_far().iter();
        let told: Vec<_> = lines.map(|line| line["fields"]["message"].clone()).collect();
        told.contains(&"ready".into()) && told.contains(&"reloaded".into())
    });
    until_answered(&server, &net.set(&[1]), ALLOWANCE, "the added origin is known to be healthy");
}

// A stop is a stop, whatever is waited for: "SIGTERM: ... exit within 5 s".
#[test]
fn the_wait_can_be_interrupted() {
    let net = Net::new();
    let _hung = Origin::at(net.socket(1), Mode::Hang);
    let site = site(&[net.web(PATIENT), net.pool("p", "", &[1]), www(&["p"])]);
    with_startup_wait(&site, "60s");
    let server = bound_server(&site, &net);
    let start = Instant::now();
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

// The same with probes under way.
#[test]
fn a_running_server_stops_in_time_though_probes_hang() {
    let net = Net::new();
    let hung = Origin::at(net.socket(1), Mode::Hang);
    let monitor = net.web("interval = \"1m\"\ntimeout = \"50s\"\n");
    let site = site(&[monitor, net.pool("p", "", &[1]), www(&["p"])]);
    with_startup_wait(&site, "100ms");
    let server = Server::start(&site);
    until(PATIENCE, "a probe", || hung.request_count() == 1);
    let start = Instant::now();
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

// A pool that nothing answers with and a pool that is disabled: whatever is probed there, the
// start does not fail.
#[test]
fn a_monitor_without_pools_is_no_hindrance() {
    let net = Net::new();
    let site = site(&[net.web(SLOW)]);
    let server = Server::start(&site);
    let reply = server.ask(&Query::new("ns1.example.test", rtype::A));
    assert_eq!(reply.data(rtype::A), ["192.0.2.53"]);
    assert!(site.path().join(ZONE).exists());
}
