//! `GET /api/v1/traffic`: where the answers of the last minutes went.

use serde_json::{Value, json};

use super::{POOLS, Served, WWW, ZONE, site, zone};
use crate::wire::{Query, rtype};

const PATH: &str = "/api/v1/traffic";

fn ask(served: &Served, subnet: &str, times: usize) {
    for _ in 0..times {
        served.server.ask(&Query::new(WWW, rtype::A).ecs(subnet, 24));
    }
}

fn traffic(served: &Served) -> Value {
    let reply = served.get(PATH);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.document()
}

/// The sum of numbers in a list.
fn sum(list: &Value) -> f64 {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).sum()
}

#[test]
fn answers_are_told_by_load_balancer_pool_region_and_country() {
    let site = site(POOLS);
    site.write(
        "geo/subnets.toml",
        "[subnets.\"198.51.100.0/24\"]\nregion = \"weu\"\ncountry = \"NL\"\n",
    );
    let mut served = Served::start(&site);
    served.push("192.0.2.1", "up");
    ask(&served, "198.51.100.0", 6);
    served.push("192.0.2.1", "down");
    served.push("192.0.2.2", "down");
    ask(&served, "198.51.100.0", 3);
    ask(&served, "203.0.113.0", 3);
    served.server.ask(&Query::new("ns1.example.test", rtype::A));

    for generation in 1..=2 {
        let traffic = traffic(&served);
        let expected = json!([{ "zone": "example.test.", "name": "www.example.test.", "answers": 12, "share": 1.0 }]);
        assert_eq!(traffic["load_balancers"], expected, "{generation}");
        let pools = traffic["pools"].as_array().expect("a list");
        let figures = pools.iter().map(|pool| (&pool["pool"], &pool["answers"], &pool["share"]));
        let expected =
            [("a", 6, 0.5), ("b", 6, 0.5)].map(|(a, b, c)| (json!(a), json!(b), json!(c)));
        let figures: Vec<_> = figures.map(|(a, b, c)| (a.clone(), b.clone(), c.clone())).collect();
        let mut sorted = figures.clone();
        sorted.sort_by_key(|(pool, ..)| pool.to_string());
        assert_eq!(sorted, expected, "{generation}");
        for pool in pools {
            assert_eq!(pool["series"].as_array().map(Vec::len), Some(30));
            assert!(sum(&pool["series"]) > 0.0, "{pool}");
        }
        let regions = &traffic["regions"];
        assert_eq!((&regions[0]["region"], &regions[0]["answers"]), (&json!("weu"), &json!(9)));
        assert_eq!(regions[0]["pools"][0]["share"], json!(0.6667), "{regions}");
        assert_eq!((&regions[1]["region"], &regions[1]["answers"]), (&Value::Null, &json!(3)));
        let country = &traffic["countries"][0];
        assert_eq!((&country["country"], &country["answers"]), (&json!("NL"), &json!(9)));
        assert_eq!(country["location"], json!([52.52, 5.77]));
        assert_eq!(traffic["countries"][1]["location"], Value::Null);
        let window = traffic["window"].as_f64().expect("seconds");
        assert!((0.0..300.0).contains(&window), "{window}");
        assert!(traffic["queries_per_second"].as_f64().expect("a rate") > 0.0);
        // All of it holds after a reload that changes every number.
        let more = "\n[load_balancers.aaa]\npools = [\"a0\"]\n\
                    [pools.a0]\norigins = [{ name = \"o\", address = \"192.0.2.7\" }]\n";
        if generation == 1 {
            let without_a0 = |traffic: &Value| traffic["pools"].as_array().map(Vec::len);
            assert_eq!(without_a0(&traffic), Some(2));
            site.write(ZONE, zone(&format!("{more}{POOLS}")));
            served.server.reload("reloaded");
            assert_eq!(without_a0(&self::traffic(&served)), Some(3));
            site.write(ZONE, zone(POOLS));
            served.server.reload("reloaded");
        }
    }
}

#[test]
fn lists_are_as_long_as_is_asked_for() {
    let served = Served::of(site(POOLS));
    let reply = served.get("/api/v1/traffic?limit=1");
    assert_eq!(reply.document()["pools"].as_array().map(Vec::len), Some(1));
    served.get("/api/v1/traffic?limit=x").assert_refused(400, &["limit"]);
    served.get("/api/v1/traffic?of=x").assert_refused(400, &["of"]);
}
