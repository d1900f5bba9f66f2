//! The types of monitors beside `http`, each end to end: an origin is good, fails, and is noticed.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::nginx::{NAME, Nginx};
use super::origin::{Mode, Origin};
use super::{
    Net, PATIENCE, QUICK, answered, bound, site, until, wait_for_change, within_bound, www,
};
use crate::harness::{SERVER, Server, Site};

/// A server with one pool of these origins that are probed by this monitor, and a pool of address 9
/// behind it that is always up.
fn probing(net: &Net, monitor: &str, numbers: &[u8]) -> Site {
    let spare = net.pool("spare", "", &[9]).replace("monitor = \"web\"\n", "");
    site(&[monitor.into(), net.pool("p", "", numbers), spare, www(&["p", "spare"])])
}

/// A monitor `web` of a type without a port.
fn without_port(kind: &str, more: &str) -> String {
    format!("[monitors.web]\ntype = \"{kind}\"\n{QUICK}{more}\n")
}

#[test]
fn tcp_is_a_connection() {
    let net = Net::new();
    // It accepts, and never says anything.
    let mut origin = Origin::at(net.socket(1), Mode::Hang);
    let server = Server::start(&probing(&net, &net.monitor("web", "tcp", QUICK), &[1, 2]));
    assert_eq!(answered(&server), net.set(&[1]));
    origin.kill();
    within_bound(&server, &net.set(&[9]), bound(2), "closed");
    origin.revive();
    within_bound(&server, &net.set(&[1]), bound(2), "open again");
}

#[test]
fn udp_is_a_reply() {
    let net = Net::new();
    let well = Arc::new(AtomicBool::new(true));
    // The first replies as it should while it is well; the second always something else; the third
    // is silent; the fourth is not there.
    for number in 1..=3 {
        let socket = UdpSocket::bind(net.socket(number)).expect("a free port");
        let well = Arc::clone(&well);
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((size, from)) = socket.recv_from(&mut buffer) {
                let good = &buffer[..size] == b"ping" && well.load(Ordering::SeqCst);
                let reply: &[u8] = if good && number == 1 { b"pong" } else { b"what?" };
                if number != 3 {
                    // The prober may be gone.
                    let _sent = socket.send_to(reply, from);
                }
            }
        });
    }
    let monitor = format!("{QUICK}payload = \"ping\"\nexpected_reply = \"pong\"\n");
    let monitor = net.monitor("web", "udp", &monitor);
    let mut server = Server::start(&probing(&net, &monitor, &[1, 2, 3, 4]));
    assert_eq!(answered(&server), net.set(&[1]));
    for (number, reason) in [(3, "timed out"), (4, "the port is closed")] {
        let change = wait_for_change(&mut server, net.ip(number), "unhealthy");
        assert!(change.reason.contains(reason), "{change:?}");
    }
    well.store(false, Ordering::SeqCst);
    within_bound(&server, &net.set(&[9]), bound(2), "a wrong reply");
}

// The probed DNS server is another Meridian.
#[test]
fn dns_is_an_answer() {
    let net = Net::new();
    let probed = Site::with_zone("");
    let start = || {
        let listen = net.socket(1).to_string();
        let mut server = Server::spawn(&probed, &["serve", "--listen", &listen]);
        server.wait_for("ready");
        server
    };
    let first = start();
    let monitor = net.monitor("web", "dns", &format!("{QUICK}query_name = \"ns1.example.test\"\n"));
    let server = Server::start(&probing(&net, &monitor, &[1, 2]));
    assert_eq!(answered(&server), net.set(&[1]));
    drop(first);
    within_bound(&server, &net.set(&[9]), bound(2), "killed");
    let _second = start();
    within_bound(&server, &net.set(&[1]), bound(2), "started again");
}

// A name that the probed server does not have is no answer.
#[test]
fn dns_for_a_name_that_is_not_there_is_a_failure() {
    let net = Net::new();
    let probed = Site::with_zone("");
    let mut first = Server::spawn(&probed, &["serve", "--listen", &net.socket(1).to_string()]);
    first.wait_for("ready");
    let query = format!("{QUICK}query_name = \"other.example.net\"\nquery_type = \"AAAA\"\n");
    let server = Server::start(&probing(&net, &net.monitor("web", "dns", &query), &[1]));
    assert_eq!(answered(&server), net.set(&[9]), "REFUSED is no good answer");
}

// "chain and expiry always" where `verify_tls` is on, as it is by default.
#[test]
fn certificates_that_nobody_trusts_are_refused_unless_not_verified() {
    let net = Net::new();
    let Some(mut nginx) = Nginx::start_tls(net.socket(1)) else { return };
    let sni = format!("{QUICK}sni = \"{NAME}\"\n");
    let lax = format!("{sni}verify_tls = false\n");
    let pools = ["tls", "https", "tls-lax", "https-lax"];
    let mut parts = Vec::new();
    for pool in pools {
        let (kind, more) = match pool.split_once('-') {
            Some((kind, _)) => (kind, &lax),
            None => (pool, &sni),
        };
        parts.push(net.monitor(pool, kind, more));
        parts.push(net.monitored_pool(pool, pool, "", &[1]));
        let names = [pool, "spare"];
        parts.push(super::load_balancer(pool, &names));
    }
    parts.push(net.pool("spare", "", &[9]).replace("monitor = \"web\"\n", ""));
    let mut server = Server::start(&site(&parts));
    let of = |server: &Server, pool: &str| {
        super::answered_for(server, &format!("{pool}.example.test"), crate::wire::rtype::A)
    };
    for pool in pools {
        let expected = net.set(&[if pool.ends_with("-lax") { 1 } else { 9 }]);
        assert_eq!(of(&server, pool), expected, "{pool}: {:#?}", super::changes(&mut server));
    }
    let refused = super::changes(&mut server);
    let mut refused = refused.iter().filter(|change| change.to == "unhealthy");
    assert!(refused.all(|change| change.reason.contains("certificate")), "{refused:#?}");
    nginx.kill();
    until(bound(2) + super::ALLOWANCE, "killed", || {
        pools.iter().all(|pool| of(&server, pool) == net.set(&[9]))
    });
}

// A server that accepts and says nothing, and one that speaks no TLS.
#[test]
fn tls_without_a_handshake_is_a_failure() {
    let net = Net::new();
    let _silent = Origin::at(net.socket(1), Mode::Hang);
    let Some(_plain) = Nginx::start(net.socket(2)) else { return };
    let monitor = net.monitor("web", "tls", &format!("{QUICK}verify_tls = false\n"));
    let mut server = Server::start(&probing(&net, &monitor, &[1, 2]));
    assert_eq!(answered(&server), net.set(&[9]));
    let change = wait_for_change(&mut server, net.ip(1), "unhealthy");
    assert!(change.reason.contains("timed out"), "{change:?}");
}

// "exit status; off unless allowed in the server configuration".
#[test]
fn exec_is_refused_unless_it_is_allowed() {
    let net = Net::new();
    let monitor = without_port("exec", "command = [\"/bin/true\"]");
    let site = probing(&net, &monitor, &[1]);
    let run = site.check();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("allow_exec"), "{run:?}");
    let run = site.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(run.code, Some(1), "{run:?}");
}

#[test]
fn exec_is_an_exit_status() {
    let net = Net::new();
    let command = "command = [\"/bin/sh\", \"-c\", \"read state < FILE; exit $state\"]";
    let site = probing(&net, "", &[1]);
    let file = site.path().join("status");
    fs::write(&file, "0\n").expect("a file");
    let command = command.replace("FILE", &file.display().to_string());
    let zone = fs::read_to_string(site.path().join(super::ZONE)).expect("the zone");
    site.write(super::ZONE, zone + &without_port("exec", &command));
    site.write("meridian.toml", format!("{SERVER}allow_exec = true\n"));
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1]));
    fs::write(&file, "3\n").expect("a file");
    within_bound(&server, &net.set(&[9]), bound(2), "exit status 3");
    let change = wait_for_change(&mut server, net.ip(1), "unhealthy");
    assert!(change.reason.contains('3'), "{change:?}");
    fs::write(&file, "0\n").expect("a file");
    within_bound(&server, &net.set(&[1]), bound(2), "exit status 0");
}

// A command that does not end is ended with the timeout, and nothing of it is left: neither what it
// started itself, nor an entry in the table of processes.
#[test]
fn exec_that_does_not_end_is_ended() {
    let net = Net::new();
    let number = format!("98765.{}", std::process::id());
    let command = format!("command = [\"/bin/sh\", \"-c\", \"/bin/sleep {number}; true\"]");
    let site = probing(&net, &without_port("exec", &command), &[1]);
    site.write("meridian.toml", format!("{SERVER}allow_exec = true\n"));
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[9]));
    let change = wait_for_change(&mut server, net.ip(1), "unhealthy");
    assert!(change.reason.contains("timed out"), "{change:?}");
    let sleepers = || processes_with(&number);
    for _ in 0..3 {
        until(PATIENCE, "the command runs", || sleepers() == 1);
        until(PATIENCE, "the command is ended", || sleepers() == 0);
    }
    until(PATIENCE, "nothing is left of ended commands", || zombies_of(server.pid()) == 0);
    until(PATIENCE, "the command runs", || sleepers() == 1);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    until(Duration::from_secs(2), "the command ends with the server", || sleepers() == 0);
}

/// How many ended processes this one has not looked after.
fn zombies_of(parent: u32) -> usize {
    let entries = fs::read_dir("/proc").expect("Linux").map_while(Result::ok);
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let after_name = lines.filter_map(|line| Some(line.rsplit_once(") ")?.1.to_owned()));
    after_name.filter(|rest| rest.starts_with(&format!("Z {parent} "))).count()
}

/// How many processes have this among their arguments.
fn processes_with(argument: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("Linux").map_while(Result::ok);
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|octet| *octet == 0).any(|a| a == argument.as_bytes())).count()
}

/// What stands in the file of an origin that is up, and of one that is down.
const UP: &str = "up\n";
const DOWN: &str = "down\n";

// "state from a watched file".
#[test]
fn file_is_the_state_that_it_has() {
    let net = Net::new();
    let site = probing(&net, "", &[1]);
    let file = site.path().join("state-of-origin");
    fs::write(&file, UP).expect("a file");
    let zone = fs::read_to_string(site.path().join(super::ZONE)).expect("the zone");
    let path = format!("path = \"{}\"", file.display());
    site.write(super::ZONE, zone + &without_port("file", &path));
    let server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1]));
    fs::write(&file, DOWN).expect("a file");
    within_bound(&server, &net.set(&[9]), bound(2), "the file says down");
    fs::write(&file, UP).expect("a file");
    within_bound(&server, &net.set(&[1]), bound(2), "the file says up");
    fs::remove_file(&file).expect("the file");
    within_bound(&server, &net.set(&[9]), bound(2), "there is no file");
}
