//! Steering by weight and by distance (spec/steering.md, "Steering policies"): what `explain` says of
//! them, and what is answered over the wire.

use serde_json::json;

use crate::harness::{Server, Site};
use crate::wire::{Query, rtype};

/// Pools a, b and c of one origin each, and these keys of the load balancer `www`.
fn site(load_balancer: &str) -> Site {
    let pool = |(number, name)| {
        format!(
            "[pools.{name}]\norigins = [{{ name = \"{name}1\", \
             address = [\"192.0.2.{number}\", \"2001:db8::{number}\"] }}]\n"
        )
    };
    let pools: String = (1..).zip(["a", "b", "c"]).map(pool).collect();
    Site::with_zone(&format!("{pools}[load_balancers.www]\n{load_balancer}"))
}

const RANDOM: &str = r#"
pools = ["a", "b", "c"]
steering = "random"
pool_weights = { a = 0.5, b = 0.3, c = 0.2 }
"#;

// ---------------------------------------------------------------------------------- Random

// "a weighted random order of pools by pool_weights (default 1 each)"; over any 1,000 answers of a
// worker each share is within one percentage point.
#[test]
fn random_answers_from_each_pool_by_its_weight() {
    let server = Server::start(&site(RANDOM));
    let query = Query::new("www.example.test", rtype::A);
    let answers: Vec<String> =
        (0..1_200).map(|_| server.ask(&query).data(rtype::A).concat()).collect();
    for window in answers.windows(1_000) {
        for (address, share) in [("192.0.2.1", 0.5), ("192.0.2.2", 0.3), ("192.0.2.3", 0.2)] {
            let count = window.iter().filter(|answer| *answer == address).count();
            let share = share * 1_000.0;
            assert!((count as f64 - share).abs() <= 10.0, "{address} {count} times for {share}");
        }
    }
    assert!(answers.windows(2).any(|pair| pair[0] != pair[1]), "the pools alternate");
}

// A and AAAA are counted apart, so that clients who ask both get both from one pool.
#[test]
fn random_answers_a_and_aaaa_from_one_pool() {
    let server = Server::start(&site(RANDOM));
    let [v4, v6] = [rtype::A, rtype::AAAA].map(|qtype| Query::new("www.example.test", qtype));
    for _ in 0..50 {
        let (a, aaaa) = (server.ask(&v4), server.ask(&v6));
        let pool = |address: &str| address.rsplit(['.', ':']).next().map(str::to_owned);
        assert_eq!(pool(a.data(rtype::A)[0]), pool(aaaa.data(rtype::AAAA)[0]));
    }
}

// "an unavailable pool's share goes to the others in proportion"; without any, the fallback pool.
#[test]
fn explain_shows_the_shares_of_random_pools() {
    let site = site(RANDOM);
    let explain = |more: &[&str]| {
        site.explain(&[&["www.example.test", "A", "--client", "192.0.2.200"], more].concat())
    };
    let found = explain(&[]);
    assert_eq!(found["steering"]["policy"], "random", "{found:#}");
    assert_eq!(found["steering"]["shares"], json!({"a": 0.5, "b": 0.3, "c": 0.2}), "{found:#}");
    assert_eq!(found["steering"]["candidates"], json!(["a", "b", "c"]));
    let pool = found["pool"].as_str().expect("a pool");
    assert_eq!(found["choice"]["share"], json!({format!("{pool}1"): 1.0}), "{found:#}");
    assert_eq!(found["fallback"], false);

    let found = explain(&["--down", "a"]);
    assert_eq!(found["steering"]["shares"], json!({"b": 0.6, "c": 0.4}), "{found:#}");
    let found = explain(&["--down", "a", "--down", "b", "--down", "c"]);
    assert_eq!(found["steering"]["shares"], json!({}), "{found:#}");
    assert_eq!((&found["pool"], &found["fallback"]), (&json!("c"), &json!(true)), "{found:#}");
}

// A weight of 0 takes no traffic; a weight that is not given is 1.
#[test]
fn random_leaves_out_pools_of_weight_0() {
    let site = site(
        "pools = [\"a\", \"b\", \"c\"]\nsteering = \"random\"\npool_weights = { b = 0 }\n\
         fallback_pool = \"a\"\n",
    );
    let explain = |more: &[&str]| {
        site.explain(&[&["www.example.test", "--client", "192.0.2.200"], more].concat())
    };
    let found = explain(&[]);
    assert_eq!(found["steering"]["shares"], json!({"a": 0.5, "c": 0.5}), "{found:#}");
    let found = explain(&["--down", "a", "--down", "c"]);
    assert_eq!((&found["pool"], &found["fallback"]), (&json!("a"), &json!(true)), "{found:#}");
}
