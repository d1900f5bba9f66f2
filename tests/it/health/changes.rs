//! What is told of changes of health, and what is done about too many of them.

use std::time::Duration;

use super::asker::Asker;
use super::origin::{Mode, Origin};
use super::{
    ALLOWANCE, Change, INTERVAL, Net, PATIENCE, QUICK, ZONE, answered, changes, site, until,
    until_answered, wait_for_change, www, zone,
};
use crate::harness::Server;

// "Each change is one log line ...: who, from, to, why (the probe's error in plain words)".
#[test]
fn each_change_is_one_line_that_says_why() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2, 3]);
    let parts = [
        net.web(QUICK),
        net.pool("p", "", &[1, 2, 3, 4]),
        net.pool("q", "", &[1]),
        www(&["p", "q"]),
    ];
    let site = site(&parts);
    let mut server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1, 2, 3]));
    let up = wait_for_change(&mut server, net.ip(1), "healthy");
    assert_eq!(up.from, "unknown", "{up:?}");
    let down = wait_for_change(&mut server, net.ip(4), "unhealthy");
    assert_eq!(down.from, "unknown", "{down:?}");
    assert!(down.reason.contains("refused"), "{down:?}");

    origins[0].kill();
    origins[1].set(Mode::Hang);
    origins[2].set(Mode::Status(503));
    let changed: Vec<Change> =
        [1, 2, 3].map(|number| wait_for_change(&mut server, net.ip(number), "unhealthy")).into();
    for (change, (number, reasons)) in
        changed.iter().zip([(1, ["refused", ""]), (2, ["timed out", ""]), (3, ["503", "2xx"])])
    {
        assert_eq!((change.from.as_str(), change.to.as_str()), ("healthy", "unhealthy"));
        assert!(change.monitor.contains("web"), "{change:?}");
        assert!(change.origins.contains(&format!("p/o{number}")), "{change:?}");
        assert_eq!(change.origins.contains("q/o1"), number == 1, "{change:?}");
        assert!(reasons.iter().all(|reason| change.reason.contains(reason)), "{change:?}");
        assert!(!change.reason.contains('\n'), "{change:?}");
    }

    origins[0].revive();
    origins[2].set(Mode::Status(200));
    for number in [1, 3] {
        let change = wait_for_change(&mut server, net.ip(number), "healthy");
        assert_eq!(change.from, "unhealthy", "{change:?}");
    }
    // A reload is no change. Its line also ends what is counted.
    let counts: Vec<_> = origins.iter().map(Origin::request_count).collect();
    until(PATIENCE, "more probes", || {
        origins.iter().zip(&counts).all(|(origin, count)| origin.request_count() >= count + 2)
    });
    site.write(ZONE, zone(&parts).replace("ttl = 300", "ttl = 301"));
    server.reload("reloaded");
    let all = changes(&mut server);
    for (number, expected) in [(1, 3), (2, 2), (3, 3), (4, 1)] {
        let address = net.ip(number).to_string();
        let of: Vec<_> = all.iter().filter(|change| change.address.contains(&address)).collect();
        assert_eq!(of.len(), expected, "{of:#?}");
    }
}

/// One result is enough for a change.
const NERVOUS: &str = "interval = \"1s\"\ntimeout = \"500ms\"\nfall = 1\nrise = 1\n";

// "a flapping origin (more than `flap_threshold` changes in `flap_window`) is held down and shown as
// such."
#[test]
fn a_flapping_origin_is_held_down() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let monitor = net.web(&format!("{NERVOUS}flap_threshold = 3\nflap_window = \"10m\"\n"));
    let mut server = Server::start(&site(&[monitor, net.pool("p", "", &[1, 2]), www(&["p"])]));
    assert_eq!(answered(&server), net.set(&[1, 2]));
    origins[0].set(Mode::Alternate);
    // Ten results, nine or ten changes.
    until(PATIENCE, "results", || origins[0].request_count() >= 10);
    origins[0].set(Mode::Status(200));
    until_answered(&server, &net.set(&[2]), ALLOWANCE, "held down");
    let asker = Asker::start(&server);
    let count = origins[0].request_count();
    until(PATIENCE, "good results", || origins[0].request_count() >= count + 4);
    let tally = asker.finish();
    tally.assert_never(&net.ip(1).to_string());
    tally.assert_always(&net.ip(2).to_string());
    let told = server.log_so_far().iter().any(|line| line["fields"].to_string().contains("flap"));
    assert!(told, "the log tells of flapping");
    // What is held down makes no lines for changes that do not show.
    let of_first =
        changes(&mut server).iter().filter(|c| c.address.contains(&net.ip(1).to_string())).count();
    assert!(of_first <= 6, "{of_first} lines");
}

// The hold ends with the window.
#[test]
fn an_origin_that_flaps_no_longer_comes_back() {
    let net = Net::new();
    let origins = Origin::start_all(&net, &[1, 2]);
    let monitor = net.web(&format!("{NERVOUS}flap_threshold = 2\nflap_window = \"6s\"\n"));
    let server = Server::start(&site(&[monitor, net.pool("p", "", &[1, 2]), www(&["p"])]));
    origins[0].set(Mode::Alternate);
    until(PATIENCE, "results", || origins[0].request_count() >= 7);
    origins[0].set(Mode::Status(200));
    until_answered(&server, &net.set(&[2]), ALLOWANCE, "held down");
    let limit = Duration::from_secs(6) + INTERVAL * 3 + ALLOWANCE;
    let took = until_answered(&server, &net.set(&[1, 2]), limit, "calm again");
    eprintln!("back after {took:?}, the window is 6 s");
}

// As many changes as the threshold are not more than it.
#[test]
fn the_threshold_itself_is_not_flapping() {
    let net = Net::new();
    let mut origins = Origin::start_all(&net, &[1, 2]);
    // The first result may count as a change or not: five leave room for it.
    let monitor = net.web(&format!("{NERVOUS}flap_threshold = 5\nflap_window = \"10m\"\n"));
    let server = Server::start(&site(&[monitor, net.pool("p", "", &[1, 2]), www(&["p"])]));
    for _ in 0..2 {
        origins[0].kill();
        until_answered(&server, &net.set(&[2]), super::bound(1) + ALLOWANCE, "down");
        origins[0].revive();
        until_answered(&server, &net.set(&[1, 2]), super::bound(1) + ALLOWANCE, "up");
    }
}
