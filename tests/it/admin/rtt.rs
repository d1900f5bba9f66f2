//! "samples pushed through the admin API (real-user measurements: client subnet or region, pool,
//! milliseconds)".

use serde_json::{Value, json};

use super::{Served, site, until};
use crate::wire::rtype;

const PATH: &str = "/api/v1/rtt";
const FAR_AND_NEAR: &str = "[pools.far]\norigins = [{ name = \"f\", address = \"192.0.2.1\" }]\n\
    [pools.near]\norigins = [{ name = \"n\", address = \"192.0.2.2\" }]\n\
    [load_balancers.by-time]\nsteering = \"rtt\"\npools = [\"far\", \"near\"]\n";

#[test]
fn pushed_times_steer_the_clients_of_their_region() {
    let site = site(FAR_AND_NEAR);
    site.write(
        "geo/subnets.toml",
        "[subnets.\"10.1.0.0/16\"]\nregion = \"weu\"\n[subnets.\"10.2.0.0/16\"]\nregion = \"oc\"\n",
    );
    let served = Served::of(site);
    let answered =
        |subnet: &str| served.server.addresses("by-time.example.test", rtype::A, (subnet, 24));
    let sample = |from: &str, value: &str, pool: &str, ms: f64| json!({ from: value, "pool": pool, "ms": ms });
    let push = |samples: Vec<Value>| served.send("POST", PATH, &json!({ "samples": samples }));
    let weu = |pool: &str, ms: f64| sample("region", "weu", pool, ms);
    // Two samples of each pool do not count yet, and the third does, by the subnet's region.
    let two = vec![weu("far", 90.0), weu("far", 90.0), weu("near", 20.0), weu("near", 20.0)];
    assert_eq!(push(two).status, 200);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(answered("10.1.7.0"), ["192.0.2.1"]);
    let third = [("far", 90.0), ("near", 20.0)];
    let third = third.map(|(pool, ms)| sample("subnet", "10.1.2.0/24", pool, ms));
    assert_eq!(push(third.to_vec()).status, 200);
    until("the nearer pool", || answered("10.1.7.0") == ["192.0.2.2"]);
    assert_eq!(answered("10.2.7.0"), ["192.0.2.1"], "nothing is known of another region");
}

#[test]
fn samples_that_are_wrong_are_refused_whole() {
    let served = Served::of(site(FAR_AND_NEAR));
    let push = |sample: Value| served.send("POST", PATH, &json!({ "samples": [sample] }));
    push(json!({ "region": "wue", "pool": "far", "ms": 1 })).assert_refused(404, &["wue", "weu"]);
    push(json!({ "region": "weu", "pool": "fra", "ms": 1 })).assert_refused(404, &["fra", "far"]);
    push(json!({ "region": "weu", "pool": "far", "ms": -1 })).assert_refused(400, &["ms", "60000"]);
    push(json!({ "pool": "far", "ms": 1 })).assert_refused(400, &["region", "subnet"]);
    push(json!({ "subnet": "10.1.2", "pool": "far", "ms": 1 })).assert_refused(400, &["10.1.2"]);
    push(json!({ "subnet": "10.1.2.3", "pool": "far", "ms": 1 }))
        .assert_refused(400, &["no region"]);
}
