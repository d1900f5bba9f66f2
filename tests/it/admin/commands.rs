//! The commands that speak to a running server, with their exit codes: "0 good, 1 the answer is no, 2
//! wrong usage, 3 could not reach the server".

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};

use super::{A, B, POOLS, Served, site, with_admin, write_token};
use crate::harness::{Run, Site};

/// Runs a command against the server, with the token of the site.
fn run(site: &Site, served: &Served, arguments: &[&str]) -> Run {
    let url = served.url();
    site.run(&[arguments, &["--at", &url, "--token-file", "admin.token"]].concat())
}

#[test]
fn each_command_says_its_word() {
    let site = site(POOLS);
    let served = Served::start(&site);
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    for (command, word, one) in [
        ("drain", "drained", ["192.0.2.2"]),
        ("disable", "disabled", ["192.0.2.2"]),
        ("force-down", "forced down", ["192.0.2.2"]),
    ] {
        let why = ["--why", "new kernel", "--for", "2h", "--by", "ada"];
        let said = run(&site, &served, &[&[command, "a/a1"][..], &why].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let start = format!("a/a1 (example.test.) {word} by ada until ");
        assert!(said.stdout.starts_with(&start), "{said:?}");
        assert!(said.stdout.trim_end().ends_with(": new kernel"), "{said:?}");
        assert_eq!(served.answered(), one, "{command}");
        let lifted = run(&site, &served, &["enable", "a1"]);
        assert_eq!(lifted.code, Some(0), "{lifted:?}");
        assert!(lifted.stdout.contains(word), "{lifted:?}");
        assert_eq!(served.answered(), A, "enabled after {command}");
    }
    served.push("192.0.2.1", "down");
    assert_eq!(run(&site, &served, &["force-up", "a1"]).code, Some(0));
    assert_eq!(served.answered(), A);
    // `enable` lifts everything.
    assert_eq!(run(&site, &served, &["drain", "a", "--zone", "example.test"]).code, Some(0));
    assert_eq!(run(&site, &served, &["disable", "a"]).code, Some(0));
    assert_eq!(served.answered(), B);
    let lifted = run(&site, &served, &["enable", "a"]);
    assert_eq!(lifted.stdout.lines().count(), 2, "{lifted:?}");
    assert_eq!(served.answered(), A);
    let nothing = run(&site, &served, &["enable", "a"]);
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    assert!(nothing.stdout.contains("nothing was said of a"), "{nothing:?}");
    let json = run(&site, &served, &["drain", "a", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["said"]["word"], "drained", "{json}");
}

#[test]
fn the_status_is_a_table() {
    let site = site(POOLS);
    let served = Served::start(&site);
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "down");
    assert_eq!(
        run(&site, &served, &["drain", "b1", "--why", "new kernel", "--by", "ada"]).code,
        Some(0)
    );
    let shown = run(&site, &served, &["status"]);
    // b is not available, and nothing was said of b as a whole.
    assert_eq!(shown.code, Some(1), "{shown:?}");
    let lines: Vec<_> = shown.stdout.lines().map(str::trim_end).collect();
    assert!(
        lines[0].starts_with(&format!("meridian 0.1.0 at {}: ready, up ", served.url())),
        "{shown:?}"
    );
    assert!(lines.contains(&"a (example.test.)  available: 1 of 2 origins healthy"), "{shown:?}");
    let line =
        |start: &str| lines.iter().find(|line| line.trim_start().starts_with(start)).copied();
    let words = |start: &str| {
        line(start).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words("ORIGIN"), ["ORIGIN", "ADDRESS", "HEALTH", "FOR", "RTT", "NOTE"]);
    assert_eq!(words("a1")[..3], ["a1", "192.0.2.1", "healthy"]);
    assert_eq!(words("a2")[..3], ["a2", "192.0.2.2", "unhealthy"]);
    assert!(line("a2").is_some_and(|line| line.ends_with("pushed as down")), "{shown:?}");
    assert!(
        line("b1").is_some_and(|line| line.ends_with("drained by ada: new kernel")),
        "{shown:?}"
    );
    let json = run(&site, &served, &["status", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json, served.get("/api/v1/status").document().tap_times(&json));
}

// Also those of which there is nothing to say but their names.
#[test]
fn the_status_lists_origins_that_are_given_by_host_name() {
    let site = site(
        r#"
[pools.c]
origins = [{ name = "c1", address = "c1.cdn.invalid" }, { name = "c2", address = "c2.cdn.invalid", weight = 0.0 }]
[pools.d]
origins = [{ name = "d1", address = "d1.cdn.invalid" }, { name = "d2", address = "192.0.2.4" }]
[load_balancers.cdn]
pools = ["c"]
[load_balancers.flat]
pools = ["d"]
flatten = true
"#,
    );
    let settings = std::fs::read_to_string(site.path().join("meridian.toml")).expect("settings");
    // Nobody listens there.
    site.write("meridian.toml", format!("{settings}\n[resolver]\nservers = [\"127.0.0.1:1\"]\n"));
    let served = Served::start(&site);
    let shown = run(&site, &served, &["status"]).stdout;
    let words = |start: &str| -> Vec<&str> {
        let line = shown.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_default()
            .split("  ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect()
    };
    assert_eq!(
        words("c1 "),
        ["c1", "c1.cdn.invalid.", "-", "-", "-", "answered as CNAME"],
        "{shown}"
    );
    let note = "weight 0: takes no new traffic; answered as CNAME";
    assert_eq!(words("c2 ").last(), Some(&note), "{shown}");
    let unknown = ["d1", "d1.cdn.invalid.", "-", "-", "-", "no address of it is known"];
    assert_eq!(words("d1 "), unknown, "{shown}");
    let of = |pool: &str, origin: usize| served.pool(pool)["origins"][origin]["resolution"].clone();
    assert_eq!((of("c", 0), of("d", 0)), (json!("alias"), json!("unresolved")));
    assert_eq!(of("d", 1), Value::Null);
}

/// What differs from one moment to the next is taken from another document.
trait TapTimes {
    fn tap_times(self, from: &Value) -> Value;
}

impl TapTimes for Value {
    fn tap_times(mut self, from: &Value) -> Value {
        match (&mut self, from) {
            (Self::Object(map), Self::Object(other)) => {
                for (key, value) in map.iter_mut() {
                    let of_time = key.ends_with("_seconds") || key == "reason" || key == "since";
                    if let Some(theirs) = other.get(key) {
                        *value =
                            if of_time { theirs.clone() } else { value.take().tap_times(theirs) };
                    }
                }
            }
            (Self::Array(list), Self::Array(other)) => {
                for (value, theirs) in list.iter_mut().zip(other) {
                    *value = value.take().tap_times(theirs);
                }
            }
            _ => {}
        }
        self
    }
}

#[test]
fn a_status_that_is_good_is_0() {
    let site = site(POOLS);
    let served = Served::start(&site);
    assert_eq!(run(&site, &served, &["status"]).code, Some(0));
    // What is kept out on purpose is no fault.
    assert_eq!(run(&site, &served, &["drain", "b"]).code, Some(0));
    assert_eq!(run(&site, &served, &["status"]).code, Some(0));
    served.push("192.0.2.1", "down");
    served.push("192.0.2.2", "down");
    assert_eq!(run(&site, &served, &["status"]).code, Some(1));
}

#[test]
fn mistakes_have_their_exit_codes() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let unknown = run(&site, &served, &["drain", "a12"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.starts_with("meridian: ") && unknown.stderr.contains("did you mean"));
    assert_eq!(run(&site, &served, &["drain", "a", "--for", "long"]).code, Some(2));
    assert_eq!(site.run(&["drain", "a", "--at", "nowhere"]).code, Some(2));
    assert_eq!(site.run(&["drain", "a", "--at", "https://127.0.0.1"]).code, Some(2));
    assert_eq!(site.run(&["drain"]).code, Some(2));
    assert_eq!(site.run(&["status", "--token-file", "nothing"]).code, Some(2));
    site.write("wrong.token", "a-token-that-is-wrong");
    let url = served.url();
    let refused = site.run(&["drain", "a", "--at", &url, "--token-file", "wrong.token"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("token is wrong"), "{refused:?}");
    assert_eq!(served.answered(), A);
}

#[test]
fn a_server_that_is_not_there_is_3() {
    let site = site(POOLS);
    let free =
        TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let url = format!("http://{free}");
    for arguments in [
        &["status"][..],
        &["drain", "a"],
        &["enable", "a"],
        &["reload"],
        &["explain", "www.example.test", "--client", "192.0.2.1"],
    ] {
        let run = site.run(&[arguments, &["--at", &url]].concat());
        assert_eq!(run.code, Some(3), "{run:?}");
        assert!(
            run.stderr.starts_with(&format!("meridian: cannot reach the server at {url}")),
            "{run:?}"
        );
    }
    // Another program that speaks HTTP.
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", other.local_addr().expect("an address"));
    let answers = thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a connection");
        let _request = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").expect("an answer");
    });
    let run = site.run(&["status", "--at", &url]);
    assert_eq!(run.code, Some(3), "{run:?}");
    answers.join().expect("an answer");
}

// On the server's machine, in its folder, nothing has to be named.
#[test]
fn the_token_of_this_machine_is_found() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let url = served.url();
    let drained = site.run(&["drain", "a", "--at", &url]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(served.answered(), B);
    with_admin(&site, "listen = \"127.0.0.1:0\"");
    let refused = site.run(&["enable", "a", "--at", &url]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "{refused:?}");
    write_token(&site, super::TOKEN);
    assert_eq!(run(&site, &served, &["enable", "a"]).code, Some(0));
}
