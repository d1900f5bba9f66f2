//! Sentences of spec/steering.md that no other subject holds the program to. docs/steering.md lists
//! all of them with their tests.

use std::net::TcpListener;

use serde_json::json;

use crate::harness::{Server, Site, strings};
use crate::wire::{Query, bit, rcode, rtype};

// ---------------------------------------------------------------------------------- Order

// "The same steps, with the reason for each, are what explain prints: one implementation, traced."
#[test]
fn explain_says_what_is_answered() {
    let site = Site::with_zone(
        r#"
[pools.eu]
region = "weu"
zonal_affinity = { mode = "spill_cross_zone" }
origins = [
  { name = "a1", zone = "za", weight = 0.3, address = ["192.0.2.1", "2001:db8::1"] },
  { name = "a2", zone = "za", weight = 0.7, address = "192.0.2.2" },
  { name = "b1", zone = "zb", address = ["192.0.2.3", "2001:db8::3"] },
]
[pools.us]
region = "enam"
origins = [{ name = "u1", address = "192.0.2.4" }]
[load_balancers.www]
steering = "geo"
pools = ["eu", "us"]
answers = 2
"#,
    );
    let subnets = "[subnets.\"10.8.0.0/16\"]\nregion = \"weu\"\nzone = \"za\"\n\
                   [subnets.\"10.9.0.0/16\"]\nregion = \"weu\"\nzone = \"zb\"\n\
                   [subnets.\"10.10.0.0/16\"]\nregion = \"weu\"\n\
                   [subnets.\"10.11.0.0/16\"]\nregion = \"enam\"\n";
    site.write("geo/subnets.toml", subnets);
    let server = Server::start(&site);
    for client in ["10.8.1.0", "10.9.1.0", "10.10.1.0", "10.11.1.0"] {
        for (word, qtype) in [("A", rtype::A), ("AAAA", rtype::AAAA)] {
            let told =
                site.explain(&["www.example.test", word, "--client", &format!("{client}/24")]);
            let answer = &told["answer"];
            let records = answer["records"].as_array().expect("records");
            let told: Vec<_> =
                records.iter().filter_map(|record| record["data"].as_str()).collect();
            // What explain shows is the first answer of its sequence, and so is this one.
            let reply = server.ask(&Query::new("www.example.test", qtype).ecs(client, 24));
            assert_eq!(reply.data(qtype), told, "{word} for {client}");
            assert_eq!(answer["ecs_scope"], reply.scope(), "{word} for {client}");
        }
    }
}

// ---------------------------------------------------------------------------------- Candidates

// "a weighted random order of `pools` by `pool_weights` (default 1 each)".
#[test]
fn a_pool_weight_that_is_not_given_is_1() {
    let site = Site::with_zone(
        r#"
[pools]
a = { origins = [{ name = "a", address = "192.0.2.1" }] }
b = { origins = [{ name = "b", address = "192.0.2.2" }] }
[load_balancers.www]
steering = "random"
pools = ["a", "b"]
pool_weights = { a = 0.25 }
"#,
    );
    let found = site.explain(&["www.example.test", "--client", "192.0.2.200"]);
    assert_eq!(found["steering"]["shares"], json!({"a": 0.2, "b": 0.8}), "{found:#}");
}

// ---------------------------------------------------------------------------------- Availability

// "A result older than its `max_age` … is shown as stale and raises an alarm; it still counts."
#[test]
fn a_stale_result_raises_an_alarm_and_still_counts() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = origin.local_addr().expect("an address").port();
    let mut server = Server::start(&Site::with_zone(&format!(
        "[monitors.t]\ntype = \"tcp\"\nport = {port}\ninterval = \"10m\"\nmax_age = \"1s\"\n\
         [pools.t]\nmonitor = \"t\"\norigins = [{{ name = \"t1\", address = \"127.0.0.1\" }}]\n\
         [pools.u]\norigins = [{{ name = \"u1\", address = \"192.0.2.9\" }}]\n\
         [load_balancers.www]\npools = [\"t\", \"u\"]\n"
    )));
    let alarm = "health is stale: no result within max_age; the last ones still count";
    let line = server.wait_for(alarm);
    assert_eq!(line["level"], "WARN", "{line}");
    assert!(line["fields"]["monitor"].to_string().contains('t'), "{line}");
    let reply = server.ask(&Query::new("www.example.test", rtype::A));
    assert_eq!(reply.data(rtype::A), ["127.0.0.1"]);
}

// ---------------------------------------------------------------------------------- No answer

// "every steered type gets SERVFAIL, AA 0, no SOA, EDE 0 (Other) with a text that names the load
// balancer and the reason".
#[test]
fn a_servfail_says_its_reason_for_every_steered_type() {
    let site = Site::with_zone(
        r#"
[monitors.m]
type = "file"
path = "health"
[pools.closed]
enabled = false
origins = [{ name = "c", address = "192.0.2.1" }]
[pools.dropping]
monitor = "m"
failover_policy = { drop_traffic_if_unhealthy = true }
origins = [{ name = "d", address = "192.0.2.2" }]
[pools.spares]
monitor = "m"
origins = [{ name = "s", address = "192.0.2.3", role = "failover" }]
[load_balancers]
one = { pools = ["closed"] }
two = { pools = ["dropping"] }
three = { pools = ["spares"] }
"#,
    );
    site.write("zones/health", "* down\n");
    let server = Server::start(&site);
    for (name, words) in [
        ("one.example.test", ["closed", "disabled"]),
        ("two.example.test", ["dropping", "drops"]),
        ("three.example.test", ["spares", "no origin"]),
    ] {
        for qtype in [rtype::A, rtype::AAAA, rtype::CNAME, rtype::ANY] {
            let reply = server.ask(&Query::new(name, qtype).edns(1232));
            assert_eq!(reply.rcode(), rcode::SERVFAIL, "{name} {qtype}");
            assert!(!reply.has(bit::AA), "{name} {qtype}");
            assert!(reply.answer.is_empty() && reply.authority.is_empty(), "{name} {qtype}");
            let (code, text) = reply.ede().expect("an extended error");
            assert_eq!(code, 0, "{name} {qtype}");
            for word in [name, words[0], words[1]] {
                assert!(text.contains(word), "{word} is not in: {text}");
            }
        }
    }
}

// ---------------------------------------------------------------------------------- Choice

// "The sequence number is kept per … (load balancer, pool, modified eligible set, family)": queries for
// one name, or clients of one pool, do not take the turns of another.
#[test]
fn load_balancers_and_pools_have_sequences_of_their_own() {
    let site = Site::with_zone(
        r#"
[pools.eu]
region = "weu"
origins = [{ name = "a", address = "192.0.2.1" }, { name = "b", address = "192.0.2.2" }]
[pools.us]
region = "enam"
origins = [{ name = "c", address = "192.0.2.3" }, { name = "d", address = "192.0.2.4" }]
[load_balancers]
one = { steering = "geo", pools = ["eu", "us"] }
two = { steering = "geo", pools = ["eu", "us"] }
"#,
    );
    let subnets = "[subnets.\"10.8.0.0/16\"]\nregion = \"weu\"\n\
                   [subnets.\"10.9.0.0/16\"]\nregion = \"enam\"\n";
    site.write("geo/subnets.toml", subnets);
    let server = Server::start(&site);
    let askers =
        [("one", "10.8.1.0"), ("two", "10.8.1.0"), ("one", "10.9.1.0"), ("two", "10.9.1.0")];
    let mut last = askers.map(|_| Vec::new());
    for turn in 0..8 {
        for ((name, client), last) in askers.iter().zip(&mut last) {
            let name = format!("{name}.example.test");
            let found = server.addresses(&name, rtype::A, (client, 24));
            assert_ne!(found, *last, "turn {turn} of {name} for {client}: round robin");
            *last = found;
        }
    }
}

// "An address may be an origin of several pools: weight, role and enabled are per pool".
#[test]
fn an_address_has_a_weight_a_role_and_a_switch_in_each_pool() {
    let pool = |name: &str, keys: &str| {
        format!(
            "[pools.{name}]\norigins = [\n  {{ name = \"a\", address = \"192.0.2.1\"{keys} }},\n  \
             {{ name = \"b\", address = \"192.0.2.2\" }},\n]\n\
             [load_balancers.{name}]\npools = [\"{name}\"]\n"
        )
    };
    let site = Site::with_zone(
        &[
            pool("even", ""),
            pool("light", ", weight = 0.25"),
            pool("drained", ", weight = 0"),
            pool("spare", ", role = \"failover\""),
            pool("off", ", enabled = false"),
        ]
        .concat(),
    );
    for (name, shares) in [
        ("even", json!({"a": 0.5, "b": 0.5})),
        ("light", json!({"a": 0.2, "b": 0.8})),
        ("drained", json!({"b": 1.0})),
        ("spare", json!({"b": 1.0})),
        ("off", json!({"b": 1.0})),
    ] {
        let found = site.explain(&[&format!("{name}.example.test"), "--client", "192.0.2.200"]);
        assert_eq!(found["choice"]["share"], shares, "{name}: {found:#}");
    }
}

// ---------------------------------------------------------------------------------- Scope

// "It follows from the configuration, not from momentary health: while all regions happen to share a
// pool, the scope stays what it is."
#[test]
fn the_scope_does_not_follow_health() {
    let site = Site::with_zone(
        r#"
[pools]
eu = { origins = [{ name = "e", address = "192.0.2.1" }] }
us = { origins = [{ name = "u", address = "192.0.2.2" }] }
[load_balancers.www]
steering = "geo"
pools = ["us"]
region_pools = { weu = ["eu", "us"], enam = ["us", "eu"] }
"#,
    );
    let subnets = "[subnets.\"10.8.0.0/16\"]\nregion = \"weu\"\n\
                   [subnets.\"10.9.0.0/16\"]\nregion = \"enam\"\n";
    site.write("geo/subnets.toml", subnets);
    for client in ["10.8.0.0/16", "10.9.0.0/16", "10.64.0.0/16"] {
        let explain = |more: &[&str]| {
            site.explain(&[&["www.example.test", "A", "--client", client], more].concat())
        };
        let usual = explain(&[])["answer"]["ecs_scope"].clone();
        assert!(usual.as_u64().is_some_and(|scope| scope > 0), "{client}: {usual}");
        for down in ["eu", "us"] {
            let found = explain(&["--down", down]);
            assert_eq!(found["answer"]["ecs_scope"], usual, "{client} without {down}");
            assert_eq!(strings(&found["failover"]["original_eligible"]).len(), 1);
        }
    }
}

// "by longest match of any length (also longer than the source prefix); the scope may exceed the source
// prefix".
#[test]
fn the_match_may_be_longer_than_the_source_prefix() {
    let site = Site::with_zone(
        r#"
[pools]
eu = { origins = [{ name = "e", address = "192.0.2.1" }] }
us = { origins = [{ name = "u", address = "192.0.2.2" }] }
[load_balancers.www]
steering = "geo"
pools = ["eu"]
region_pools = { weu = ["eu"], enam = ["us"] }
"#,
    );
    let subnets = "[subnets.\"10.0.0.0/8\"]\nregion = \"weu\"\n\
                   [subnets.\"10.16.0.0/16\"]\nregion = \"enam\"\n";
    site.write("geo/subnets.toml", subnets);
    let server = Server::start(&site);
    for (source, address, scope) in [(8, "192.0.2.1", 12), (12, "192.0.2.2", 16)] {
        let query = Query::new("www.example.test", rtype::A).ecs("10.16.0.0", source);
        for reply in [server.ask(&query), server.ask_tcp(&query)] {
            assert_eq!(reply.data(rtype::A), [address], "10.16.0.0/{source}");
            assert_eq!(reply.scope(), scope, "10.16.0.0/{source}");
        }
    }
}

// "A chain of CNAMEs has the longest scope of its parts."
#[test]
fn a_chain_has_the_longest_scope_of_its_parts() {
    let mut body = String::from(
        "[pools.a]\nregion = \"weu\"\norigins = [{ name = \"a\", address = \"192.0.2.1\" }]\n\
         [pools.b]\nregion = \"enam\"\norigins = [{ name = \"b\", address = \"192.0.2.2\" }]\n",
    );
    let balancer = |name: &str, keys: &str| format!("[load_balancers.{name}]\n{keys}\n");
    for (pool, host) in [("to-near", "near"), ("to-far", "far"), ("to-same", "same")] {
        body += &format!(
            "[pools.{pool}]\norigins = [{{ name = \"o\", address = \"{host}.example.test\" }}]\n"
        );
    }
    // The ends: one that depends on the client, and one that does not.
    body += &balancer("near", "steering = \"geo\"\npools = [\"a\", \"b\"]");
    body += &balancer("same", "pools = [\"a\"]");
    body += &balancer("far", "pools = [\"to-same\"]");
    body += &balancer("first-same", "pools = [\"to-near\"]");
    let maps = "region_pools = { weu = [\"to-same\"], enam = [\"to-far\"] }";
    body += &balancer("first-near", &format!("steering = \"geo\"\npools = [\"to-far\"]\n{maps}"));
    let site = Site::with_zone(&body);
    site.write("geo/subnets.toml", "[subnets.\"10.1.2.0/24\"]\nregion = \"weu\"\n");
    let server = Server::start(&site);
    let scope = |name: &str| {
        let name = format!("{name}.example.test");
        let reply = server.ask(&Query::new(&name, rtype::A).ecs("10.1.2.0", 24));
        assert_eq!(reply.answer.last().map(|record| record.rtype), Some(rtype::A), "{name}");
        (reply.answer.len(), reply.scope())
    };
    assert_eq!(scope("near"), (1, 24));
    assert_eq!(scope("same"), (1, 0));
    assert_eq!(scope("far"), (2, 0), "no part depends on the client");
    assert_eq!(scope("first-same"), (2, 24), "the last part");
    assert_eq!(scope("first-near"), (2, 24), "the first part");
}
