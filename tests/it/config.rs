//! Configuration mistakes: each is one change to a good configuration, and must be reported with its
//! file, line and key and with a remedy. Also the good ones: what is accepted, and what is warned of.

use serde_json::Value;

use crate::harness::{Run, Server, Site};
use crate::mmdb;

const MERIDIAN: &str = "meridian.toml";
const ZONE: &str = "zones/example.test.toml";
const REGIONS: &str = "geo/regions.toml";
const SUBNETS: &str = "geo/subnets.toml";
const RTT: &str = "geo/rtt.toml";

/// The good configuration: every table once, so that every mistake has its place.
const GOOD: [(&str, &str); 5] = [
    (
        MERIDIAN,
        r#"[server]
listen = ["127.0.0.1:0"]
zones = "zones"
geo = "geo"
workers = 1
identity = { pop = "ams", region = "weu" }
"#,
    ),
    (
        ZONE,
        r#"zone = "example.test"
ttl = 300

[soa]
mname = "ns1"
rname = "hostmaster"
minimum = 60

[[records]]
name = "@"
type = "NS"
data = ["ns1"]

[[records]]
name = "ns1"
type = "A"
ttl = 600
data = ["192.0.2.53"]

[[records]]
name = "sub"
type = "NS"
data = ["ns.elsewhere.test."]

[[records]]
name = "mail"
type = "MX"
data = ["10 ns1"]

[monitors.web]
type = "https"
path = "/healthz"
interval = "10s"
timeout = "2s"

[pools.weu]
region = "weu"
monitor = "web"
minimum_origins = 1
zonal_affinity = { mode = "spill_cross_zone", spillover_ratio = 0.8 }
failover_policy = { failover_ratio = 0.5, drop_traffic_if_unhealthy = false }

[[pools.weu.origins]]
name = "ams-1"
address = "192.0.2.10"
zone = "weu-a"
weight = 0.4

[[pools.weu.origins]]
name = "ams-2"
address = ["192.0.2.11", "2001:db8::11"]
zone = "weu-b"
weight = 0.6
role = "failover"

[pools.use]
region = "enam"

[[pools.use.origins]]
name = "nyc-1"
address = "192.0.2.20"

[load_balancers."www"]
pools = ["weu", "use"]
fallback_pool = "use"
steering = "geo"
client = "ecs"
ttl = 30
answers = 1
region_pools = { weu = ["weu", "use"] }
country_pools = { GB = ["weu"] }
"#,
    ),
    (
        REGIONS,
        r#"[regions.weu]
countries = ["NL", "GB"]

[regions.enam]
countries = ["US"]

[regions.europe-west4]
parent = "weu"
"#,
    ),
    (
        SUBNETS,
        r#"[subnets."10.1.0.0/16"]
region = "europe-west4"
zone = "ew4-a"

[subnets."203.0.113.0/24"]
country = "NL"
location = [52.4, 4.9]
"#,
    ),
    (
        RTT,
        r#"[rtt.weu]
use = 92.5
"#,
    ),
];

fn good() -> Site {
    let site = Site::new();
    for (file, text) in GOOD {
        site.write(file, text);
    }
    site
}

// ---------------------------------------------------------------------------------- Mistakes

/// One change to the good configuration: in `file`, `old` becomes `new`. The error is expected at
/// the line where `new` begins, with a key that ends in `key`, and with `says` in what is printed.
struct Mistake {
    file: &'static str,
    old: &'static str,
    new: &'static str,
    key: &'static str,
    says: &'static str,
    line: Line,
}

/// Where the diagnostic may point.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Exact,
    /// Two places are at fault, or a thing that is not there.
    Any,
}

const fn exact(
    file: &'static str,
    old: &'static str,
    new: &'static str,
    key: &'static str,
    says: &'static str,
) -> Mistake {
    Mistake {
        file,
        old,
        new,
        key,
        says,
        line: Line::Exact,
    }
}

const fn anywhere(
    file: &'static str,
    old: &'static str,
    new: &'static str,
    key: &'static str,
    says: &'static str,
) -> Mistake {
    Mistake {
        file,
        old,
        new,
        key,
        says,
        line: Line::Any,
    }
}

/// A diagnostic as printed: `FILE:LINE:COLUMN: error: KEY: MESSAGE` and `help: REMEDY` below it.
#[derive(Debug)]
struct Diagnostic {
    file: String,
    line: usize,
    key: String,
    text: String,
}

/// Reads the diagnostics of a run of `check`.
fn diagnostics(run: &Run) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut lines = run.stderr.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((place, rest)) = line.split_once(": error: ") else {
            continue;
        };
        let mut place = place.rsplitn(3, ':');
        let column: usize = number(place.next(), line);
        let number = number(place.next(), line);
        assert!(number > 0 && column > 0, "counted from 1: {line}");
        let file = place
            .next()
            .unwrap_or_else(|| panic!("no file: {line}"))
            .to_owned();
        let (key, _) = rest
            .split_once(": ")
            .unwrap_or_else(|| panic!("no key: {line}"));
        let help = lines.peek().copied().unwrap_or_default();
        let remedy = help.trim_start().strip_prefix("help: ").unwrap_or_default();
        assert!(
            !remedy.is_empty() && help.starts_with(' '),
            "no help line: {line}\n{help}"
        );
        let text = format!("{rest}\n{help}");
        found.push(Diagnostic {
            file,
            line: number,
            key: key.to_owned(),
            text,
        });
    }
    found
}

fn number(text: Option<&str>, line: &str) -> usize {
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no line and column: {line}"))
}

/// Makes every mistake in turn, and fails with all that are not reported as they should be.
fn assert_reported(mistakes: &[Mistake]) {
    let mut faults = String::new();
    for mistake in mistakes {
        if let Err(fault) = reported(mistake) {
            faults += &format!(
                "{}: {:?} -> {:?}: {fault}\n",
                mistake.file, mistake.old, mistake.new
            );
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

fn reported(mistake: &Mistake) -> Result<(), String> {
    let Mistake {
        file,
        old,
        new,
        key,
        says,
        line,
    } = mistake;
    let site = good();
    let text = GOOD
        .iter()
        .find(|(name, _)| name == file)
        .map_or("", |(_, text)| *text);
    let at = text.find(old).expect("the text that is replaced");
    let number = text[..at].lines().count() + usize::from(text[..at].ends_with('\n') || at == 0);
    site.write(file, text.replacen(old, new, 1));

    let run = site.check();
    if run.code != Some(1) {
        return Err(format!("exit code {:?}\n{}", run.code, run.stderr));
    }
    let base = file.rsplit('/').next().expect("a file name");
    let found = diagnostics(&run);
    let fits = |diagnostic: &&Diagnostic| {
        diagnostic.file.ends_with(base)
            && (*line == Line::Any || diagnostic.line == number)
            && diagnostic.key.contains(key)
            && diagnostic.text.contains(says)
    };
    match found.iter().find(fits) {
        Some(_) => Ok(()),
        None => Err(format!(
            "expected {base}:{number}, key {key:?}, {says:?}\n{found:#?}"
        )),
    }
}

// "Unknown keys are errors": the nearest known key is suggested, in every table.
#[test]
fn unknown_keys_are_errors_that_suggest_the_right_one() {
    assert_reported(&[
        exact(MERIDIAN, "workers = 1", "workrs = 1", "workrs", "workers"),
        exact(MERIDIAN, "[server]", "[serber]", "serber", "server"),
        anywhere(MERIDIAN, "{ pop =", "{ popp =", "popp", "pop"),
        exact(ZONE, "ttl = 300", "ttll = 300", "ttll", "ttl"),
        exact(ZONE, "minimum = 60", "minimun = 60", "minimun", "minimum"),
        exact(ZONE, "ttl = 600", "tll = 600", "tll", "ttl"),
        exact(ZONE, "interval = ", "intervall = ", "intervall", "interval"),
        exact(
            ZONE,
            "minimum_origins",
            "minimum_origin",
            "minimum_origin",
            "minimum_origins",
        ),
        exact(ZONE, "weight = 0.4", "wieght = 0.4", "wieght", "weight"),
        exact(ZONE, "steering = ", "stering = ", "stering", "steering"),
        exact(
            ZONE,
            "fallback_pool",
            "fallbackpool",
            "fallbackpool",
            "fallback_pool",
        ),
        anywhere(
            ZONE,
            "spillover_ratio",
            "spilover_ratio",
            "spilover_ratio",
            "spillover_ratio",
        ),
        anywhere(
            ZONE,
            "failover_ratio",
            "failover_ration",
            "failover_ration",
            "failover_ratio",
        ),
        exact(ZONE, "[pools.use]", "[pool.use]", "pool", "pools"),
        exact(REGIONS, "parent = ", "parrent = ", "parrent", "parent"),
        exact(SUBNETS, "country = ", "contry = ", "contry", "country"),
    ]);
}

#[test]
fn wrong_types_are_errors() {
    assert_reported(&[
        exact(MERIDIAN, "workers = 1", "workers = \"two\"", "workers", ""),
        exact(
            MERIDIAN,
            "listen = [\"127.0.0.1:0\"]",
            "listen = 53",
            "listen",
            "",
        ),
        exact(ZONE, "ttl = 300", "ttl = \"5m\"", "ttl", ""),
        exact(ZONE, "weight = 0.4", "weight = \"0.4\"", "weight", ""),
        exact(
            ZONE,
            "minimum_origins = 1",
            "minimum_origins = 1.5",
            "minimum_origins",
            "",
        ),
        exact(
            ZONE,
            "pools = [\"weu\", \"use\"]",
            "pools = \"weu\"",
            "pools",
            "",
        ),
        exact(ZONE, "data = [\"10 ns1\"]", "data = \"10 ns1\"", "data", ""),
        // "durations are strings with a unit"
        exact(ZONE, "interval = \"10s\"", "interval = 10", "interval", ""),
        exact(
            ZONE,
            "interval = \"10s\"",
            "interval = \"10\"",
            "interval",
            "",
        ),
        exact(RTT, "use = 92.5", "use = \"fast\"", "use", ""),
    ]);
}

// "at most 6 decimals, read exactly from the text; more, a sign, inf or nan is an error".
#[test]
fn weights_and_ratios_are_exact_decimals_in_range() {
    assert_reported(&[
        exact(ZONE, "weight = 0.4", "weight = 0.1234567", "weight", "6"),
        exact(ZONE, "weight = 0.4", "weight = -0.4", "weight", ""),
        exact(ZONE, "weight = 0.4", "weight = +0.4", "weight", ""),
        exact(ZONE, "weight = 0.4", "weight = inf", "weight", ""),
        exact(ZONE, "weight = 0.4", "weight = nan", "weight", ""),
        exact(ZONE, "weight = 0.4", "weight = 1.000001", "weight", ""),
        exact(ZONE, "weight = 0.4", "weight = 2", "weight", ""),
        anywhere(
            ZONE,
            "spillover_ratio = 0.8",
            "spillover_ratio = 1.1",
            "spillover_ratio",
            "",
        ),
        anywhere(
            ZONE,
            "spillover_ratio = 0.8",
            "spillover_ratio = -0.1",
            "spillover_ratio",
            "",
        ),
        anywhere(
            ZONE,
            "spillover_ratio = 0.8",
            "spillover_ratio = nan",
            "spillover_ratio",
            "",
        ),
        anywhere(
            ZONE,
            "failover_ratio = 0.5",
            "failover_ratio = 1.5",
            "failover_ratio",
            "",
        ),
        anywhere(
            ZONE,
            "failover_ratio = 0.5",
            "failover_ratio = 0.5000001",
            "failover_ratio",
            "",
        ),
        // "spillover_ratio ... set with another mode, is a configuration error"
        anywhere(
            ZONE,
            "\"spill_cross_zone\"",
            "\"stay_within_zone\"",
            "spillover_ratio",
            "",
        ),
        anywhere(
            ZONE,
            "\"spill_cross_zone\"",
            "\"disabled\"",
            "spillover_ratio",
            "",
        ),
    ]);
}

#[test]
fn unknown_words_are_errors_that_list_the_known_ones() {
    assert_reported(&[
        exact(
            ZONE,
            "steering = \"geo\"",
            "steering = \"goe\"",
            "steering",
            "geo",
        ),
        exact(
            ZONE,
            "client = \"ecs\"",
            "client = \"edns\"",
            "client",
            "ecs",
        ),
        exact(
            ZONE,
            "role = \"failover\"",
            "role = \"backup\"",
            "role",
            "failover",
        ),
        exact(ZONE, "type = \"https\"", "type = \"ping\"", "type", ""),
        exact(ZONE, "type = \"MX\"", "type = \"MXX\"", "type", ""),
        exact(ZONE, "answers = 1", "answers = \"some\"", "answers", "all"),
        anywhere(
            ZONE,
            "\"spill_cross_zone\"",
            "\"spill\"",
            "mode",
            "spill_cross_zone",
        ),
    ]);
}

#[test]
fn names_that_lead_nowhere_are_errors() {
    assert_reported(&[
        exact(
            ZONE,
            "pools = [\"weu\", \"use\"]",
            "pools = [\"wue\", \"use\"]",
            "pools",
            "wue",
        ),
        exact(
            ZONE,
            "fallback_pool = \"use\"",
            "fallback_pool = \"usa\"",
            "fallback_pool",
            "usa",
        ),
        exact(
            ZONE,
            "monitor = \"web\"",
            "monitor = \"wbe\"",
            "monitor",
            "wbe",
        ),
        exact(
            ZONE,
            "{ GB = [\"weu\"] }",
            "{ GB = [\"wue\"] }",
            "country_pools",
            "wue",
        ),
        // Regions: "a region that regions.toml lacks is an error that suggests the nearest".
        exact(
            SUBNETS,
            "region = \"europe-west4\"",
            "region = \"europe-west\"",
            "region",
            "europe-west4",
        ),
        exact(
            ZONE,
            "region = \"enam\"",
            "region = \"enma\"",
            "region",
            "enam",
        ),
        exact(
            ZONE,
            "{ weu = [\"weu\", \"use\"] }",
            "{ wue = [\"weu\", \"use\"] }",
            "region_pools",
            "weu",
        ),
        exact(
            REGIONS,
            "parent = \"weu\"",
            "parent = \"weuu\"",
            "parent",
            "weu",
        ),
    ]);
}

#[test]
fn geography_is_checked() {
    assert_reported(&[
        exact(
            SUBNETS,
            "[subnets.\"10.1.0.0/16\"]",
            "[subnets.\"10.1.0.0/33\"]",
            "10.1.0.0/33",
            "",
        ),
        exact(
            SUBNETS,
            "[subnets.\"10.1.0.0/16\"]",
            "[subnets.\"ten/8\"]",
            "ten/8",
            "",
        ),
        // "zone needs region"
        anywhere(SUBNETS, "region = \"europe-west4\"\n", "", "zone", "region"),
        exact(
            SUBNETS,
            "location = [52.4, 4.9]",
            "location = [52.4]",
            "location",
            "",
        ),
        // "the same code in two regions is an error"
        anywhere(
            REGIONS,
            "countries = [\"US\"]",
            "countries = [\"US\", \"NL\"]",
            "countries",
            "NL",
        ),
        exact(
            REGIONS,
            "countries = [\"US\"]",
            "countries = [\"America\"]",
            "countries",
            "",
        ),
        anywhere(
            REGIONS,
            "[regions.weu]",
            "[regions.weu]\nparent = \"europe-west4\"",
            "parent",
            "",
        ),
        anywhere(
            REGIONS,
            "[regions.weu]",
            "[regions.weu]\nparent = \"weu\"",
            "parent",
            "",
        ),
    ]);
}

// "a static record of these there, or a load balancer at or below a delegation, is an error".
#[test]
fn records_and_load_balancers_must_not_collide() {
    assert_reported(&[
        anywhere(
            ZONE,
            "name = \"mail\"\ntype = \"MX\"\ndata = [\"10 ns1\"]",
            "name = \"www\"\ntype = \"A\"\ndata = [\"192.0.2.9\"]",
            "",
            "www",
        ),
        anywhere(
            ZONE,
            "name = \"mail\"\ntype = \"MX\"\ndata = [\"10 ns1\"]",
            "name = \"www\"\ntype = \"AAAA\"\ndata = [\"2001:db8::9\"]",
            "",
            "www",
        ),
        anywhere(
            ZONE,
            "name = \"mail\"\ntype = \"MX\"\ndata = [\"10 ns1\"]",
            "name = \"www\"\ntype = \"CNAME\"\ndata = [\"ns1\"]",
            "",
            "www",
        ),
        anywhere(
            ZONE,
            "[load_balancers.\"www\"]",
            "[load_balancers.\"sub\"]",
            "",
            "sub",
        ),
        anywhere(
            ZONE,
            "[load_balancers.\"www\"]",
            "[load_balancers.\"a.sub\"]",
            "",
            "sub",
        ),
        // RFC 1034 3.6.2: a CNAME stands alone.
        anywhere(
            ZONE,
            "name = \"mail\"\ntype = \"MX\"\ndata = [\"10 ns1\"]",
            "name = \"ns1\"\ntype = \"CNAME\"\ndata = [\"elsewhere.test.\"]",
            "",
            "CNAME",
        ),
        anywhere(
            ZONE,
            "name = \"mail\"\ntype = \"MX\"\ndata = [\"10 ns1\"]",
            "name = \"@\"\ntype = \"CNAME\"\ndata = [\"elsewhere.test.\"]",
            "",
            "CNAME",
        ),
        // "A zone without an apex NS is an error."
        anywhere(
            ZONE,
            "name = \"@\"\ntype = \"NS\"",
            "name = \"other\"\ntype = \"NS\"",
            "",
            "NS",
        ),
    ]);
}

#[test]
fn records_are_checked() {
    let long =
        "[load_balancers.\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"]";
    assert_reported(&[
        exact(ZONE, "ttl = 600", "ttl = -1", "ttl", ""),
        exact(ZONE, "ttl = 600", "ttl = 4294967296", "ttl", ""),
        exact(ZONE, "ttl = 30\n", "ttl = -30\n", "ttl", ""),
        exact(
            ZONE,
            "data = [\"192.0.2.53\"]",
            "data = [\"192.0.2.530\"]",
            "data",
            "",
        ),
        exact(ZONE, "data = [\"10 ns1\"]", "data = [\"ns1\"]", "data", ""),
        exact(ZONE, "name = \"mail\"", "name = \"ma..il\"", "name", ""),
        exact(
            ZONE,
            "zone = \"example.test\"",
            "zone = \"exa..mple.test\"",
            "zone",
            "",
        ),
        exact(ZONE, "[load_balancers.\"www\"]", long, "load_balancers", ""),
    ]);
}

#[test]
fn pools_origins_and_monitors_are_checked() {
    assert_reported(&[
        anywhere(
            ZONE,
            "name = \"ams-2\"",
            "name = \"ams-1\"",
            "name",
            "ams-1",
        ),
        // "digits and dots that are no address are an error"
        exact(
            ZONE,
            "address = \"192.0.2.10\"",
            "address = \"192.0.2.300\"",
            "address",
            "192.0.2.300",
        ),
        exact(
            ZONE,
            "address = \"192.0.2.10\"",
            "address = \"192.0.2\"",
            "address",
            "192.0.2",
        ),
        anywhere(ZONE, "name = \"ams-1\"\n", "", "", "name"),
        anywhere(ZONE, "address = \"192.0.2.10\"\n", "", "", "address"),
        anywhere(ZONE, "pools = [\"weu\", \"use\"]\n", "", "", "pools"),
        // health.md: the timeout is less than the interval, which is 1 s to 1 h.
        anywhere(
            ZONE,
            "timeout = \"2s\"",
            "timeout = \"10s\"",
            "timeout",
            "interval",
        ),
        anywhere(
            ZONE,
            "timeout = \"2s\"",
            "timeout = \"11s\"",
            "timeout",
            "interval",
        ),
        exact(
            ZONE,
            "interval = \"10s\"\ntimeout = \"2s\"",
            "interval = \"500ms\"",
            "interval",
            "",
        ),
        exact(
            ZONE,
            "interval = \"10s\"",
            "interval = \"2h\"",
            "interval",
            "",
        ),
        anywhere(ZONE, "type = \"https\"\n", "", "", "type"),
        exact(
            ZONE,
            "ttl = 30\n",
            "rtt_tolerance = [\"5 apples\", \"10%\"]\n",
            "rtt_tolerance",
            "",
        ),
    ]);
}

// What this version does not offer is refused, not ignored.
#[test]
fn what_is_not_offered_yet_is_an_error() {
    assert_reported(&[
        exact(
            MERIDIAN,
            "[server]",
            "[admin]\nlisten = \"127.0.0.1:5380\"\n[server]",
            "admin",
            "",
        ),
        exact(
            MERIDIAN,
            "[server]",
            "[tls]\ndot = [\"127.0.0.1:853\"]\n[server]",
            "tls",
            "",
        ),
        exact(
            MERIDIAN,
            "[server]",
            "[cluster]\nbucket = \"meridian\"\n[server]",
            "cluster",
            "",
        ),
        exact(MERIDIAN, "workers = 1", "watch = true", "watch", ""),
        anywhere(MERIDIAN, "{ pop =", "{ nsid = \"ams1\", pop =", "nsid", ""),
        exact(
            ZONE,
            "ttl = 30\n",
            "session_affinity = { ttl = \"30m\" }\n",
            "session_affinity",
            "",
        ),
        exact(ZONE, "ttl = 30\n", "flatten = true\n", "flatten", ""),
        exact(
            ZONE,
            "steering = \"geo\"",
            "steering = \"proximity\"",
            "steering",
            "",
        ),
        exact(
            ZONE,
            "steering = \"geo\"",
            "steering = \"random\"",
            "steering",
            "",
        ),
        exact(
            ZONE,
            "address = \"192.0.2.10\"",
            "address = \"host.elsewhere.test\"",
            "address",
            "",
        ),
    ]);
}

#[test]
fn broken_files_are_errors_with_a_line() {
    let cases = [
        (MERIDIAN, "workers = 1", "workers = = 1"),
        (ZONE, "steering = \"geo\"", "steering = \"geo"),
        (SUBNETS, "country = \"NL\"", "country \"NL\""),
        (
            REGIONS,
            "parent = \"weu\"",
            "parent = \"weu\"\nparent = \"weu\"",
        ),
    ];
    for (file, old, new) in cases {
        let site = good();
        let text = GOOD
            .iter()
            .find(|(name, _)| *name == file)
            .map_or("", |(_, text)| *text);
        assert!(text.contains(old));
        site.write(file, text.replacen(old, new, 1));
        let run = site.check();
        assert_eq!(run.code, Some(1), "{file}: {new}");
        let place = format!("{}:", file.rsplit('/').next().expect("a file name"));
        assert!(run.stderr.contains(&place), "{file}: {new}\n{}", run.stderr);
    }
}

// ---------------------------------------------------------------------------------- Several files

/// The text of one file of the good configuration with one change.
fn changed(file: &str, old: &str, new: &str) -> String {
    let text = GOOD
        .iter()
        .find(|(name, _)| *name == file)
        .map_or("", |(_, text)| *text);
    assert!(text.contains(old), "{old}");
    text.replacen(old, new, 1)
}

fn assert_says(run: &Run, expected: &[&str]) {
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    for word in expected {
        assert!(
            run.stderr.contains(word),
            "{word:?} is missing in\n{}",
            run.stderr
        );
    }
}

// "all errors of a run are printed together".
#[test]
fn errors_in_several_files_are_all_reported() {
    let site = good();
    let zone = changed(ZONE, "weight = 0.4", "weight = 4");
    site.write(
        ZONE,
        zone.replacen("client = \"ecs\"", "client = \"edns\"", 1),
    );
    site.write(SUBNETS, changed(SUBNETS, "10.1.0.0/16", "10.1.0.0/99"));
    site.write(MERIDIAN, changed(MERIDIAN, "workers = 1", "workrs = 1"));
    let run = site.check();
    assert_eq!(run.code, Some(1));
    let found = diagnostics(&run);
    for (file, key) in [
        ("example.test.toml", "weight"),
        ("example.test.toml", "client"),
        ("subnets.toml", "10.1.0.0/99"),
        ("meridian.toml", "workrs"),
    ] {
        let there = found
            .iter()
            .any(|d| d.file.ends_with(file) && d.key.contains(key));
        assert!(there, "{file} {key} is missing in {found:#?}");
    }
}

#[test]
fn the_json_form_says_the_same() {
    let site = good();
    site.write(ZONE, changed(ZONE, "weight = 0.4", "weight = 4"));
    site.write(
        SUBNETS,
        changed(SUBNETS, "zone = \"ew4-a\"", "zoone = \"ew4-a\""),
    );
    let text = diagnostics(&site.check());
    let run = site.run(&["check", ".", "--json"]);
    assert_eq!(run.code, Some(1));
    let json: Value = serde_json::from_str(&run.stdout).expect("a JSON document");
    let errors = json["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), text.len());
    for error in errors {
        let same = |d: &&Diagnostic| error["line"] == d.line && error["key"] == d.key.as_str();
        assert!(text.iter().any(|d| same(&d)), "{error} is not in {text:#?}");
        for key in ["file", "message", "help"] {
            assert!(
                error[key].as_str().is_some_and(|text| !text.is_empty()),
                "{key} in {error}"
            );
        }
        assert!(
            error["column"].as_u64().is_some_and(|column| column > 0),
            "{error}"
        );
    }
}

#[test]
fn a_zone_is_in_one_file_only() {
    let site = good();
    site.write("zones/again.toml", GOOD[1].1);
    assert_says(&site.check(), &["example.test", "again.toml"]);
}

// "the same owner name and type in both is an error"; a missing master file too.
#[test]
fn master_files_are_checked() {
    const NAMES: &str = "$TTL 300\nns1 IN A 192.0.2.53\nextra IN A 192.0.2.77\n";
    let with_zonefile = changed(
        ZONE,
        "ttl = 300",
        "ttl = 300\nzonefile = \"example.test.zone\"",
    );
    let site = good();
    site.write(ZONE, &with_zonefile);
    assert_says(&site.check(), &["zonefile", "example.test.zone"]);
    site.write("zones/example.test.zone", NAMES);
    assert_says(&site.check(), &["ns1"]);
    site.write(
        "zones/example.test.zone",
        "$TTL 300\nextra IN A 192.0.2.77\nwww IN A 192.0.2.78\n",
    );
    assert_says(&site.check(), &["www"]);
    site.write(
        "zones/example.test.zone",
        "$TTL 300\nextra IN A 192.0.2.77\nbroken IN A not-one\n",
    );
    assert_says(&site.check(), &["example.test.zone:3:"]);
    site.write(
        "zones/example.test.zone",
        "$TTL 300\nextra IN A 192.0.2.77\n",
    );
    assert_eq!(site.check().code, Some(0), "{}", site.check().stderr);
}

// config.md: shared.toml has pools and monitors only; a pool of the same name is an error.
#[test]
fn shared_pools_serve_every_zone() {
    const SHARED: &str = "[monitors.tcp]\ntype = \"tcp\"\nport = 80\n[pools.shared]\nmonitor = \"tcp\"\n\
                          origins = [{ name = \"s1\", address = \"192.0.2.90\" }]\n";
    let site = good();
    site.write("zones/shared.toml", SHARED);
    site.write(
        ZONE,
        changed(
            ZONE,
            "fallback_pool = \"use\"",
            "fallback_pool = \"shared\"",
        ),
    );
    assert_eq!(site.check().code, Some(0), "{}", site.check().stderr);
    let found = site.explain(&[
        "www.example.test",
        "A",
        "--client",
        "10.1.0.1",
        "--down",
        "weu",
        "--down",
        "use",
    ]);
    assert_eq!(found["pool"], "shared", "{found:#}");

    site.write(
        "zones/shared.toml",
        SHARED.replace("pools.shared", "pools.use"),
    );
    assert_says(&site.check(), &["use"]);
    site.write(
        "zones/shared.toml",
        format!("zone = \"example.org\"\n{SHARED}"),
    );
    assert_says(&site.check(), &["shared.toml", "zone"]);
    let balancer = format!("{SHARED}[load_balancers.www]\npools = [\"shared\"]\n");
    site.write("zones/shared.toml", balancer);
    assert_says(&site.check(), &["shared.toml", "load_balancers"]);
}

#[test]
fn a_corrupt_database_is_an_error() {
    let site = good();
    let database =
        mmdb::database(&[("198.51.100.0/24", serde_json::json!({"country_code": "NL"}))]);
    site.write("geo/city.mmdb", &database);
    assert_eq!(site.check().code, Some(0), "{}", site.check().stderr);
    let half = database.len() / 2;
    let astray = [&[0x7f; 64], &database[64..]].concat();
    for (why, octets) in [
        ("cut in half", &database[..half]),
        ("empty", &[]),
        ("no database", b"this is not a database".as_slice()),
        ("a tree that points nowhere", &astray),
    ] {
        site.write("geo/city.mmdb", octets);
        let run = site.check();
        assert_eq!(run.code, Some(1), "{why}: {}", run.stderr);
        assert!(run.stderr.contains("city.mmdb"), "{why}: {}", run.stderr);
    }
}

// "any MaxMind-format database": flat records (country_code) as well.
#[test]
fn flat_databases_are_read() {
    let site = good();
    let flat = |code: &str| serde_json::json!({"country_code": code});
    let networks = [
        ("198.51.100.0/24", flat("NL")),
        ("198.51.101.0/24", flat("US")),
    ];
    site.write("geo/flat.mmdb", mmdb::database(&networks));
    for (client, country, region) in [
        ("198.51.100.7", "NL", "weu"),
        ("198.51.101.7", "US", "enam"),
    ] {
        let found = site.explain(&["www.example.test", "A", "--client", client]);
        assert_eq!(found["location"]["country"], country, "{found:#}");
        assert_eq!(found["location"]["region"], region, "{found:#}");
    }
}

// ---------------------------------------------------------------------------------- Accepted

#[test]
fn the_good_configuration_passes() {
    let run = good().check();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(diagnostics(&run).is_empty());
    let run = good().run(&["check", ".", "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).expect("a JSON document");
    assert_eq!(json["errors"], serde_json::json!([]));
}

// "meridian.toml (server) is optional; every field has a default"; the folders can be named.
#[test]
fn files_are_found_where_they_are_named() {
    let site = good();
    std::fs::remove_file(site.path().join(MERIDIAN)).expect("a file");
    assert_eq!(site.check().code, Some(0), "without meridian.toml");
    std::fs::rename(site.path().join("zones"), site.path().join("z")).expect("a folder");
    std::fs::rename(site.path().join("geo"), site.path().join("g")).expect("a folder");
    let run = site.run(&["check", "--zones", "z", "--geo", "g"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    // "Paths are relative to their file."
    std::fs::create_dir(site.path().join("etc")).expect("a folder");
    site.write(
        "etc/other.toml",
        "[server]\nzones = \"../z\"\ngeo = \"../g\"\n",
    );
    let run = site.run(&["check", "--config", "etc/other.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(
        site.run(&["check", "--frobnicate"]).code,
        Some(2),
        "wrong usage"
    );
}

// "check warns where a load balancer's ttl is 0 or exceeds the zone's minimum", and "where [a
// record name] ends in the zone's own name"; a warning is no error.
#[test]
fn doubtful_values_are_warned_of() {
    let record = "name = \"mail.example.test\"";
    for (old, new, key) in [
        ("ttl = 30\n", "ttl = 0\n", "ttl"),
        ("ttl = 30\n", "ttl = 61\n", "ttl"),
        ("name = \"mail\"", record, "name"),
    ] {
        let site = good();
        let warnings = |site: &Site| {
            let run = site.run(&["check", ".", "--json"]);
            assert_eq!(run.code, Some(0), "{new}: {}", run.stderr);
            let json: Value = serde_json::from_str(&run.stdout).expect("a JSON document");
            json["warnings"].as_array().expect("warnings").clone()
        };
        let before = warnings(&site);
        site.write(ZONE, changed(ZONE, old, new));
        let after = warnings(&site);
        let new_ones: Vec<&Value> = after.iter().filter(|w| !before.contains(w)).collect();
        let there = new_ones.iter().any(|w| {
            w["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("example.test.toml"))
                && w["key"].as_str().is_some_and(|found| found.contains(key))
        });
        assert!(there, "{new}: {new_ones:#?}");
    }
}

// "at start the server does not come up", with the same diagnostics.
#[test]
fn serve_refuses_what_check_refuses() {
    let site = good();
    site.write(ZONE, changed(ZONE, "weight = 0.4", "weight = 4"));
    let run = site.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_says(&run, &["example.test.toml", "weight"]);
    site.write(ZONE, GOOD[1].1);
    let _server = Server::start(&site);
}
