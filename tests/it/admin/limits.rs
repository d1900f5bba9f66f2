//! Nothing that a client sends, or does not send, holds the service up.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::{Reply, Request, connect};
use super::{B, OVERRIDES, POOLS, Served, TOKEN, site, word};
use crate::wire::{Query, rtype};

#[test]
fn what_cannot_be_understood_is_said() {
    let served = Served::of(site(POOLS));
    let put =
        |body: &str| Request::new("PUT", OVERRIDES).token(TOKEN).body(body).send(&served.admin);
    put("").assert_refused(400, &["body"]);
    put("{").assert_refused(400, &["line 1"]);
    put("[]").assert_refused(400, &["body"]);
    put("\u{0}\u{1}").assert_refused(400, &["body"]);
    put(r#"{"pool": "a", "word": "droned"}"#).assert_refused(400, &["droned", "forced-up"]);
    put(r#"{"pool": "a", "word": "drained", "fro": "2h"}"#).assert_refused(400, &["fro"]);
    put(r#"{"word": "drained"}"#).assert_refused(400, &["pool", "subject"]);
    put(r#"{"word": "drained", "origin": "a1"}"#).assert_refused(400, &["pool"]);
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    put(&deep).assert_refused(400, &["body"]);
    served.get("/nothing").assert_refused(404, &["/nothing"]);
    served.get("/api/v1/nothing").assert_refused(404, &["nothing"]);
    served.send("POST", "/api/v1/status", &json!({})).assert_refused(405, &["POST"]);
    served.send("POST", "/livez", &json!({})).assert_refused(405, &["POST"]);
    served.send("DELETE", "/api/v1/reload", &json!({})).assert_refused(405, &["DELETE"]);
}

#[test]
fn bodies_and_headers_have_limits() {
    let served = Served::of(site(POOLS));
    let put = |octets: usize| {
        let body = vec![b' '; octets];
        Request::new("PUT", OVERRIDES).token(TOKEN).body(body).send(&served.admin)
    };
    put(64 * 1024).assert_refused(400, &["body"]);
    put(64 * 1024 + 1).assert_refused(413, &["64 KiB"]);
    let long = "x".repeat(80 * 1024);
    let reply = Request::new("GET", "/livez").header("x-long", &long).send(&served.admin);
    assert_eq!(reply.status, 431, "{reply:?}");
    assert_eq!(served.get("/livez").status, 200);
}

// A request may take 10 s, a slow one is told so.
#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let served = Served::of(site(POOLS));
    let start = Instant::now();
    let mut stream = connect(&served.admin);
    let head = format!(
        "PUT {OVERRIDES} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {TOKEN}\r\ncontent-length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).expect("a request sent");
    let reply = Reply::read(&mut stream);
    reply.assert_refused(504, &["10 s"]);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

/// The head of a request that has the token, and a part of its body.
fn half_body() -> String {
    format!(
        "PUT {OVERRIDES} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-length: 100\r\n\r\n{{"
    )
}

/// True if the server has neither closed a connection nor said anything in it.
fn is_waited_for(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket of ours");
    (&*stream).read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

// More connections than there may be, with nothing, half a head or half a body each: those that came first
// give way at once to who comes later, and nobody waits for their time to be over.
#[test]
fn half_requests_give_way_to_whole_ones() {
    let served = Served::of(site(POOLS));
    let beginnings = ["", "GET /livez HTTP/1.1\r\nhost: lo", &half_body()];
    for beginning in beginnings {
        let begin = |_| {
            let mut stream = connect(&served.admin);
            stream.write_all(beginning.as_bytes()).expect("half a request");
            stream
        };
        let half: Vec<_> = (0..300).map(begin).collect();
        assert_eq!(served.get("/livez").status, 200);
        assert_eq!(served.get("/metrics").status, 200);
        assert!(!is_waited_for(&half[0]), "the first gives way: {beginning:?}");
        let waited_for = half.iter().filter(|stream| is_waited_for(stream)).count();
        assert!((200..=256).contains(&waited_for), "{waited_for} of {beginning:?}");
    }
    let reply = served.server.ask(&Query::new("ns1.example.test", rtype::A));
    assert_eq!(reply.data(rtype::A), ["192.0.2.53"]);
}

// Who follows the events waits for the server, not the server for it.
#[test]
fn who_follows_the_events_does_not_give_way() {
    let served = Served::of(site(POOLS));
    let mut follower = connect(&served.admin);
    follower
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .expect("a request");
    let mut octets = [0; 4096];
    let mut told = String::new();
    while !told.contains("the journal") {
        let size = follower.read(&mut octets).expect("the beginning of the events");
        told.push_str(&String::from_utf8_lossy(&octets[..size]));
    }
    let silent: Vec<_> = (0..300).map(|_| connect(&served.admin)).collect();
    served.say(&word("a", "drained"));
    assert!(!is_waited_for(&silent[0]), "the first gives way");
    while !told.contains("drained") {
        let size = follower.read(&mut octets).expect("an event");
        assert!(size > 0, "it was closed: {told}");
        told.push_str(&String::from_utf8_lossy(&octets[..size]));
    }
}

#[test]
fn half_a_body_does_not_hold_up_the_end() {
    let mut served = Served::of(site(POOLS));
    let mut half = connect(&served.admin);
    half.write_all(half_body().as_bytes()).expect("half a request");
    assert_eq!(served.get("/livez").status, 200);
    served.server.signal("TERM");
    served.server.wait_for("stopped");
    let log = served.server.log_so_far();
    let were_open = "some admin connections were still open and are closed";
    assert!(!log.iter().any(|line| line["fields"]["message"] == were_open), "{log:#?}");
    assert_eq!(served.server.exit_code(), Some(0));
}

#[test]
fn a_connection_may_be_used_again_and_does_not_hold_up_the_end() {
    let served = Served::of(site(POOLS));
    let mut kept = connect(&served.admin);
    let mut half = connect(&served.admin);
    half.write_all(b"GET /livez HTTP/1.1\r\nhost:").expect("half a request");
    for _ in 0..3 {
        kept.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("a request");
        let mut octets = [0; 1024];
        let size = kept.read(&mut octets).expect("a reply");
        assert!(octets[..size].starts_with(b"HTTP/1.1 200 OK"));
    }
    let start = Instant::now();
    served.server.signal("TERM");
    assert_eq!(served.server.exit_code(), Some(0));
    assert!(start.elapsed() < Duration::from_millis(5500), "{:?}", start.elapsed());
}

// HTTP/2 as a client with prior knowledge speaks it.
#[test]
fn http_2_is_spoken() {
    let served = Served::of(site(POOLS));
    let mut stream = connect(&served.admin);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("the preface");
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).expect("settings");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame");
    assert_eq!(head[3], 4, "its settings");
}

#[test]
fn what_is_said_cannot_be_too_much() {
    let served = Served::of(site(POOLS));
    let say = |why: &str| {
        served.send("PUT", OVERRIDES, &json!({"pool": "a", "word": "drained", "why": why}))
    };
    say("two\nlines").assert_refused(400, &["why", "line"]);
    say("\u{1b}[2Jclear").assert_refused(400, &["why"]);
    say(&"x".repeat(1001)).assert_refused(400, &["why", "1000"]);
    assert_eq!(say(&"x".repeat(1000)).status, 200);
    served.say(&word("a", "drained"));
    assert_eq!(served.answered(), B);
}
