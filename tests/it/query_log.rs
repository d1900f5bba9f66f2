//! The log of queries: lines of JSON in a file that may be moved away, and dnstap to a real reader of
//! frame streams, fstrm_capture, whose file dnstap-read shows.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{SERVER, Server, Site, is_missing, run_inside};
use crate::streams::{TLS, address_of, encrypted, run, text, write_certificate};
use crate::wire::{Query, Reply, rtype};

const ZONE: &str = r#"
[pools.weu]
region = "weu"
origins = [{ name = "a", address = "192.0.2.1" }]

[load_balancers.www]
pools = ["weu"]
"#;
const DEADLINE: Duration = Duration::from_secs(20);
const FAILED: &str = "the query log cannot be written; what it misses is counted";
const AGAIN: &str = "the query log is written again";
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n";

/// A site whose log is configured so.
fn site(log: &str) -> Site {
    let site = Site::with_zone(ZONE);
    site.write("meridian.toml", format!("{SERVER}[query_log]\n{log}\n"));
    site
}

/// Waits for something.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The lines of a file, when it has so many.
fn lines(path: &Path, count: usize) -> Vec<Value> {
    wait(&format!("{count} lines in {}", path.display()), || {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<_> = text.lines().collect();
        (lines.len() >= count && text.ends_with('\n')).then(|| {
            assert_eq!(lines.len(), count, "{text}");
            lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        })
    })
}

/// How often the server has logged a message so far.
fn logged(server: &mut Server, message: &str) -> usize {
    server.log_so_far().iter().filter(|line| line["fields"]["message"] == message).count()
}

fn www() -> Query {
    Query::new("www.example.test", rtype::A)
}

#[test]
fn answers_are_lines_of_json() {
    let site = site("file = \"queries.log\"");
    let server = Server::start(&site);
    let path = site.path().join("queries.log");
    server.ask(&www().ecs("198.51.100.0", 24));
    server.ask_tcp(&Query::new("nope.example.test", rtype::AAAA));
    let lines = lines(&path, 2);
    let mut first = lines[0].clone();
    let at = first["at"].take();
    assert_eq!(at.as_str().expect("a time").len(), "2026-11-30T14:05:00.123Z".len());
    assert_eq!(
        first,
        json!({
            "at": null, "client": "127.0.0.1", "protocol": "udp", "client_subnet": "198.51.100.0/24",
            "name": "www.example.test.", "type": "A", "rcode": "NOERROR",
            "load_balancer": "www.example.test.", "pool": "weu", "fallback": false,
            "last_resort": false, "answer": ["192.0.2.1"], "ecs_scope": 0, "truncated": false,
            "limited": null,
        })
    );
    assert_eq!(lines[1]["protocol"], "tcp");
    assert_eq!(lines[1]["rcode"], "NXDOMAIN");
    assert_eq!(lines[1]["load_balancer"], Value::Null);
}

#[test]
fn a_file_that_is_moved_away_begins_anew() {
    let site = site("file = \"queries.log\"");
    let server = Server::start(&site);
    let (path, moved) = (site.path().join("queries.log"), site.path().join("queries.log.1"));
    server.ask(&www());
    lines(&path, 1);
    fs::rename(&path, &moved).expect("a file that can be moved");
    wait("a new file", || path.exists().then_some(()));
    server.ask(&www());
    lines(&path, 1);
    lines(&moved, 1);
}

#[test]
fn one_of_so_many_is_logged_and_the_last_ones_before_the_end() {
    let site = site("file = \"queries.log\"\none_in = 10");
    let server = Server::start(&site);
    for _ in 0..100 {
        server.ask(&www());
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    lines(&site.path().join("queries.log"), 10);
}

#[test]
fn a_log_that_cannot_be_opened_is_one_line_at_the_start() {
    let site = site("file = \"missing/queries.log\"");
    let run = site.run(&["serve"]);
    let line = run.refusal();
    assert!(line.contains("missing/queries.log") && line.contains("make its folder"), "{line}");
}

// config.md: "`meridian check` runs the same validation and exits non-zero."
#[test]
fn check_says_what_the_start_would_say_and_makes_nothing() {
    for target in ["missing/queries.log", "zones", "meridian.toml/queries.log", "zones/new/"] {
        let site = site(&format!("file = \"{target}\""));
        let check = site.run(&["check"]);
        assert_eq!(check.code, Some(1), "{target}: {check:?}");
        let reason = |text: &str| {
            let at = text.find("cannot write the query log").unwrap_or_else(|| panic!("{text}"));
            let reason = text.get(at..).unwrap_or_default().lines().next().unwrap_or_default();
            reason.split([';', '(']).next().map(str::trim).unwrap_or_default().to_owned()
        };
        assert!(check.stderr.contains("meridian.toml:"), "{target}: {check:?}");
        assert!(check.stderr.contains("error: query_log.file: "), "{target}: {check:?}");
        let start = site.run(&["serve"]);
        assert_eq!(reason(&check.stderr), reason(start.refusal()), "{target}");
        assert!(!site.path().join("missing").exists(), "{target}");
    }
    for target in ["queries.log", "zones/../queries.log"] {
        let site = site(&format!("file = \"{target}\""));
        let check = site.run(&["check"]);
        assert_eq!((check.code, check.stderr.contains("query_log")), (Some(0), false), "{check:?}");
        assert!(!site.path().join("queries.log").exists(), "{target}");
    }
    // A reader of dnstap may come later: what it could not be reached by is warned of, here as there.
    let long = format!("{}/dnstap.sock", "x".repeat(120));
    for target in ["missing/dnstap.sock", "meridian.toml", &long] {
        let check = site(&format!("socket = \"{target}\"")).check();
        assert_eq!(check.code, Some(0), "{target}: {check:?}");
        assert!(check.stderr.contains("warning: query_log.socket: cannot write"), "{check:?}");
    }
    let check = site("socket = \"dnstap.sock\"").check();
    assert!(!check.stderr.contains("query_log"), "{check:?}");
}

#[test]
fn queries_over_tls_https_and_quic_are_logged() {
    if is_missing("kdig", "-V", "knot-dnsutils") {
        return;
    }
    let site = site(&format!("file = \"queries.log\"\n{TLS}doq = [\"127.0.0.1:0\"]\n"));
    write_certificate(&site, "dns.example.test");
    let (mut server, dot, doh) = encrypted(&site);
    let doq = address_of(&mut server, "quic");
    for (address, how) in [(dot, "+tls"), (doh, "+https"), (doq, "+quic")] {
        let port = address.port().to_string();
        let output = run("kdig", &["@127.0.0.1", "-p", &port, "www.example.test", "A", how]);
        assert!(text(&output).contains("192.0.2.1"), "{how}: {output:?}");
    }
    let lines = lines(&site.path().join("queries.log"), 3);
    for (line, protocol) in lines.iter().zip(["tls", "https", "quic"]) {
        assert_eq!(line["protocol"], protocol);
        assert_eq!((&line["name"], &line["type"]), (&json!("www.example.test."), &json!("A")));
        assert_eq!((&line["answer"], &line["pool"]), (&json!(["192.0.2.1"]), &json!("weu")));
    }
}

#[test]
fn answers_that_are_limited_are_logged_as_such() {
    let network = "ip link set lo up && ip addr add 203.0.113.1/24 dev lo";
    run_inside(&["-n"], network, "query_log::inside_a_network_of_its_own");
}

#[test]
#[ignore = "run by the test above, in a network namespace"]
fn inside_a_network_of_its_own() {
    let site = Site::with_zone(ZONE);
    site.write(
        "meridian.toml",
        "[server]\nlisten = [\"203.0.113.1:0\"]\nworkers = 1\n[rate_limit]\n\
         responses_per_second = 1\n[query_log]\nfile = \"queries.log\"\n",
    );
    let mut server = Server::spawn(&site, &["serve"]);
    server.address = server.next_address();
    server.wait_for("ready");
    let socket = UdpSocket::bind("203.0.113.1:0").expect("an address of this network");
    socket.connect(server.address).expect("an address");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    for _ in 0..20 {
        socket.send(&www().octets()).expect("sent");
    }
    let lines = lines(&site.path().join("queries.log"), 20);
    let count = |limited: Value| lines.iter().filter(|line| line["limited"] == limited).count();
    let [sent, truncated, dropped] = [Value::Null, json!("truncated"), json!("dropped")].map(count);
    assert!(sent > 0 && truncated > 0 && dropped > 0, "{lines:#?}");
    for line in lines.iter().filter(|line| line["limited"] != Value::Null) {
        assert_eq!(line["truncated"], json!(line["limited"] == "truncated"), "{line}");
        assert_eq!((&line["answer"], &line["pool"]), (&json!([]), &json!("weu")), "{line}");
    }
    // As the client saw it.
    let mut buffer = [0; 2000];
    for _ in 0..sent + truncated {
        let length = socket.recv(&mut buffer).expect("a reply in time");
        Reply::parse(&buffer[..length]).expect("a reply");
    }
}

#[test]
fn a_full_disk_is_one_warning_and_queries_go_on() {
    run_inside(&["-m"], "true", "query_log::inside_mounts_of_its_own");
}

#[test]
#[ignore = "run by the test above, in a mount namespace"]
fn inside_mounts_of_its_own() {
    let site = site("file = \"log/queries.log\"");
    let folder = site.path().join("log");
    fs::create_dir(&folder).expect("a new folder");
    let tmpfs = ["-t", "tmpfs", "-o", "size=64k", "none"];
    let mounted = Command::new("mount").args(tmpfs).arg(&folder).status().expect("mount");
    assert!(mounted.success());
    // Some room is left, so that it ends in the middle of a line.
    fs::write(folder.join("filler"), [0; 56 * 1024]).expect("room");
    let mut server = Server::start(&site);
    wait("a warning", || {
        assert_eq!(server.ask(&www()).data(rtype::A), ["192.0.2.1"]);
        (logged(&mut server, FAILED) > 0).then_some(())
    });
    for _ in 0..200 {
        assert_eq!(server.ask(&www()).data(rtype::A), ["192.0.2.1"]);
    }
    fs::remove_file(folder.join("filler")).expect("a file");
    wait("room again", || {
        server.ask(&www());
        (logged(&mut server, AGAIN) > 0).then_some(())
    });
    server.signal("TERM");
    server.wait_for("stopped");
    assert_eq!(logged(&mut server, FAILED), 1, "{:#?}", server.log_so_far());
    assert_eq!(server.exit_code(), Some(0));
    // What was not written whole is not there.
    let text = fs::read_to_string(folder.join("queries.log")).expect("a file");
    assert!(text.ends_with("}\n") && text.lines().count() > 20, "{text}");
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["name"], "www.example.test.");
    }
    assert!(Command::new("umount").arg(&folder).status().expect("umount").success());
}

#[test]
fn settings_are_read_at_the_start_and_say_one_place() {
    let site = site("file = \"queries.log\"");
    let mut server = Server::start(&site);
    site.write("meridian.toml", format!("{SERVER}[query_log]\nfile = \"other.log\"\n"));
    server.signal("HUP");
    let line = server.wait_for("the setting takes effect at the next start");
    assert_eq!(line["fields"]["key"], "query_log", "{line}");
    let both = "file = \"queries.log\"\nsocket = \"dnstap.sock\"";
    let cases = [
        (both, "file and socket exclude each other"),
        ("", "it does not say where to log"),
        ("file = \"queries.log\"\none_in = 0", "a number from 1 to 1000000000"),
    ];
    for (log, complaint) in cases {
        site.write("meridian.toml", format!("{SERVER}[query_log]\n{log}\n"));
        let run = site.check();
        assert_eq!(run.code, Some(1), "{log}");
        assert!(run.stderr.contains(complaint) || run.stdout.contains(complaint), "{run:?}");
    }
}

/// A reader of frame streams; it is ended when dropped.
struct Capture(Child);

impl Capture {
    fn start(socket: &Path, file: &Path) -> Self {
        let mut command = Command::new("fstrm_capture");
        command.args(["-t", "protobuf:dnstap.Dnstap", "-u"]).arg(socket).arg("-w").arg(file);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let capture = Self(child.expect("fstrm_capture"));
        wait("the socket", || socket.exists().then_some(()));
        capture
    }

    /// Ends it, so that it writes what it has.
    fn end(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().expect("kill").success());
        self.0.wait().expect("a child of this process");
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn a_reader_of_dnstap_gets_whole_messages() {
    if is_missing("fstrm_capture", "--help", "fstrm-bin")
        || is_missing("dnstap-read", "-h", "bind9-dnsutils")
    {
        return;
    }
    let site = site("socket = \"dnstap.sock\"");
    let (socket, file) = (site.path().join("dnstap.sock"), site.path().join("out.fstrm"));
    let mut server = Server::start(&site);
    // The reader comes after the server: the log says that it was not there, and that it is.
    wait("a warning", || (logged(&mut server, FAILED) > 0).then_some(()));
    let capture = Capture::start(&socket, &file);
    server.wait_for(AGAIN);
    server.ask(&www().ecs("198.51.100.0", 24));
    server.ask_tcp(&Query::new("nope.example.test", rtype::A));
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    capture.end();
    let run = Command::new("dnstap-read").arg("-y").arg(&file).output().expect("dnstap-read");
    let text = String::from_utf8_lossy(&run.stdout);
    for wanted in [
        "type: AUTH_RESPONSE",
        "socket_protocol: UDP",
        "socket_protocol: TCP",
        "query_address: \"127.0.0.1\"",
        "www.example.test",
        "192.0.2.1",
        "NXDOMAIN",
        "CLIENT-SUBNET: 198.51.100.0/24",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing: {text} {run:?}");
    }
    assert_eq!(text.matches("type: AUTH_RESPONSE").count(), 2, "{text}");
}

/// How many records were lost, as the metrics say.
fn lost(admin: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(admin).expect("the admin service");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    let lines = text.lines();
    let mut found = lines.filter_map(|line| line.strip_prefix("meridian_query_log_lost_total "));
    found.next().expect("the metric").trim().parse().expect("a number")
}

/// Takes a connection, and greets as a reader of dnstap.
fn greet(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    // READY, and ACCEPT with the same content type.
    let mut ready = [0; 42];
    stream.read_exact(&mut ready).expect("a control frame");
    assert_eq!(ready[8..12], [0, 0, 0, 4]);
    ready[11] = 1;
    stream.write_all(&ready).expect("sent");
    let mut start = [0; 42];
    stream.read_exact(&mut start).expect("a control frame");
    assert_eq!(start[8..12], [0, 0, 0, 2]);
    stream
}

#[test]
fn a_reader_that_is_slow_or_gone_delays_nothing() {
    let site = Site::with_zone(ZONE);
    site.write("admin.token", "0123456789abcdef-a-token-of-tests");
    let log = "[query_log]\nsocket = \"dnstap.sock\"\n";
    site.write("meridian.toml", format!("{SERVER}{ADMIN}{log}"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(site.path().join("admin.token"), mode).expect("a file of ours");
    let path = site.path().join("dnstap.sock");
    let listener = UnixListener::bind(&path).expect("a new socket");
    let mut server = Server::start(&site);
    let admin = server.admin_address();
    // It reads nothing: its socket fills up, and what comes then is lost.
    let slow = greet(&listener);
    wait("lost records", || {
        for _ in 0..200 {
            assert_eq!(server.ask(&www()).data(rtype::A), ["192.0.2.1"]);
        }
        (lost(admin) > 0).then_some(())
    });
    server.wait_for(FAILED);
    // It is left, and one that comes then is greeted.
    let second = greet(&listener);
    server.wait_for(AGAIN);
    drop((slow, second, listener));
    fs::remove_file(&path).expect("a socket");
    let before = lost(admin);
    wait("more lost records", || {
        assert_eq!(server.ask(&www()).data(rtype::A), ["192.0.2.1"]);
        (lost(admin) > before).then_some(())
    });
    // One that does not even greet holds up no end either.
    let _deaf = UnixListener::bind(&path).expect("a new socket");
    server.ask(&www());
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}
