//! Steering by weight and by distance (spec/steering.md, "Steering policies"): what `explain` says of
//! them, and what is answered over the wire.

use serde_json::{Value, json};

use crate::harness::{Server, Site, strings};
use crate::mmdb;
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

// ---------------------------------------------------------------------------------- Proximity

/// Pools in Amsterdam, New York and Singapore, and one that is nowhere, with clients that have
/// coordinates, a country or a region only.
fn near_and_far() -> Site {
    let body = r#"
[pools.sin]
location = [1.29, 103.85]
origins = [{ name = "s", address = "192.0.2.1" }]
[pools.any]
origins = [{ name = "x", address = "192.0.2.2" }]
[pools.nyc]
location = [40.71, -74.01]
origins = [{ name = "n", address = "192.0.2.3" }]
[pools.ams]
location = [52.37, 4.9]
origins = [{ name = "a", address = "192.0.2.4" }]
[load_balancers.www]
pools = ["sin", "any", "nyc", "ams"]
steering = "proximity"
"#;
    let site = Site::with_zone(body);
    let subnets = r#"
[subnets."10.1.0.0/16"]
location = [48.86, 2.35]
[subnets."10.1.128.0/17"]
location = [42.36, -71.06]
[subnets."10.2.0.0/16"]
country = "NZ"
[subnets."10.3.0.0/16"]
region = "weu"
"#;
    site.write("geo/subnets.toml", subnets);
    let database = mmdb::database(&[
        (
            "198.51.100.0/24",
            json!({"country": {"iso_code": "US"}, "location": {"latitude": 21.3, "longitude": -157.9}}),
        ),
        ("198.51.101.0/24", json!({"country": {"iso_code": "US"}})),
    ]);
    site.write("geo/city.mmdb", database);
    site
}

fn found(site: &Site, client: &str) -> Value {
    site.explain(&["www.example.test", "A", "--client", client])
}

// "pools by great-circle distance from the client"; coordinates from subnets.toml, the database, the
// country's middle, in this order; "a client or pool without coordinates keeps the configured position".
#[test]
fn proximity_orders_pools_by_distance() {
    let site = near_and_far();
    for (client, order, of) in [
        ("10.1.0.1", "ams any nyc sin", Some("client")),
        ("10.1.200.1", "nyc any ams sin", Some("client")),
        ("10.2.0.1", "sin any nyc ams", Some("country")),
        ("10.3.0.1", "sin any nyc ams", None),
        ("192.0.2.200", "sin any nyc ams", None),
        // Honolulu by the database; Kansas by the country alone.
        ("198.51.100.1", "nyc any sin ams", Some("client")),
        ("198.51.101.1", "nyc any ams sin", Some("country")),
    ] {
        let found = found(&site, client);
        let steering = &found["steering"];
        assert_eq!(strings(&steering["candidates"]).join(" "), order, "{client}: {found:#}");
        assert_eq!(steering["from"]["of"].as_str(), of, "{client}: {found:#}");
        assert_eq!(steering["distance"].is_object(), of.is_some(), "{client}: {found:#}");
    }
    let paris = found(&site, "10.1.0.1");
    assert_eq!(paris["steering"]["policy"], "proximity");
    assert_eq!(paris["steering"]["from"]["location"], json!([48.86, 2.35]));
    let distance = &paris["steering"]["distance"];
    let kilometres = |pool: &str| distance[pool].as_f64().expect("kilometres");
    assert!((kilometres("ams") - 430.0).abs() < 5.0, "{distance}");
    assert!((kilometres("nyc") - 5_837.0).abs() < 10.0, "{distance}");
    assert!((kilometres("sin") - 10_733.0).abs() < 20.0, "{distance}");
    assert_eq!(distance["any"], Value::Null, "a pool without a location is at no distance");
}

// Both ways of answering know the order, and the scope covers nobody who is elsewhere.
#[test]
fn proximity_over_the_wire_has_the_scope_of_the_coordinates() {
    let server = Server::start(&near_and_far());
    for (client, address, scope) in [
        (("10.1.0.0", 24), "192.0.2.4", 17),
        (("10.1.200.0", 24), "192.0.2.3", 17),
        (("10.2.0.0", 16), "192.0.2.1", 16),
        (("198.51.100.0", 24), "192.0.2.3", 24),
    ] {
        let query = Query::new("www.example.test", rtype::A).ecs(client.0, client.1);
        let (udp, tcp) = (server.ask(&query), server.ask_tcp(&query));
        for reply in [udp, tcp] {
            assert_eq!(reply.data(rtype::A), [address], "{client:?}");
            assert_eq!(reply.scope(), scope, "{client:?}");
        }
    }
}
