//! The live state explained: what was said and what the probes saw stand in the reasons.

use std::net::TcpListener;

use serde_json::json;

use super::{A, B, POOLS, Served, WWW, site, until, word};
use crate::harness::strings;

#[test]
fn the_reasons_are_those_of_the_moment() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    let body =
        json!({ "monitor": "m", "address": "192.0.2.2", "state": "down", "why": "disk is full" });
    assert_eq!(served.send("POST", "/api/v1/push", &body).status, 200);
    let found = served.explained();
    assert_eq!(found["pool"], "a");
    let reasons: Vec<_> =
        found["origins"].as_array().unwrap().iter().map(|o| &o["reason"]).collect();
    assert!(reasons[0].as_str().is_some_and(|text| text.starts_with("healthy for ")), "{found}");
    let second = reasons[1].as_str().unwrap_or_default();
    assert!(second.starts_with("unhealthy for ") && second.ends_with(": disk is full"), "{found}");
    assert_eq!(found["origins"][1]["health"], "unhealthy");

    served.say(&json!({ "subject": "a2", "word": "forced-up", "by": "ada", "why": "it is not" }));
    let found = served.explained();
    let reason = found["origins"][1]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("forced up by ada: it is not; by its probes unhealthy"), "{found}");
    assert_eq!(found["origins"][1]["eligible"], true);
    assert_eq!(served.answered(), A);

    served.say(&json!({ "subject": "a2", "word": "disabled", "by": "ada", "why": "gone" }));
    let found = served.explained();
    assert_eq!(found["origins"][1]["reason"], "disabled by ada: gone");
    served.say(&json!({ "subject": "a1", "word": "drained", "by": "bob" }));
    let found = served.explained();
    assert_eq!(found["pool"], "b");
    assert_eq!(found["pools"][0]["available"], false);
    assert_eq!(served.answered(), B);
}

#[test]
fn what_was_said_of_a_pool_is_its_reason() {
    let served = Served::of(site(POOLS));
    for (said, reason) in [
        ("drained", "drained by ada: new kernel"),
        ("forced-down", "forced down by ada: new kernel"),
        ("forced-up", "forced up by ada: new kernel; 2 of 2 origins healthy"),
        ("disabled", "disabled by ada: new kernel"),
    ] {
        let body = json!({ "pool": "a", "word": said, "by": "ada", "why": "new kernel" });
        served.say(&body);
        let found = served.explained();
        assert_eq!(found["pools"][0]["reason"], reason, "{found}");
        assert_eq!(found["pools"][0]["available"], said == "forced-up");
        assert_eq!(served.lift(&json!({ "pool": "a" })), 1);
    }
}

// The same keys as from the files, and the same answer as by DNS.
#[test]
fn the_command_explains_a_running_server() {
    let site = site(POOLS);
    let served = Served::start(&site);
    let arguments = |more: &[&'static str]| {
        let url = served.url();
        let mut all =
            vec!["explain".to_owned(), WWW.to_owned(), "--client".into(), "198.51.100.0/24".into()];
        all.extend(["--at".to_owned(), url]);
        all.extend(more.iter().map(|&word| word.to_owned()));
        all
    };
    let run = |more: &[&'static str]| {
        let all = arguments(more);
        site.run(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    served.say(&word("a", "drained"));
    let live: serde_json::Value = serde_json::from_str(&run(&["--json"]).stdout).expect("JSON");
    let from_files = site.explain(&[WWW, "--client", "198.51.100.0/24"]);
    let keys = |value: &serde_json::Value| {
        value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(&live), keys(&from_files));
    assert_eq!(live["pool"], "b", "{live}");
    assert_eq!(from_files["pool"], "a");
    assert_eq!(live["query"], from_files["query"]);
    assert_eq!(strings(&live["steering"]["candidates"]), ["a", "b"]);
    let text = run(&[]);
    assert_eq!(text.code, Some(0), "{text:?}");
    for part in ["not available: drained", "192.0.2.9", "load balancer  www.example.test."] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    served.say(&word("a", "disabled"));
    served.say(&word("b", "disabled"));
    assert_eq!(run(&[]).code, Some(1), "SERVFAIL");
    assert_eq!(run(&["--down", "a"]).code, Some(2), "nothing is assumed of a running server");
}

// "healthy" of an origin that nobody probed is not what a probe found.
#[test]
fn without_a_server_the_health_of_monitored_origins_is_said_to_be_assumed() {
    let both = format!("{POOLS}[load_balancers.plain]\npools = [\"b\"]\n");
    let site = site(&both);
    let served = Served::start(&site);
    served.push("192.0.2.1", "up");
    let explained = |name: &str, more: &[&str]| {
        let run = site.run(&[&["explain", name, "--client", "198.51.100.1"], more].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    let line = "health         assumed: nothing is probed here; --at URL asks a running server\n";
    assert!(explained(WWW, &[]).contains(line));
    assert!(explained(WWW, &["--down", "a1"]).contains(line));
    assert!(!explained(WWW, &["--at", &served.url()]).contains("assumed"), "it was probed");
    assert!(!explained("plain.example.test", &[]).contains("assumed"), "it has no monitor");
}

#[test]
fn what_is_asked_is_checked() {
    let served = Served::of(site(POOLS));
    let refused = |query: &str, words: &[&str]| {
        served.get(&format!("/api/v1/explain{query}")).assert_refused(400, words);
    };
    refused("", &["name"]);
    refused("?name=www.example.test", &["client"]);
    refused("?name=www..example.test&client=192.0.2.1", &["name", "label"]);
    refused("?name=www.example.test&client=here", &["client", "192.0.2.0/24"]);
    refused("?name=www.example.test&client=192.0.2.1&type=AA", &["type"]);
    refused("?name=www.example.test&client=192.0.2.1&resolver=192.0.2.2", &["resolver"]);
    refused("?name=www.example.test&client=192.0.2.0/24&resolver=x", &["resolver"]);
    refused("?name=www.example.test&client=192.0.2.1&down=a", &["down"]);
    let query = "?name=www.example.test&type=AAAA&client=2001:db8::/48&resolver=192.0.2.1";
    assert_eq!(served.get(&format!("/api/v1/explain{query}")).status, 200);
}

// With `rtt`, the figures are those that the decision goes by: what the probes measured.
#[test]
fn measured_round_trip_times_are_shown() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = origin.local_addr().expect("an address").port();
    let zone = format!(
        "[monitors.t]\ntype = \"tcp\"\nport = {port}\ninterval = \"1s\"\n\
         [pools.t]\nmonitor = \"t\"\norigins = [{{ name = \"t1\", address = \"127.0.0.1\" }}]\n\
         [pools.u]\norigins = [{{ name = \"u1\", address = \"192.0.2.9\" }}]\n\
         [load_balancers.www]\npools = [\"u\", \"t\"]\nsteering = \"rtt\"\n"
    );
    let served = Served::of(site(&zone));
    until("a figure", || served.explained()["steering"]["rtt"]["t"].is_number());
    let address = served.pool("t")["origins"][0]["addresses"][0].clone();
    assert!(address["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 0.0 && rtt < 1000.0), "{address}");
}
