//! Zonal affinity (spec/zonal-affinity.md) beyond the exact cases: every mode against a model of the
//! text, address families, who is compatible, and what clients see over the wire.

use serde_json::{Value, json};

use crate::harness::{Random, Server, Site, strings};
use crate::wire::{Query, rcode, rtype};

const REGIONS: &str = r#"
[regions.weu]
countries = ["NL"]
[regions.europe-west4]
parent = "weu"
[regions.nam]
countries = ["US"]
"#;

const SUBNETS: &str = r#"
[subnets."10.1.0.0/16"]
region = "europe-west4"
zone = "za"
[subnets."10.2.0.0/16"]
region = "europe-west4"
zone = "zb"
[subnets."10.3.0.0/16"]
region = "europe-west4"
zone = "zc"
[subnets."10.4.0.0/16"]
region = "europe-west4"
[subnets."10.5.0.0/16"]
region = "weu"
zone = "za"
[subnets."10.6.0.0/16"]
region = "nam"
zone = "za"
"#;

/// Clients in zone za, in zone zb, in a zone without origins, and in none of them.
const ZONE_A: &str = "10.1.0.1";
const ZONE_B: &str = "10.2.0.1";
const ZONE_C: &str = "10.3.0.1";
const REGIONAL: &str = "10.4.0.1";
const PARENT_REGION: &str = "10.5.0.1";
const OTHER_REGION: &str = "10.6.0.1";
const NOWHERE: &str = "10.7.0.1";

fn site(body: &str) -> Site {
    let site = Site::with_zone(body);
    site.write("geo/regions.toml", REGIONS);
    site.write("geo/subnets.toml", SUBNETS);
    site
}

/// A pool of the region europe-west4 with this policy and these origins, answered whole.
fn pool(policy: &str, origins: &str) -> Site {
    site(&format!(
        "[pools.p]\nregion = \"europe-west4\"\n{policy}\norigins = [\n{origins}\n]\n\
         [load_balancers.www]\npools = [\"p\"]\nanswers = \"all\"\n"
    ))
}

fn affinity(mode: &str) -> String {
    format!("zonal_affinity = {{ {mode} }}")
}

fn explain(site: &Site, qtype: &str, client: &str, down: &[String]) -> Value {
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    site.explain(&[&["www.example.test", qtype, "--client", client], &down[..]].concat())
}

fn down(origins: &[&str]) -> Vec<String> {
    origins.iter().map(|origin| format!("--down={origin}")).collect()
}

/// The modified eligible backends, sorted and joined by spaces.
fn modified(found: &Value) -> String {
    sorted(&found["zonal"]["modified_eligible"]).join(" ")
}

fn sorted(names: &Value) -> Vec<&str> {
    let mut names = strings(names);
    names.sort_unstable();
    names
}

const TWO_ZONES: &str = r#"
  { name = "a1", zone = "za", weight = 0.9, address = ["192.0.2.1", "2001:db8::1"] },
  { name = "a2", zone = "za", weight = 0.1, address = ["192.0.2.2", "2001:db8::2"] },
  { name = "b1", zone = "zb", address = ["192.0.2.3", "2001:db8::3"] },
  { name = "b2", zone = "zb", address = ["192.0.2.4", "2001:db8::4"] },
"#;

const STAY: &str = "mode = \"stay_within_zone\"";
const SPILL: &str = "mode = \"spill_cross_zone\"";
const SPILL_HALF: &str = "mode = \"spill_cross_zone\", spillover_ratio = 0.5";
const SPILL_ANY: &str = "mode = \"spill_cross_zone\", spillover_ratio = 1.0";
const DISABLED: &str = "mode = \"disabled\"";

// ---------------------------------------------------------------------------------- Match

// "that region is exactly the pool's region (not an ancestor)"; a region without a zone, never.
#[test]
fn only_clients_of_the_region_and_a_zone_of_the_pool_match() {
    for mode in [STAY, SPILL, SPILL_ANY] {
        let site = pool(&affinity(mode), TWO_ZONES);
        for (client, expected) in [
            (ZONE_A, "a1 a2"),
            (ZONE_B, "b1 b2"),
            (ZONE_C, "a1 a2 b1 b2"),
            (REGIONAL, "a1 a2 b1 b2"),
            (PARENT_REGION, "a1 a2 b1 b2"),
            (OTHER_REGION, "a1 a2 b1 b2"),
            (NOWHERE, "a1 a2 b1 b2"),
        ] {
            let found = explain(&site, "A", client, &[]);
            assert_eq!(modified(&found), expected, "{mode} for {client}: {found:#}");
            let matched = expected.len() < 10;
            assert_eq!(found["zonal"]["match"], matched, "{mode} for {client}");
            assert_eq!(strings(&found["zonal"]["matched"]).is_empty(), !matched, "{client}");
        }
    }
}

// "A pool without a region never matches"; a pool of the parent region neither; disabled never.
#[test]
fn pools_of_another_region_or_of_none_never_match() {
    let body = |head: &str| {
        format!(
            "[pools.p]\n{head}\norigins = [{TWO_ZONES}]\n[load_balancers.www]\npools = [\"p\"]\n"
        )
    };
    for head in [
        affinity(STAY),
        format!("region = \"weu\"\n{}", affinity(STAY)),
        format!("region = \"nam\"\n{}", affinity(SPILL)),
        format!("region = \"europe-west4\"\n{}", affinity(DISABLED)),
        "region = \"europe-west4\"".into(),
    ] {
        let found = explain(&site(&body(&head)), "A", ZONE_A, &[]);
        assert_eq!(found["zonal"]["match"], false, "{head}: {found:#}");
        assert_eq!(modified(&found), "a1 a2 b1 b2", "{head}");
        assert_eq!(found["zonal"]["ratio"], Value::Null, "{head}");
    }
}

// "Origins are counted, not weighed"; "Weights then choose within the modified set."
#[test]
fn ratios_count_origins_and_shares_weigh_them() {
    let site = pool(&affinity(SPILL_HALF), TWO_ZONES);
    let found = explain(&site, "A", ZONE_A, &[]);
    assert_eq!(found["choice"]["share"], json!({"a1": 0.9, "a2": 0.1}), "{found:#}");
    // One of two is half, however little it weighs.
    let found = explain(&site, "A", ZONE_A, &down(&["a1"]));
    assert_eq!(found["zonal"]["ratio"], "1/2", "{found:#}");
    assert_eq!(modified(&found), "a2", "{found:#}");
}

// "A disabled origin and one of weight 0 are not configured backends here".
#[test]
fn draining_an_origin_does_not_spill() {
    let origins = r#"
  { name = "a1", zone = "za", address = "192.0.2.1" },
  { name = "a2", zone = "za", address = "192.0.2.2", weight = 0 },
  { name = "a3", zone = "za", address = "192.0.2.3", enabled = false },
  { name = "b1", zone = "zb", address = "192.0.2.4" },
"#;
    let found = explain(&pool(&affinity(SPILL_ANY), origins), "A", ZONE_A, &[]);
    assert_eq!(found["zonal"]["ratio"], "1/1", "{found:#}");
    assert_eq!(modified(&found), "a1");
}

// "When all primaries are unhealthy ... the answer stays in the client's zone for every ratio and
// in both modes. (Keep a test of this row per mode.)"
#[test]
fn in_last_resort_the_client_stays_in_its_zone() {
    let all = down(&["a1", "a2", "b1", "b2"]);
    for (mode, ratio) in
        [(STAY, None), (SPILL, Some("2/2")), (SPILL_HALF, Some("2/2")), (SPILL_ANY, Some("2/2"))]
    {
        let found = explain(&pool(&affinity(mode), TWO_ZONES), "A", ZONE_A, &all);
        assert_eq!(found["failover"]["from"], "last_resort", "{mode}: {found:#}");
        assert_eq!(modified(&found), "a1 a2", "{mode}: {found:#}");
        assert_eq!(found["zonal"]["ratio"], json!(ratio), "{mode}: {found:#}");
        assert_eq!(found["fallback"], true, "{mode}: {found:#}");
    }
    let found = explain(&pool(&affinity(DISABLED), TWO_ZONES), "A", ZONE_A, &all);
    assert_eq!(modified(&found), "a1 a2 b1 b2", "{found:#}");
}

// ---------------------------------------------------------------------------------- Families

/// Zone za has only IPv4, zone zb both.
const V4_ZONE: &str = r#"
  { name = "a1", zone = "za", address = "192.0.2.1" },
  { name = "b1", zone = "zb", address = ["192.0.2.3", "2001:db8::3"] },
"#;

// "Zonal sets ignore the family ... If there is none and the mode may spill, among those of A. If
// there is none, NODATA."
#[test]
fn a_family_that_the_zone_lacks_spills_or_is_nodata() {
    for (mode, aaaa) in
        [(STAY, vec![]), (SPILL, vec!["2001:db8::3"]), (SPILL_ANY, vec!["2001:db8::3"])]
    {
        let site = pool(&affinity(mode), V4_ZONE);
        let found = explain(&site, "AAAA", ZONE_A, &[]);
        assert_eq!(modified(&found), "a1", "{mode}: the set is that of A queries");
        let server = Server::start(&site);
        let client = ("10.1.0.0", 16);
        assert_eq!(server.addresses("www.example.test", rtype::A, client), ["192.0.2.1"], "{mode}");
        let reply = server.ask(&Query::new("www.example.test", rtype::AAAA).ecs("10.1.0.0", 16));
        assert_eq!(reply.rcode(), rcode::NOERROR, "{mode}");
        assert_eq!(reply.data(rtype::AAAA), aaaa, "{mode}");
        if aaaa.is_empty() {
            assert_eq!(reply.authority[0].rtype, rtype::SOA, "{mode}");
        }
        let other = server.addresses("www.example.test", rtype::AAAA, ("10.2.0.0", 16));
        assert_eq!(other, ["2001:db8::3"], "{mode}");
    }
}

// "in last resort, or in an unhealthy zone that is stayed in: any address of the family".
#[test]
fn unhealthy_origins_that_are_answered_give_their_addresses() {
    let addresses = |found: &Value| -> Vec<String> {
        let records = found["answer"]["records"].as_array().expect("records");
        let data = records.iter().map(|record| record["data"].as_str().expect("data").to_owned());
        let mut data: Vec<String> = data.collect();
        data.sort_unstable();
        data
    };
    let stay = pool(&affinity(STAY), TWO_ZONES);
    let found = explain(&stay, "AAAA", ZONE_A, &down(&["a1", "a2"]));
    assert_eq!(addresses(&found), ["2001:db8::1", "2001:db8::2"], "{found:#}");
    let spill = pool(&affinity(SPILL), TWO_ZONES);
    let found = explain(&spill, "AAAA", ZONE_B, &down(&["a1", "a2", "b1", "b2"]));
    assert_eq!(addresses(&found), ["2001:db8::3", "2001:db8::4"], "{found:#}");
}

// ---------------------------------------------------------------------------------- Wire

// The client of the option, not the resolver, has the zone; TCP and UDP alike.
#[test]
fn clients_are_answered_from_their_zone() {
    let server = Server::start(&pool(&affinity(SPILL), TWO_ZONES));
    let zone_a = ["192.0.2.1", "192.0.2.2"];
    let zone_b = ["192.0.2.3", "192.0.2.4"];
    let all = [zone_a, zone_b].concat();
    for (client, expected) in [
        (ZONE_A, &zone_a[..]),
        (ZONE_B, &zone_b[..]),
        (ZONE_C, &all[..]),
        (REGIONAL, &all[..]),
        (PARENT_REGION, &all[..]),
        (OTHER_REGION, &all[..]),
        (NOWHERE, &all[..]),
    ] {
        let query = Query::new("www.example.test", rtype::A).ecs(client, 32);
        for reply in [server.ask(&query), server.ask_tcp(&query)] {
            let mut addresses = reply.data(rtype::A);
            addresses.sort_unstable();
            assert_eq!(addresses, expected, "{client}");
        }
    }
}

// ---------------------------------------------------------------------------------- Model

/// An origin as the model sees it.
struct Origin {
    name: String,
    zone: char,
    primary: bool,
    configured: bool,
    healthy: bool,
}

/// Ratios in per cent, so that the model compares whole numbers.
struct Policy {
    failover: usize,
    drop: bool,
    stay: bool,
    spillover: usize,
}

/// What the text says, line by line, for a client in zone a.
fn model(origins: &[Origin], policy: &Policy) -> (&'static str, Vec<String>, Vec<String>) {
    let configured = |primary: bool| -> Vec<&Origin> {
        origins.iter().filter(|o| o.configured && o.primary == primary).collect()
    };
    let healthy = |set: &[&Origin]| set.iter().filter(|o| o.healthy).count();
    let (primaries, failovers) = (configured(true), configured(false));
    let ratio_kept = healthy(&primaries) * 100 >= policy.failover * primaries.len();

    let (from, role, any_health) = if healthy(&primaries) > 0 && ratio_kept {
        ("healthy_primaries", primaries, false)
    } else if healthy(&failovers) > 0 {
        ("healthy_failovers", failovers, false)
    } else if healthy(&primaries) > 0 {
        ("healthy_primaries", primaries, false)
    } else if policy.drop {
        ("dropped", vec![], false)
    } else {
        ("last_resort", primaries, true)
    };
    let names = |set: &[&Origin]| set.iter().map(|o| o.name.clone()).collect::<Vec<_>>();
    let eligible: Vec<&Origin> = role.iter().copied().filter(|o| o.healthy || any_health).collect();
    let zone: Vec<&Origin> = role.iter().copied().filter(|o| o.zone == 'a').collect();
    let both: Vec<&Origin> = eligible.iter().copied().filter(|o| o.zone == 'a').collect();
    let modified = if eligible.is_empty() || zone.is_empty() {
        &eligible
    } else if policy.stay {
        if both.is_empty() { &zone } else { &both }
    } else if !both.is_empty() && both.len() * 100 >= policy.spillover * zone.len() {
        &both
    } else {
        &eligible
    };
    (from, names(&eligible), names(modified))
}

// All of "Original eligible backends", "When there is a zonal match" and "Modes", at random.
#[test]
fn random_pools_agree_with_a_model_of_the_text() {
    let mut random = Random(0xa11);
    for round in 0..120 {
        let mut text = String::new();
        let origins: Vec<Origin> = (0..1 + random.below(8))
            .map(|number| Origin {
                name: format!("o{number}"),
                zone: *random.pick(&['a', 'a', 'b', 'c']),
                primary: number == 0 || random.below(3) > 0,
                configured: number == 0 || random.below(6) > 0,
                healthy: random.below(2) == 0,
            })
            .collect();
        for (number, origin) in (1..).zip(&origins) {
            let Origin { name, zone, primary, configured, .. } = origin;
            let role = if *primary { "primary" } else { "failover" };
            let weight = if *configured { "0.5" } else { "0" };
            text += &format!(
                "{{ name = \"{name}\", zone = \"z{zone}\", role = \"{role}\", weight = {weight}, \
                 address = \"192.0.2.{number}\" }},\n"
            );
        }
        let policy = Policy {
            failover: *random.pick(&[0, 25, 50, 60, 100]),
            drop: random.below(4) == 0,
            stay: random.below(3) == 0,
            spillover: *random.pick(&[0, 1, 33, 50, 67, 100]),
        };
        let decimal = |percent: usize| format!("{}.{:02}", percent / 100, percent % 100);
        let mode = if policy.stay {
            STAY.to_owned()
        } else {
            format!("{SPILL}, spillover_ratio = {}", decimal(policy.spillover))
        };
        let head = format!(
            "{}\nfailover_policy = {{ failover_ratio = {}, drop_traffic_if_unhealthy = {} }}",
            affinity(&mode),
            decimal(policy.failover),
            policy.drop,
        );
        let unhealthy: Vec<&str> =
            origins.iter().filter(|o| !o.healthy).map(|o| o.name.as_str()).collect();
        let found = explain(&pool(&head, &text), "A", ZONE_A, &down(&unhealthy));
        let (from, original, modified) = model(&origins, &policy);
        let context = format!("round {round}: {head}\n{text}down: {unhealthy:?}\n{found:#}");
        assert_eq!(found["failover"]["from"], from, "{context}");
        assert_eq!(strings(&found["failover"]["original_eligible"]), original, "{context}");
        assert_eq!(strings(&found["zonal"]["modified_eligible"]), modified, "{context}");
    }
}
