//! The defaults that the specification names, as they are in a state that gives none of the keys.

use std::path::Path;
use std::time::Duration;

use meridian::config::build::{Files, build};
use meridian::config::decimal::Decimal;
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::rr::Ttl;
use meridian::steer::load_balancer::{Answers, ClientSource, Policy, RttTolerance};
use meridian::steer::pool::{Role, ZonalAffinity};

const ZONE: &str = r#"
zone = "example.test"
[[records]]
name = "@"
type = "NS"
data = ["ns.example.net."]
[monitors.m]
type = "tcp"
port = 80
interval = "7s"
timeout = "1s"
[pools.p]
monitor = "m"
origins = [{ name = "o", address = "192.0.2.1" }]
[pools.q]
origins = [{ name = "o", address = "192.0.2.2" }]
[load_balancers.www]
pools = ["q", "p"]
"#;

#[test]
fn defaults_are_those_of_the_specification() {
    let files = Files {
        zones: vec![Source::new("zones/example.test.toml", ZONE)],
        regions: None,
        subnets: None,
        rtt: None,
        database: None,
    };
    let report = Report::default();
    let read = |path: &Path| panic!("{} is not asked for", path.display());
    let state = build(&files, &Server::default(), &read, &report);
    let state = state.unwrap_or_else(|| panic!("{:?}", report.into_sorted()));

    // "A result older than its `max_age` (default: 5 intervals; …)"
    assert_eq!(state.monitors[0].max_age, Duration::from_secs(5 * 7));
    // "older than `rtt_max_age` (default 10 min)"
    assert_eq!(state.rtt_max_age, Duration::from_secs(600));
    // "within `rtt_tolerance` (default 5 ms or 10 % of the lowest, the larger; inclusive)"
    let tolerance = RttTolerance { absolute: Duration::from_millis(5), relative_micros: 100_000 };
    assert_eq!(state.balancer_sources[0].rtt_tolerance, tolerance);

    // "bounded (`max_sessions`, default 1,000,000; …)"
    assert_eq!(Server::default().max_sessions, 1_000_000);

    let balancer = &state.balancers[0];
    assert_eq!(balancer.policy, Policy::Failover);
    assert_eq!(balancer.client, ClientSource::Ecs);
    assert_eq!(balancer.ttl, Ttl::saturating(30));
    assert_eq!(balancer.answers, Answers::Count(1));
    // "by default the last of `pools`"
    assert_eq!(state.pool_name(balancer.fallback_pool), "p");

    for pool in &*state.pools {
        assert!(pool.enabled);
        assert_eq!(pool.minimum_origins, 1);
        assert_eq!(pool.zonal_affinity, ZonalAffinity::Disabled);
        let origin = &pool.origins[0];
        assert_eq!((origin.role, origin.enabled), (Role::Primary, true));
        assert_eq!(origin.weight, Decimal::ONE);
    }
}
