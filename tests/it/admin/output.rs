//! What the commands print, and how they end: for people on a terminal as wide as it is and in colours,
//! elsewhere without; JSON where it is asked for; and "0 good, 1 the answer is no, 2 wrong usage, 3
//! could not reach the server".

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use nix::pty::{Winsize, openpty};
use serde_json::Value;

use super::{POOLS, Served, ZONE, site, zone};
use crate::harness::Site;

/// Runs a command on a terminal of so many columns: what the terminal got.
fn on_terminal(
    site: &Site,
    columns: u16,
    environment: &[(&str, &str)],
    arguments: &[&str],
) -> String {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).expect("a terminal");
    let mut command = site.command(arguments);
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.iter().copied());
    let mut child = command.stdout(Stdio::from(terminal.slave)).spawn().expect("a process");
    // So that the terminal has an end, this process must not hold the other side.
    drop(command);
    let mut text = Vec::new();
    let mut master = File::from(terminal.master);
    let mut buffer = [0; 4096];
    // Linux says EIO where the other side is closed.
    while let Ok(count @ 1..) = master.read(&mut buffer) {
        text.extend_from_slice(&buffer[..count]);
    }
    child.wait().expect("its end");
    String::from_utf8(text).expect("UTF-8")
}

/// A text without colours.
fn bare(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        bare.push_str(part.split_once('m').expect("the end of a colour").1);
    }
    bare
}

#[test]
fn lines_fit_the_terminal_and_colours_are_on_one_only() {
    let site = site(POOLS);
    let served = Served::start(&site);
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "down");
    let url = served.url();
    for arguments in [&["status", "--at", &url][..], &["events", "--at", &url]] {
        for columns in [40, 60, 100] {
            let shown = on_terminal(&site, columns, &[], arguments);
            assert!(shown.contains("\u{1b}[31m"), "red for what is down: {shown:?}");
            for line in bare(&shown).lines() {
                assert!(line.chars().count() <= usize::from(columns), "{columns}: {line}");
            }
        }
        let none = on_terminal(&site, 60, &[("NO_COLOR", "1")], arguments);
        assert!(!none.contains('\u{1b}'), "{none:?}");
        let dumb = on_terminal(&site, 60, &[("TERM", "dumb")], arguments);
        assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
        let json = on_terminal(&site, 60, &[], &[arguments, &["--json"]].concat());
        serde_json::from_str::<Value>(&json).expect("JSON without colours");
        let piped = site.run(arguments);
        assert!(!piped.stdout.contains('\u{1b}'), "{piped:?}");
        let whole = on_terminal(&site, 400, &[], arguments);
        let (whole, piped) = (bare(&whole).replace('\r', ""), piped.stdout);
        // Ages may differ.
        assert_eq!(whole.lines().count(), piped.lines().count(), "{whole}\n{piped}");
    }
}

/// A free port of this machine, on which nobody listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// The commands that speak to a server, each with what it needs.
const ASKING: [&[&str]; 9] = [
    &["status"],
    &["events"],
    &["reload"],
    &["drain", "a"],
    &["disable", "a"],
    &["force-up", "a"],
    &["force-down", "a"],
    &["enable", "a"],
    &["explain", "www.example.test", "--client", "192.0.2.1"],
];

/// The commands that read the files.
const READING: [&[&str]; 3] = [
    &["check"],
    &["explain", "www.example.test", "--client", "192.0.2.1"],
    &["simulate", "--mix", "weu=1"],
];

#[test]
fn commands_that_are_good_end_with_0_and_have_json() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let url = served.url();
    let asking = ASKING.map(|arguments| [arguments, &["--at", &url]].concat());
    for arguments in asking.into_iter().chain(READING.map(<[&str]>::to_vec)) {
        let plain = site.run(&arguments);
        assert_eq!(plain.code, Some(0), "{arguments:?}: {plain:?}");
        assert!(!plain.stdout.is_empty(), "{arguments:?}");
        let json = site.run(&[&arguments[..], &["--json"]].concat());
        assert_eq!(json.code, Some(0), "{arguments:?}: {json:?}");
        let document = serde_json::from_str::<Value>(&json.stdout);
        assert!(document.is_ok_and(|document| document.is_object()), "{arguments:?}: {json:?}");
    }
}

#[test]
fn an_answer_that_is_no_is_1() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let url = served.url();
    served.push("192.0.2.1", "down");
    served.push("192.0.2.2", "down");
    site.write("wrong.token", "a-token-that-is-wrong");
    for arguments in ASKING {
        // Status: a pool is not available. Explain: the name is another's. All others: the token.
        let more: &[&str] = match arguments[0] {
            "status" => &[],
            "explain" => continue,
            _ => &["--token-file", "wrong.token"],
        };
        let run = site.run(&[arguments, &["--at", &url], more].concat());
        assert_eq!(run.code, Some(1), "{arguments:?}: {run:?}");
    }
    let refused = ["explain", "www.example.org", "--client", "192.0.2.1"];
    assert_eq!(site.run(&[&refused[..], &["--at", &url]].concat()).code, Some(1));
    assert_eq!(site.run(&refused).code, Some(1));
    site.write(ZONE, zone(&POOLS.replace("192.0.2.9", "192.0.2.999")));
    for arguments in READING.into_iter().chain([&["serve"][..], &["reload", "--at", &url]]) {
        let run = site.run(arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}: {run:?}");
    }
    // A refusal is a document too.
    for arguments in [&["check", "--json"][..], &["reload", "--at", &url, "--json"]] {
        let run = site.run(arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}: {run:?}");
        let document: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert!(document["errors"][0]["message"].is_string(), "{document}");
    }
}

#[test]
fn wrong_usage_is_2() {
    let site = site(POOLS);
    for arguments in ASKING {
        let run = site.run(&[arguments, &["--at", "nowhere"]].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
    }
    for arguments in ASKING.into_iter().chain(READING).chain([&["serve"][..]]) {
        let run = site.run(&[arguments, &["--no-such-option"]].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
    }
    for port in ["99999", "0", "http", ""] {
        let url = format!("http://127.0.0.1:{port}");
        for arguments in ASKING {
            let run = site.run(&[arguments, &["--at", &url]].concat());
            assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
            assert!(run.stderr.contains("--at"), "{run:?}");
        }
    }
    for filter in ["not a filter", "inof", "meridian", "meridian=loud"] {
        let run = site.run(&["serve", "--log", filter]);
        assert_eq!(run.code, Some(2), "{filter}: {run:?}");
        for part in ["--log", filter, "info", "target=level"] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
    }
    for arguments in [&[][..], &["no-such-command"], &["check", "meridian.toml"]] {
        let run = site.run(arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
    }
}

/// Answers requests on a port of its own, each with this status and document.
fn start_other(status: &'static str, document: &'static str, times: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for _ in 0..times {
            let (mut stream, _) = listener.accept().expect("a connection");
            let _request = stream.read(&mut [0; 4096]);
            let length = document.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
            let _gone = stream.write_all(format!("{head}{document}").as_bytes());
        }
    });
    url
}

// Who answers may be anybody, and what is said of an origin too.
#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_a_servers_text() {
    let site = site(POOLS);
    let document =
        r#"{"error": "no \u001b[2J\u009b1m\rway\u202e", "help": "try \u001b]0;x\u0007"}"#;
    let url = start_other("400 Bad Request", document, ASKING.len());
    for arguments in ASKING {
        let run = site.run(&[arguments, &["--at", &url]].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(r"no \u001b[2J\u009b1m\u000dway\u202e"), "{run:?}");
        assert!(run.stderr.contains(r"help: try \u001b]0;x\u0007"), "{run:?}");
        assert!(!run.stderr.contains(|c: char| c.is_control() && c != '\n'), "{run:?}");
    }
    let said = r#"{"said": {"zone": null, "pool": "\u001b[2J", "origin": null, "word": "drained",
        "by": null, "why": null, "since": "2026-11-30T12:05:00Z", "until": null}, "kept": true}"#;
    let url = start_other("200 OK", said, 2);
    for more in [&[][..], &["--json"]] {
        let run = site.run(&[&["drain", "a", "--at", &url], more].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains(r"\u001b[2J") && !run.stdout.contains('\u{1b}'), "{run:?}");
    }
}

// An operator has commands, not requests.
#[test]
fn advice_is_for_who_types_commands() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let url = served.url();
    // A folder in which there is nothing.
    let elsewhere = Site::new();
    std::fs::remove_file(elsewhere.path().join("meridian.toml")).expect("a file");
    let refused = elsewhere.run(&["drain", "a", "--at", &url]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    elsewhere.write("wrong.token", "a-token-that-is-wrong");
    let wrong = elsewhere.run(&["drain", "a", "--at", &url, "--token-file", "wrong.token"]);
    let unknown = site.run(&["drain", "nothing", "--at", &url]);
    for (run, words) in [
        (&refused, ["--token-file", "meridian.toml"]),
        (&wrong, ["--token-file", "token_file"]),
        (&unknown, ["meridian status", "nothing"]),
    ] {
        for word in words {
            assert!(run.stderr.contains(word), "{word}: {run:?}");
        }
        for word in ["header", "Bearer", "GET ", "/api/"] {
            assert!(!run.stderr.contains(word), "{word}: {run:?}");
        }
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_3() {
    let site = site(POOLS);
    let url = nowhere();
    for arguments in ASKING {
        for more in [&[][..], &["--json"]] {
            let run = site.run(&[arguments, &["--at", &url], more].concat());
            assert_eq!(run.code, Some(3), "{arguments:?}: {run:?}");
            assert!(run.stdout.is_empty(), "{arguments:?}: {run:?}");
        }
    }
    let run = site.run(&["events", "-f", "--at", &url]);
    assert_eq!(run.code, Some(3), "{run:?}");
}
