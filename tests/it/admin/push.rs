//! `push` monitors: "set through the admin API, with a time to live".

use serde_json::{Value, json};

use super::{A, B, POOLS, Served, site, until};

const PATH: &str = "/api/v1/push";

fn pushed(address: &str, state: &str) -> Value {
    json!({ "monitor": "m", "address": address, "state": state })
}

#[test]
fn a_pushed_state_counts_at_once_and_says_why() {
    let served = Served::of(site(POOLS));
    assert_eq!(served.answered(), A, "unknown, and nothing better is known");
    served.push("192.0.2.1", "up");
    assert_eq!(served.answered(), ["192.0.2.1"], "the other is not known to be healthy");
    let mut body = pushed("192.0.2.1", "down");
    body["why"] = json!("disk is full");
    let reply = served.send("POST", PATH, &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(served.answered(), ["192.0.2.2"]);
    let pool = served.pool("a");
    let address = &pool["origins"][0]["addresses"][0];
    assert_eq!(address["health"], "unhealthy", "{pool}");
    assert_eq!(address["failure"], "disk is full", "{pool}");
    assert!(address["since"].is_string() && address["result_age_seconds"].is_number(), "{pool}");
    served.push("192.0.2.2", "down");
    assert_eq!(served.answered(), B);
    assert_eq!(served.pool("a")["available"], false);
    served.push("192.0.2.2", "up");
    assert_eq!(served.answered(), ["192.0.2.2"]);
}

#[test]
fn a_pushed_state_ends_with_its_time_to_live() {
    let served = Served::of(site(&POOLS.replace("ttl = \"1h\"", "ttl = \"1s\"")));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    assert_eq!(served.answered(), A);
    until("the end of the time to live", || served.answered() == B);
    let failure = served.pool("a")["origins"][0]["addresses"][0]["failure"].clone();
    assert!(failure.as_str().is_some_and(|text| text.contains("pushed")), "{failure}");
    served.push("192.0.2.1", "up");
    assert_eq!(served.answered(), ["192.0.2.1"]);
}

#[test]
fn what_cannot_be_pushed_is_said() {
    let probed = "[monitors.t]\ntype = \"tcp\"\nport = 1\ninterval = \"1h\"\n\
                  [pools.t]\nmonitor = \"t\"\norigins = [{ name = \"t1\", address = \"127.0.0.1\" }]\n";
    let served = Served::of(site(&format!("{probed}{POOLS}")));
    let push = |body: Value| served.send("POST", PATH, &body);
    push(pushed("192.0.2.77", "up")).assert_refused(404, &["192.0.2.77"]);
    push(json!({ "monitor": "n", "address": "192.0.2.1", "state": "up" }))
        .assert_refused(404, &["\"n\"", "m"]);
    push(json!({ "monitor": "t", "address": "127.0.0.1", "state": "up" }))
        .assert_refused(400, &["not of the type push"]);
    push(pushed("192.0.2.1", "fine")).assert_refused(400, &["fine", "up"]);
    push(pushed("here", "up")).assert_refused(400, &["address"]);
    push(json!({ "monitor": "m", "zone": "other.test", "address": "192.0.2.1", "state": "up" }))
        .assert_refused(404, &["m"]);
    let with_zone =
        json!({ "monitor": "m", "zone": "example.test", "address": "192.0.2.1", "state": "up" });
    assert_eq!(push(with_zone).status, 200);
    assert_eq!(served.answered(), ["192.0.2.1"]);
}

// "a flapping origin … is held down and shown as such".
#[test]
fn what_flaps_is_shown_as_held_down() {
    let zone = POOLS.replace("ttl = \"1h\"", "ttl = \"1h\"\nflap_threshold = 1");
    let served = Served::of(site(&zone));
    served.push("192.0.2.2", "up");
    for state in ["up", "down", "up"] {
        served.push("192.0.2.1", state);
    }
    assert_eq!(served.answered(), ["192.0.2.2"]);
    let pool = served.pool("a");
    let address = &pool["origins"][0]["addresses"][0];
    assert_eq!((&address["held_down"], &address["health"]), (&json!(true), &json!("unhealthy")));
    let reason = served.explained()["origins"][0]["reason"].clone();
    assert!(reason.as_str().is_some_and(|text| text.contains("held down")), "{reason}");
}
