//! "Probes connect from a configurable source address; nothing a probed server sends (endless body,
//! huge headers, redirects in a loop, slow drip) can hold more than its timeout or 64 KiB."

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::origin::{Mode, Origin};
use super::{
    ALLOWANCE, INTERVAL, Net, PATIENCE, QUICK, answered, changes, site, until, wait_for_change, www,
};
use crate::harness::{SERVER, Server, is_missing};

#[test]
fn nothing_that_a_probed_server_sends_holds_anything_up() {
    let net = Net::new();
    let good = Origin::start(&net, 1);
    let modes = [Mode::Drip, Mode::EndlessHead, Mode::EndlessBody, Mode::RedirectLoop, Mode::Hang];
    let bad: Vec<_> =
        (2..).zip(modes).map(|(number, mode)| Origin::at(net.socket(number), mode)).collect();
    let monitor =
        net.web(&format!("{QUICK}follow_redirects = true\nexpected_body = \"all is well\"\n"));
    let numbers = [1, 2, 3, 4, 5, 6];
    let start = Instant::now();
    let mut server = Server::start(&site(&[monitor, net.pool("p", "", &numbers), www(&["p"])]));
    // All first results are there as soon as the timeout allows.
    assert!(start.elapsed() < Duration::from_millis(1500) + ALLOWANCE, "{:?}", start.elapsed());
    assert_eq!(answered(&server), net.set(&[1]), "{:#?}", changes(&mut server));
    let before = resident(&server);
    let count = good.request_count();
    until(PATIENCE, "more probes", || good.request_count() >= count + 4);
    for (origin, mode) in bad.iter().zip(modes) {
        assert!(origin.request_count() >= 3, "{mode:?} is probed on");
        if mode != Mode::RedirectLoop {
            assert_eq!(origin.most_open(), 1, "{mode:?}: connections at a time");
        }
    }
    // Each redirect is a request: some are followed, and not for long.
    let followed = bad[3].request_count() / count.max(1);
    assert!(followed < 100, "{followed} requests in a probe");
    // What is not read stays in the sockets' buffers: some MiB at the most, for each probe.
    for (origin, mode) in bad.iter().zip(modes).skip(1).take(2) {
        let probes = u64::try_from(origin.request_count()).expect("a few");
        let each = origin.octets_sent() / probes;
        eprintln!("{mode:?}: {each} octets a probe were taken");
        assert!(each < 16 << 20, "{mode:?}: {each} octets a probe");
    }
    let after = resident(&server);
    eprintln!("{before} KiB before, {after} KiB after");
    assert!(after < before + 16 * 1024, "{before} KiB before, {after} KiB after");
    for number in [2, 6] {
        let change = wait_for_change(&mut server, net.ip(number), "unhealthy");
        assert!(change.reason.contains("timed out"), "{change:?}");
    }
}

/// The memory that the server has, in KiB.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

// What is configured is what is sent.
#[test]
fn requests_are_as_configured() {
    let net = Net::new();
    let origin = Origin::start(&net, 1);
    let plain = Origin::start(&net, 2);
    let monitor = net.web(&format!(
        "{QUICK}method = \"HEAD\"\npath = \"/healthz?deep=1\"\nhost = \"www.example.com\"\n\
         headers = {{ \"X-Probe\" = \"meridian\" }}\nexpected_codes = \"200-204,301\"\n"
    ));
    let site = site(&[
        monitor,
        net.monitor("plain", "http", QUICK),
        net.pool("p", "", &[1]),
        net.monitored_pool("q", "plain", "", &[2]),
        www(&["p", "q"]),
    ]);
    // It must not be an address that connections have anyway.
    site.write("meridian.toml", format!("{SERVER}probe_source = [\"{}\"]\n", net.ip(200)));
    let server = Server::start(&site);
    let request = origin.requests().remove(0);
    let head = request.head.to_lowercase();
    assert!(request.head.starts_with("HEAD /healthz?deep=1 HTTP/1."), "{head}");
    assert!(head.contains("\r\nhost: www.example.com\r\n"), "{head}");
    assert!(head.contains("\r\nx-probe: meridian\r\n"), "{head}");
    assert_eq!(request.from, net.ip(200));
    let head = plain.requests().remove(0).head;
    assert!(head.starts_with("GET / HTTP/1."), "{head}");
    assert!(head.to_lowercase().contains(&format!("\r\nhost: {}", net.ip(2))), "{head}");
    // Codes at the ends of what is expected, and beyond.
    assert_eq!(answered(&server), net.set(&[1]));
    for (status, expected) in [(205, 2), (204, 1), (302, 2), (301, 1)] {
        origin.set(Mode::Status(status));
        let what = format!("status {status}");
        super::within_bound(&server, &net.set(&[expected]), super::bound(2), &what);
    }
}

// A body counts where it is expected.
#[test]
fn a_body_without_the_expected_text_is_a_failure() {
    let net = Net::new();
    let _origins = Origin::start_all(&net, &[1, 2]);
    let strict = format!("{QUICK}expected_body = \"something else\"\n");
    let server = Server::start(&site(&[
        net.web(&format!("{QUICK}expected_body = \"is well\"\n")),
        net.monitor("strict", "http", &strict),
        net.pool("p", "", &[1]),
        net.monitored_pool("q", "strict", "", &[2]),
        www(&["q", "p"]),
    ]));
    assert_eq!(answered(&server), net.set(&[1]));
}

// Without `follow_redirects` a redirect is a status like another.
#[test]
fn redirects_are_not_followed_unless_asked() {
    let net = Net::new();
    let origin = Origin::at(net.socket(1), Mode::RedirectLoop);
    let monitor = net.web(&format!("{QUICK}expected_codes = \"302\"\n"));
    let mut server = Server::start(&site(&[monitor, net.pool("p", "", &[1]), www(&["p"])]));
    wait_for_change(&mut server, net.ip(1), "healthy");
    assert!(origin.requests().iter().all(|request| request.path() == "/"));
    assert!(origin.requests()[0].at.elapsed() < INTERVAL + ALLOWANCE, "one request a probe");
    assert_eq!(origin.request_count(), 1);
}

// What keeps a probe from being made says nothing of the origin: it stays as it was.
#[test]
fn an_origin_is_not_down_because_the_prober_cannot_probe() {
    if is_missing("prlimit", "--version", "util-linux") {
        return;
    }
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2]);
    let mut server =
        Server::start(&site(&[net.web(QUICK), net.pool("p", "", &[1, 2]), www(&["p"])]));
    let pid = server.pid().to_string();
    let limit_files = |limit: &str| {
        let status = Command::new("prlimit").args(["--pid", &pid, limit]).status();
        assert!(status.expect("prlimit").success());
    };
    limit_files("--nofile=3:4096");
    server.wait_for("probes could not be made");
    // Long enough for `fall` probes of each.
    std::thread::sleep(INTERVAL * 4);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    limit_files("--nofile=1024:4096");
    origins[0].kill();
    until(PATIENCE, "its going", || answered(&server) == net.set(&[2]));
}
