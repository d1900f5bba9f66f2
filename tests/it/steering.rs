//! Steering (spec/steering.md): candidates, availability, the fallback pool, and the choice within a
//! pool. Decisions are read from `explain`, which can take origins down; what depends on a sequence
//! of answers is counted over the wire.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Random, SERVER, Server, Site, ZONE_HEAD, strings};
use crate::mmdb;
use crate::wire::{Query, bit, rcode, rtype};

const REGIONS: &str = r#"
[regions.nam]
countries = ["US", "CA"]
[regions.wnam]
parent = "nam"
countries = ["US-CA"]
[regions.weu]
countries = ["NL", "DE"]
[regions.europe-west4]
parent = "weu"
[regions.oc]
countries = ["AU"]
"#;

const SUBNETS: &str = r#"
[subnets."10.1.0.0/16"]
region = "weu"
[subnets."10.2.0.0/16"]
region = "europe-west4"
[subnets."10.3.0.0/16"]
region = "oc"
"#;

const WEU: &str = "10.1.2.3";
const EUROPE_WEST4: &str = "10.2.2.3";
const OC: &str = "10.3.2.3";
const CALIFORNIA: &str = "198.51.100.1";
const NEW_YORK: &str = "198.51.101.1";
const NETHERLANDS: &str = "198.51.102.1";
const NOWHERE: &str = "192.0.2.200";

/// A site with five one-origin pools (a to e) and this load balancer `www`; the node's pop is ams.
fn site(load_balancer: &str) -> Site {
    let mut body = String::from("[pools]\n");
    for (number, pool) in (1..).zip(["a", "b", "c", "d", "e"]) {
        body += &format!(
            "{pool} = {{ origins = [{{ name = \"{pool}1\", address = \"192.0.2.{number}\" }}] }}\n"
        );
    }
    site_with(&format!("{body}[load_balancers.www]\n{load_balancer}"))
}

/// A site with these pools and load balancers, and the geography of this file.
fn site_with(body: &str) -> Site {
    let site = Site::with_zone(body);
    site.write("meridian.toml", format!("{SERVER}identity = {{ pop = \"ams\" }}\n"));
    site.write("geo/regions.toml", REGIONS);
    site.write("geo/subnets.toml", SUBNETS);
    let us =
        |state: &str| json!({"country": {"iso_code": "US"}, "subdivisions": [{"iso_code": state}]});
    let database = mmdb::database(&[
        ("198.51.100.0/24", us("CA")),
        ("198.51.101.0/24", us("NY")),
        ("198.51.102.0/24", json!({"country": {"iso_code": "NL"}})),
    ]);
    site.write("geo/city.mmdb", database);
    site
}

fn explain(site: &Site, client: &str, more: &[&str]) -> Value {
    site.explain(&[&["www.example.test", "A", "--client", client], more].concat())
}

/// The candidate pools for a client, joined by spaces.
fn candidates(site: &Site, client: &str, more: &[&str]) -> String {
    strings(&explain(site, client, more)["steering"]["candidates"]).join(" ")
}

/// Asserts which pool is answered, and whether as the fallback.
fn assert_pool(found: &Value, pool: &str, fallback: bool) {
    assert_eq!(found["pool"], pool, "{found:#}");
    assert_eq!(found["fallback"], fallback, "{found:#}");
}

// ---------------------------------------------------------------------------------- Policies

// "failover (default): pools, in their order"; the first available candidate is answered.
#[test]
fn failover_takes_the_first_available_pool() {
    let site = site("pools = [\"b\", \"a\", \"c\"]");
    assert_eq!(candidates(&site, WEU, &[]), "b a c");
    assert_pool(&explain(&site, WEU, &[]), "b", false);
    assert_pool(&explain(&site, WEU, &["--down", "b"]), "a", false);
    assert_pool(&explain(&site, WEU, &["--down", "b1", "--down", "a/a1"]), "c", false);
    assert_pool(&explain(&site, WEU, &["--down=a", "--down=b", "--down=c"]), "c", true);
}

// The most specific match: pop, subdivision, country, region, pools.
#[test]
fn geo_takes_the_most_specific_match() {
    let maps = r#"
steering = "geo"
pools = ["e"]
country_pools = { US-CA = ["a"], US = ["b"], NL = ["c"] }
region_pools = { nam = ["d"], weu = ["d"] }
"#;
    let geo = site(maps);
    for (client, expected) in [
        (CALIFORNIA, "a"),
        (NEW_YORK, "b"),
        (NETHERLANDS, "c"),
        (WEU, "d"),
        (EUROPE_WEST4, "d"),
        (OC, "e"),
        (NOWHERE, "e"),
    ] {
        assert_eq!(candidates(&geo, client, &[]), expected, "{client}");
    }
    let pop = site(&format!("{maps}pop_pools = {{ ams = [\"e\", \"d\"] }}\n"));
    assert_eq!(candidates(&pop, CALIFORNIA, &[]), "e d");
    let other_pop = site(&format!("{maps}pop_pools = {{ fra = [\"e\", \"d\"] }}\n"));
    assert_eq!(candidates(&other_pop, CALIFORNIA, &[]), "a");
}

// config.md: "Subdivision beats country beats continent"; a country is matched only by its code.
#[test]
fn the_region_of_a_client_follows_from_its_country() {
    let site = site(
        "steering = \"geo\"\npools = [\"e\"]\nregion_pools = { wnam = [\"a\"], nam = [\"b\"], weu = [\"c\"] }",
    );
    for (client, region, expected) in
        [(CALIFORNIA, "wnam", "a"), (NEW_YORK, "nam", "b"), (NETHERLANDS, "weu", "c")]
    {
        let found = explain(&site, client, &[]);
        assert_eq!(found["location"]["region"], region, "{found:#}");
        assert_eq!(found["pool"], expected, "{found:#}");
    }
}

// config.md: "A default set ships"; US, CA and MX without a known subdivision are nam.
#[test]
fn regions_ship_with_the_program() {
    let site = Site::with_zone(
        r#"
[pools]
a = { origins = [{ name = "a1", address = "192.0.2.1" }] }
b = { origins = [{ name = "b1", address = "192.0.2.2" }] }
[load_balancers.www]
steering = "geo"
pools = ["b"]
region_pools = { nam = ["a"] }
"#,
    );
    let country = |code: &str| json!({"country": {"iso_code": code}});
    let california = json!({"country": {"iso_code": "US"}, "subdivisions": [{"iso_code": "CA"}]});
    let database = mmdb::database(&[
        ("198.51.100.0/32", country("US")),
        ("198.51.100.1/32", country("CA")),
        ("198.51.100.2/32", country("MX")),
        ("198.51.100.3/32", california),
        ("198.51.100.4/32", country("NL")),
        ("198.51.100.5/32", country("FR")),
    ]);
    site.write("geo/city.mmdb", database);
    let regions = [&["nam"][..], &["nam"], &["nam"], &["wnam", "enam"], &["weu"], &["weu"]];
    for (host, expected) in regions.iter().enumerate() {
        let found = explain(&site, &format!("198.51.100.{host}"), &[]);
        let region = found["location"]["region"].as_str().expect("a region");
        assert!(expected.contains(&region), "{expected:?}: {found:#}");
        // wnam and enam lie in nam; nam lies in neither.
        assert_eq!(found["pool"], if host < 4 { "a" } else { "b" }, "{found:#}");
    }
}

// "by the client's region, else by its nearest ancestor that has an entry": never by a descendant.
#[test]
fn region_pools_are_matched_by_the_nearest_ancestor() {
    let both = site(
        "steering = \"geo\"\npools = [\"e\"]\nregion_pools = { weu = [\"a\"], europe-west4 = [\"b\"] }",
    );
    assert_eq!(candidates(&both, EUROPE_WEST4, &[]), "b");
    assert_eq!(candidates(&both, WEU, &[]), "a");
    let child =
        site("steering = \"geo\"\npools = [\"e\"]\nregion_pools = { europe-west4 = [\"b\"] }");
    assert_eq!(candidates(&child, WEU, &[]), "e");
}

// "a pool named in a map need not stand in pools" (config.md).
#[test]
fn a_mapped_pool_need_not_stand_in_pools() {
    let site = site("steering = \"geo\"\npools = [\"e\"]\ncountry_pools = { NL = [\"a\", \"b\"] }");
    assert_eq!(candidates(&site, NETHERLANDS, &[]), "a b");
    assert_pool(&explain(&site, NETHERLANDS, &["--down", "a"]), "b", false);
}

// "Where a geo load balancer gives none of the three maps, region_pools follows from the pools".
#[test]
fn without_maps_the_pools_regions_steer() {
    let site = site_with(
        r#"
[pools]
us = { region = "wnam", origins = [{ name = "us1", address = "192.0.2.1" }] }
world = { origins = [{ name = "world1", address = "192.0.2.2" }] }
ew4 = { region = "europe-west4", origins = [{ name = "ew1", address = "192.0.2.3" }] }
eu = { region = "weu", origins = [{ name = "eu1", address = "192.0.2.4" }] }
[load_balancers.www]
steering = "geo"
pools = ["us", "world", "ew4", "eu"]
"#,
    );
    // weu is the region of eu and an ancestor of that of ew4.
    assert_eq!(candidates(&site, WEU, &[]), "ew4 eu us world");
    assert_eq!(candidates(&site, EUROPE_WEST4, &[]), "ew4 us world eu");
    assert_eq!(candidates(&site, CALIFORNIA, &[]), "us world ew4 eu");
    assert_eq!(candidates(&site, NEW_YORK, &[]), "us world ew4 eu");
    assert_eq!(candidates(&site, OC, &[]), "us world ew4 eu");
}

// "The candidates of a policy are not widened by failure": the fallback pool follows, not pools.
#[test]
fn failure_does_not_widen_the_candidates() {
    let site = site("steering = \"geo\"\npools = [\"b\", \"c\"]\nregion_pools = { weu = [\"a\"] }");
    assert_pool(&explain(&site, WEU, &["--down", "a"]), "c", true);
    assert_pool(&explain(&site, NOWHERE, &["--down", "a"]), "b", false);
}

// ---------------------------------------------------------------------------------- RTT

/// The candidates with these round-trip times from the client's region.
fn rtt_order(load_balancer: &str, rtt: &[&str]) -> String {
    let site = site(&format!("steering = \"rtt\"\n{load_balancer}"));
    let options: Vec<String> = rtt.iter().map(|pair| format!("--rtt={pair}")).collect();
    candidates(&site, WEU, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

// "of all pools within rtt_tolerance of the lowest, the first in configured order comes next;
// remove it and repeat. (Not a comparison sort ...)"
#[test]
fn rtt_orders_by_repeated_selection_within_the_tolerance() {
    const ABC: &str = "pools = [\"a\", \"b\", \"c\"]";
    for (rtt, expected) in [
        (["a=80", "b=50", "c=20"], "c b a"),
        // Of 15 and what lies within 20, b is first; of 15 and 25, c alone is within 20.
        (["a=25", "b=20", "c=15"], "b c a"),
        (["a=25", "b=20", "c=90"], "a b c"),
        (["a=25.001", "b=20", "c=90"], "b a c"),
        // 10 % of the lowest where that is larger than 5 ms; inclusive.
        (["a=110", "b=100", "c=300"], "a b c"),
        (["a=110.01", "b=100", "c=300"], "b a c"),
        // Once the lowest is placed, the tolerance is that of the next lowest.
        (["a=9", "b=7", "c=1"], "c a b"),
    ] {
        assert_eq!(rtt_order(ABC, &rtt), expected, "{rtt:?}");
    }
    let narrow = format!("{ABC}\nrtt_tolerance = [\"1ms\", \"2%\"]");
    assert_eq!(rtt_order(&narrow, &["a=22", "b=20", "c=90"]), "b a c");
    assert_eq!(rtt_order(&narrow, &["a=102", "b=100", "c=300"]), "a b c");
}

// "A pool without RTT data keeps its configured position; the others are sorted among the rest."
#[test]
fn pools_without_rtt_data_keep_their_position() {
    const ABCDE: &str = "pools = [\"a\", \"b\", \"c\", \"d\", \"e\"]";
    assert_eq!(rtt_order(ABCDE, &["a=50", "c=10", "d=30"]), "c b d a e");
    assert_eq!(rtt_order(ABCDE, &["e=1", "b=100"]), "a e c d b");
    assert_eq!(rtt_order(ABCDE, &["c=1"]), "a b c d e");
    assert_eq!(rtt_order(ABCDE, &[]), "a b c d e");
}

// "RTT from the client's region (or, without one, from this node's pop)", nearest ancestor first.
#[test]
fn the_static_table_is_read_by_region_and_else_by_pop() {
    let site = site("steering = \"rtt\"\npools = [\"a\", \"b\", \"c\"]");
    let table = r#"
[rtt.weu]
a = 92.5
b = 50
c = 20
[rtt."pop:ams"]
a = 90
b = 10
c = 50
"#;
    site.write("geo/rtt.toml", table);
    assert_eq!(candidates(&site, WEU, &[]), "c b a");
    assert_eq!(candidates(&site, EUROPE_WEST4, &[]), "c b a", "by the ancestor");
    assert_eq!(candidates(&site, NOWHERE, &[]), "b c a", "by the pop");
    site.write("geo/rtt.toml", format!("{table}[rtt.europe-west4]\na = 1\nb = 50\nc = 99\n"));
    assert_eq!(candidates(&site, EUROPE_WEST4, &[]), "a b c", "by the region itself");
}

// ---------------------------------------------------------------------------------- Availability

// minimum_origins counts enabled origins; weight 0 counts for health and takes no traffic.
#[test]
fn a_pool_needs_minimum_origins_and_one_that_is_eligible() {
    let site = site_with(
        r#"
[pools.p]
minimum_origins = 2
origins = [
  { name = "p1", address = "192.0.2.1" },
  { name = "p2", address = "192.0.2.2", weight = 0 },
  { name = "p3", address = "192.0.2.3", enabled = false },
  { name = "p4", address = "192.0.2.4", weight = 0 },
]
[pools.q]
origins = [{ name = "q1", address = "192.0.2.5" }]
[load_balancers.www]
pools = ["p", "q"]
"#,
    );
    let found = explain(&site, WEU, &[]);
    assert_pool(&found, "p", false);
    assert_eq!(found["choice"]["share"], json!({"p1": 1.0}), "{found:#}");
    assert_pool(&explain(&site, WEU, &["--down", "p2"]), "p", false);
    assert_pool(&explain(&site, WEU, &["--down", "p2", "--down", "p4"]), "q", false);
    // Healthy, but all that is healthy has weight 0.
    assert_pool(&explain(&site, WEU, &["--down", "p1"]), "q", false);
    assert_pool(&explain(&site, WEU, &["--down", "p3"]), "p", false);
}

// "A disabled pool is never answered, not even as the fallback pool."
#[test]
fn a_disabled_pool_is_never_answered() {
    let pools = |enabled: bool| {
        format!(
            "[pools.p]\nenabled = false\norigins = [{{ name = \"p1\", address = \"192.0.2.1\" }}]\n\
             [pools.q]\nenabled = {enabled}\norigins = [{{ name = \"q1\", address = \"192.0.2.2\" }}]\n\
             [load_balancers.www]\npools = [\"p\", \"q\"]\nfallback_pool = \"p\"\n"
        )
    };
    assert_pool(&explain(&site_with(&pools(true)), WEU, &[]), "q", false);
    assert_eq!(explain(&site_with(&pools(false)), WEU, &[])["answer"]["rcode"], "SERVFAIL");
    let down = explain(&site_with(&pools(true)), WEU, &["--down", "q"]);
    assert_eq!(down["answer"]["rcode"], "SERVFAIL", "the fallback pool is disabled");
}

// "the pool named by fallback_pool, by default the last of pools"; it may stand outside of pools.
#[test]
fn the_fallback_pool_is_answered_whatever_its_health() {
    let default = site("pools = [\"a\", \"b\"]");
    assert_pool(&explain(&default, WEU, &["--down=a", "--down=b"]), "b", true);
    let named = site("pools = [\"a\", \"b\"]\nfallback_pool = \"a\"");
    assert_pool(&explain(&named, WEU, &["--down=a", "--down=b"]), "a", true);
    let outside = site("pools = [\"a\", \"b\"]\nfallback_pool = \"e\"");
    assert_pool(&explain(&outside, WEU, &[]), "a", false);
    let found = explain(&outside, WEU, &["--down=a", "--down=b"]);
    assert_pool(&found, "e", true);
    assert_eq!(found["failover"]["from"], "healthy_primaries");
    let found = explain(&outside, WEU, &["--down=a", "--down=b", "--down=e1"]);
    assert_pool(&found, "e", true);
    assert_eq!(found["failover"]["from"], "last_resort");
}

// "minimum_origins does not apply to it, and an origin of weight 0 is never answered."
#[test]
fn the_fallback_pool_ignores_minimum_origins_but_not_weight_0() {
    let site = site_with(
        r#"
[pools.p]
minimum_origins = 3
origins = [
  { name = "p1", address = "192.0.2.1" },
  { name = "p2", address = "192.0.2.2", weight = 0 },
  { name = "p3", address = "192.0.2.3" },
]
[load_balancers.www]
pools = ["p"]
"#,
    );
    for (down, eligible) in [
        (vec![], json!(["p1", "p3"])),
        (vec!["--down=p3"], json!(["p1"])),
        (vec!["--down=p1", "--down=p3"], json!(["p1", "p3"])),
        (vec!["--down=p"], json!(["p1", "p3"])),
    ] {
        let found = explain(&site, WEU, &down);
        assert_pool(&found, "p", !down.is_empty());
        assert_eq!(found["failover"]["original_eligible"], eligible, "{down:?}");
    }
}

// "its original eligible set is empty (dropped; or no configured primary and no healthy failover)".
#[test]
fn an_empty_fallback_pool_is_a_servfail_that_says_why() {
    let dropping = r#"
[pools.p]
failover_policy = { drop_traffic_if_unhealthy = true }
origins = [{ name = "p1", address = "192.0.2.1" }]
[load_balancers.www]
pools = ["p"]
"#;
    let found = explain(&site_with(dropping), WEU, &["--down", "p1"]);
    assert_eq!(found["failover"]["from"], "dropped", "{found:#}");
    let failovers_only = r#"
[pools.p]
origins = [{ name = "p1", address = "192.0.2.1", role = "failover" }]
[load_balancers.www]
pools = ["p"]
"#;
    let site = site_with(failovers_only);
    assert_pool(&explain(&site, WEU, &[]), "p", false);
    for found in [found, explain(&site, WEU, &["--down", "p1"])] {
        let answer = &found["answer"];
        assert_eq!(answer["rcode"], "SERVFAIL", "{found:#}");
        assert_eq!(answer["ede"]["code"], 0, "{found:#}");
        let text = answer["ede"]["text"].as_str().expect("a text");
        assert!(text.contains("www.example.test"), "the load balancer is named: {text}");
    }
}

// "every steered type gets SERVFAIL, AA 0, no SOA, EDE 0 with a text"; RFC 8914: for EDNS only.
#[test]
fn servfail_over_the_wire() {
    let server = Server::start(&site_with(
        r#"
[pools.p]
enabled = false
origins = [{ name = "p1", address = "192.0.2.1" }]
[load_balancers.www]
pools = ["p"]
[[records]]
name = "www"
type = "TXT"
data = ["still here"]
"#,
    ));
    for qtype in [rtype::A, rtype::AAAA] {
        let query = Query::new("www.example.test", qtype);
        for reply in [server.ask(&query), server.ask(&query.clone().edns(1232))] {
            assert_eq!(reply.rcode(), rcode::SERVFAIL);
            assert!(!reply.has(bit::AA));
            assert!(reply.answer.is_empty() && reply.authority.is_empty());
        }
        assert!(server.ask(&query).opt.is_none());
        let (code, text) = server.ask(&query.edns(1232)).ede().expect("an extended error");
        assert_eq!(code, 0);
        assert!(text.contains("www.example.test"), "{text}");
    }
    // Static types beside the load balancer do not depend on it.
    let reply = server.ask(&Query::new("www.example.test", rtype::TXT));
    assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 1));
}

// health.md: forced up replaces the probes' result; without a monitor enabled origins are healthy.
#[test]
fn forced_states_apply_with_and_without_a_monitor() {
    let body = |monitor: &str| {
        format!(
            "[monitors.m]\ntype = \"tcp\"\nport = 80\n[pools.p]\n{monitor}\norigins = [\
             {{ name = \"p1\", address = \"192.0.2.1\" }}, {{ name = \"p2\", address = \"192.0.2.2\" }}]\n\
             [load_balancers.www]\npools = [\"p\"]\n"
        )
    };
    for monitor in ["", "monitor = \"m\""] {
        let site = site_with(&body(monitor));
        let found = explain(&site, WEU, &["--down", "p1"]);
        assert_eq!(found["choice"]["share"], json!({"p2": 1.0}), "{monitor}: {found:#}");
        let found = explain(&site, WEU, &["--down", "p/p2"]);
        assert_eq!(found["choice"]["share"], json!({"p1": 1.0}), "{monitor}: {found:#}");
        let found = explain(&site, WEU, &["--up", "p1", "--up", "p2"]);
        assert_pool(&found, "p", false);
        assert_eq!(found["choice"]["share"], json!({"p1": 0.5, "p2": 0.5}), "{monitor}");
    }
}

// ---------------------------------------------------------------------------------- Choice

/// Two zones of the region weu; the clients of 10.8.0.0/16 and 10.9.0.0/16 live in them.
const ZONAL: &str = r#"
[pools.p]
region = "weu"
zonal_affinity = { mode = "spill_cross_zone" }
origins = [
  { name = "a1", zone = "za", weight = 0.5, address = ["192.0.2.1", "2001:db8::1"] },
  { name = "a2", zone = "za", weight = 0.3, address = ["192.0.2.2", "2001:db8::2"] },
  { name = "a3", zone = "za", weight = 0.2, address = ["192.0.2.3", "2001:db8::3"] },
  { name = "b1", zone = "zb", weight = 0.05, address = ["192.0.2.4", "2001:db8::4"] },
  { name = "b2", zone = "zb", weight = 1, address = ["192.0.2.5", "2001:db8::5"] },
]
[load_balancers.www]
pools = ["p"]
"#;
const ZONAL_SUBNETS: &str = "[subnets.\"10.8.0.0/16\"]\nregion = \"weu\"\nzone = \"za\"\n\
                             [subnets.\"10.9.0.0/16\"]\nregion = \"weu\"\nzone = \"zb\"\n";

/// How many answers the promise of one percentage point is about.
const WINDOW: usize = 1000;

/// Asserts that in every window of consecutive answers each share is within 1 percentage point.
fn assert_shares(what: &str, answers: &[String], shares: &[(&str, f64)]) {
    assert!(answers.len() >= WINDOW, "{what}: too few answers");
    for (start, window) in answers.windows(WINDOW).enumerate() {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for address in window {
            *counts.entry(address).or_default() += 1;
        }
        for (address, share) in shares {
            let count = f64::from(counts.remove(address).unwrap_or_default());
            let off = (count / WINDOW as f64 - share).abs();
            assert!(off <= 0.01 + 1e-9, "{what}, from answer {start}: {address} {count}, {share}");
        }
        assert!(counts.is_empty(), "{what}: answers from elsewhere: {counts:?}");
    }
}

// "over any 1,000 consecutive answers from one eligible set each share is within 1 percentage point"
#[test]
fn shares_hold_over_any_thousand_answers() {
    let server = Server::start(&site_with(
        r#"
[pools.p]
origins = [
  { name = "p1", weight = 0.4, address = "192.0.2.1" },
  { name = "p2", weight = 0.3, address = "192.0.2.2" },
  { name = "p3", weight = 0.3, address = "192.0.2.3" },
  { name = "p4", weight = 0, address = "192.0.2.4" },
]
[load_balancers.www]
pools = ["p"]
"#,
    ));
    let query = Query::new("www.example.test", rtype::A);
    let answers: Vec<String> =
        (0..1500).map(|_| server.ask(&query).data(rtype::A).concat()).collect();
    let shares = [("192.0.2.1", 0.4), ("192.0.2.2", 0.3), ("192.0.2.3", 0.3)];
    assert_shares("one set", &answers, &shares);
    assert!(!answers.contains(&"192.0.2.4".into()), "weight 0 takes no traffic");
}

// "... also when clients of several zones, or A and AAAA, alternate in any pattern".
#[test]
fn shares_hold_when_zones_and_families_alternate() {
    let site = site_with(ZONAL);
    site.write("geo/subnets.toml", ZONAL_SUBNETS);
    let server = Server::start(&site);
    let a = [0.5, 0.3, 0.2];
    let b = [0.05 / 1.05, 1.0 / 1.05];
    let all: Vec<f64> = [0.5, 0.3, 0.2, 0.05, 1.0].iter().map(|weight| weight / 2.05).collect();
    let sets = [("10.8.1.0", 1, &a[..]), ("10.9.1.0", 4, &b[..]), ("10.7.1.0", 1, &all[..])];
    let mut answers: BTreeMap<(&str, u16), Vec<String>> = BTreeMap::new();
    let mut random = Random(0xfeed);
    while answers.len() < 6 || answers.values().any(|seen| seen.len() < WINDOW + 100) {
        let (client, ..) = random.pick(&sets);
        let qtype = *random.pick(&[rtype::A, rtype::AAAA]);
        let found = server.addresses("www.example.test", qtype, (client, 24));
        answers.entry((client, qtype)).or_default().push(found.concat());
    }
    for (client, first, shares) in sets {
        for (qtype, prefix) in [(rtype::A, "192.0.2."), (rtype::AAAA, "2001:db8::")] {
            let names: Vec<String> =
                (first..).take(shares.len()).map(|number| format!("{prefix}{number}")).collect();
            let shares: Vec<(&str, f64)> =
                names.iter().map(String::as_str).zip(shares.iter().copied()).collect();
            let what = format!("client {client}, type {qtype}");
            assert_shares(&what, &answers[&(client, qtype)], &shares);
        }
    }
}

// "All equal = even distribution, round robin."
#[test]
fn equal_weights_are_round_robin() {
    let server = Server::start(&site_with(
        r#"
[pools.p]
origins = [
  { name = "p1", address = "192.0.2.1" },
  { name = "p2", address = "192.0.2.2" },
  { name = "p3", address = "192.0.2.3" },
]
[load_balancers.www]
pools = ["p"]
"#,
    ));
    let query = Query::new("www.example.test", rtype::A);
    let answers: Vec<String> =
        (0..30).map(|_| server.ask(&query).data(rtype::A).concat()).collect();
    for round in answers.windows(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, ["192.0.2.1", "192.0.2.2", "192.0.2.3"], "{answers:?}");
    }
}

// "answers: how many origins one answer carries, weighted without replacement, the chosen first".
#[test]
fn answers_says_how_many_origins_an_answer_carries() {
    let body = |answers: &str| {
        format!(
            r#"
[pools.p]
origins = [
  {{ name = "p1", weight = 0.5, address = ["192.0.2.1", "2001:db8::1"] }},
  {{ name = "p2", weight = 0.3, address = ["192.0.2.2", "192.0.2.20", "2001:db8::2"] }},
  {{ name = "p3", weight = 0.2, address = ["192.0.2.3", "2001:db8::3"] }},
  {{ name = "p4", weight = 0, address = ["192.0.2.4", "2001:db8::4"] }},
]
[load_balancers.www]
pools = ["p"]
answers = {answers}
"#
        )
    };
    // "An answer holds all usable addresses of the family of each chosen origin."
    let origin = |address: &str| address.replace("192.0.2.20", "192.0.2.2");
    for (answers, origins) in [("1", 1), ("2", 2), ("3", 3), ("5", 3), ("\"all\"", 3)] {
        let server = Server::start(&site_with(&body(answers)));
        let query = Query::new("www.example.test", rtype::A);
        let mut first = Vec::new();
        for _ in 0..if origins == 2 { WINDOW + 50 } else { 20 } {
            let reply = server.ask(&query);
            let addresses = reply.data(rtype::A);
            let mut chosen: Vec<String> = addresses.iter().map(|a| origin(a)).collect();
            let both = chosen.iter().filter(|address| *address == "192.0.2.2").count();
            assert!(both == 0 || both == 2, "all addresses of an origin or none: {addresses:?}");
            first.push(chosen[0].clone());
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), origins, "answers = {answers}: {addresses:?}");
            assert!(!chosen.contains(&"192.0.2.4".into()), "weight 0: {addresses:?}");
        }
        if origins == 2 {
            // "This holds for the first origin of answers without sessions."
            let shares = [("192.0.2.1", 0.5), ("192.0.2.2", 0.3), ("192.0.2.3", 0.2)];
            assert_shares("the first of two", &first, &shares);
        }
        first.dedup();
        assert!(first.len() > 1, "answers = {answers} rotates");
        let reply = server.ask(&Query::new("www.example.test", rtype::AAAA));
        assert_eq!(reply.data(rtype::AAAA).len(), origins, "answers = {answers}, AAAA");
    }
}

// ---------------------------------------------------------------------------------- Families, TTL

// "The pool is chosen without regard to family"; NODATA with min(negative TTL, ttl), scope 0.
#[test]
fn a_pool_without_the_family_answers_nodata_and_is_not_left() {
    let pools = r#"
[pools.v4]
origins = [{ name = "p1", address = "192.0.2.1" }]
[pools.both]
origins = [{ name = "q1", address = ["192.0.2.2", "2001:db8::2"] }]
"#;
    let server = Server::start(&site_with(&format!(
        "{pools}[load_balancers.short]\npools = [\"v4\", \"both\"]\nttl = 20\n\
         [load_balancers.long]\npools = [\"v4\", \"both\"]\nttl = 300\n"
    )));
    for (name, ttl, negative_ttl) in [("short", 20, 20), ("long", 300, 60)] {
        let name = format!("{name}.example.test");
        let reply = server.ask(&Query::new(&name, rtype::A));
        assert_eq!(reply.data(rtype::A), ["192.0.2.1"]);
        assert_eq!(reply.answer[0].ttl, ttl, "{name}");
        let reply = server.ask(&Query::new(&name, rtype::AAAA).ecs("10.1.0.0", 16));
        assert_eq!(reply.rcode(), rcode::NOERROR);
        assert!(reply.has(bit::AA) && reply.answer.is_empty());
        assert_eq!(reply.authority.len(), 1);
        assert_eq!((reply.authority[0].rtype, reply.authority[0].ttl), (rtype::SOA, negative_ttl));
        assert_eq!(reply.scope(), 0);
    }
}

// config.md: ttl defaults to 30.
#[test]
fn steered_answers_have_the_load_balancers_ttl() {
    let found = explain(&site("pools = [\"a\"]"), WEU, &[]);
    let record = &found["answer"]["records"][0];
    assert_eq!(record["name"], "www.example.test.", "{found:#}");
    assert_eq!((&record["type"], &record["data"]), (&json!("A"), &json!("192.0.2.1")));
    assert_eq!(record["ttl"], 30, "{found:#}");
    let found = explain(&site("pools = [\"a\"]\nttl = 7"), WEU, &[]);
    assert_eq!(found["answer"]["records"][0]["ttl"], 7, "{found:#}");
}

// config.md: "@" is the apex, "*" a wildcard; a disabled load balancer is as if it were not there.
#[test]
fn load_balancers_stand_at_the_apex_and_at_wildcards() {
    let server = Server::start(&site_with(
        r#"
[pools.p]
origins = [{ name = "p1", address = "192.0.2.1" }]
[load_balancers."@"]
pools = ["p"]
[load_balancers."*"]
pools = ["p"]
[load_balancers.off]
enabled = false
pools = ["p"]
[[records]]
name = "off"
type = "A"
data = ["192.0.2.99"]
"#,
    ));
    for (name, expected) in [
        ("example.test", "192.0.2.1"),
        ("anything.example.test", "192.0.2.1"),
        ("a.b.example.test", "192.0.2.1"),
        ("off.example.test", "192.0.2.99"),
        ("ns1.example.test", "192.0.2.53"),
    ] {
        let reply = server.ask(&Query::new(name, rtype::A));
        assert_eq!(reply.data(rtype::A), [expected], "{name}");
        assert_eq!(reply.answer[0].owner, format!("{name}."), "{name}");
    }
    let reply = server.ask(&Query::new("example.test", rtype::NS));
    assert_eq!(reply.data(rtype::NS), ["ns1.example.test."]);
}

// operations.md: exit status 1 for SERVFAIL and REFUSED, 2 for wrong usage; the name is absolute.
#[test]
fn explain_exit_codes() {
    let site = Site::new();
    site.write(
        "zones/example.test.toml",
        format!(
            "{ZONE_HEAD}[pools.p]\nfailover_policy = {{ drop_traffic_if_unhealthy = true }}\n\
             origins = [{{ name = \"p1\", address = \"192.0.2.1\" }}]\n[load_balancers.www]\npools = [\"p\"]\n"
        ),
    );
    let code = |arguments: &[&str]| site.run(&[&["explain"], arguments].concat()).code;
    assert_eq!(code(&["www.example.test", "--client", WEU]), Some(0));
    assert_eq!(code(&["www.example.test.", "AAAA", "--client", "10.0.0.0/8"]), Some(0));
    assert_eq!(code(&["nope.example.test", "--client", WEU]), Some(0));
    assert_eq!(code(&["www.example.test", "--client", WEU, "--down", "p1"]), Some(1));
    assert_eq!(code(&["www.example.org", "--client", WEU]), Some(1));
    assert_eq!(code(&["www.example.test"]), Some(2));
    assert_eq!(code(&["www.example.test", "--client", "nobody"]), Some(2));
    assert_eq!(code(&["www.example.test", "--client", WEU, "--frobnicate"]), Some(2));
}
