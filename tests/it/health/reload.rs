//! "State survives a reload for every (monitor name, address) pair that is still there; a changed
//! monitor keeps its state and probes at once; nothing is reset by editing something else."

use std::time::{Duration, Instant};

use super::asker::Asker;
use super::origin::{Mode, Origin};
use super::{
    ALLOWANCE, Net, PATIENCE, QUICK, SLOW, ZONE, answered, site, until, until_answered, www, zone,
};
use crate::harness::Server;

/// "At once", for a probe of an origin that answers.
const AT_ONCE: Duration = Duration::from_millis(500);

#[test]
fn an_unrelated_edit_changes_no_health() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let monitor = net.web("interval = \"1s\"\ntimeout = \"500ms\"\nfall = 3\nrise = 3\n");
    let parts = [monitor, net.pool("p", "", &[1, 2, 3]), www(&["p"])];
    let site = site(&parts);
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    let asker = Asker::start(&server);
    for number in 0..3 {
        let record =
            format!("[[records]]\nname = \"t{number}\"\ntype = \"TXT\"\ndata = ['\"{number}\"']\n");
        site.write(ZONE, zone(&[parts.concat(), record]));
        server.reload("reloaded");
        let count = origins[0].request_count();
        until(PATIENCE, "another probe", || origins[0].request_count() > count);
    }
    let tally = asker.finish();
    tally.assert_never(&net.ip(3).to_string());
    tally.assert_always(&net.ip(1).to_string());
    tally.assert_always(&net.ip(2).to_string());
}

// Results in a row go on over a reload, too: else an origin could hide behind reloads.
#[test]
fn failures_are_counted_across_reloads() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2]);
    let parts = [net.web(QUICK), net.pool("p", "", &[1, 2]), www(&["p"])];
    let site = site(&parts);
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    origins[0].kill();
    // More often than once an interval: a schedule that begins anew would never come to a probe.
    let start = Instant::now();
    let mut ttl = 300;
    while answered(&server) != net.set(&[2]) {
        assert!(start.elapsed() < super::bound(2) + ALLOWANCE, "{:?}", start.elapsed());
        ttl += 1;
        let text = zone(&parts).replace("ttl = 300", &format!("ttl = {ttl}"));
        site.write(ZONE, text);
        server.reload("reloaded");
    }
    eprintln!("down after {:?} and {} reloads", start.elapsed(), ttl - 300);
}

// "an added origin is unknown too, until its first probe, which is at once".
#[test]
fn an_added_origin_is_probed_at_once() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2, 4]);
    let parts = |numbers: &[u8]| [net.web(SLOW), net.pool("p", "", numbers), www(&["p"])];
    let site = site(&parts(&[1, 2]));
    let mut server = Server::start(&site);
    assert_eq!(origins[2].request_count(), 0);
    let asker = Asker::start(&server);
    // One that is up, and one that is down.
    site.write(ZONE, zone(&parts(&[1, 2, 3, 4])));
    server.reload("reloaded");
    let limit = AT_ONCE + ALLOWANCE;
    let took = until_answered(&server, &net.set(&[1, 2, 4]), limit, "the added origin");
    eprintln!("added and answered after {} ms", took.as_millis());
    assert_eq!(origins[2].request_count(), 1);
    assert_eq!(origins[0].request_count(), 1, "the others keep their pace");
    asker.finish().assert_never(&net.ip(3).to_string());
}

// Nobody waits for it: neither the reload, nor the others' probes, nor the answers, in which it is not.
#[test]
fn an_added_origin_that_hangs_holds_nothing_up() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let hung = Origin::at(net.socket(3), Mode::Hang);
    let monitor = net.web("interval = \"10s\"\ntimeout = \"8s\"\n");
    let parts = |numbers: &[u8]| [monitor.clone(), net.pool("p", "", numbers), www(&["p"])];
    let site = site(&parts(&[1]));
    let mut server = Server::start(&site);
    let asker = Asker::start(&server);
    let start = Instant::now();
    site.write(ZONE, zone(&parts(&[1, 2, 3])));
    server.reload("reloaded");
    assert!(start.elapsed() < AT_ONCE + ALLOWANCE, "{:?}", start.elapsed());
    until_answered(&server, &net.set(&[1, 2]), AT_ONCE + ALLOWANCE, "the one that answers");
    until(PATIENCE, "a probe", || hung.request_count() == 1);
    // What is under way goes on over another reload, and is not begun twice.
    server.reload("reloaded");
    assert_eq!(answered(&server), net.set(&[1, 2]));
    assert_eq!((hung.request_count(), hung.most_open()), (1, 1));
    assert_eq!(origins[1].request_count(), 1);
    let tally = asker.finish();
    tally.assert_never(&net.ip(3).to_string());
    tally.assert_always(&net.ip(1).to_string());
}

// An origin that moves to another address is another one: what is known of the old address says
// nothing of the new one. The pair that counts is (monitor name, address), not the origin's name.
#[test]
fn state_is_of_the_address_and_not_of_the_name() {
    let net = Net::new();
    let _origins = Origin::start_all(&net, &[1, 2]);
    let parts = |address: u8| {
        let pool = net.pool("p", "", &[1, 2]);
        let pool = pool.replace(&format!("\"{}\"", net.ip(2)), &format!("\"{}\"", net.ip(address)));
        [net.web(SLOW), pool, www(&["p"])]
    };
    let site = site(&parts(3));
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1]));
    site.write(ZONE, zone(&parts(2)));
    server.reload("reloaded");
    until_answered(&server, &net.set(&[1, 2]), AT_ONCE + ALLOWANCE, "moved to what is up");
    let asker = Asker::start(&server);
    site.write(ZONE, zone(&parts(3)));
    server.reload("reloaded");
    until_answered(&server, &net.set(&[1]), AT_ONCE + ALLOWANCE, "moved back");
    // Its names may change too, and its pool; its state stays.
    let renamed = zone(&parts(3)).replace("\"o2\"", "\"other\"").replace("pools.p]", "pools.r]");
    site.write(ZONE, renamed.replace("[\"p\"]", "[\"r\"]"));
    server.reload("reloaded");
    assert_eq!(answered(&server), net.set(&[1]));
    asker.finish().assert_never(&net.ip(3).to_string());
}

#[test]
fn a_changed_monitor_keeps_its_state_and_probes_at_once() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let third = Origin::at(net.socket(3), Mode::Status(503));
    let pool = net.pool("p", "", &[1, 2, 3]);
    let parts = |more: &str| [net.web(&format!("{SLOW}{more}")), pool.clone(), www(&["p"])];
    let site = site(&parts(""));
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    let asker = Asker::start(&server);
    // Opposite to their state, each: one result is not enough to change it.
    origins[1].set(Mode::Status(503));
    third.set(Mode::Status(200));
    site.write(ZONE, zone(&parts("path = \"/changed\"\n")));
    server.reload("reloaded");
    for origin in [&origins[0], &origins[1], &third] {
        until(AT_ONCE + ALLOWANCE, "a probe at once", || origin.request_count() == 2);
        assert_eq!(origin.requests()[1].path(), "/changed");
    }
    let tally = asker.finish();
    tally.assert_always(&net.ip(1).to_string());
    tally.assert_always(&net.ip(2).to_string());
    tally.assert_never(&net.ip(3).to_string());
    assert_eq!(answered(&server), net.set(&[1, 2]));
}

#[test]
fn a_removed_origin_is_probed_no_longer() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let parts = |numbers: &[u8]| [net.web(QUICK), net.pool("p", "", numbers), www(&["p"])];
    let site = site(&parts(&[1, 2]));
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    site.write(ZONE, zone(&parts(&[1])));
    server.reload("reloaded");
    assert_eq!(answered(&server), net.set(&[1]));
    let (kept, removed) = (origins[0].request_count(), origins[1].request_count());
    until(PATIENCE, "more probes of the other", || origins[0].request_count() >= kept + 4);
    // One may have been under way.
    assert!(origins[1].request_count() <= removed + 1, "{} probes", origins[1].request_count());
}

// A pool whose monitor is taken away: "its enabled origins count as healthy". A pool that gets one:
// its origins are unknown, until their first probe at once.
#[test]
fn a_pool_may_lose_and_get_its_monitor() {
    let net = Net::new();
    let _origin = Origin::start(&net, 1);
    let parts = [net.web(SLOW), net.pool("p", "", &[1, 2]), www(&["p"])];
    let site = site(&parts);
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1]));
    site.write(ZONE, zone(&parts).replace("monitor = \"web\"\n", ""));
    server.reload("reloaded");
    assert_eq!(answered(&server), net.set(&[1, 2]));
    site.write(ZONE, zone(&parts));
    server.reload("reloaded");
    until_answered(&server, &net.set(&[1]), AT_ONCE + ALLOWANCE, "the first probe");
}

// "reload keeps serving the old state": and goes on to probe it.
#[test]
fn a_refused_reload_stops_no_probes() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2]);
    let site = site(&[net.web(QUICK), net.pool("p", "", &[1, 2]), www(&["p"])]);
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1, 2]));
    site.write(ZONE, "zone = 1\n");
    server.reload("reload refused");
    origins[0].kill();
    let limit = super::bound(2) + ALLOWANCE;
    until_answered(&server, &net.set(&[2]), limit, "killed after the refusal");
}
