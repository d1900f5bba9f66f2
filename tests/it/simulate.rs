//! `meridian simulate` (spec/operations.md): a query log or a mix of clients, replayed through one
//! configuration or compared between two.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use crate::harness::{Run, Site};

const POOLS: &str = r#"
[pools.eu]
region = "weu"
zonal_affinity = { mode = "spill_cross_zone" }
origins = [
  { name = "ams", address = "192.0.2.1", zone = "weu-a", weight = 0.75 },
  { name = "fra", address = "192.0.2.2", zone = "weu-b", weight = 0.25 },
]
[pools.us]
region = "nam"
origins = [{ name = "nyc", address = "192.0.2.3", zone = "nam-a" }]
"#;

const BALANCERS: &str = r#"
[load_balancers.www]
steering = "geo"
pools = ["eu", "us"]
region_pools = { nam = ["us", "eu"] }
[load_balancers.api]
pools = ["us", "eu"]
"#;

const SUBNETS: &str = r#"
[subnets."10.1.0.0/16"]
region = "weu"
zone = "weu-a"
[subnets."10.2.0.0/16"]
region = "weu"
[subnets."10.3.0.0/16"]
region = "nam"
zone = "nam-b"
"#;

fn site(balancers: &str) -> Site {
    let site = Site::with_zone(&format!("{POOLS}{balancers}"));
    site.write("geo/subnets.toml", SUBNETS);
    site
}

/// A folder `new` within the site, with these texts replaced in its zone.
fn with_new(site: &Site, changes: &[(&str, &str)]) {
    for folder in ["new", "new/zones", "new/geo"] {
        fs::create_dir(site.path().join(folder)).expect("a new folder");
    }
    let zone = fs::read_to_string(site.path().join("zones/example.test.toml")).expect("the zone");
    let changed = changes.iter().fold(zone, |zone, (old, new)| {
        assert!(zone.contains(old), "{old:?} is to be replaced");
        zone.replace(old, new)
    });
    site.write("new/zones/example.test.toml", changed);
    site.write("new/geo/subnets.toml", SUBNETS);
}

fn simulate(site: &Site, arguments: &[&str]) -> Run {
    site.run(&[&["simulate"], arguments].concat())
}

fn json(site: &Site, arguments: &[&str]) -> Value {
    let run = simulate(site, &[arguments, &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// The shares of a list of a load balancer ("pools", "zones") by the name in each entry.
fn shares(answered: &Value, balancer: &str, list: &str, key: &str) -> Value {
    let balancers = answered["load_balancers"].as_array().expect("load balancers");
    let is_it = |entry: &&Value| entry["load_balancer"] == format!("{balancer}.example.test.");
    let entry = balancers.iter().find(is_it).unwrap_or_else(|| panic!("{balancer}: {answered:#}"));
    let entries = entry[list].as_array().expect("a list").iter();
    let shares = entries
        .map(|entry| (entry[key].as_str().unwrap_or("none").to_owned(), entry["share"].clone()));
    Value::Object(shares.collect())
}

// "client[/len] name [type]", # comments; unreadable lines are told with their number and counted.
#[test]
fn a_log_is_replayed() {
    let site = site(BALANCERS);
    let mut log = String::from("# a log\n\n");
    for _ in 0..30 {
        log += "10.1.0.7 www.example.test\n10.2.0.0/24 www.example.test. A  # ECS\n";
        log += "10.3.0.7 WWW.example.test A\n192.0.2.200 api.example.test\n";
    }
    log += "10.1.0.7 ns1.example.test A\n10.1.0.7 www.example.test MX\n10.1.0.7 www.example.org\n";
    log += "10.1.0.7 www.example.test AAAA\nnobody www.example.test\n10.1.0.7\n";
    site.write("log", &log);
    let run = simulate(&site, &["--queries", "log"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    for said in ["line 127 ", "\"nobody\"", "line 128 ", "no name"] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    for said in ["2 lines could not be read", "124 queries", "3 are for names", "1 without data"] {
        assert!(run.stdout.contains(said), "{said}: {}", run.stdout);
    }

    let found = json(&site, &["--queries", "log"]);
    assert_eq!(found["queries"], 124);
    assert_eq!(found["unreadable"]["count"], 2);
    assert_eq!(found["unreadable"]["first"][0]["line"], 127);
    let before = &found["before"];
    assert_eq!(before["not_steered"], 3);
    assert_eq!(shares(before, "api", "pools", "pool"), json!({"us": 1.0}));
    let third = 30.0 / 90.0;
    assert_eq!(shares(before, "www", "pools", "pool"), json!({"eu": 60.0 / 90.0, "us": third}));
    // The zone weu-a keeps its clients; those of weu without one are spread 0.75 to 0.25.
    let zones = shares(before, "www", "zones", "zone");
    let near = |zone: &str, share: f64| {
        let found = zones[zone].as_f64().expect("a share");
        assert!((found - share).abs() <= 1.0 / 90.0, "{zone} {found}, not {share}");
    };
    near("weu-a", (30.0 + 22.5) / 90.0);
    near("weu-b", 7.5 / 90.0);
    near("nam-a", third);
    // Of the 60 clients in a zone those of nam-b meet an origin of another.
    let www = &before["load_balancers"][1];
    assert_eq!(www["load_balancer"], "www.example.test.");
    assert_eq!(www["cross_zone"], json!({"answers": 60, "share": 0.5}));
    assert_eq!((&www["no_data"], &www["no_answer"]), (&json!(1), &json!(0)));
}

// "Not fatal unless all are": a log without any query is exit 1, and so is one that is not there.
#[test]
fn a_log_without_queries_is_refused() {
    let site = site(BALANCERS);
    let mut log = String::new();
    for number in 0..15 {
        writeln!(log, "nobody-{number} www.example.test").unwrap();
    }
    site.write("log", log);
    let run = simulate(&site, &["--queries", "log"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("line 10 ") && run.stderr.contains("5 more lines"), "{run:?}");
    site.write("log", b"\xff\xfe\n");
    assert_eq!(simulate(&site, &["--queries", "log"]).code, Some(1));
    let run = simulate(&site, &["--queries", "missing"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("missing"), "{run:?}");
    assert_eq!(simulate(&site, &[]).code, Some(2));
    assert_eq!(simulate(&site, &["--queries", "log", "--mix", "weu=1"]).code, Some(2));
}

// Whatever a log has in it, what is said of it is a few short lines without control characters.
#[test]
fn little_is_shown_of_lines_that_cannot_be_read() {
    let site = site(BALANCERS);
    let mut log = format!("{} www.example.test\n", "x".repeat(60_000));
    writeln!(log, "192.0.2.1 {}.example.test", "y".repeat(60_000)).unwrap();
    log += "192.0.2.1 www.example.test \u{1b}[31mA\u{7}\n";
    writeln!(log, "192.0.2.1 {}", "z".repeat(3_000_000)).unwrap();
    log += "192.0.2.1 www.example.test\n";
    log.extend(std::iter::repeat_n("\u{9b}2J\n", 100));
    site.write("log", &log);
    let run = simulate(&site, &["--queries", "log"]);
    assert_eq!(run.code, Some(0), "the fifth line is a query");
    assert!(run.stderr.len() < 4_000 && run.stderr.lines().count() == 11, "{}", run.stderr);
    assert!(!run.stderr.contains(|c: char| c.is_control() && c != '\n'), "{:?}", run.stderr);
    for said in
        ["… (60000 octets)", "… (60013 octets)", "\\u{1b}[31mA", "line 4 ", "65536", "94 more"]
    {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    assert!(run.stdout.contains("1 query") && run.stdout.contains("104 lines"), "{}", run.stdout);
    let found = json(&site, &["--queries", "log"]);
    assert!(found["unreadable"].to_string().len() < 4_000, "{found}");

    let run = simulate(&site, &["--mix", &format!("{}=1\u{1b}", "m".repeat(60_000))]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.len() < 400 && !run.stderr.contains('\u{1b}'), "{}", run.stderr);
}

// A mix asks every load balancer; --down and the like as `explain` has them.
#[test]
fn a_mix_asks_every_load_balancer() {
    let site = site(BALANCERS);
    let found = json(&site, &["--mix", "weu=0.3,nam=0.1"]);
    assert_eq!(shares(&found["before"], "www", "pools", "pool"), json!({"eu": 0.75, "us": 0.25}));
    assert_eq!(shares(&found["before"], "api", "pools", "pool"), json!({"us": 1.0}));
    site.write("mix", "weu/weu-a = 0.3   # Amsterdam\nUS = 0.1\n");
    let found = json(&site, &["--mix", "mix", "--down", "us", "--down", "ams"]);
    assert_eq!(shares(&found["before"], "api", "pools", "pool"), json!({"eu": 1.0}));
    assert_eq!(shares(&found["before"], "www", "zones", "zone"), json!({"weu-b": 1.0}));
    assert_eq!(found["before"]["load_balancers"][0]["cross_zone"]["share"], 1.0);
    for (mix, says) in [
        ("wue=1", "did you mean \"weu\"?"),
        ("weu=2", "share"),
        ("weu/x=1", "zone"),
        ("weu=0", "mix"),
    ] {
        let run = simulate(&site, &["--mix", mix]);
        assert_eq!(run.code, Some(2), "{mix}: {run:?}");
        assert!(run.stderr.contains(says), "{mix}: {run:?}");
    }
    let run = simulate(&site, &["--mix", "weu=1", "--down", "nothing"]);
    assert_eq!(run.code, Some(2), "{run:?}");
}

// "12.4 % of answers move", and of which load balancers, regions, from which pool to which.
#[test]
fn a_new_configuration_is_compared() {
    let site = site(BALANCERS);
    // www loses its list for nam, so those go to eu; within eu 75 to 25 become 50 to 50.
    with_new(
        &site,
        &[
            ("region_pools = { nam = [\"us\", \"eu\"] }", "region_pools = {}"),
            (" weight = 0.75", " weight = 0.25"),
        ],
    );
    let mix = ["--mix", "weu=0.6,nam=0.4", "--new", "new"];
    let found = json(&site, &mix);
    let difference = &found["difference"];
    assert_eq!(difference["answers"], 20_000, "{difference:#}");
    let close = |value: &Value, share: f64| {
        let found = value.as_f64().expect("a share");
        assert!((found - share).abs() < 1e-9, "{found}, not {share}: {difference:#}");
    };
    close(&difference["moved"], (0.4 + 0.6 * 0.25) / 2.0);
    let www = &difference["load_balancers"][0];
    assert_eq!(www["load_balancer"], "www.example.test.");
    close(&www["moved"], 0.4 + 0.6 * 0.25);
    let moves = www["moves"].as_array().expect("moves");
    assert_eq!(moves.len(), 2, "{difference:#}");
    assert_eq!([&moves[0]["region"], &moves[0]["from"], &moves[0]["to"]], ["nam", "us", "eu"]);
    assert_eq!([&moves[1]["region"], &moves[1]["from"], &moves[1]["to"]], ["weu", "eu", "eu"]);
    close(&moves[0]["share"], 0.4);
    close(&moves[1]["share"], 0.15);
    assert_eq!(difference["load_balancers"][1]["moves"], json!([]));
    assert_eq!(shares(&found["after"], "www", "pools", "pool"), json!({"eu": 1.0}));

    let text = simulate(&site, &mix).stdout;
    for said in [
        "27.5 % of 20000 answers move",
        "nam: us → eu",
        "weu: within eu",
        "pool us: 40.0 % → 0.0 %",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("api.example.test"), "what does not move is not shown: {text}");
}

// What is assumed holds on both sides; a load balancer that goes is "not steered" any more.
#[test]
fn names_come_and_go_in_a_new_configuration() {
    let site = site(BALANCERS);
    with_new(
        &site,
        &[("[load_balancers.api]", "[load_balancers.other]"), ("name = \"nyc\"", "name = \"iad\"")],
    );
    site.write(
        "log",
        "10.1.0.1 api.example.test\n10.1.0.1 www.example.test\n10.1.0.1 other.example.test\n",
    );
    let found =
        json(&site, &["--queries", "log", "--new", "new", "--down", "nyc", "--down", "iad"]);
    let moves: Vec<(&Value, &Value)> = found["difference"]["load_balancers"]
        .as_array()
        .expect("load balancers")
        .iter()
        .flat_map(|balancer| balancer["moves"].as_array().expect("moves"))
        .map(|one| (&one["from"], &one["to"]))
        .collect();
    assert_eq!(found["difference"]["answers"], 3);
    assert_eq!(moves.len(), 2, "{found:#}");
    let has = |from: &str, to: &str| moves.iter().any(|(f, t)| **f == from && **t == to);
    assert!(has("eu", "not steered") && has("not steered", "eu"), "{found:#}");
    // A wrong new configuration is told as `check` tells it.
    site.write("new/zones/example.test.toml", "zone = 1");
    let run = simulate(&site, &["--queries", "log", "--new", "new"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("new/zones/example.test.toml:1:"), "{run:?}");
}
