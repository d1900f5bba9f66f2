//! How fast answers follow an origin that fails or returns, and what takes its place: the other
//! origins, the next pool, the fallback pool, the other zone. And that no query is lost meanwhile.

use std::time::Duration;

use super::asker::Asker;
use super::nginx::Nginx;
use super::origin::{Mode, Origin};
use super::{
    ALLOWANCE, INTERVAL, Net, QUICK, WWW, answered, answered_for, bound, load_balancer, site,
    until, until_answered, within_bound, www,
};
use crate::harness::{Server, Site};
use crate::wire::{Query, rcode, rtype};

/// Results that count are at least an interval apart, so a change takes this long at the least.
const SOONEST: Duration = Duration::from_millis(700);

// "fall: consecutive results before a change"; "A change of health is visible in answers within
// 100 ms of the deciding probe's end".
#[test]
fn answers_leave_an_origin_that_is_killed_and_take_it_back() {
    let net = Net::new();
    let Some(mut nginx) = Nginx::start(net.socket(3)) else { return };
    let _origins = Origin::start_all(&net, &[1, 2]);
    let server =
        Server::start(&site(&[net.web(QUICK), net.pool("p", "", &[1, 2, 3]), www(&["p"])]));
    assert_eq!(answered(&server), net.set(&[1, 2, 3]), "all are up when the server is ready");
    for _ in 0..2 {
        nginx.kill();
        let took = within_bound(&server, &net.set(&[1, 2]), bound(2), "killed");
        assert!(took > SOONEST, "one failure is not enough: {took:?}");
        nginx.run();
        let took = within_bound(&server, &net.set(&[1, 2, 3]), bound(2), "started again");
        assert!(took > SOONEST, "one success is not enough: {took:?}");
    }
}

// The same for each way of failing, while a client asks: no query is lost, and the origin that
// does not fail is always answered.
#[test]
fn no_query_is_lost_while_origins_fail_in_every_way() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2, 3]);
    let server =
        Server::start(&site(&[net.web(QUICK), net.pool("p", "", &[1, 2, 3]), www(&["p"])]));
    let asker = Asker::start(&server);
    origins[0].set(Mode::Hang);
    within_bound(&server, &net.set(&[2, 3]), bound(2), "hung");
    origins[0].set(Mode::Status(200));
    origins[1].kill();
    until_answered(&server, &net.set(&[1, 3]), bound(2) * 2 + ALLOWANCE, "another one killed");
    origins[1].revive();
    origins[0].set(Mode::Status(500));
    until_answered(&server, &net.set(&[2, 3]), bound(2) * 2 + ALLOWANCE, "bad status");
    origins[0].set(Mode::Drip);
    // More failures change nothing.
    let count = origins[0].request_count();
    until(bound(6), "more probes", || origins[0].request_count() >= count + 2);
    assert_eq!(answered(&server), net.set(&[2, 3]));
    origins[0].set(Mode::Status(204));
    within_bound(&server, &net.set(&[1, 2, 3]), bound(2), "well again");
    asker.finish().assert_always(&net.ip(3).to_string());
}

// One failure between successes is forgotten: `fall` counts results in a row.
#[test]
fn failures_must_be_in_a_row() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let server = Server::start(&site(&[net.web(QUICK), net.pool("p", "", &[1, 2]), www(&["p"])]));
    let asker = Asker::start(&server);
    // Every second answer of this one is bad.
    origins[0].set(Mode::Alternate);
    let count = origins[0].request_count();
    until(INTERVAL * 10, "six more probes", || origins[0].request_count() >= count + 6);
    asker.finish().assert_always(&net.ip(1).to_string());
    assert!(origins[0].requests().iter().all(|request| request.path() == "/"));
}

// "at least `minimum_origins` of its enabled origins are healthy"; "the fallback pool ... is answered
// whatever its health ... `minimum_origins` does not apply to it"; last resort is all primaries.
#[test]
fn the_next_pool_takes_over_below_the_minimum_and_the_fallback_pool_at_last() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2, 3, 4]);
    let server = Server::start(&site(&[
        net.web(QUICK),
        net.pool("p", "minimum_origins = 2", &[1, 2, 3]),
        net.pool("q", "", &[4]),
        net.pool("last", "minimum_origins = 2", &[5, 6]),
        net.pool("dropped", "failover_policy = { drop_traffic_if_unhealthy = true }", &[5, 6]),
        www(&["p", "q"]),
        "fallback_pool = \"last\"\n".into(),
        load_balancer("dead", &["dropped"]),
        load_balancer("late", &["dropped", "last"]),
    ]));
    assert_eq!(answered(&server), net.set(&[1, 2, 3]));
    origins[0].kill();
    within_bound(&server, &net.set(&[2, 3]), bound(2), "two of three are enough");
    origins[1].kill();
    within_bound(&server, &net.set(&[4]), bound(2), "one of three is not");
    origins[3].kill();
    within_bound(&server, &net.set(&[5, 6]), bound(2), "last resort");
    assert_eq!(answered_for(&server, "late.example.test", rtype::A), net.set(&[5, 6]));
    let reply = server.ask(&Query::new("dead.example.test", rtype::A).edns(1232));
    assert_eq!(reply.rcode(), rcode::SERVFAIL);
    let (code, text) = reply.ede().expect("an extended error");
    assert_eq!(code, 0);
    assert!(text.contains("dead.example.test"), "{text}");
    let _fifth = Origin::start(&net, 5);
    within_bound(&server, &net.set(&[5]), bound(2), "the fallback pool has a healthy origin");
    assert_eq!(answered_for(&server, "dead.example.test", rtype::A), net.set(&[5]));
    origins[0].revive();
    within_bound(&server, &net.set(&[1, 3]), bound(2), "the first pool is back");
}

// A failover role: only when no primary is healthy.
#[test]
fn failovers_answer_while_no_primary_is_healthy() {
    let net = Net::new();
    let mut primary = Origin::start(&net, 1);
    let _failover = Origin::start(&net, 2);
    let address = |number: u8| net.ip(number).to_string();
    let pool = format!(
        "[pools.p]\nmonitor = \"web\"\norigins = [\n  {{ name = \"first\", address = \"{}\" }},\n  \
         {{ name = \"second\", address = \"{}\", role = \"failover\" }},\n]\n",
        address(1),
        address(2)
    );
    let server = Server::start(&site(&[net.web(QUICK), pool, www(&["p"])]));
    assert_eq!(answered(&server), [address(1)]);
    primary.kill();
    within_bound(&server, &[address(2)], bound(2), "failed over");
    primary.revive();
    within_bound(&server, &[address(1)], bound(2), "failed back");
}

/// Where the clients of the next test are.
const SUBNETS: &str = r#"
[subnets."10.1.0.0/16"]
region = "weu"
zone = "za"
[subnets."10.2.0.0/16"]
region = "weu"
zone = "zb"
"#;

// "r = count(A∩C) / count(C); A∩C if r >= spillover_ratio; otherwise A".
#[test]
fn clients_spill_to_the_other_zone_when_too_few_of_theirs_are_healthy() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2, 3]);
    let mut pool = String::from(
        "[pools.p]\nregion = \"weu\"\nmonitor = \"web\"\n\
         zonal_affinity = { mode = \"spill_cross_zone\", spillover_ratio = 0.8 }\norigins = [\n",
    );
    for (number, zone) in [(1, "za"), (2, "za"), (3, "zb")] {
        let address = net.ip(number);
        pool += &format!("{{ name = \"o{number}\", zone = {zone:?}, address = \"{address}\" }},\n");
    }
    let site: Site = site(&[net.web(QUICK), pool + "]\n", www(&["p"])]);
    site.write("geo/subnets.toml", SUBNETS);
    let server = Server::start(&site);
    let of = |subnet: &str| {
        let mut found = server.addresses(WWW, rtype::A, (subnet, 16));
        found.sort();
        found
    };
    let scope = || server.ask(&Query::new(WWW, rtype::A).ecs("10.1.0.0", 24)).scope();
    assert_eq!(of("10.1.0.0"), net.set(&[1, 2]));
    assert_eq!(of("10.2.0.0"), net.set(&[3]));
    let before = scope();
    origins[0].kill();
    let took = until(bound(2) + ALLOWANCE, "a spill", || of("10.1.0.0") == net.set(&[2, 3]));
    eprintln!("spilled: {} ms, the bound is {} ms", took.as_millis(), bound(2).as_millis());
    assert_eq!(of("10.2.0.0"), net.set(&[3]), "the other zone stays as it is");
    assert_eq!(scope(), before, "the scope does not follow health");
    origins[0].revive();
    until(bound(2) + ALLOWANCE, "the zone's own", || of("10.1.0.0") == net.set(&[1, 2]));
}
