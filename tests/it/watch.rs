//! `watch = true`: a change of a file that the configuration was read from is served without a signal,
//! however the file is changed, and no other change reads the files again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{SERVER, Server, Site, ZONE_HEAD};
use crate::wire::{Query, rcode, rtype};

const ZONE: &str = "zones/example.test.toml";

/// A zone whose load balancer `www` answers this address.
fn zone(address: &str) -> String {
    format!(
        "{ZONE_HEAD}[pools.p]\norigins = [{{ name = \"p1\", address = \"{address}\" }}]\n\
         [load_balancers.www]\npools = [\"p\"]\n"
    )
}

/// A site that watches, with nothing in `zones/` yet.
fn empty_site() -> Site {
    let site = Site::new();
    site.write("meridian.toml", format!("{SERVER}watch = true\n"));
    site
}

fn site() -> Site {
    let site = empty_site();
    site.write(ZONE, zone("192.0.2.1"));
    site
}

fn www(server: &Server) -> Vec<String> {
    let reply = server.ask(&Query::new("www.example.test", rtype::A));
    reply.data(rtype::A).into_iter().map(str::to_owned).collect()
}

/// Waits until a reload has brought what is expected; there may be more than one until then.
fn wait_until(server: &mut Server, is_there: impl Fn(&Server) -> bool) -> Value {
    loop {
        let line = server.wait_for("reloaded");
        if is_there(server) {
            return line;
        }
    }
}

fn wait_for_www(server: &mut Server, address: &str) -> Value {
    wait_until(server, |server| www(server) == [address])
}

// config.md: "a change of a file where `watch = true`, read after 500 ms of quiet".
#[test]
fn a_changed_file_is_served_without_a_signal() {
    let site = site();
    let mut server = Server::start(&site);
    assert_eq!(www(&server), ["192.0.2.1"]);
    site.write(ZONE, zone("192.0.2.2"));
    wait_for_www(&mut server, "192.0.2.2");
    // Watching does not hold up the end.
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_file_that_an_editor_puts_in_place_of_the_old_one_is_served() {
    let site = site();
    let mut server = Server::start(&site);
    for address in ["192.0.2.2", "192.0.2.3"] {
        let new = site.path().join("zones/.example.test.toml.new");
        fs::write(&new, zone(address)).expect("a file");
        fs::rename(&new, site.path().join(ZONE)).expect("a file in place of the old one");
        wait_for_www(&mut server, address);
    }
}

#[test]
fn zone_files_come_and_go() {
    let site = site();
    let mut server = Server::start(&site);
    let code = |server: &Server| server.ask(&Query::new("ns1.other.test", rtype::A)).rcode();
    assert_eq!(code(&server), rcode::REFUSED);
    site.write("zones/other.test.toml", ZONE_HEAD.replace("example.test", "other.test"));
    wait_until(&mut server, |server| code(server) == rcode::NOERROR);
    fs::remove_file(site.path().join("zones/other.test.toml")).expect("a file");
    wait_until(&mut server, |server| code(server) == rcode::REFUSED);
}

// Master files, shared.toml, geo/ and the server's own file; one that was not there at first, too.
#[test]
fn every_file_of_the_configuration_counts() {
    let site = empty_site();
    let master = |address: &str| format!("$TTL 300\nextra IN A {address}\n");
    let balancer = "[load_balancers.www]\nsteering = \"geo\"\npools = [\"far\"]\n\
                    region_pools = { here = [\"near\"] }\n";
    let shared = |near: &str| {
        let pool = |name: &str, address: &str| {
            format!("[pools.{name}]\norigins = [{{ name = \"o\", address = \"{address}\" }}]\n")
        };
        pool("near", near) + &pool("far", "192.0.2.9")
    };
    let head = ZONE_HEAD.replace("ttl = 300", "ttl = 300\nzonefile = \"../master/extra.zone\"");
    fs::create_dir(site.path().join("master")).expect("a folder");
    site.write("master/extra.zone", master("192.0.2.1"));
    site.write("zones/shared.toml", shared("192.0.2.1"));
    site.write("geo/regions.toml", "[regions.here]\ncountries = [\"NL\"]\n");
    site.write(ZONE, format!("{head}{balancer}"));
    let mut server = Server::start(&site);
    let near = |server: &Server| server.addresses("www.example.test", rtype::A, ("10.0.0.0", 8));

    site.write("master/extra.zone", master("192.0.2.2"));
    wait_until(&mut server, |server| {
        let reply = server.ask(&Query::new("extra.example.test", rtype::A));
        reply.data(rtype::A) == ["192.0.2.2"]
    });
    site.write("geo/subnets.toml", "[subnets.\"10.0.0.0/8\"]\nregion = \"here\"\n");
    wait_until(&mut server, |server| near(server) == ["192.0.2.1"]);
    site.write("zones/shared.toml", shared("192.0.2.2"));
    wait_until(&mut server, |server| near(server) == ["192.0.2.2"]);
    // Another folder of zones: it is watched from then on.
    fs::create_dir(site.path().join("others")).expect("a folder");
    site.write("others/example.test.toml", zone("192.0.2.5"));
    site.write("meridian.toml", format!("{SERVER}watch = true\nzones = \"others\"\n"));
    wait_for_www(&mut server, "192.0.2.5");
    site.write("others/example.test.toml", zone("192.0.2.6"));
    wait_for_www(&mut server, "192.0.2.6");
}

/// Makes `link` lead to `target` in one step, as Kubernetes does.
fn relink(target: &str, link: &Path) {
    let new = link.with_file_name("..new");
    symlink(target, &new).expect("a link");
    fs::rename(&new, link).expect("a link in place of the old one");
}

// A Kubernetes ConfigMap: files lead over the link `..data`, which is swapped.
#[test]
fn files_behind_a_link_that_is_swapped_are_served() {
    let site = empty_site();
    let folder = site.path().join("zones");
    for (version, address) in [("..1", "192.0.2.1"), ("..2", "192.0.2.2"), ("..3", "192.0.2.3")] {
        fs::create_dir(folder.join(version)).expect("a folder");
        site.write(&format!("zones/{version}/example.test.toml"), zone(address));
    }
    relink("..1", &folder.join("..data"));
    relink("..data/example.test.toml", &folder.join("example.test.toml"));
    let mut server = Server::start(&site);
    assert_eq!(www(&server), ["192.0.2.1"]);
    for (version, address) in [("..2", "192.0.2.2"), ("..3", "192.0.2.3")] {
        relink(version, &folder.join("..data"));
        wait_for_www(&mut server, address);
    }
}

// Releases beside one another, and a link to the one that is served.
#[test]
fn a_folder_that_is_a_link_can_lead_elsewhere() {
    let site = empty_site();
    fs::remove_dir(site.path().join("zones")).expect("a folder");
    for (version, address) in [("1", "192.0.2.1"), ("2", "192.0.2.2")] {
        fs::create_dir_all(site.path().join("releases").join(version)).expect("a folder");
        site.write(&format!("releases/{version}/example.test.toml"), zone(address));
    }
    relink("releases/1", &site.path().join("zones"));
    let mut server = Server::start(&site);
    relink("releases/2", &site.path().join("zones"));
    wait_for_www(&mut server, "192.0.2.2");
    site.write("releases/2/example.test.toml", zone("192.0.2.3"));
    wait_for_www(&mut server, "192.0.2.3");
}

// config.md: "a bad file is never half applied". A link to nothing cannot be read by anyone, so that the
// test means the same for root.
#[test]
fn a_file_that_can_no_longer_be_read_changes_nothing() {
    let site = site();
    let mut server = Server::start(&site);
    relink("gone", &site.path().join(ZONE));
    let line = server.wait_for("reload refused");
    assert!(line.to_string().contains("example.test.toml"), "{line}");
    assert_eq!(www(&server), ["192.0.2.1"]);
    site.write("zones/gone", zone("192.0.2.2"));
    wait_for_www(&mut server, "192.0.2.2");
}

#[test]
fn a_mistake_changes_nothing_and_its_correction_is_served() {
    let site = site();
    let mut server = Server::start(&site);
    site.write(ZONE, zone("192.0.2"));
    server.wait_for("reload refused");
    assert_eq!(www(&server), ["192.0.2.1"]);
    site.write(ZONE, zone("192.0.2.2"));
    wait_for_www(&mut server, "192.0.2.2");
}

// What a monitor reads is no configuration, even beside the zones.
#[test]
fn files_of_monitors_do_not_lead_to_reloads() {
    let site = empty_site();
    let monitor = "[monitors.said]\ntype = \"file\"\npath = \"said.health\"\ninterval = \"1s\"\n";
    let watched = |address| {
        zone(address).replace("[pools.p]\n", &format!("{monitor}[pools.p]\nmonitor = \"said\"\n"))
    };
    site.write("zones/said.health", "up\n");
    site.write(ZONE, watched("192.0.2.1"));
    let mut server = Server::start(&site);
    // A second lies between two probes: a reload because of the first words would be over by the last.
    for (word, state) in [("down", "unhealthy"), ("up", "healthy"), ("down", "unhealthy")] {
        site.write("zones/said.health", word);
        let mut line = server.wait_for("health changed");
        while line["fields"]["to"] != state {
            line = server.wait_for("health changed");
        }
    }
    site.write(ZONE, watched("192.0.2.2"));
    let line = wait_for_www(&mut server, "192.0.2.2");
    assert_eq!(line["fields"]["generation"], 2, "the first reload since the start: {line}");
}

// Changes that never pause are read all the same.
#[test]
fn a_file_that_is_always_written_is_read_at_last() {
    let site = site();
    let mut server = Server::start(&site);
    let is_read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_read.load(Ordering::Relaxed) {
                let new = site.path().join("zones/.new");
                fs::write(&new, zone("192.0.2.2")).expect("a file");
                fs::rename(&new, site.path().join(ZONE)).expect("a file in place of the old one");
                thread::sleep(Duration::from_millis(20));
            }
        });
        let line = server.wait_for("reloaded");
        is_read.store(true, Ordering::Relaxed);
        assert_eq!(line["fields"]["generation"], 2, "{line}");
    });
    assert_eq!(www(&server), ["192.0.2.2"]);
}

#[test]
fn without_watch_nothing_is_read_again() {
    let site = site();
    site.write("meridian.toml", SERVER);
    let mut server = Server::start(&site);
    site.write(ZONE, zone("192.0.2.2"));
    // Longer than a change waits, and no reload may come: nothing else can be waited for.
    thread::sleep(Duration::from_millis(1500));
    assert!(server.log_so_far().iter().all(|line| line["fields"]["message"] != "reloaded"));
    assert_eq!(www(&server), ["192.0.2.1"]);
}
