//! `GET /metrics`: what is counted, in both formats, as docs/metrics.md lists it; the alert rules; and a
//! real Prometheus that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::http::Request;
use super::{POOLS, Served, WWW, ZONE, site, until, with_admin, word, zone};
use crate::harness::is_missing;
use crate::wire::{Query, bit, rtype};

const PATH: &str = "/metrics";
const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";

/// Metrics as they were read.
#[derive(Debug, Default)]
struct Metrics {
    /// Each with its type.
    types: BTreeMap<String, String>,
    /// The samples by their whole name, labels included.
    samples: BTreeMap<String, f64>,
}

impl Metrics {
    fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                let twice = metrics.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(twice, None, "{name}");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a series and a value");
                let value = value.parse().expect("a number");
                let twice = metrics.samples.insert(series.to_owned(), value);
                assert_eq!(twice, None, "{series}");
            }
        }
        metrics
    }

    fn of(served: &Served) -> Self {
        let reply = served.get(PATH);
        assert_eq!(reply.status, 200, "{reply:?}");
        Self::parse(&reply.body)
    }

    fn get(&self, series: &str) -> f64 {
        let found = self.samples.get(series);
        *found.unwrap_or_else(|| panic!("no {series} in {:#?}", self.samples.keys()))
    }
}

/// The load balancer's series with this outcome.
fn www(outcome: &str) -> String {
    format!(
        "meridian_load_balancer_answers_total{{zone=\"example.test.\",load_balancer=\"{WWW}.\",\
         outcome=\"{outcome}\"}}"
    )
}

fn pool(name: &str) -> String {
    format!("meridian_pool_answers_total{{zone=\"example.test.\",pool=\"{name}\"}}")
}

/// Asks for addresses of `www` so many times.
fn ask(served: &Served, times: usize) {
    (0..times).for_each(|_| drop(served.answered()));
}

#[test]
fn answers_are_counted_by_what_they_are() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    ask(&served, 3);
    served.server.ask_tcp(&Query::new(WWW, rtype::A).ecs("192.0.2.0", 24));
    served.server.ask(&Query::new(WWW, rtype::AAAA));
    served.server.ask(&Query::new("nothing.example.test", rtype::A));
    served.server.ask(&Query::new("example.org", rtype::A));
    served.push("192.0.2.1", "down");
    served.push("192.0.2.2", "down");
    ask(&served, 2);
    let reply_bit = Query::new(WWW, rtype::A).flags(bit::QR).octets();
    // Each of them is followed by three queries that are answered.
    assert!(served.server.reply_or_silence(&reply_bit).is_none());
    assert!(served.server.reply_or_silence(&reply_bit[..11]).is_none());

    let metrics = Metrics::of(&served);
    for (series, expected) in [
        ("meridian_replies_total{transport=\"udp\",rcode=\"NOERROR\"}", 12.0),
        ("meridian_replies_total{transport=\"tcp\",rcode=\"NOERROR\"}", 1.0),
        ("meridian_replies_total{transport=\"udp\",rcode=\"NXDOMAIN\"}", 1.0),
        ("meridian_replies_total{transport=\"udp\",rcode=\"REFUSED\"}", 1.0),
        ("meridian_zone_replies_total{zone=\"example.test.\",rcode=\"NOERROR\"}", 13.0),
        ("meridian_zone_replies_total{zone=\"example.test.\",rcode=\"NXDOMAIN\"}", 1.0),
        (&www("candidate"), 6.0),
        (&www("fallback"), 0.0),
        (&www("nodata"), 1.0),
        (&www("failure"), 0.0),
        (&pool("a"), 4.0),
        (&pool("b"), 2.0),
        ("meridian_fallback_answers_total", 0.0),
        ("meridian_ecs_answers_total{family=\"ipv4\",scope=\"0\"}", 1.0),
        ("meridian_dropped_messages_total{reason=\"no_query\"}", 1.0),
        ("meridian_dropped_messages_total{reason=\"short\"}", 1.0),
        ("meridian_connections_total{transport=\"tcp\"}", 1.0),
        ("meridian_pool_available{zone=\"example.test.\",pool=\"a\"}", 0.0),
        ("meridian_origin_healthy{zone=\"example.test.\",pool=\"a\",origin=\"a1\"}", 0.0),
        ("meridian_origin_healthy{zone=\"example.test.\",pool=\"b\",origin=\"b1\"}", 1.0),
        ("meridian_unavailable_pools", 1.0),
        ("meridian_unhealthy_origins", 2.0),
        ("meridian_state_folder_writable", 1.0),
        ("meridian_ready", 1.0),
        ("meridian_origins", 3.0),
        ("meridian_panics_total", 0.0),
    ] {
        assert_eq!(metrics.get(series), expected, "{series}");
    }
    served.say(&word("b", "drained"));
    ask(&served, 4);
    let metrics = Metrics::of(&served);
    assert_eq!(metrics.get(&www("fallback")), 4.0, "no candidate is available");
    assert_eq!(metrics.get("meridian_fallback_answers_total"), 4.0);
    assert_eq!(metrics.get(&pool("b")), 6.0);
    let said = "meridian_override{zone=\"example.test.\",pool=\"b\",word=\"drained\"}";
    assert_eq!(metrics.get(said), 1.0);
}

#[test]
fn counters_go_on_by_name_over_reloads() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    ask(&served, 5);
    // A load balancer and a pool before the old ones: all numbers change.
    let more = "\n[load_balancers.aaa]\npools = [\"a0\", \"b\"]\n\
                [pools.a0]\norigins = [{ name = \"o\", address = \"192.0.2.7\" }]\n";
    site.write(ZONE, zone(&format!("{POOLS}{more}")));
    served.server.reload("reloaded");
    let before = Metrics::of(&served);
    assert_eq!(before.get(&www("candidate")), 5.0);
    let other = Query::new("aaa.example.test", rtype::A);
    served.server.ask(&other);
    ask(&served, 2);
    served.server.ask_tcp(&other);
    let metrics = Metrics::of(&served);
    assert_eq!(metrics.get(&www("candidate")), 7.0);
    assert_eq!(metrics.get(&pool("a0")), 2.0);
    assert_eq!(metrics.get("meridian_configuration_generation"), 2.0);
    assert_eq!(metrics.get("meridian_reloads_total{result=\"success\"}"), 1.0);

    site.write(ZONE, "zone = 7");
    served.server.reload("reload refused");
    let metrics = Metrics::of(&served);
    assert_eq!(metrics.get("meridian_last_reload_successful"), 0.0);
    assert_eq!(metrics.get("meridian_reloads_total{result=\"failure\"}"), 1.0);
    site.write(ZONE, zone(POOLS));
    served.server.reload("reloaded");
    let metrics = Metrics::of(&served);
    assert_eq!(metrics.get("meridian_last_reload_successful"), 1.0);
    assert_eq!(metrics.get(&www("candidate")), 7.0);
    assert!(!metrics.samples.contains_key(&pool("a0")), "what is gone is not shown");
}

#[test]
fn beyond_the_limit_there_are_sums() {
    let site = site(POOLS);
    let settings = "listen = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\nmetrics_limit = 1";
    with_admin(&site, settings);
    let served = Served::of(site);
    ask(&served, 3);
    let metrics = Metrics::of(&served);
    assert_eq!(metrics.get("meridian_pool_answers_total{zone=\"example.test.\"}"), 3.0);
    assert_eq!(metrics.get(&www("candidate")), 3.0, "one is not too many");
    let has = |name: &str| metrics.samples.keys().any(|series| series.starts_with(name));
    assert!(!has("meridian_pool_available") && !has("meridian_origin_healthy"));
    assert_eq!(metrics.get("meridian_pools"), 2.0);
}

#[test]
fn both_formats_are_offered_and_promtool_likes_the_first() {
    let served = Served::of(site(POOLS));
    ask(&served, 1);
    let plain = served.get(PATH);
    let kind = |headers: &[(String, String)]| {
        headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.clone())
    };
    assert_eq!(kind(&plain.headers).as_deref(), Some("text/plain; version=0.0.4; charset=utf-8"));
    let open = Request::new("GET", PATH).header("accept", OPEN_METRICS).send(&served.admin);
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(kind(&open.headers).as_deref(), Some(expected));
    assert!(open.body.ends_with("\n# EOF\n"));
    assert!(open.body.contains("# TYPE meridian_build info\n"));
    assert!(open.body.contains("# UNIT meridian_batch_duration_seconds seconds\n"));

    if is_missing("promtool", "--version", "prometheus") {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("metrics");
    fs::write(&file, &plain.body).expect("a file");
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(fs::File::open(&file).expect("the file"))
        .output()
        .expect("promtool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_documented_metrics_are_those_that_there_are() {
    let text = fs::read_to_string(docs("metrics.md")).expect("the document");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`').to_owned();
        let is_metric = name.starts_with("meridian_") || name.starts_with("process_");
        let (kind, labels) = (cells.next()?.to_owned(), cells.next()?);
        let labels = labels.split(", ").map(|label| label.trim_matches(['`', ' ', '|']));
        let labels = labels.filter(|label| !label.is_empty()).map(str::to_owned);
        is_metric.then(|| (name, (kind, labels.collect::<BTreeSet<_>>())))
    });
    let documented: BTreeMap<_, _> = rows.collect();

    let served = Served::of(site(POOLS));
    served.say(&word("a/a1", "drained"));
    ask(&served, 1);
    let metrics = Metrics::of(&served);
    let types = documented.iter().map(|(name, (kind, _))| (name.clone(), kind.clone()));
    assert_eq!(types.collect::<BTreeMap<_, _>>(), metrics.types);
    for series in metrics.samples.keys() {
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let family = family.filter(|family| documented.contains_key(*family)).unwrap_or(name);
        let (_, known) = documented.get(family).unwrap_or_else(|| panic!("{series}"));
        let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
        for label in labels.filter_map(|label| label.split('=').next()) {
            assert!(known.contains(label), "{series}: the label is not documented");
        }
    }
}

#[test]
fn the_alert_rules_are_rules_of_metrics_that_there_are() {
    let text = fs::read_to_string(docs("alerts.yml")).expect("the rules");
    let metrics = Metrics::of(&Served::of(site(POOLS)));
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words.filter(|word| word.starts_with("meridian_")) {
        assert!(metrics.types.contains_key(word), "there is no {word}");
    }
    if is_missing("promtool", "--version", "prometheus") {
        return;
    }
    let output = Command::new("promtool").args(["check", "rules"]).arg(docs("alerts.yml")).output();
    let output = output.expect("promtool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn prometheus_reads_what_was_counted() {
    if is_missing("prometheus", "--version", "prometheus") {
        return;
    }
    let served = Served::of(site(POOLS));
    ask(&served, 7);
    let prometheus = Prometheus::start(&served.admin);
    let query = format!("sum({})", www("candidate"));
    until("Prometheus has the counter", || prometheus.value(&query) == Some(7.0));
    ask(&served, 2);
    until("it has grown", || prometheus.value(&query) == Some(9.0));
    assert_eq!(prometheus.value("up"), Some(1.0));
}

fn docs(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file)
}

/// A Prometheus that reads a server's metrics; it is killed when dropped.
pub(super) struct Prometheus {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Prometheus {
    pub(super) fn start(target: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let config = format!(
            "global: {{ scrape_interval: 200ms }}\nrule_files: [\"{}\"]\nscrape_configs:\n  \
             - job_name: meridian\n    static_configs: [{{ targets: [\"{target}\"] }}]\n",
            docs("alerts.yml").display()
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config).expect("a file");
        // Nobody else is given the port so soon.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port").to_string();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus starts");
        Self { child, address, _folder: folder }
    }

    /// The value of an expression; none if it has none, or nobody answers yet.
    pub(super) fn value(&self, query: &str) -> Option<f64> {
        std::net::TcpStream::connect(&self.address).ok()?;
        let encoded: String = query.bytes().map(|octet| format!("%{octet:02x}")).collect();
        let reply = Request::new("GET", &format!("/api/v1/query?query={encoded}"));
        let body = reply.send(&self.address).body;
        let json = body.get(body.find('{')?..=body.rfind('}')?)?;
        let document: Value = serde_json::from_str(json).ok()?;
        document["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
