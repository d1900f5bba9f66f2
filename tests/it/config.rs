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
    (MERIDIAN, include_str!("../data/good/meridian.toml")),
    (ZONE, include_str!("../data/good/zones/example.test.toml")),
    (REGIONS, include_str!("../data/good/geo/regions.toml")),
    (SUBNETS, include_str!("../data/good/geo/subnets.toml")),
    (RTT, include_str!("../data/good/geo/rtt.toml")),
];

fn good() -> Site {
    let site = Site::new();
    for (file, text) in GOOD {
        site.write(file, text);
    }
    site
}

// ---------------------------------------------------------------------------------- Mistakes

/// One change to the good configuration, written `FILE | OLD => NEW | KEY | SAYS`: in the file, OLD
/// becomes NEW (`\n` is a new line). The error is expected in this file at the line where NEW begins
/// (at any line for `FILE?`: two places are at fault, or a thing that is not there), with KEY in its
/// key and SAYS in its message or remedy.
struct Mistake<'a> {
    file: &'static str,
    any_line: bool,
    old: String,
    new: String,
    key: &'a str,
    says: &'a str,
}

impl<'a> Mistake<'a> {
    fn parse(line: &'a str) -> Self {
        let mut fields = line.split(" |").map(str::trim);
        let mut field = || fields.next().unwrap_or_else(|| panic!("a field is missing: {line}"));
        let (file, change, key, says) = (field(), field(), field(), field());
        let (old, new) = change.split_once("=>").expect("OLD => NEW");
        let text = |part: &str| part.trim().replace("\\n", "\n");
        Self {
            file: match file.trim_end_matches('?') {
                "server" => MERIDIAN,
                "zone" => ZONE,
                "regions" => REGIONS,
                "subnets" => SUBNETS,
                "rtt" => RTT,
                other => panic!("no file {other:?}"),
            },
            any_line: file.ends_with('?'),
            old: text(old),
            new: text(new),
            key,
            says,
        }
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
        let file = place.next().unwrap_or_else(|| panic!("no file: {line}")).to_owned();
        let (key, _) = rest.split_once(": ").unwrap_or_else(|| panic!("no key: {line}"));
        let help = lines.peek().copied().unwrap_or_default();
        let remedy = help.trim_start().strip_prefix("help: ").unwrap_or_default();
        assert!(!remedy.is_empty() && help.starts_with(' '), "no help line: {line}\n{help}");
        let text = format!("{rest}\n{help}");
        found.push(Diagnostic { file, line: number, key: key.to_owned(), text });
    }
    found
}

fn number(text: Option<&str>, line: &str) -> usize {
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no line and column: {line}"))
}

/// Makes every mistake in turn, and fails with all that are not reported as they should be.
fn assert_reported(mistakes: &str) {
    let mut faults = String::new();
    let lines = mistakes.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Err(fault) = reported(&Mistake::parse(line)) {
            faults += &format!("{line}: {fault}\n");
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

fn reported(mistake: &Mistake<'_>) -> Result<(), String> {
    let Mistake { file, any_line, old, new, key, says } = mistake;
    let site = good();
    site.write(file, changed(file, old, new));
    let before = original(file).split(old.as_str()).next().unwrap_or_default();
    let number = before.split('\n').count();

    let run = site.check();
    if run.code != Some(1) {
        return Err(format!("exit code {:?}\n{}", run.code, run.stderr));
    }
    let base = file.rsplit('/').next().expect("a file name");
    let found = diagnostics(&run);
    let fits = |diagnostic: &Diagnostic| {
        diagnostic.file.ends_with(base)
            && (*any_line || diagnostic.line == number)
            && diagnostic.key.contains(key)
            && diagnostic.text.contains(says)
    };
    if found.iter().any(fits) {
        return Ok(());
    }
    Err(format!("expected {base}:{number}, key {key:?}, {says:?}\n{found:#?}"))
}

/// The text of one file of the good configuration.
fn original(file: &str) -> &'static str {
    let found = GOOD.iter().find(|(name, _)| *name == file);
    found.map(|(_, text)| *text).expect("a file of the good configuration")
}

/// The same with one change.
fn changed(file: &str, old: &str, new: &str) -> String {
    assert!(original(file).contains(old), "{old}");
    original(file).replacen(old, new, 1)
}

// "Unknown keys are errors": the nearest known key is suggested, in every table.
#[test]
fn unknown_keys_are_errors_that_suggest_the_right_one() {
    assert_reported(
        r#"
        server | workers = 1 => workrs = 1 | workrs | workers
        server | [server] => [serber] | serber | server
        server? | { pop = => { popp = | popp | pop
        zone | ttl = 300 => ttll = 300 | ttll | ttl
        zone | minimum = 60 => minimun = 60 | minimun | minimum
        zone | ttl = 600 => tll = 600 | tll | ttl
        zone | interval =  => intervall =  | intervall | interval
        zone | minimum_origins => minimum_origin | minimum_origin | minimum_origins
        zone | weight = 0.4 => wieght = 0.4 | wieght | weight
        zone | steering =  => stering =  | stering | steering
        zone | fallback_pool => fallbackpool | fallbackpool | fallback_pool
        zone? | spillover_ratio => spilover_ratio | spilover_ratio | spillover_ratio
        zone? | failover_ratio => failover_ration | failover_ration | failover_ratio
        zone | [pools.use] => [pool.use] | pool | pools
        regions | parent =  => parrent =  | parrent | parent
        subnets | country =  => contry =  | contry | country
        "#,
    );
}

#[test]
fn wrong_types_are_errors() {
    assert_reported(
        r#"
        server | workers = 1 => workers = "two" | workers |
        server | listen = ["127.0.0.1:0"] => listen = 53 | listen |
        zone | ttl = 300 => ttl = "5m" | ttl |
        zone | weight = 0.4 => weight = "0.4" | weight |
        zone | minimum_origins = 1 => minimum_origins = 1.5 | minimum_origins |
        zone | pools = ["weu", "use"] => pools = "weu" | pools |
        zone | data = ["10 ns1"] => data = "10 ns1" | data |
        # "durations are strings with a unit"
        zone | interval = "10s" => interval = 10 | interval |
        zone | interval = "10s" => interval = "10" | interval |
        rtt | use = 92.5 => use = "fast" | use |
        "#,
    );
}

// "at most 6 decimals, read exactly from the text; more, a sign, inf or nan is an error".
#[test]
fn weights_and_ratios_are_exact_decimals_in_range() {
    assert_reported(
        r#"
        zone | weight = 0.4 => weight = 0.1234567 | weight | 6
        zone | weight = 0.4 => weight = -0.4 | weight |
        zone | weight = 0.4 => weight = +0.4 | weight |
        zone | weight = 0.4 => weight = inf | weight |
        zone | weight = 0.4 => weight = nan | weight |
        zone | weight = 0.4 => weight = 1.000001 | weight |
        zone | weight = 0.4 => weight = 2 | weight |
        zone? | spillover_ratio = 0.8 => spillover_ratio = 1.1 | spillover_ratio |
        zone? | spillover_ratio = 0.8 => spillover_ratio = -0.1 | spillover_ratio |
        zone? | spillover_ratio = 0.8 => spillover_ratio = nan | spillover_ratio |
        zone? | failover_ratio = 0.5 => failover_ratio = 1.5 | failover_ratio |
        zone? | failover_ratio = 0.5 => failover_ratio = 0.5000001 | failover_ratio |
        # "spillover_ratio ... set with another mode, is a configuration error"
        zone? | "spill_cross_zone" => "stay_within_zone" | spillover_ratio |
        zone? | "spill_cross_zone" => "disabled" | spillover_ratio |
        "#,
    );
}

#[test]
fn unknown_words_are_errors_that_list_the_known_ones() {
    assert_reported(
        r#"
        zone | steering = "geo" => steering = "goe" | steering | geo
        zone | client = "ecs" => client = "edns" | client | ecs
        zone | role = "failover" => role = "backup" | role | failover
        zone | type = "https" => type = "ping" | type |
        zone | type = "MX" => type = "MXX" | type |
        zone | answers = 1 => answers = "some" | answers | all
        zone? | "spill_cross_zone" => "spill" | mode | spill_cross_zone
        "#,
    );
}

#[test]
fn names_that_lead_nowhere_are_errors() {
    assert_reported(
        r#"
        zone | pools = ["weu", "use"] => pools = ["wue", "use"] | pools | wue
        zone | fallback_pool = "use" => fallback_pool = "usa" | fallback_pool | usa
        zone | monitor = "web" => monitor = "wbe" | monitor | wbe
        zone | { GB = ["weu"] } => { GB = ["wue"] } | country_pools | wue
        # Regions: "a region that regions.toml lacks is an error that suggests the nearest".
        subnets | region = "europe-west4" => region = "europe-west" | region | europe-west4
        zone | region = "enam" => region = "enma" | region | enam
        zone | { weu = ["weu", "use"] } => { wue = ["weu", "use"] } | region_pools | weu
        regions | parent = "weu" => parent = "weuu" | parent | weu
        "#,
    );
}

#[test]
fn geography_is_checked() {
    assert_reported(
        r#"
        subnets | [subnets."10.1.0.0/16"] => [subnets."10.1.0.0/33"] | 10.1.0.0/33 |
        subnets | [subnets."10.1.0.0/16"] => [subnets."ten/8"] | ten/8 |
        # "zone needs region"
        subnets? | region = "europe-west4"\n =>  | zone | region
        subnets | location = [52.4, 4.9] => location = [52.4] | location |
        # "the same code in two regions is an error"
        regions? | countries = ["US"] => countries = ["US", "NL"] | countries | NL
        regions | countries = ["US"] => countries = ["America"] | countries |
        regions? | [regions.weu] => [regions.weu]\nparent = "europe-west4" | parent |
        regions? | [regions.weu] => [regions.weu]\nparent = "weu" | parent |
        "#,
    );
}

// "a static record of these there, or a load balancer at or below a delegation, is an error".
#[test]
fn records_and_load_balancers_must_not_collide() {
    assert_reported(
        r#"
        zone? | name = "mail"\ntype = "MX"\ndata = ["10 ns1"] => name = "www"\ntype = "A"\ndata = ["192.0.2.9"] |  | www
        zone? | name = "mail"\ntype = "MX"\ndata = ["10 ns1"] => name = "www"\ntype = "AAAA"\ndata = ["2001:db8::9"] |  | www
        zone? | name = "mail"\ntype = "MX"\ndata = ["10 ns1"] => name = "www"\ntype = "CNAME"\ndata = ["ns1"] |  | www
        zone? | [load_balancers."www"] => [load_balancers."sub"] |  | sub
        zone? | [load_balancers."www"] => [load_balancers."a.sub"] |  | sub
        # RFC 1034 3.6.2: a CNAME stands alone.
        zone? | name = "mail"\ntype = "MX"\ndata = ["10 ns1"] => name = "ns1"\ntype = "CNAME"\ndata = ["elsewhere.test."] |  | CNAME
        zone? | name = "mail"\ntype = "MX"\ndata = ["10 ns1"] => name = "@"\ntype = "CNAME"\ndata = ["elsewhere.test."] |  | CNAME
        # "A zone without an apex NS is an error."
        zone? | name = "@"\ntype = "NS" => name = "other"\ntype = "NS" |  | NS
        "#,
    );
}

#[test]
fn records_are_checked() {
    assert_reported(
        r#"
        zone | ttl = 600 => ttl = -1 | ttl |
        zone | ttl = 600 => ttl = 4294967296 | ttl |
        zone | ttl = 30\n => ttl = -30\n | ttl |
        zone | data = ["192.0.2.53"] => data = ["192.0.2.530"] | data |
        zone | data = ["10 ns1"] => data = ["ns1"] | data |
        zone | name = "mail" => name = "ma..il" | name |
        zone | zone = "example.test" => zone = "exa..mple.test" | zone |
        zone | [load_balancers."www"] => [load_balancers."xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] | load_balancers |
        "#,
    );
}

#[test]
fn pools_origins_and_monitors_are_checked() {
    assert_reported(
        r#"
        zone? | name = "ams-2" => name = "ams-1" | name | ams-1
        # "digits and dots that are no address are an error"
        zone | address = "192.0.2.10" => address = "192.0.2.300" | address | 192.0.2.300
        zone | address = "192.0.2.10" => address = "192.0.2" | address | 192.0.2
        zone? | name = "ams-1"\n =>  |  | name
        zone? | address = "192.0.2.10"\n =>  |  | address
        zone? | pools = ["weu", "use"]\n =>  |  | pools
        # health.md: the timeout is less than the interval, which is 1 s to 1 h.
        zone? | timeout = "2s" => timeout = "10s" | timeout | interval
        zone? | timeout = "2s" => timeout = "11s" | timeout | interval
        zone | interval = "10s"\ntimeout = "2s" => interval = "500ms" | interval |
        zone | interval = "10s" => interval = "2h" | interval |
        zone? | type = "https"\n =>  |  | type
        zone | ttl = 30\n => rtt_tolerance = ["5 apples", "10%"]\n | rtt_tolerance |
        zone | ttl = 30\n => session_affinity = { ttl = "59s" }\n | session_affinity.ttl | 1m
        zone | ttl = 30\n => session_affinity = { ttl = "25h" }\n | session_affinity.ttl | 1d
        zone? | ttl = 30\n => session_affinity = { }\n | session_affinity.ttl | missing
        zone | ttl = 30\n => session_affinity = { ttl = "1h", ipv4_prefix = 33 }\n | ipv4_prefix | 32
        zone | ttl = 30\n => session_affinity = { ttl = "1h", ipv6_prefix = 0 }\n | ipv6_prefix | 1
        zone | ttl = 30\n => session_affinity = { ttl = "1h", failback = "mvoe" }\n | failback | move
        zone | ttl = 30\n => session_affinity = { ttl = "1h", ipv4_prefx = 24 }\n | ipv4_prefx | ipv4_prefix
        server? | [server] => [sessions]\nmax_sessions = 0\n[server] | sessions.max_sessions | 1
        "#,
    );
}

// "needed for every change; reading too unless loopback".
#[test]
fn the_admin_service_is_checked() {
    assert_reported(
        r#"
        server? | [server] => [admin]\nlisten = "0.0.0.0:5380"\n[server] | admin.listen | token_file
        server? | [server] => [admin]\nlisten = ["127.0.0.1:5380", "[::]:5380"]\n[server] | admin.listen | token_file
        server? | [server] => [admin]\nlisten = []\n[server] | admin.listen |
        server? | [server] => [admin]\nlisten = "localhost"\n[server] | admin.listen |
        server? | [server] => [admin]\ntoken_file = "no.token"\n[server] | admin.token_file | no.token
        server? | [server] => [admin]\ntoken_file = 1\n[server] | admin.token_file |
        server? | [server] => [admin]\ntokenfile = "admin.token"\n[server] | admin.tokenfile | token_file
        "#,
    );
}

#[test]
fn keys_and_transfer_lists_are_checked() {
    assert_reported(
        r#"
        server? | [server] => [tsig_keys.k]\n[server] | tsig_keys.k | secret_file
        server? | [server] => [tsig_keys.k]\nsecret = "no"\n[server] | secret | base64
        server? | [server] => [tsig_keys.k]\nsecret_file = "none"\n[server] | secret_file | cannot be read
        server? | [server] => [tsig_keys.k]\nsecret = "AAAA"\nsecret_file = "none"\n[server] | secret_file | one of
        server? | [server] => [tsig_keys.k]\nsecret = "AAAA"\nalgorithm = "hmac-md5"\n[server] | algorithm | hmac-sha256
        server? | [server] => [tsig_keys."a..b"]\nsecret = "AAAA"\n[server] | a..b | not a key's name
        server? | [server] => [tsig_keys.k]\nsecret = "AAAA"\n[tsig_keys.K]\nsecret = "AAAA"\n[server] | tsig_keys.K | already
        zone | ttl = 300 => transfer = { keys = ["k"] }\nttl = 300 | transfer.keys | no key "k"
        zone | ttl = 300 => transfer = { keys = [] }\nttl = 300 | transfer.keys | empty
        zone | ttl = 300 => transfer = { allow = ["192.0.2.1/24"] }\nttl = 300 | transfer.allow | 192.0.2.0/24
        zone | ttl = 300 => transfer = { allow = ["all"] }\nttl = 300 | transfer.allow | not an address
        zone | ttl = 300 => transfer = { notify = ["ns2.example.net"] }\nttl = 300 | transfer.notify | not the address
        zone | ttl = 300 => transfer = { notify = [{ key = "k" }] }\nttl = 300 | notify[0].address | missing
        zone | ttl = 300 => transfer = { alow = ["192.0.2.1"] }\nttl = 300 | transfer.alow | allow
        "#,
    );
}

// What this version does not offer is refused, not ignored.
#[test]
fn what_is_not_offered_yet_is_an_error() {
    assert_reported(
        r#"
        server | [server] => [tls]\ndot = ["127.0.0.1:853"]\n[server] | tls |
        server | [server] => [cluster]\nbucket = "meridian"\n[server] | cluster |
        server | workers = 1 => watch = true | watch |
        "#,
    );
}

#[test]
fn broken_files_are_errors_with_a_line() {
    let cases = [
        (MERIDIAN, "workers = 1", "workers = = 1"),
        (ZONE, "steering = \"geo\"", "steering = \"geo"),
        (SUBNETS, "country = \"NL\"", "country \"NL\""),
        (REGIONS, "parent = \"weu\"", "parent = \"weu\"\nparent = \"weu\""),
    ];
    for (file, old, new) in cases {
        let site = good();
        site.write(file, changed(file, old, new));
        let run = site.check();
        assert_eq!(run.code, Some(1), "{file}: {new}");
        let place = format!("{}:", file.rsplit('/').next().expect("a file name"));
        assert!(run.stderr.contains(&place), "{file}: {new}\n{}", run.stderr);
    }
}

// ---------------------------------------------------------------------------------- Several files

fn assert_says(run: &Run, expected: &[&str]) {
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    for word in expected {
        assert!(run.stderr.contains(word), "{word:?} is missing in\n{}", run.stderr);
    }
}

// "all errors of a run are printed together".
#[test]
fn errors_in_several_files_are_all_reported() {
    let site = good();
    let zone = changed(ZONE, "weight = 0.4", "weight = 4");
    site.write(ZONE, zone.replacen("client = \"ecs\"", "client = \"edns\"", 1));
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
        let there = found.iter().any(|d| d.file.ends_with(file) && d.key.contains(key));
        assert!(there, "{file} {key} is missing in {found:#?}");
    }
}

#[test]
fn the_json_form_says_the_same() {
    let site = good();
    site.write(ZONE, changed(ZONE, "weight = 0.4", "weight = 4"));
    site.write(SUBNETS, changed(SUBNETS, "zone = \"ew4-a\"", "zoone = \"ew4-a\""));
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
            assert!(error[key].as_str().is_some_and(|text| !text.is_empty()), "{key} in {error}");
        }
        assert!(error["column"].as_u64().is_some_and(|column| column > 0), "{error}");
    }
}

#[test]
fn a_zone_is_in_one_file_only() {
    let site = good();
    site.write("zones/again.toml", original(ZONE));
    assert_says(&site.check(), &["example.test", "again.toml"]);
}

// "the same owner name and type in both is an error"; a missing master file too.
#[test]
fn master_files_are_checked() {
    const NAMES: &str = "$TTL 300\nns1 IN A 192.0.2.53\nextra IN A 192.0.2.77\n";
    let with_zonefile = changed(ZONE, "ttl = 300", "ttl = 300\nzonefile = \"example.test.zone\"");
    let site = good();
    site.write(ZONE, &with_zonefile);
    assert_says(&site.check(), &["zonefile", "example.test.zone"]);
    site.write("zones/example.test.zone", NAMES);
    assert_says(&site.check(), &["ns1"]);
    site.write("zones/example.test.zone", "$TTL 300\nextra IN A 192.0.2.77\nwww IN A 192.0.2.78\n");
    assert_says(&site.check(), &["www"]);
    site.write("zones/example.test.zone", "$TTL 300\nextra IN A 192.0.2.77\nbroken IN A not-one\n");
    assert_says(&site.check(), &["example.test.zone:3:"]);
    site.write("zones/example.test.zone", "$TTL 300\nextra IN A 192.0.2.77\n");
    assert_eq!(site.check().code, Some(0), "{}", site.check().stderr);
}

// config.md: shared.toml has pools and monitors only; a pool of the same name is an error.
#[test]
fn shared_pools_serve_every_zone() {
    const SHARED: &str = "[monitors.tcp]\ntype = \"tcp\"\nport = 80\n[pools.shared]\nmonitor = \"tcp\"\n\
                          origins = [{ name = \"s1\", address = \"192.0.2.90\" }]\n";
    let site = good();
    site.write("zones/shared.toml", SHARED);
    site.write(ZONE, changed(ZONE, "fallback_pool = \"use\"", "fallback_pool = \"shared\""));
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

    site.write("zones/shared.toml", SHARED.replace("pools.shared", "pools.use"));
    assert_says(&site.check(), &["use"]);
    site.write("zones/shared.toml", format!("zone = \"example.org\"\n{SHARED}"));
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
    let networks = [("198.51.100.0/24", flat("NL")), ("198.51.101.0/24", flat("US"))];
    site.write("geo/flat.mmdb", mmdb::database(&networks));
    for (client, country, region) in [("198.51.100.7", "NL", "weu"), ("198.51.101.7", "US", "enam")]
    {
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
    site.write("etc/other.toml", "[server]\nzones = \"../z\"\ngeo = \"../g\"\n");
    let run = site.run(&["check", "--config", "etc/other.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(site.run(&["check", "--frobnicate"]).code, Some(2), "wrong usage");
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
            w["file"].as_str().is_some_and(|file| file.ends_with("example.test.toml"))
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
    site.write(ZONE, original(ZONE));
    let _server = Server::start(&site);
}
