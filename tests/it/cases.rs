//! The exact cases of `tests/cases`: each becomes a zone file, is run through `explain --json` and
//! compared step by step. All cases are run before the test fails, so one run shows all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Site, strings};

/// Where the client stands; it is in no subnet if its region is null.
const CLIENT: &str = "10.1.2.3";
const REGIONS: &str = "[regions.r1]\ncountries = [\"NL\"]\n[regions.r2]\ncountries = [\"FR\"]\n";

// spec/steering.md: availability, fallback, shares, RTT order.
#[test]
fn pools_and_shares() {
    run_all(include_str!("../cases/pools.json"), |case| {
        let mut body = monitors();
        for (name, pool) in case["pools"].as_object().expect("pools") {
            add_pool(&mut body, name, pool);
        }
        let policy = case["load_balancer"]["policy"].as_str().unwrap_or("failover");
        let pools = &case["load_balancer"]["pools"];
        writeln!(body, "[load_balancers.www]\npools = {pools}\nsteering = {policy:?}").unwrap();

        let mut arguments = down(&case["pools"]);
        for (pool, rtt) in case["load_balancer"]["rtt"].as_object().into_iter().flatten() {
            arguments.push(format!("--rtt={pool}={}", rtt.as_str().expect("milliseconds")));
        }
        let found = explain(&body, &json!({"region": "r1"}), &arguments);

        let expect = &case["expect"];
        let mut faults = Faults::default();
        faults.compare("pool", &found["pool"], &expect["pool"]);
        faults.compare("rcode", &found["answer"]["rcode"], &rcode(expect));
        if expect["as"] != "none" {
            faults.compare("fallback", &found["fallback"], &json!(expect["as"] == "fallback"));
            faults.compare_shares(&found["choice"]["share"], &expect["shares"]);
        }
        faults
    });
}

// spec/zonal-affinity.md: the sets, the match and the ratio.
#[test]
fn zonal_affinity() {
    run_all(include_str!("../cases/zonal-affinity.json"), |case| {
        let mut body = monitors();
        add_pool(&mut body, "p", &case["pool"]);
        body += "[load_balancers.www]\npools = [\"p\"]\n";
        let found = explain(&body, &case["client"], &down(&json!({"p": case["pool"]})));

        let expect = &case["expect"];
        let original = &expect["original"];
        let mut faults = Faults::default();
        faults.compare_sets("original_eligible", &found["failover"]["original_eligible"], original);
        faults.compare("from", &found["failover"]["from"], &expect["source"]);
        faults.compare("match", &found["zonal"]["match"], &expect["match"]);
        faults.compare_sets("matched", &found["zonal"]["matched"], &expect["matched"]);
        faults.compare("ratio", &found["zonal"]["ratio"], &expect["ratio"]);
        let modified = &found["zonal"]["modified_eligible"];
        faults.compare_sets("modified_eligible", modified, &expect["modified"]);
        let dropped = original.as_array().is_some_and(Vec::is_empty);
        let rcode = if dropped { "SERVFAIL" } else { "NOERROR" };
        faults.compare("rcode", &found["answer"]["rcode"], &json!(rcode));
        faults
    });
}

/// Runs every case of a file and fails with all that differ.
fn run_all(file: &str, run: impl Fn(&Value) -> Faults) {
    let file: Value = serde_json::from_str(file).expect("a file of cases");
    let cases = file["cases"].as_array().expect("cases");
    let mut report = String::new();
    for case in cases {
        let faults = run(case);
        if !faults.0.is_empty() {
            writeln!(report, "{} {}\n{}", case["id"], case["why"], faults.0).unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// What differs in one case, a line each.
#[derive(Default)]
struct Faults(String);

impl Faults {
    fn compare(&mut self, what: &str, found: &Value, expected: &Value) {
        if found != expected {
            writeln!(self.0, "  {what}: {found}, expected {expected}").unwrap();
        }
    }

    fn compare_sets(&mut self, what: &str, found: &Value, expected: &Value) {
        let sorted = |value: &Value| {
            let mut names = value.as_array().map_or_else(Vec::new, |_| strings(value));
            names.sort_unstable();
            json!(names)
        };
        self.compare(what, &sorted(found), &sorted(expected));
    }

    fn compare_shares(&mut self, found: &Value, expected: &Value) {
        let found: BTreeMap<&str, f64> = shares(found, |share| share.as_f64().unwrap_or(f64::NAN));
        let expected = shares(expected, |share| fraction(share.as_str().expect("a fraction")));
        let equal = found.len() == expected.len()
            && found.iter().all(|(origin, share)| {
                expected.get(origin).is_some_and(|exact| (share - exact).abs() <= 1e-9)
            });
        if !equal {
            writeln!(self.0, "  shares: {found:?}, expected {expected:?}").unwrap();
        }
    }
}

/// The origins with a share above 0.
fn shares(value: &Value, share: impl Fn(&Value) -> f64) -> BTreeMap<&str, f64> {
    let pairs = value.as_object().into_iter().flatten();
    pairs
        .map(|(origin, v)| (origin.as_str(), share(v)))
        .filter(|(_, share)| *share != 0.0)
        .collect()
}

/// "2/5" or "1" as a number.
fn fraction(text: &str) -> f64 {
    let (over, under) = text.split_once('/').unwrap_or((text, "1"));
    over.parse::<f64>().expect("a number") / under.parse::<f64>().expect("a number")
}

fn rcode(expect: &Value) -> Value {
    expect.get("rcode").cloned().unwrap_or_else(|| json!("NOERROR"))
}

/// A monitor, so that health is a matter of probes.
fn monitors() -> String {
    "[monitors.probe]\ntype = \"tcp\"\nport = 80\n".into()
}

/// Writes a case's pool as TOML; decimals go in as the text they are.
fn add_pool(body: &mut String, name: &str, pool: &Value) {
    writeln!(body, "[pools.{name}]").unwrap();
    for key in ["enabled", "minimum_origins", "region"] {
        if let Some(value) = pool.get(key) {
            writeln!(body, "{key} = {value}").unwrap();
        }
    }
    if pool.get("monitor") != Some(&json!(false)) {
        body.push_str("monitor = \"probe\"\n");
    }
    add_table(body, "zonal_affinity", pool, &["mode", "spillover_ratio"]);
    add_table(body, "failover_policy", pool, &["failover_ratio", "drop_traffic_if_unhealthy"]);
    let pool_number = name.bytes().last().expect("a name");
    for (number, origin) in (1..).zip(pool["origins"].as_array().expect("origins")) {
        writeln!(body, "[[pools.{name}.origins]]").unwrap();
        writeln!(body, "name = {}\naddress = \"10.9.{pool_number}.{number}\"", origin["name"])
            .unwrap();
        for key in ["zone", "role"] {
            if let Some(value) = origin.get(key) {
                writeln!(body, "{key} = {value}").unwrap();
            }
        }
        if let Some(weight) = origin.get("weight") {
            writeln!(body, "weight = {}", weight.as_str().expect("decimal text")).unwrap();
        }
    }
}

/// Writes an inline table of those keys that the case has.
fn add_table(body: &mut String, name: &str, pool: &Value, keys: &[&str]) {
    let decimal = |key: &str, value: &Value| match value.as_str() {
        Some(text) if key.ends_with("ratio") => text.to_owned(),
        _ => value.to_string(),
    };
    let given =
        keys.iter().filter_map(|key| Some(format!("{key} = {}", decimal(key, pool.get(key)?))));
    let given: Vec<String> = given.collect();
    if !given.is_empty() {
        writeln!(body, "{name} = {{ {} }}", given.join(", ")).unwrap();
    }
}

/// `--down` for the origins that a probe finds unhealthy; where nothing probes there are none.
fn down(pools: &Value) -> Vec<String> {
    let mut arguments = Vec::new();
    for (name, pool) in pools.as_object().expect("pools") {
        if pool.get("monitor") == Some(&json!(false)) {
            continue;
        }
        let origins = pool["origins"].as_array().expect("origins");
        for origin in origins.iter().filter(|origin| origin["healthy"] == false) {
            let origin = origin["name"].as_str().expect("a name");
            arguments.push(format!("--down={name}/{origin}"));
        }
    }
    arguments
}

fn explain(body: &str, client: &Value, arguments: &[String]) -> Value {
    let site = Site::with_zone(body);
    site.write("geo/regions.toml", REGIONS);
    let mut subnets = String::new();
    if !client["region"].is_null() {
        writeln!(subnets, "[subnets.\"10.1.0.0/16\"]\nregion = {}", client["region"]).unwrap();
        if let Some(zone) = client["zone"].as_str() {
            writeln!(subnets, "zone = {zone:?}").unwrap();
        }
    }
    site.write("geo/subnets.toml", subnets);
    let mut all = vec!["www.example.test", "A", "--client", CLIENT];
    all.extend(arguments.iter().map(String::as_str));
    site.explain(&all)
}
