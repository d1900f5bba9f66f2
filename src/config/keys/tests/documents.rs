//! Small valid files of each kind, the tables in them, and what the parsers say of them.

use serde_json::{Map, Value, json};

use crate::config::build::{Files, build};
use crate::config::keys::tests::values::filled;
use crate::config::keys::{FILES, FileKind, Form, Key, Only, Section};
use crate::config::report::{Diagnostic, Report, Severity, Source};
use crate::config::server::Server;
use crate::state::State;

/// A secret of a key.
pub(super) const SECRET: &str = "c2VjcmV0IG9mIDE2IG9jdGV0cw==";

/// A small valid file of each kind: what a key needs beside it must stand here.
fn base(kind: &FileKind) -> Value {
    match kind.word {
        "server" => json!({ "tsig_keys": { "secondary": { "secret": SECRET } } }),
        "zone" => json!({
            "zone": "example.com",
            // The first entry of each list and table is what keys are tried in.
            "records": [
                { "name": "www", "type": "TXT", "data": ["a"] },
                { "name": "@", "type": "NS", "data": ["ns1.example.net."] },
            ],
            "monitors": { "m": { "type": "tcp", "port": 80 } },
            "pools": { "p": { "origins": [{ "name": "o", "address": "192.0.2.10" }] } },
            "load_balancers": { "www": { "pools": ["p"] } },
        }),
        "shared" => json!({
            "monitors": { "n": { "type": "tcp", "port": 80 } },
            "pools": { "q": { "origins": [{ "name": "o", "address": "192.0.2.10" }] } },
        }),
        "regions" => json!({ "regions": { "a": {}, "weu": { "countries": ["BE"] } } }),
        "subnets" => json!({ "subnets": { "10.1.0.0/16": { "region": "weu" } } }),
        "rtt" => json!({ "rtt": { "weu": { "p": 1 } } }),
        word => panic!("give base() a small valid file of the kind {word:?}"),
    }
}

/// What must stand beside some keys for them to be right: table, key, the other keys.
fn beside(section: &Section, key: &Key) -> Value {
    match (section.id, key.name) {
        ("monitor", "flap_window") => json!({ "flap_threshold": 5 }),
        ("record", "steered_hints") => {
            json!({ "name": "www", "type": "HTTPS", "data": ["1 . alpn=h2"] })
        }
        _ => json!({}),
    }
}

/// Puts into a table what a key needs beside it.
pub(super) fn prepare(table: &mut Map<String, Value>, section: &Section, key: &Key) {
    if let Some(Only { of, words, .. }) = key.only {
        table.insert(of.to_owned(), json!(words[0]));
    }
    if let Value::Object(others) = beside(section, key) {
        table.extend(others);
    }
    if (section.id, key.name) == ("query_log", "socket") {
        table.remove("file");
        table.insert("socket".to_owned(), json!("dnstap.sock"));
    }
    if (section.id, key.name) == ("tsig_key", "secret_file") {
        table.remove("secret");
        table.insert("secret_file".to_owned(), json!("secondary.key"));
    }
}

/// A step from a table to one within it.
#[derive(Clone, Copy)]
pub(super) struct Step(&'static Key, &'static Section);

pub(super) fn for_each_section(
    mut visit: impl FnMut(&'static FileKind, &[Step], &'static Section),
) {
    fn below(
        kind: &'static FileKind,
        path: &mut Vec<Step>,
        section: &'static Section,
        seen: &mut Vec<&'static Section>,
        visit: &mut impl FnMut(&'static FileKind, &[Step], &'static Section),
    ) {
        // Pools and monitors are in two kinds of files, and read by the same parsers.
        if seen.iter().any(|other| std::ptr::eq(*other, section)) {
            return;
        }
        seen.push(section);
        visit(kind, path, section);
        for key in section.keys {
            if let Some(inner) = key.form.section() {
                path.push(Step(key, inner));
                below(kind, path, inner, seen, visit);
                path.pop();
            }
        }
    }
    let mut seen = Vec::new();
    for kind in &FILES {
        below(kind, &mut Vec::new(), kind.root, &mut seen, &mut visit);
    }
}

pub(super) fn for_each_key(
    mut visit: impl FnMut(&'static FileKind, &[Step], &'static Section, &'static Key),
) {
    for_each_section(|kind, path, section| {
        section.keys.iter().for_each(|key| visit(kind, path, section, key));
    });
}

/// A valid document that has the table at a path.
pub(super) fn opened(kind: &FileKind, path: &[Step]) -> Value {
    let mut document = base(kind);
    open(&mut document, path);
    document
}

/// The table at a path, which is made if it is not there.
pub(super) fn open<'d>(document: &'d mut Value, path: &[Step]) -> &'d mut Map<String, Value> {
    let mut table = document.as_object_mut().expect("a table");
    for Step(key, section) in path {
        let value = match key.form {
            Form::Table(_) => table.entry(key.name).or_insert_with(|| json!({})),
            Form::Tables(_) => {
                let list = table.entry(key.name).or_insert_with(|| json!([{}]));
                &mut list.as_array_mut().expect("a list")[0]
            }
            Form::Named { example, .. } => {
                let names = table.entry(key.name).or_insert_with(|| json!({ example: {} }));
                names.as_object_mut().and_then(|names| names.values_mut().next()).expect("an entry")
            }
            _ => unreachable!("only these forms have a table"),
        };
        let inner = std::mem::take(value.as_object_mut().expect("a table"));
        *value = filled(section, inner);
        table = value.as_object_mut().expect("a table");
    }
    table
}

/// A path as messages write it, with a dot at its end.
pub(super) fn shown(path: &[Step], document: &Value) -> String {
    let (mut text, mut value) = (String::new(), document);
    for Step(key, _) in path {
        value = &value[key.name];
        text.push_str(key.name);
        match (key.form, value) {
            (Form::Tables(_), Value::Array(list)) => {
                text.push_str("[0]");
                value = &list[0];
            }
            (Form::Named { .. }, Value::Object(names)) => {
                let (name, inner) = names.iter().next().expect("an entry");
                let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric());
                text.push('.');
                text.push_str(&if is_bare { name.clone() } else { format!("{name:?}") });
                value = inner;
            }
            _ => {}
        }
        text.push('.');
    }
    text
}

pub(super) fn errors_at(kind: &FileKind, document: &Value, at: &str) -> Vec<String> {
    let is_at = |key: &str| {
        key.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let errors = read(kind, document).into_iter().filter(|d| d.severity == Severity::Error);
    errors.filter(|d| is_at(&d.key)).map(|d| format!("{}: {}", d.message, d.help)).collect()
}

/// Reads a file, and others beside it that make it valid: what was found.
pub(super) fn read(kind: &FileKind, document: &Value) -> Vec<Diagnostic> {
    read_whole(kind, document).0
}

/// What came of reading, if it can be used: as text, for comparing.
pub(super) fn outcome(kind: &FileKind, document: &Value) -> Option<Vec<String>> {
    let text = match read_whole(kind, document).1? {
        Outcome::Server(server) => format!("{server:#?}"),
        // The rest of a state is large, and has no defaults.
        Outcome::State(state) => {
            let State { zones, pools, balancers, monitors, .. } = &*state;
            format!("{zones:#?}\n{pools:#?}\n{balancers:#?}\n{monitors:#?}")
        }
    };
    Some(lines(&text))
}

enum Outcome {
    Server(Box<Server>),
    State(Box<State>),
}

fn read_whole(kind: &FileKind, document: &Value) -> (Vec<Diagnostic>, Option<Outcome>) {
    let report = Report::default();
    let source = |word: &str, path: &str| {
        let other = FILES.iter().find(|kind| kind.word == word).map(base);
        let text =
            if kind.word == word { toml_of(document) } else { toml_of(&other.expect("a kind")) };
        Source::new(path, text)
    };
    if kind.word == "server" {
        let server = Server::parse(&source("server", "meridian.toml"), &report);
        let outcome = (!report.has_errors()).then(|| Outcome::Server(Box::new(server)));
        return (report.into_sorted(), outcome);
    }
    let optional = |word: &str, path: &str| (kind.word == word).then(|| source(word, path));
    let zone = source("zone", "zones/example.com.toml");
    let shared = optional("shared", "zones/shared.toml");
    let files = Files {
        zones: [zone].into_iter().chain(shared).collect(),
        // Few regions are read sooner than those that ship.
        regions: Some(source("regions", "geo/regions.toml")),
        subnets: optional("subnets", "geo/subnets.toml"),
        rtt: optional("rtt", "geo/rtt.toml"),
        database: None,
    };
    let server = Server::parse(&source("server", "meridian.toml"), &report);
    let server = Server { allow_exec: true, ..server };
    let state = build(&files, &server, &|_| Ok("$TTL 300\n".to_owned()), &report);
    (report.into_sorted(), state.map(|state| Outcome::State(Box::new(state))))
}

/// The lines of a text without positions, in an order that is not that of hash tables.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with("line:") && !line.starts_with("column:"));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// A document as TOML: a line for each key of the outermost table.
fn toml_of(document: &Value) -> String {
    let table = document.as_object().expect("a table");
    table.iter().map(|(key, value)| format!("{} = {}\n", json!(key), inline(value))).collect()
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{} = {}", json!(key), inline(value));
            format!("{{ {} }}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
