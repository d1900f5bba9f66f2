//! The clock jumps, as it does when a machine wakes or its time server was wrong: probes go on at their
//! intervals, what was said until a time ends at that time, and everything is answered.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{SERVER, Server, Site, is_missing};
use crate::wire::{Query, rtype};

const ZONE: &str = r#"
[monitors.m]
type = "file"
path = "health"
interval = "1s"

[pools.p]
monitor = "m"
origins = [{ name = "a", address = "192.0.2.1" }, { name = "b", address = "192.0.2.2" }]

[load_balancers.www]
pools = ["p"]
answers = "all"
"#;
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n[cookies]\n";
const DEADLINE: Duration = Duration::from_secs(20);

/// The library that gives another time to the program that it is loaded into; Debian has it in a
/// folder of the architecture.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("the libraries").filter_map(Result::ok);
    folders
        .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"))
        .find(|path| path.exists())
        .expect("the library of faketime")
}

/// Waits until the answers are these.
fn wait_for(server: &Server, addresses: &[&str], why: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        let reply = server.ask(&Query::new("www.example.test", rtype::A));
        let mut answered = reply.data(rtype::A);
        answered.sort_unstable();
        if answered == addresses {
            return;
        }
        assert!(Instant::now() < end, "{why}: {answered:?}, not {addresses:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_clock_that_jumps_forth_and_back_stops_nothing() {
    if is_missing("faketime", "--version", "faketime") {
        return;
    }
    let site = Site::with_zone(ZONE);
    site.write("meridian.toml", format!("{SERVER}{ADMIN}"));
    site.write("admin.token", "0123456789abcdef");
    site.write("zones/health", "192.0.2.1 up\n192.0.2.2 up\n");
    let clock = site.path().join("clock");
    site.write("clock", "+0");
    let library = library();
    let mut server = Server::start_with(
        &site,
        &[
            ("LD_PRELOAD", library.to_str().expect("a path")),
            ("FAKETIME_TIMESTAMP_FILE", clock.to_str().expect("a path")),
            ("FAKETIME_NO_CACHE", "1"),
            // The monotonic clock does not jump with the other.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ],
    );
    let both = ["192.0.2.1", "192.0.2.2"];
    wait_for(&server, &both, "at first");
    let at = format!("http://{}", server.admin_address());
    let drain = ["drain", "p/a", "--for", "2h", "--why", "test", "--token-file", "admin.token"];
    let run = site.run(&[&drain[..], &["--at", &at]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    wait_for(&server, &both[1..], "drained for two hours");
    site.write("clock", "+3h");
    wait_for(&server, &both, "three hours later");
    for (jump, down) in [("-30h", "192.0.2.1"), ("+400d", "192.0.2.2"), ("+0", "192.0.2.1")] {
        site.write("clock", jump);
        let up = if down == both[0] { both[1] } else { both[0] };
        site.write("zones/health", format!("{down} down\n{up} up\n"));
        wait_for(&server, &[up], jump);
        server.reload("reloaded");
        assert_eq!(server.ask_tcp(&Query::new("www.example.test", rtype::A)).answer.len(), 1);
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}
