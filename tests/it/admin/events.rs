//! The journal and those who follow it ("a bounded journal of health changes, overrides, reloads";
//! "events as server-sent events").

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Reply, Request, connect};
use super::{OVERRIDES, POOLS, Served, TOKEN, ZONE, site, until, with_admin, word, zone};
use crate::harness::{Server, strings};

const JOURNAL: &str = "/api/v1/journal";
const EVENTS: &str = "/api/v1/events";

/// The list of events that a request gives.
fn journal(served: &Served, query: &str) -> Vec<Value> {
    let reply = served.get(&format!("{JOURNAL}{query}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.document()["events"].as_array().expect("a list").clone()
}

fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["text"].as_str().expect("a sentence")).collect()
}

/// Someone who follows.
struct Follower {
    lines: BufReader<TcpStream>,
}

/// What is sent: its type, its number and its data.
#[derive(Debug)]
struct Sent {
    kind: String,
    id: Option<u64>,
    data: Value,
}

impl Follower {
    fn new(served: &Served, query: &str, headers: &str) -> Self {
        let mut stream = connect(&served.admin);
        let head = format!("GET {EVENTS}{query} HTTP/1.0\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).expect("a request sent");
        let mut lines = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let line = next_line(&mut lines).expect("a line of the head");
            if line.is_empty() {
                break;
            }
            head.push(line.to_ascii_lowercase());
        }
        assert!(head[0].ends_with("200 ok"), "{head:?}");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()), "{head:?}");
        Self { lines }
    }

    /// The next event; none at the end.
    fn next(&mut self) -> Option<Sent> {
        let (mut kind, mut id, mut data) = (None, None, None);
        loop {
            let line = next_line(&mut self.lines)?;
            match line.split_once(": ") {
                Some(("event", word)) => kind = Some(word.to_owned()),
                Some(("id", number)) => id = Some(number.parse().expect("a number")),
                Some(("data", text)) => data = Some(serde_json::from_str(text).expect("JSON")),
                _ if line.is_empty() => {
                    if let (Some(kind), Some(data)) = (kind.take(), data.take()) {
                        return Some(Sent { kind, id, data });
                    }
                }
                _ => assert!(line.starts_with(':'), "{line}"),
            }
        }
    }
}

fn next_line(lines: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (lines.read_line(&mut line).expect("a line in time") > 0).then(|| line.trim_end().to_owned())
}

#[test]
fn the_journal_tells_what_happened() {
    let site = site(POOLS);
    let served = Served::start(&site);
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "down");
    served.push("192.0.2.1", "down");
    served.say(&json!({"subject": "a1", "word": "forced-up", "by": "ada", "why": "a test"}));
    assert_eq!(served.lift(&word("a1", "forced-up")), 1);
    site.write(ZONE, zone(&POOLS.replace("192.0.2.9", "192.0.2.8")));
    assert_eq!(served.send("POST", "/api/v1/reload", &json!({})).status, 200);
    site.write(ZONE, zone(&POOLS.replace("192.0.2.9", "192.0.2.999")));
    assert_eq!(served.send("POST", "/api/v1/reload", &json!({})).status, 422);

    let events = journal(&served, "");
    let told = texts(&events);
    assert!(told[0].starts_with("meridian 0.1.0 started with 1 zone, "), "{told:#?}");
    let expected = [
        "a/a1 in example.test. is healthy",
        "a/a2 in example.test. is unhealthy: pushed as down",
        "a/a1 in example.test. is unhealthy: pushed as down",
        "pool a in example.test. is unavailable: 0 of 2 origins healthy, minimum_origins is 1",
        "a/a1 in example.test. is forced up by ada: a test",
        "pool a in example.test. is available: 1 of 2 origins healthy",
        "a/a1 in example.test. is no longer forced up: it was lifted",
        "pool a in example.test. is unavailable: 0 of 2 origins healthy, minimum_origins is 1",
        "reloaded, generation 2: origins: 1 changed: b (example.test.)/b1",
    ];
    assert_eq!(told[1..10], expected, "{told:#?}");
    assert!(told[10].starts_with("reload refused, generation 2 is still served: "), "{told:#?}");
    assert_eq!(told.len(), 11);

    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=11).map(Some).collect::<Vec<_>>());
    let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    let expected = [
        "started", "health", "health", "health", "pool", "override", "pool", "override", "pool",
        "reload", "reload",
    ];
    assert_eq!(kinds, expected);
    let down = &events[3];
    for (key, value) in [
        ("zone", "example.test."),
        ("pool", "a"),
        ("origin", "a1"),
        ("address", "192.0.2.1"),
        ("from", "healthy"),
        ("to", "unhealthy"),
        ("why", "pushed as down"),
    ] {
        assert_eq!(down[key], value, "{down}");
    }
    let at = down["at"].as_str().unwrap();
    assert!(at.len() == "2026-11-30T14:00:00.123Z".len() && at.ends_with('Z'), "{at}");
    assert_eq!((&events[5]["to"], &events[5]["by"]), (&json!("forced-up"), &json!("ada")));
    assert_eq!((&events[9]["to"], &events[9]["generation"]), (&json!("ok"), &json!(2)));
    assert_eq!(strings(&events[9]["changes"]["origins"]["changed"]), ["b (example.test.)/b1"]);
    assert_eq!(events[10]["to"], "refused");
    assert!(events[10]["errors"][0]["message"].is_string(), "{}", events[10]);
}

#[test]
fn a_part_of_the_journal_can_be_asked_for() {
    let served = Served::of(site(POOLS));
    for state in ["up", "down", "up", "down"] {
        served.push("192.0.2.1", state);
    }
    let numbers = |query: &str| -> Vec<u64> {
        journal(&served, query).iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let all = numbers("");
    let last = all.len() as u64;
    assert_eq!(numbers("?limit=2"), [last - 1, last]);
    assert_eq!(numbers("?after=1&limit=2"), [2, 3]);
    assert_eq!(numbers(&format!("?after={}", last - 1)), [last]);
    assert_eq!(numbers(&format!("?after={last}")), [0u64; 0]);
    // A number of an earlier run.
    assert_eq!(numbers("?after=1000000"), all);
    let document = served.get(&format!("{JOURNAL}?limit=0")).document();
    assert_eq!(document, json!({"events": [], "first": 1, "next": last + 1}));
    served.get(&format!("{JOURNAL}?limit=many")).assert_refused(400, &["limit"]);
    served.get(&format!("{JOURNAL}?before=1")).assert_refused(400, &["before"]);
    served.get(&format!("{EVENTS}?after=x")).assert_refused(400, &["after"]);
    let reply = Request::new("GET", EVENTS).header("last-event-id", "x").send(&served.admin);
    reply.assert_refused(400, &["Last-Event-ID"]);
}

#[test]
fn a_follower_gets_what_it_missed_and_what_happens() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.1", "down");
    let mut all = Follower::new(&served, "?after=0", "");
    let mut later = Follower::new(&served, "?after=0", "Last-Event-ID: 2\r\n");
    let mut new = Follower::new(&served, "", "");
    let first = all.next().expect("an event");
    assert_eq!((first.kind.as_str(), first.id), ("started", Some(1)));
    assert_eq!(all.next().expect("an event").data, journal(&served, "?after=1&limit=1")[0]);
    assert_eq!(later.next().expect("an event").id, Some(3));
    served.say(&json!({"pool": "b", "word": "drained"}));
    let said = new.next().expect("an event");
    assert_eq!((said.kind.as_str(), &said.data["pool"]), ("override", &json!("b")));
    assert_eq!(said.id, said.data["seq"].as_u64());
    let pool = new.next().expect("an event");
    assert_eq!((pool.kind.as_str(), &pool.data["to"]), ("pool", &json!("unavailable")));
    served.server.signal("TERM");
    while let Some(sent) = all.next() {
        assert!(sent.id <= pool.id, "{sent:?}");
    }
    assert!(new.next().is_none(), "the server ends, and so does the stream");
    assert_eq!(served.server.exit_code(), Some(0));
}

// A stream of events outlasts what a request is given.
#[test]
fn a_silent_stream_is_kept_alive() {
    let served = Served::of(site(POOLS));
    let mut follower = Follower::new(&served, "", "");
    let mut comments = 0;
    while comments < 2 {
        let line = next_line(&mut follower.lines).expect("a stream that goes on");
        comments += usize::from(line.starts_with(':'));
    }
    served.say(&word("b", "drained"));
    assert_eq!(follower.next().expect("an event").kind, "override");
}

#[test]
fn only_so_many_may_follow() {
    let served = Served::of(site(POOLS));
    let followers: Vec<_> = (0..32).map(|_| Follower::new(&served, "", "")).collect();
    served.get(EVENTS).assert_refused(503, &["32"]);
    assert_eq!(served.get(JOURNAL).status, 200);
    drop(followers);
    // That they left is seen when something is sent to them.
    until("there is room again", || {
        served.push("192.0.2.1", "up");
        served.push("192.0.2.1", "down");
        let mut stream = connect(&served.admin);
        let request = format!("GET {EVENTS} HTTP/1.0\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request sent");
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("a reply");
        start == *b"HTTP/1.0 200" || start == *b"HTTP/1.1 200"
    });
}

#[test]
fn reading_events_is_reading() {
    let site = site(POOLS);
    with_admin(&site, "listen = \"0.0.0.0:0\"\ntoken_file = \"admin.token\"");
    let mut server = Server::start(&site);
    let admin = format!("127.0.0.1:{}", server.admin_address().port());
    for path in [EVENTS, JOURNAL, "/api/v1/openapi.json"] {
        Request::new("GET", path).send(&admin).assert_refused(401, &["token"]);
        let foreign = Request::new("GET", path).header("host", "example.com").send(&admin);
        assert_eq!(foreign.status, 401, "{foreign:?}");
    }
    let reply = Request::new("GET", JOURNAL).token(TOKEN).send(&admin);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(Request::new("POST", JOURNAL).token(TOKEN).send(&admin).status, 405);
}

#[test]
fn the_command_lists_and_follows() {
    let site = site(POOLS);
    let served = Served::start(&site);
    served.push("192.0.2.1", "up");
    let url = served.url();
    let listed = site.run(&["events", "--at", &url]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{listed:?}");
    assert!(lines[0].contains("Z  started     meridian 0.1.0 started"), "{listed:?}");
    assert!(lines[1].ends_with("Z  health      a/a1 in example.test. is healthy"), "{listed:?}");
    let one = site.run(&["events", "--at", &url, "--limit", "1", "--json"]);
    let document: Value = serde_json::from_str(&one.stdout).expect("JSON");
    assert_eq!(document["events"][0]["origin"], "a1", "{document}");
    assert_eq!(site.run(&["events", "--at", &url, "--limit", "many"]).code, Some(2));

    let mut command = site.command(&["events", "-f", "--json", "--limit", "1", "--at", &url]);
    let mut following = command.stdout(Stdio::piped()).spawn().expect("a process");
    let mut lines = BufReader::new(following.stdout.take().expect("a pipe"));
    let mut next = || -> Value {
        serde_json::from_str(&next_line(&mut lines).expect("a line")).expect("JSON")
    };
    assert_eq!(next()["origin"], "a1");
    served.say(&word("b", "drained"));
    assert_eq!(next()["kind"], "override");
    assert_eq!(next()["kind"], "pool");
    served.server.signal("TERM");
    assert_eq!(served.server.exit_code(), Some(0));
    let status = following.wait().expect("its end");
    assert_eq!(status.code(), Some(3), "the server cannot be reached any more");
}

// What is piped into `head` ends with it.
#[test]
fn the_command_ends_when_nobody_reads() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let url = served.url();
    let mut command = site.command(&["events", "-f", "--at", &url]);
    let mut following = command.stdout(Stdio::piped()).spawn().expect("a process");
    let mut lines = BufReader::new(following.stdout.take().expect("a pipe"));
    assert!(next_line(&mut lines).expect("a line").contains("started"));
    drop(lines);
    let mut state = ["up", "down"].into_iter().cycle();
    until("it ends", || {
        served.push("192.0.2.1", state.next().expect("a state"));
        std::thread::sleep(Duration::from_millis(20));
        following.try_wait().expect("a child").is_some()
    });
    assert_eq!(following.wait().expect("its end").code(), Some(0));
}

// An override that is over ends by itself, and that is told.
#[test]
fn the_end_of_an_override_is_told() {
    let served = Served::of(site(POOLS));
    let reply =
        served.send("PUT", OVERRIDES, &json!({"pool": "b", "word": "drained", "for": "1s"}));
    assert_eq!(reply.status, 200, "{reply:?}");
    until("it is over", || {
        texts(&journal(&served, ""))
            .contains(&"pool b in example.test. is no longer drained: its time is over")
    });
    let told = journal(&served, "");
    let last = told.last().expect("an event");
    assert_eq!((&last["kind"], &last["to"]), (&json!("pool"), &json!("available")), "{last}");
}

/// Replies are read whole elsewhere; this one says what a stream looks like to such a reader.
#[test]
fn a_head_request_does_not_follow() {
    let served = Served::of(site(POOLS));
    let mut stream = connect(&served.admin);
    let request = format!("HEAD {EVENTS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request sent");
    let reply = Reply::read(&mut stream);
    assert_eq!((reply.status, reply.body.as_str()), (200, ""), "{reply:?}");
}

#[test]
fn round_trip_times_and_host_names_are_told() {
    let more = "[pools.h]\norigins = [{ name = \"h1\", address = \"h1.invalid\" }]\n\
        [load_balancers.flat]\nflatten = true\npools = [\"h\"]\n\
        [load_balancers.timed]\nsteering = \"rtt\"\npools = [\"a\", \"b\"]\n";
    let site = site(&format!("{POOLS}{more}"));
    let settings = std::fs::read_to_string(site.path().join("meridian.toml")).expect("settings");
    // Nobody listens there.
    site.write("meridian.toml", format!("{settings}[resolver]\nservers = [\"127.0.0.1:1\"]\n"));
    let served = Served::of(site);
    let measured = |ms: f64| {
        let samples = vec![json!({"region": "weu", "pool": "a", "ms": ms}); 100];
        let reply = served.send("POST", "/api/v1/rtt", &json!({ "samples": samples }));
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    let find = |kind: &str| -> Vec<Value> {
        let events = journal(&served, "?limit=1000");
        events.into_iter().filter(|event| event["kind"] == kind).collect()
    };
    measured(23.5);
    until("a time is published", || find("rtt").len() == 1);
    let first = find("rtt").remove(0);
    assert_eq!(first["text"], "a in example.test. is 23.5 ms from weu");
    assert_eq!((&first["region"], &first["to"]), (&json!("weu"), &json!("23.5 ms")));
    until("another is published", || {
        measured(90.0);
        find("rtt").len() > 1
    });
    let second = find("rtt").remove(1);
    assert_eq!(second["from"], "23.5 ms");
    let text = second["text"].as_str().expect("a sentence");
    assert!(text.ends_with(" ms from weu, no longer 23.5 ms"), "{text}");

    until("a name is asked for", || !find("resolution").is_empty());
    let name = find("resolution").remove(0);
    assert_eq!((&name["host"], &name["to"]), (&json!("h1.invalid."), &json!("nothing")));
    let text = name["text"].as_str().expect("a sentence");
    assert!(text.starts_with("h1.invalid. cannot be resolved: "), "{text}");
}
