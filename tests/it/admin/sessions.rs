//! What becomes of sessions when an operator says something of their origin or pool (steering.md,
//! "Session affinity"): drained they stay, disabled or forced down they end.

use super::{Served, site, word};
use crate::wire::rtype;

const SITE: &str = r#"
[monitors.m]
type = "push"
ttl = "1h"

[pools.a]
monitor = "m"
origins = [{ name = "a1", address = "192.0.2.1" }, { name = "a2", address = "192.0.2.2" }]

[pools.b]
origins = [{ name = "b1", address = "192.0.2.9" }]

[load_balancers.www]
pools = ["a", "b"]
session_affinity = { ttl = "30m" }
"#;

fn origin(served: &Served, client: usize) -> String {
    let subnet = format!("10.0.{client}.0");
    served.server.addresses("www.example.test", rtype::A, (&subnet, 24)).concat()
}

#[test]
fn words_of_operators_keep_or_end_sessions() {
    let served = Served::of(site(SITE));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    let cases = [
        ("a/a1", "drained", true),
        ("a/a1", "forced-up", true),
        ("a/a1", "forced-down", false),
        ("a/a1", "disabled", false),
        ("a", "drained", true),
        ("a", "forced-up", true),
        ("a", "forced-down", false),
        ("a", "disabled", false),
    ];
    let mut fresh = 0..;
    for (subject, said, stays) in cases {
        // A client whose session is on a1, and one that comes later.
        let client = fresh.find(|&client| origin(&served, client) == "192.0.2.1").unwrap();
        served.say(&word(subject, said));
        let after = origin(&served, client);
        assert_eq!(after == "192.0.2.1", stays, "{subject} {said}: {after}");
        if said != "forced-up" {
            let others: Vec<_> =
                fresh.by_ref().take(10).map(|client| origin(&served, client)).collect();
            assert!(others.iter().all(|other| other != "192.0.2.1"), "{subject} {said}");
        }
        assert_eq!(served.lift(&serde_json::json!({ "subject": subject })), 1);
        // Who was moved is not moved back.
        assert_eq!(origin(&served, client), after, "{subject} {said}, lifted");
    }
}

// A pushed state moves a client, and a push of the contrary does not move it back.
#[test]
fn a_pushed_state_moves_a_client_for_good() {
    let served = Served::of(site(SITE));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    let client = (0..).find(|&client| origin(&served, client) == "192.0.2.1").unwrap();
    served.push("192.0.2.1", "down");
    assert_eq!(origin(&served, client), "192.0.2.2");
    served.push("192.0.2.1", "up");
    assert_eq!(origin(&served, client), "192.0.2.2");
    served.push("192.0.2.2", "down");
    assert_eq!(origin(&served, client), "192.0.2.1");
    served.push("192.0.2.1", "down");
    assert_eq!(origin(&served, client), "192.0.2.9", "the next pool");
    served.push("192.0.2.1", "up");
    assert_eq!(origin(&served, client), "192.0.2.9", "not moved back");
    let live = served.get("/api/v1/explain?name=www.example.test&client=10.0.0.0/24").document();
    assert_eq!(live["session"]["key"], "10.0.0.0/24");
    assert_eq!(live["session"]["placed"], "a1", "what a new one would get");
}
