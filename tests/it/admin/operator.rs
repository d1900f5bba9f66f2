//! An operator who has never seen the program, with the README and the files of a checkout: adds the
//! README's pool, breaks the file and mends it, kills an origin, drains another, and asks why. A browser
//! shows the dashboard meanwhile, and Prometheus reads the metrics. What the README prints beside its
//! commands is checked by `docs`; this is what is to be seen elsewhere.

use std::fs;
use std::path::Path;

use super::browser::{Browser, Theme};
use super::metrics::Prometheus;
use super::{Served, TOKEN, until, with_admin, write_token};
use crate::harness::{Site, is_missing};
use crate::wire::{Query, rtype};

/// A client that the sample zone keeps in the zone of fra-1 and fra-2.
const CLIENT: (&str, u8) = ("10.2.7.0", 24);
const HEALTH: &str = "zones/example.com.health";
const ZONE: &str = "zones/example.com.toml";

fn checkout(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a file")
}

/// The lines that the README appends to the zone.
fn pool_of_the_readme() -> String {
    let readme = checkout("README.md");
    let after = readme.split("$ cat >> zones/example.com.toml <<'END'\n").nth(1);
    let lines = after.expect("the README's pool").lines();
    let lines = lines.map_while(|line| line.strip_prefix("> ")).take_while(|line| *line != "END");
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// What the client gets: all answers that come up in a few queries.
fn answered(served: &Served) -> Vec<String> {
    let ask = |_| served.server.addresses("www.example.com", rtype::A, CLIENT);
    let mut found: Vec<_> = (0..6).flat_map(ask).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn an_operator_sees_what_happens_and_why() {
    if is_missing("prometheus", "--version", "prometheus") {
        return;
    }
    let site = Site::new();
    for file in [HEALTH, ZONE, "geo/subnets.toml", "geo/rtt.toml"] {
        site.write(file, checkout(file));
    }
    write_token(&site, TOKEN);
    with_admin(&site, "listen = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"");
    let mut served = Served::start(&site);
    let at = format!("http://{}", served.admin);
    let run = |arguments: &[&str]| site.run(&[arguments, &["--at", &at]].concat());
    let prometheus = Prometheus::start(&served.admin);
    let Some(browser) = Browser::start() else { return };
    browser.show_as((1280, 800), Theme::Light);
    browser.open(&served.url());
    browser.until_shown("[data-pool=eu]");
    browser.run("window.same = true");
    assert_eq!(answered(&served), ["192.0.2.11", "192.0.2.12"]);

    // A pool more.
    site.write(ZONE, format!("{}\n{}", checkout(ZONE), pool_of_the_readme()));
    served.server.reload("reloaded");
    let query = Query::new("za.example.com", rtype::A);
    until("the pool answers", || served.server.ask(&query).data(rtype::A) == ["203.0.113.30"]);
    browser.until_shown("[data-pool=za]");

    // A broken file.
    let good = fs::read_to_string(site.path().join(ZONE)).expect("the zone");
    site.write(ZONE, good.replace("minimum_origins = 1", "minimum_orgins = 1"));
    let check = site.check();
    assert_eq!(check.code, Some(1));
    assert!(check.stderr.contains("did you mean `minimum_origins`?"), "{check:?}");
    served.server.reload("reload refused");
    browser.until_shown(".event[data-kind=reload].is-down");
    assert_eq!(answered(&served), ["192.0.2.11", "192.0.2.12"], "the old state goes on");
    let refused = "meridian_last_reload_successful";
    until("Prometheus knows of it", || prometheus.value(refused) == Some(0.0));
    site.write(ZONE, good);
    served.server.reload("reloaded");

    // An origin that is killed.
    let health = checkout(HEALTH);
    site.write(HEALTH, format!("{health}192.0.2.11 down disk is full\n2001:db8:1::11 down\n"));
    until("others answer", || answered(&served) == ["192.0.2.10", "192.0.2.12"]);
    browser.until_shown("[data-pool=eu] [data-origin=fra-1][data-state=down]");
    let text = browser.text("[data-pool=eu] [data-origin=fra-1]");
    assert!(text.contains("disk is full"), "{text}");
    let healthy = "meridian_origin_healthy{origin=\"fra-1\"}";
    until("Prometheus knows of it", || prometheus.value(healthy) == Some(0.0));
    site.write(HEALTH, health);
    until("it is back", || answered(&served) == ["192.0.2.11", "192.0.2.12"]);

    // One that is drained.
    let drained = run(&["drain", "fra-2", "--for", "2h", "--why", "new kernel"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    until("it gets nobody", || answered(&served) == ["192.0.2.11"]);
    browser.until_shown("[data-pool=eu] [data-origin=fra-2][data-state=out]");
    let why = run(&["explain", "www.example.com", "--client", "10.2.7.0/24"]);
    assert!(why.stdout.contains("new kernel"), "{why:?}");
    assert!(why.stdout.contains("choice         fra-1 100.0 %"), "{why:?}");
    assert_eq!(run(&["enable", "fra-2"]).code, Some(0));
    until("it is back", || answered(&served) == ["192.0.2.11", "192.0.2.12"]);

    let counted = "sum(meridian_pool_answers_total{pool=\"eu\"}) > 50";
    until("Prometheus has counted", || prometheus.value(counted).is_some());
    assert_eq!(browser.run("return window.same"), true, "the page was loaded again");
    assert_eq!(browser.console(), [""; 0]);
}
