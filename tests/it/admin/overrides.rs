//! What each word does to the answers, and which of several holds: "Precedence: disabled, forced,
//! drained, probe."

use serde_json::{Value, json};

use super::{A, B, OVERRIDES, POOLS, Served, WWW, ZONE, site, until, word, zone};
use crate::wire::{Query, rcode, rtype};

fn of_origin(origin: &str, said: &str) -> Value {
    json!({ "pool": "a", "origin": origin, "word": said })
}

#[test]
fn each_word_for_an_origin_changes_the_answers() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    assert_eq!(served.answered(), A);
    for said in ["drained", "forced-down", "disabled"] {
        served.say(&of_origin("a1", said));
        assert_eq!(served.answered(), ["192.0.2.2"], "{said}");
        assert_eq!(served.lift(&of_origin("a1", said)), 1);
        assert_eq!(served.answered(), A, "{said} is lifted");
    }
    served.push("192.0.2.1", "down");
    assert_eq!(served.answered(), ["192.0.2.2"]);
    served.say(&of_origin("a1", "forced-up"));
    assert_eq!(served.answered(), A, "forced up");
    served.push("192.0.2.1", "up");
    served.push("192.0.2.1", "down");
    assert_eq!(served.answered(), A, "whatever the probes say");
    assert_eq!(served.lift(&json!({ "pool": "a", "origin": "a1" })), 1);
    assert_eq!(served.answered(), ["192.0.2.2"], "they count again");
}

#[test]
fn the_first_by_precedence_holds() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    let one = ["192.0.2.2"];
    // Said in the order from the weakest to the strongest, then lifted from the strongest.
    served.say(&of_origin("a1", "drained"));
    assert_eq!(served.answered(), one);
    served.say(&of_origin("a1", "forced-up"));
    assert_eq!(served.answered(), A, "forced goes over drained");
    served.say(&of_origin("a1", "forced-down"));
    assert_eq!(served.answered(), one, "in place of forced up");
    served.say(&of_origin("a1", "forced-up"));
    served.say(&of_origin("a1", "disabled"));
    assert_eq!(served.answered(), one, "disabled goes over forced");
    let listed = served.get(OVERRIDES).document();
    let words: Vec<_> =
        listed["overrides"].as_array().unwrap().iter().map(|s| &s["word"]).collect();
    assert_eq!(words, ["disabled", "forced-up", "drained"]);
    assert_eq!(served.lift(&of_origin("a1", "disabled")), 1);
    assert_eq!(served.answered(), A, "forced up");
    assert_eq!(served.lift(&of_origin("a1", "forced-up")), 1);
    assert_eq!(served.answered(), one, "drained");
    assert_eq!(served.lift(&of_origin("a1", "drained")), 1);
    assert_eq!(served.answered(), A, "by its probes");
    assert_eq!(served.lift(&of_origin("a1", "drained")), 0, "nothing is left");
}

// "A pool forced down or drained is unavailable but can still be the fallback"; a disabled one not.
#[test]
fn each_word_for_a_pool_changes_the_answers() {
    let served = Served::of(site(POOLS));
    for said in ["drained", "forced-down", "disabled"] {
        served.say(&word("a", said));
        assert_eq!(served.answered(), B, "{said}");
        assert_eq!(served.pool("a")["available"], false);
        served.say(&word("b", said));
        let reply = served.server.ask(&Query::new(WWW, rtype::A));
        match said {
            "disabled" => assert_eq!(reply.rcode(), rcode::SERVFAIL),
            _ => assert_eq!(reply.data(rtype::A), B, "{said}: the fallback all the same"),
        }
        assert_eq!(served.lift(&json!({ "pool": "a" })), 1);
        assert_eq!(served.answered(), A, "{said} is lifted");
        assert_eq!(served.lift(&json!({ "pool": "b" })), 1);
    }
}

// "a pool forced up is available while it has an eligible set": that of the last resort too.
#[test]
fn a_pool_forced_up_with_all_down_answers_its_last_resort() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    served.push("192.0.2.1", "down");
    served.push("192.0.2.2", "down");
    assert_eq!(served.answered(), B);
    served.say(&word("a", "forced-up"));
    assert_eq!(served.answered(), A, "the last resort");
    assert_eq!(served.explained()["failover"]["from"], "last_resort");
    // One that drops its traffic has no set.
    let drops = "[pools.a]\nfailover_policy = { drop_traffic_if_unhealthy = true }";
    site.write(ZONE, zone(&POOLS.replace("[pools.a]", drops)));
    served.server.reload("reloaded");
    assert_eq!(served.answered(), B);
}

#[test]
fn a_word_may_end_by_itself() {
    let mut served = Served::of(site(POOLS));
    let said = served.say(&json!({ "pool": "a", "word": "drained", "for": "1s", "by": "ada" }));
    assert!(said["said"]["until"].is_string(), "{said}");
    assert_eq!(served.answered(), B);
    until("the end", || served.answered() == A);
    let line = served.server.wait_for("override over");
    assert_eq!(line["fields"]["subject"], "a");
    assert_eq!(served.get(OVERRIDES).document()["overrides"], json!([]));
}

#[test]
fn who_when_why_and_for_how_long_are_kept_and_shown() {
    let mut served = Served::of(site(POOLS));
    let body = json!({
        "pool": "a", "zone": "example.test", "word": "drained",
        "until": "2099-12-31T23:59:59Z", "why": "new kernel", "by": "ada",
    });
    let reply = served.say(&body);
    assert_eq!(reply["kept"], true, "{reply}");
    let said = &reply["said"];
    for (key, value) in [
        ("zone", json!("example.test.")),
        ("pool", json!("a")),
        ("origin", Value::Null),
        ("word", json!("drained")),
        ("why", json!("new kernel")),
        ("by", json!("ada")),
        ("until", json!("2099-12-31T23:59:59Z")),
    ] {
        assert_eq!(said[key], value, "{key}: {said}");
    }
    assert_eq!(served.get(OVERRIDES).document()["overrides"], json!([said]));
    let pool = served.pool("a");
    assert_eq!(pool["override"]["by"], "ada", "{pool}");
    assert_eq!(pool["reason"], "drained by ada until 2099-12-31T23:59:59Z: new kernel");
    let line = served.server.wait_for("overridden");
    assert_eq!(line["fields"]["by"], "ada");
    assert_eq!(line["fields"]["why"], "new kernel");
}

#[test]
fn times_that_make_no_sense_are_refused() {
    let served = Served::of(site(POOLS));
    for (key, value, says) in [
        ("for", "0s", "at once"),
        ("for", "2 hours", "2h"),
        ("for", "-1h", "not a duration"),
        ("for", "40000d", "hundred years"),
        ("until", "2001-01-01T00:00:00Z", "past already"),
        ("until", "tomorrow", "UTC"),
        ("until", "2099-02-30T00:00:00Z", "not a time"),
    ] {
        let mut body = word("a", "drained");
        body[key] = json!(value);
        served.send("PUT", OVERRIDES, &body).assert_refused(400, &[key, says]);
    }
    assert_eq!(served.answered(), A);
}

// ---------------------------------------------------------------------------------- Names

#[test]
fn names_are_found_as_explain_finds_them() {
    let served = Served::of(site(POOLS));
    for subject in ["a1", "a/a1"] {
        served.say(&word(subject, "drained"));
        assert_eq!(served.answered(), ["192.0.2.2"], "{subject}");
        assert_eq!(served.lift(&json!({ "subject": subject })), 1);
    }
    let put = |body: Value| served.send("PUT", OVERRIDES, &body);
    put(json!({ "pool": "a", "origin": "a11", "word": "drained" })).assert_refused(404, &["a/a1"]);
    put(word("a12", "drained")).assert_refused(404, &["a1"]);
    put(json!({ "pool": "a1", "word": "drained" })).assert_refused(404, &["a1", "origin or pool"]);
    put(json!({ "pool": "a", "zone": "exmple.test", "word": "drained" }))
        .assert_refused(404, &["exmple.test", "example.test"]);
    put(json!({ "pool": "a", "subject": "a", "word": "drained" }))
        .assert_refused(400, &["subject"]);
    let delete = served.send("DELETE", OVERRIDES, &json!({ "pool": "aa" }));
    delete.assert_refused(404, &["aa"]);
}

#[test]
fn a_pool_of_several_zones_needs_its_zone() {
    let site = site(POOLS);
    let other = zone(POOLS).replace("example.test", "other.test").replace("a1", "x1");
    site.write("zones/other.test.toml", other);
    let served = Served::start(&site);
    let put = |body: Value| served.send("PUT", OVERRIDES, &body);
    let both = ["example.test.", "other.test.", "zone"];
    put(word("a", "drained")).assert_refused(409, &both);
    put(json!({ "pool": "a", "word": "drained" })).assert_refused(409, &both);
    put(word("a2", "drained")).assert_refused(409, &both);
    put(word("a/a2", "drained")).assert_refused(409, &both);
    for zone in ["other.test", "other.test.", "OTHER.test"] {
        served.say(&json!({ "pool": "a", "zone": zone, "word": "drained" }));
        let reply = served.server.ask(&Query::new("www.other.test", rtype::A));
        assert_eq!(reply.data(rtype::A), B, "{zone}");
        assert_eq!(served.answered(), A, "the other zone's is another");
        assert_eq!(served.lift(&json!({ "pool": "a" })), 1, "only of one something was said");
    }
    served.say(&word("x1", "drained"));
    assert_eq!(served.lift(&json!({ "subject": "x1" })), 1);
}

// Pools that zones share have no zone.
#[test]
fn a_shared_pool_is_overridden_for_all_zones() {
    let site = site(
        "[load_balancers.www]\npools = [\"s\", \"b\"]\n[pools.b]\norigins = [{ name = \"b1\", address = \"192.0.2.9\" }]\n",
    );
    site.write(
        "zones/shared.toml",
        "[pools.s]\norigins = [{ name = \"s1\", address = \"192.0.2.5\" }]\n",
    );
    let served = Served::start(&site);
    assert_eq!(served.answered(), ["192.0.2.5"]);
    let said = served.say(&json!({ "pool": "s", "zone": "example.test", "word": "drained" }));
    assert_eq!(said["said"]["zone"], Value::Null, "{said}");
    assert_eq!(served.answered(), B);
    assert_eq!(served.lift(&json!({ "pool": "s" })), 1);
}

// An override waits for a pool that is not there at the moment, and can be lifted while it waits.
#[test]
fn what_was_said_of_a_pool_that_is_gone_can_be_lifted() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    let gone = POOLS.replace("[pools.a]", "[pools.c]").replace("[\"a\", \"b\"]", "[\"c\", \"b\"]");
    served.say(&word("a", "drained"));
    site.write(ZONE, zone(&gone));
    served.server.reload("reloaded");
    assert_eq!(served.answered(), A, "the new pool is another");
    site.write(ZONE, zone(POOLS));
    served.server.reload("reloaded");
    assert_eq!(served.answered(), B, "it waited");
    site.write(ZONE, zone(&gone));
    served.server.reload("reloaded");
    assert_eq!(served.lift(&json!({ "subject": "a" })), 1);
    site.write(ZONE, zone(POOLS));
    served.server.reload("reloaded");
    assert_eq!(served.answered(), A);
}
