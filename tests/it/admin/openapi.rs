//! The description of the service (`/api/v1/openapi.json`) is what the service does: its routes are
//! those of the router, and real answers are as its schemas say, with no key that they do not name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::http::{Reply, Request, connect};
use super::ready::hanging;
use super::{OVERRIDES, POOLS, Served, TOKEN, ZONE, site, zone};
use crate::harness::{PYTHON, Server, Site, is_module_missing};

const DOCUMENT: &str = "/api/v1/openapi.json";
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "PATCH"];

fn document(served: &Served) -> Value {
    let reply = served.get(DOCUMENT);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    reply.document()
}

fn paths(document: &Value) -> BTreeSet<String> {
    document["paths"].as_object().expect("an object").keys().cloned().collect()
}

/// The paths of the router, as its source gives them.
fn routes() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin");
    let text = fs::read_to_string(folder.join("mod.rs")).expect("the router's source");
    let after = text.split(".route(").skip(1);
    let routes = after.filter_map(|rest| rest.split('"').nth(1)).map(str::to_owned);
    let is_interface = |path: &String| {
        path.starts_with("/api/") || ["/livez", "/readyz", "/metrics"].contains(&path.as_str())
    };
    routes.filter(is_interface).collect()
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let served = Served::of(site(POOLS));
    let (document, routes) = (document(&served), routes());
    assert!(routes.len() > 8, "{routes:?}");
    assert_eq!(paths(&document), routes);
    for path in routes {
        let operations = document["paths"][&path].as_object().expect("an object");
        for method in METHODS {
            if method == "GET" && path == "/api/v1/events" {
                continue;
            }
            // The order of the reply says whether the method is there: what is asked is wrong.
            let reply = Request::new(method, &path).token(TOKEN).body("{").send(&served.admin);
            let is_described = operations.contains_key(&method.to_ascii_lowercase());
            assert_eq!(reply.status != 405, is_described, "{method} {path}: {reply:?}");
        }
    }
}

#[test]
fn the_document_is_sound() {
    let served = Served::of(site(POOLS));
    let document = document(&served);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let mut names = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("an object") {
        for (method, operation) in operations.as_object().expect("an object") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            assert!(operation["summary"].is_string(), "{method} {path}");
            let responses = operation["responses"].as_object().expect("an object");
            assert!(responses.contains_key("200") || responses.contains_key("202"), "{path}");
            // A change needs the token, whoever asks.
            if method != "get" {
                assert_eq!(operation["security"], json!([{"token": []}]), "{method} {path}");
            }
        }
    }
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    for reference in &used {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    // What the program never sends as a document of its own is the data of an event.
    used.extend(["Event", "LeftOut"].map(|name| format!("#/components/schemas/{name}")));
    for kind in ["schemas", "responses"] {
        for name in document["components"][kind].as_object().expect("an object").keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(used.contains(&reference), "{reference} is used nowhere");
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Validates documents, each with the pointer to its schema, and the schemas themselves. A key that a
/// schema does not name is a mistake here, though clients must expect new ones.
const VALIDATE: &str = r#"
import json, sys
from jsonschema import Draft202012Validator, RefResolver

def close(schema):
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            close(part)
    elif isinstance(schema, list):
        for part in schema:
            close(part)

given = json.load(sys.stdin)
document = given["document"]
for name, schema in document["components"]["schemas"].items():
    Draft202012Validator.check_schema(schema)
close(document["components"]["schemas"])
resolver = RefResolver("", document)
faults = []
for case in given["cases"]:
    validator = Draft202012Validator({"$ref": case["schema"]}, resolver=resolver)
    for error in validator.iter_errors(case["value"]):
        where = "/".join(str(part) for part in error.absolute_path)
        faults.append(f"{case['what']}: {where}: {error.message}")
print("\n".join(faults))
sys.exit(1 if faults else 0)
"#;

/// Real answers, with their schemas.
struct Cases {
    document: Value,
    cases: Vec<Value>,
}

impl Cases {
    fn new(served: &Served) -> Self {
        Self { document: document(served), cases: Vec::new() }
    }

    /// Adds an answer of an operation.
    fn add(&mut self, method: &str, path: &str, reply: &Reply) {
        let bare = path.split('?').next().unwrap_or_default().replace('/', "~1");
        let method_key = method.to_ascii_lowercase();
        let pointer = format!("#/paths/{bare}/{method_key}/responses/{}", reply.status);
        let response = self.document.pointer(&pointer[1..]);
        let response = response.unwrap_or_else(|| panic!("{pointer} is not described"));
        let pointer = match response["$ref"].as_str() {
            Some(reference) => reference.to_owned(),
            None => pointer,
        };
        let pointer = format!("{pointer}/content/application~1json/schema");
        assert!(self.document.pointer(&pointer[1..]).is_some(), "{pointer}");
        let what = format!("{method} {path}: {}", reply.status);
        self.cases.push(json!({"what": what, "schema": pointer, "value": reply.document()}));
    }

    fn add_part(&mut self, what: &str, schema: &str, value: &Value) {
        let schema = format!("#/components/schemas/{schema}");
        self.cases.push(json!({"what": what, "schema": schema, "value": value}));
    }

    /// Asks, and adds the answer.
    fn ask(&mut self, served: &Served, request: &str, body: Option<Value>, status: u16) {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let reply = match &body {
            Some(body) => served.send(method, path, body),
            None => served.get(path),
        };
        assert_eq!(reply.status, status, "{request}: {reply:?}");
        self.add(method, path, &reply);
    }

    /// Has all of them validated.
    fn validate(&self) {
        let mut python = Command::new(PYTHON)
            .args(["-W", "ignore", "-c", VALIDATE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let given = json!({"document": self.document, "cases": self.cases}).to_string();
        let mut input = python.stdin.take().expect("a pipe");
        input.write_all(given.as_bytes()).expect("the documents sent");
        drop(input);
        let output = python.wait_with_output().expect("its output");
        let told = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}\n{errors}");
    }
}

/// Pools with all that an answer can have: a host name, regions, a session, zones.
const MORE: &str = r#"
[pools.c]
region = "weu"
location = [52.4, 4.9]
zonal_affinity = { mode = "spill_cross_zone" }
origins = [
  { name = "c1", address = "c1.invalid", zone = "weu-a" },
  { name = "c2", address = "192.0.2.11", zone = "weu-b", role = "failover" },
]

[load_balancers.near]
steering = "proximity"
flatten = true
pools = ["c", "b"]
fallback_pool = "b"

[load_balancers.timed]
steering = "rtt"
pools = ["a", "b"]
fallback_pool = "b"

[load_balancers.kept]
pools = ["a", "b"]
fallback_pool = "b"
session_affinity = { ttl = "30m" }

[load_balancers.random]
steering = "random"
pools = ["a", "b"]
fallback_pool = "b"
"#;

fn larger_site() -> Site {
    let body = format!("{POOLS}{MORE}");
    let site = site(&body);
    // Nobody listens there, so that host names are not resolved, at once.
    let settings = fs::read_to_string(site.path().join("meridian.toml")).expect("settings");
    site.write("meridian.toml", format!("{settings}\n[resolver]\nservers = [\"127.0.0.1:1\"]\n"));
    site.write(
        "geo/subnets.toml",
        "[subnets.\"10.1.0.0/16\"]\nregion = \"weu\"\nzone = \"weu-a\"\nlocation = [52.0, 5.0]\n",
    );
    site
}

#[test]
fn real_answers_are_as_described() {
    if is_module_missing("jsonschema", "python3-jsonschema") {
        return;
    }
    let site = larger_site();
    let served = Served::start(&site);
    let mut cases = Cases::new(&served);
    served.push("192.0.2.1", "up");
    let get = |cases: &mut Cases, path: &str, status| {
        cases.ask(&served, &format!("GET {path}"), None, status);
    };
    get(&mut cases, "/livez", 200);
    get(&mut cases, "/readyz", 200);
    get(&mut cases, DOCUMENT, 200);
    if routes().contains("/api/v1/traffic") {
        get(&mut cases, "/api/v1/traffic", 200);
    }
    for name in ["www", "near", "timed", "kept", "random", "ns1", "nothing"] {
        for client in ["10.1.2.0/24", "198.51.100.1"] {
            let query = format!("name={name}.example.test&client={client}");
            get(&mut cases, &format!("/api/v1/explain?{query}"), 200);
        }
    }
    get(&mut cases, "/api/v1/explain?name=www.example.org&client=198.51.100.1", 200);
    get(&mut cases, "/api/v1/explain?name=www.example.test", 400);
    let say = |body| (format!("PUT {OVERRIDES}"), Some(body));
    let lift = |body| (format!("DELETE {OVERRIDES}"), Some(body));
    for ((request, body), status) in [
        (say(json!({"pool": "b", "word": "drained", "for": "2h", "why": "w", "by": "b"})), 200),
        (say(json!({"subject": "a1", "word": "forced-down"})), 200),
        (say(json!({"subject": "a1"})), 400),
        (say(json!({"subject": "a7", "word": "drained"})), 404),
        (say(json!({"subject": "a1", "word": "drained", "why": "x".repeat(70_000)})), 413),
    ] {
        cases.ask(&served, &request, body, status);
    }
    get(&mut cases, OVERRIDES, 200);
    get(&mut cases, "/api/v1/status", 200);
    let (request, body) = lift(json!({"subject": "a1"}));
    cases.ask(&served, &request, body, 200);
    let pushed = json!({"monitor": "m", "address": "192.0.2.2", "state": "down", "why": "full"});
    cases.ask(&served, "POST /api/v1/push", Some(pushed), 200);
    let unknown = json!({"monitor": "n", "address": "192.0.2.2", "state": "down"});
    cases.ask(&served, "POST /api/v1/push", Some(unknown), 404);
    let samples = vec![json!({"region": "weu", "pool": "a", "ms": 23.5}); 5];
    cases.ask(&served, "POST /api/v1/rtt", Some(json!({ "samples": samples })), 200);
    let wrong = json!({"samples": [{"region": "weu", "pool": "a", "ms": -1}]});
    cases.ask(&served, "POST /api/v1/rtt", Some(wrong), 400);
    get(&mut cases, "/api/v1/status", 200);
    // A reload would publish the times by itself.
    super::until("all but reloads was told", || {
        let journal = served.get("/api/v1/journal?limit=1000").document();
        let kinds: BTreeSet<_> = journal["events"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|event| event["kind"].as_str())
            .collect();
        kinds.len() == 6
    });
    let body = format!("{POOLS}{MORE}");
    site.write(ZONE, zone(&body.replace("192.0.2.9", "192.0.2.8")));
    cases.ask(&served, "POST /api/v1/reload", Some(json!({})), 200);
    site.write(ZONE, zone(&body.replace("192.0.2.9", "192.0.2.999")));
    cases.ask(&served, "POST /api/v1/reload", Some(json!({})), 422);
    get(&mut cases, "/api/v1/status", 200);
    let refused = Request::new("PUT", OVERRIDES).json(&json!({})).send(&served.admin);
    assert_eq!(refused.status, 401);
    cases.add("PUT", OVERRIDES, &refused);
    let foreign = Request::new("GET", OVERRIDES).header("host", "example.com").send(&served.admin);
    assert_eq!(foreign.status, 403);
    cases.add("GET", OVERRIDES, &foreign);

    get(&mut cases, "/api/v1/journal?limit=1000", 200);
    get(&mut cases, "/api/v1/journal?limit=x", 400);
    for event in sent_events(&served) {
        cases.add_part("an event", "Event", &event);
    }
    let left_out = json!({"seq": 3, "at": "2026-11-30T14:00:00.123Z", "kind": "left_out",
        "left_out": 3, "text": "3 events were left out"});
    cases.add_part("left out", "LeftOut", &left_out);
    cases.validate();
}

/// The data of some events, as they are sent.
fn sent_events(served: &Served) -> Vec<Value> {
    let mut stream = connect(&served.admin);
    stream
        .write_all(b"GET /api/v1/events?after=0 HTTP/1.0\r\nhost: localhost\r\n\r\n")
        .expect("a request sent");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("a line in time"));
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    data.take(5).map(|data| serde_json::from_str(&data).expect("JSON")).collect()
}

#[test]
fn a_server_that_is_not_ready_says_so_as_described() {
    if is_module_missing("jsonschema", "python3-jsonschema") {
        return;
    }
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let site = site(&format!("{POOLS}{}", hanging(&origin)));
    let mut server = Server::spawn(&site, &["serve", "--listen", "127.0.0.1:0"]);
    server.address = server.next_address();
    let admin = server.admin_address().to_string();
    let served = Served { server, admin, _site: None };
    let mut cases = Cases::new(&served);
    let reply = served.get("/readyz");
    assert_eq!(reply.status, 503, "{reply:?}");
    cases.add("GET", "/readyz", &reply);
    cases.ask(&served, "GET /api/v1/status", None, 200);
    cases.validate();
}
