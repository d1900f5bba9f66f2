//! What describes the configuration and the command line to others: JSON Schemas, the reference, shell
//! completions, man pages. An independent validator of JSON Schema is asked, Python's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use crate::harness::{Site, is_missing, is_required};

/// Debian's Python: another one that is found first may lack the module.
const PYTHON: &str = "/usr/bin/python3";

/// Prints what is wrong with each TOML file, by the schema that comes first.
const VALIDATE: &str = r#"
import json, jsonschema, sys, tomllib
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
def errors(path):
    document = tomllib.load(open(path, "rb"))
    return [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(document)]
print(json.dumps({path: errors(path) for path in sys.argv[2:]}))
"#;

/// True if the validator is missing, so that what needs it is skipped.
fn is_without_validator() -> bool {
    let import = Command::new(PYTHON).args(["-c", "import jsonschema, tomllib"]).output();
    if import.is_ok_and(|output| output.status.success()) {
        return false;
    }
    assert!(!is_required(), "{PYTHON} has no module jsonschema (python3-jsonschema)");
    eprintln!("skipped: {PYTHON} needs the module jsonschema (Debian: python3-jsonschema)");
    true
}

/// What is wrong with each file by the schema of a kind; of any kind if the word is empty.
fn validate(site: &Site, kind: &str, files: &[PathBuf]) -> Map<String, Value> {
    let arguments: &[&str] = if kind.is_empty() { &["schema"] } else { &["schema", kind] };
    let run = site.run(arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let schema = site.path().join("schema.json");
    fs::write(&schema, run.stdout).expect("a file");
    let output = Command::new(PYTHON).args(["-c", VALIDATE]).arg(schema).args(files).output();
    let output = output.expect("Python");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{kind} {files:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("a JSON document")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The TOML files of a folder of the checkout.
fn toml_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("a file").path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

/// The configuration's examples in the documents, each with its kind.
fn examples() -> Vec<(&'static str, String)> {
    let mut examples = Vec::new();
    let entries = fs::read_dir(root().join("docs")).expect("a folder");
    let documents = entries.map(|entry| entry.expect("a file").path());
    for document in documents.chain([root().join("README.md")]) {
        let text = fs::read_to_string(document).unwrap_or_default();
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let has = |words: &[&str]| words.iter().any(|word| block.contains(word));
            if has(&["[[rule]]"]) {
                continue; // the settings of an editor
            }
            let kind = if has(&["[regions."]) {
                "regions"
            } else if has(&["[subnets."]) {
                "subnets"
            } else if has(&["[rtt."]) {
                "rtt"
            } else if has(&["[[", "[pools", "[monitors", "[load_balancers", "zone = "]) {
                "zone"
            } else {
                "server"
            };
            // Most show a part of a zone.
            let is_part = kind == "zone" && !block.starts_with("zone = ");
            let head = if is_part { "zone = \"example.com\"\n" } else { "" };
            examples.push((kind, format!("{head}{block}")));
        }
    }
    examples
}

#[test]
fn good_files_fit_their_schemas() {
    if is_without_validator() {
        return;
    }
    let site = Site::new();
    let good = |file: &str| root().join("tests/data/good").join(file);
    let mut files: Vec<(&str, PathBuf)> = vec![
        ("server", good("meridian.toml")),
        ("regions", good("geo/regions.toml")),
        ("subnets", good("geo/subnets.toml")),
        ("rtt", good("geo/rtt.toml")),
        ("subnets", root().join("geo/subnets.toml")),
        ("rtt", root().join("geo/rtt.toml")),
    ];
    files.extend(toml_files("zones").into_iter().map(|path| ("zone", path)));
    files.extend(toml_files("tests/data/good/zones").into_iter().map(|path| ("zone", path)));
    let examples = examples();
    assert!(examples.len() > 10, "only {} examples were found", examples.len());
    for (number, (kind, text)) in examples.iter().enumerate() {
        let path = site.path().join(format!("example-{number}.toml"));
        fs::write(&path, text).expect("a file");
        files.push((kind, path));
    }
    for kind in ["server", "zone", "regions", "subnets", "rtt", ""] {
        let of_kind = files.iter().filter(|(word, _)| kind.is_empty() || *word == kind);
        let of_kind: Vec<_> = of_kind.map(|(_, path)| path.clone()).collect();
        let wrong = validate(&site, kind, &of_kind).into_iter();
        let wrong: Vec<_> = wrong.filter(|(_, errors)| errors != &serde_json::json!([])).collect();
        let text = |(path, errors): &(String, Value)| {
            format!("{errors:#} in\n{}", fs::read_to_string(path).unwrap_or_default())
        };
        assert!(wrong.is_empty(), "{kind}: {}", wrong.iter().map(text).collect::<String>());
    }
}

#[test]
fn wrong_files_do_not_fit_their_schemas() {
    if is_without_validator() {
        return;
    }
    const POOL: &str = "[pools.p]\norigins = [{ name = \"o\", address = \"192.0.2.1\" }]\n";
    let zone = |text: &str| format!("zone = \"example.com\"\n{POOL}{text}");
    let cases = [
        ("server", "[server]\nlistn = \"127.0.0.1:53\"\n".to_owned(), "listn"),
        ("server", "[sever]\n".to_owned(), "sever"),
        ("server", "[server]\nworkers = \"2\"\n".to_owned(), "workers"),
        ("server", "[server]\nworkers = 100000\n".to_owned(), "workers"),
        ("server", "[server]\nstartup_wait = 5\n".to_owned(), "startup_wait"),
        ("server", "[server]\nwatch = \"yes\"\n".to_owned(), "watch"),
        ("server", "[tls]\ncert = \"cert.pem\"\n".to_owned(), "key"),
        ("zone", "ttl = 300\n".to_owned(), "zone"),
        ("zone", zone("[pools.q]\norigins = [{ name = \"o\" }]\n"), "address"),
        ("zone", zone("[pools.q]\norigins = []\nregoin = \"weu\"\n"), "regoin"),
        ("zone", zone("[monitors.m]\ntype = \"tcp\"\n"), "port"),
        ("zone", zone("[monitors.m]\ntype = \"tcp\"\nport = 80\nsni = \"a\"\n"), "type"),
        ("zone", zone("[monitors.m]\ntype = \"htpp\"\n"), "htpp"),
        ("zone", zone("[load_balancers.www]\npools = \"p\"\n"), "pools"),
        (
            "zone",
            zone("[load_balancers.www]\npools = [\"p\"]\nrtt_tolerance = [\"1ms\"]\n"),
            "steering",
        ),
        ("zone", zone("[load_balancers.www]\npools = [\"p\"]\nanswers = \"some\"\n"), "answers"),
        ("zone", zone("[soa]\nminimum = \"1h\"\n"), "minimum"),
        ("shared", zone(""), "zone"),
        ("regions", "[regions.weu]\ncontinents = [\"EUR\"]\n".to_owned(), "EUR"),
        ("subnets", "[subnets.\"10.0.0.0/8\"]\nlocation = [91, 0]\n".to_owned(), "91"),
        ("rtt", "[rtt.weu]\nuse = \"92.5\"\n".to_owned(), "use"),
        ("", "[server]\nlistn = \"127.0.0.1:53\"\n".to_owned(), ""),
    ];
    let site = Site::new();
    for (kind, text, says) in cases {
        let path = site.path().join("wrong.toml");
        fs::write(&path, &text).expect("a file");
        let errors = validate(&site, kind, &[path]);
        let errors = errors.values().next().expect("a file");
        assert_ne!(errors, &serde_json::json!([]), "{kind}: this fits:\n{text}");
        assert!(errors.to_string().contains(says), "{kind}: {says} is not in {errors:#}");
    }
}

#[test]
fn the_reference_is_that_of_the_program() {
    let run = Site::new().run(&["reference"]);
    let written = fs::read_to_string(root().join("docs/reference.md")).unwrap_or_default();
    let remedy = "run `cargo run -- reference > docs/reference.md`";
    let differing = run.stdout.lines().zip(written.lines()).find(|(new, old)| new != old);
    assert!(run.stdout == written, "docs/reference.md is out of date: {remedy}\n{differing:#?}");
}

/// What bash offers for a line of which the last word has begun.
fn completed(script: &Path, line: &[&str]) -> String {
    let (last, before) = (line[line.len() - 1], line[line.len() - 2]);
    let words = line.join(" ");
    let command = format!(
        "source {} && COMP_WORDS=({words}) COMP_CWORD={} && _meridian meridian '{last}' '{before}' && \
         echo \"${{COMPREPLY[@]}}\"",
        script.display(),
        line.len() - 1
    );
    let shell = Command::new("bash").args(["--norc", "-c", &command]).stdin(Stdio::null()).output();
    let output = shell.expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn bash_completes_commands_options_and_words() {
    if is_missing("bash", "--version", "bash") {
        return;
    }
    let site = Site::new();
    let run = site.run(&["completions", "bash"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let script = site.path().join("meridian.bash");
    fs::write(&script, run.stdout).expect("a file");
    assert_eq!(completed(&script, &["meridian", "exp"]), "explain");
    assert_eq!(completed(&script, &["meridian", "serve", "--lis"]), "--listen");
    assert_eq!(completed(&script, &["meridian", "schema", "sub"]), "subnets");
}

#[test]
fn other_shells_have_scripts_too() {
    let site = Site::new();
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let run = site.run(&["completions", shell]);
        assert_eq!(run.code, Some(0), "{shell}: {}", run.stderr);
        assert!(run.stdout.contains("simulate"), "{shell}: {}", run.stdout);
    }
    assert_eq!(site.run(&["completions", "dos"]).code, Some(2));
}

#[test]
fn man_pages_are_written_for_every_command() {
    let site = Site::new();
    let folder = site.path().join("man");
    fs::create_dir(&folder).expect("a folder");
    let run = site.run(&["man", "man"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for (page, says) in
        [("meridian.1", "force\\-up"), ("meridian-serve.1", "listen"), ("meridian-man.1", "DIR")]
    {
        let text = fs::read_to_string(folder.join(page)).expect(page);
        assert!(text.contains(says), "{page}: {text}");
    }
    // Where there is a formatter it finds nothing to complain about.
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("a file").path();
        let groff = Command::new("groff").args(["-k", "-man", "-Tutf8", "-ww"]).arg(&path).output();
        if let Ok(output) = groff {
            let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && complaints.is_empty(), "{complaints}");
        }
    }
    let run = site.run(&["man", "nowhere"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("nowhere"), "{}", run.stderr);
}
