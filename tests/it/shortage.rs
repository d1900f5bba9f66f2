//! Too little of something: files that may be open, room for what is printed, patience at the end.

use std::fs::File;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Run, SERVER, Server, Site, program};
use crate::streams::{TLS, encrypted, write_certificate};
use crate::wire::{Query, rtype};

const ZONE: &str = r#"
[monitors.m]
type = "file"
path = "health"
interval = "1s"
timeout = "500ms"
fall = 1

[pools.p]
monitor = "m"
origins = [{ name = "a", address = "192.0.2.1" }]

[pools.sorry]
origins = [{ name = "s", address = "192.0.2.99" }]

[load_balancers.www]
pools = ["p"]
fallback_pool = "sorry"
"#;

#[test]
fn an_origin_is_not_down_because_no_file_can_be_opened() {
    let site = Site::with_zone(ZONE);
    site.write("zones/health", "* up\n");
    let mut command = Command::new("sh");
    let run = "ulimit -n 40 && exec \"$0\" serve --listen 127.0.0.1:0";
    command.args(["-c", run]).arg(program()).current_dir(site.path());
    command.stderr(std::process::Stdio::piped());
    let mut server = Server::of(command);
    server.address = server.next_address();
    server.wait_for("ready");
    let query = Query::new("www.example.test", rtype::A);
    assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.1"]);
    let connections: Vec<_> = (0..60).map(|_| TcpStream::connect(server.address)).collect();
    let line = server.wait_for("probes could not be made");
    assert!(line.to_string().contains("open files"), "{line}");
    assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.1"]);
    drop(connections);
}

/// How often a message was logged.
fn count(server: &mut Server, message: &str) -> usize {
    let lines = server.log_so_far().iter();
    lines.filter(|line| line["fields"]["message"] == message).count()
}

// At start with figures; then, as nothing can be accepted many times a second, once in a while.
#[test]
fn too_few_open_files_are_warned_of_once() {
    const TOO_FEW: &str = "the server may come to need more open files than it may have";
    const NO_ROOM: [&str; 2] = [
        "no connection can be accepted at the moment",
        "no admin connection can be accepted at the moment",
    ];
    let site = Site::with_zone(ZONE);
    site.write("zones/health", "* up\n");
    let start = |limit: usize, more: &str| {
        let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
        site.write("meridian.toml", format!("{SERVER}{more}{admin}"));
        let mut command = Command::new("sh");
        let run = format!("ulimit -n {limit} && exec \"$0\" serve --listen 127.0.0.1:0");
        command.args(["-c", &run]).arg(program()).current_dir(site.path());
        command.stderr(std::process::Stdio::piped());
        let mut server = Server::of(command);
        server.address = server.next_address();
        server
    };
    let mut enough = start(500, "[tcp]\nconnections = 50\n");
    enough.wait_for("ready");
    assert_eq!(count(&mut enough, TOO_FEW), 0);

    let mut server = start(40, "");
    let line = server.wait_for(TOO_FEW)["fields"].clone();
    assert_eq!((&line["limit"], &line["connections"]), (&40.into(), &8192.into()), "{line}");
    // What is configured, and some more.
    assert!(line["needed"].as_u64().is_some_and(|n| (8192 + 256..9000).contains(&n)), "{line}");
    let help = line["help"].as_str().expect("a help");
    for way in ["LimitNOFILE=", "ulimit -n", "tcp.connections"] {
        assert!(help.contains(way), "{help}");
    }
    server.wait_for("ready");
    let admin = server.admin_address();
    let clients: Vec<_> = (0..60).map(|_| TcpStream::connect(server.address)).collect();
    for message in NO_ROOM {
        let more: Vec<_> = (0..5).map(|_| TcpStream::connect(admin)).collect();
        server.wait_for(message);
        drop(more);
    }
    let _more: Vec<_> = (0..5).map(|_| TcpStream::connect(admin)).collect();
    // It tries ten times a second, and answers all the while.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        server.ask(&Query::new("www.example.test", rtype::A));
    }
    for message in NO_ROOM {
        assert_eq!(count(&mut server, message), 1, "{message}");
    }
    drop(clients);
}

#[test]
fn clients_that_began_something_do_not_hold_up_the_end() {
    let site = Site::with_zone(ZONE);
    site.write("zones/health", "* up\n");
    site.write("meridian.toml", format!("{SERVER}{TLS}"));
    write_certificate(&site, "dns.example.test");
    let (mut server, dot, doh) = encrypted(&site);
    let silent = [dot, doh].map(|address| TcpStream::connect(address).expect("a connection"));
    // Whoever was accepted before is known to be.
    server.ask_tcp(&Query::new("www.example.test", rtype::A));
    server.signal("TERM");
    // They would be waited for until this is said.
    server.wait_for("stopped");
    let lines = server.log_so_far();
    let closed =
        |line: &serde_json::Value| line.to_string().contains("connections were still open");
    assert!(!lines.iter().any(closed), "{lines:#?}");
    drop(silent);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn what_could_not_be_printed_is_an_error() {
    let site = Site::with_zone(ZONE);
    for arguments in [&["schema"][..], &["completions", "bash"], &["check", ".", "--json"]] {
        let mut command = site.command(arguments);
        command.stdout(File::options().write(true).open("/dev/full").expect("the device"));
        let run = Run::finish(command);
        assert_eq!(run.code, Some(1), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("cannot write to standard output"), "{run:?}");
    }
}

#[test]
fn a_file_that_nobody_wrote_is_not_read() {
    let site = Site::with_zone(ZONE);
    let file = File::create(site.path().join("zones/huge.toml")).expect("a new file");
    file.set_len(600 << 20).expect("a file with holes");
    let run = site.check();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("huge.toml") && run.stderr.contains("512 MiB"), "{run:?}");
}
