//! What README.md and docs/ show is what the program does. Each document is followed as its reader
//! would follow it, from top to bottom, in a copy of the checkout with a server of its own:
//!
//! - a block of the kind `console` has lines that begin with `$ `, which are run by the shell (a
//!   line that begins with `> ` goes on with the command above), each with the output expected;
//! - a block of the kind `log` has lines of the server's log, without their times, in their order.
//!
//! A line `…` stands for any number of lines that the document leaves out. What differs from run to
//! run (ids, times, serials) and the amount of white space do not count.
//!
//! A document that names the admin service has one, with a token.
//!
//! The commands name port 5300, as the reader would. Another one takes its place, unless the program
//! that is tested is given from outside ([`PROGRAM`]): then the default port is used if it is free.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{PROGRAM, Server, Site, is_missing, program};

/// The address of the documents.
const DOCUMENTED: &str = "127.0.0.1:5300";
/// The admin service's address there.
const DOCUMENTED_ADMIN: &str = "127.0.0.1:5380";
/// A document in which nothing is found would pass: fewer commands than this in all are a mistake.
const FEWEST_COMMANDS: usize = 20;

/// The settings of a server that has the admin service.
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n";

#[test]
fn documents_show_what_the_program_does() {
    if is_missing("dig", "-v", "bind9-dnsutils") || is_missing("curl", "--version", "curl") {
        return;
    }
    let (mut commands, mut mismatches) = (0, Vec::new());
    for document in documents() {
        let steps = steps(&document);
        if steps.is_empty() {
            continue;
        }
        commands += steps.iter().filter(|step| step.command.is_some()).count();
        mismatches.extend(follow(&document, &steps));
    }
    assert!(mismatches.is_empty(), "\n\n{}\n", mismatches.join("\n\n"));
    assert!(commands >= FEWEST_COMMANDS, "only {commands} commands were found");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = document.parent().expect("a folder");
            let target = if file.is_empty() { document.clone() } else { folder.join(file) };
            let found = anchor.is_empty() && target.exists()
                || fs::read_to_string(&target).is_ok_and(|text| has_heading(&text, anchor));
            if !found {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Where docs/steering.md names the tests of each rule.
const RULES: &str = "## Rules and their tests";

// A rule without a test, or with one that is gone, is nobody's promise.
#[test]
fn every_rule_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/steering.md")).expect("a document");
    let (_, section) = text.split_once(RULES).expect("the section of the rules");
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule"));
    let rows: Vec<_> = rows.filter(|line| !line.starts_with("| ---")).collect();
    assert!(rows.len() > 80, "only {} rules were found", rows.len());
    let mut faults = Vec::new();
    for row in rows {
        let tests = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let mut tests = tests.split('`').skip(1).step_by(2).peekable();
        if tests.peek().is_none() {
            faults.push(format!("no test: {row}"));
        }
        faults.extend(tests.filter(|test| !is_test(root, test)).map(|t| format!("{t}: {row}")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// True for a test, as `FILE: FUNCTION`, or a folder of files that `check` is tested with. Paths are
/// those below tests/, or begin with src/.
fn is_test(root: &Path, name: &str) -> bool {
    let (file, function) = name.split_once(": ").unwrap_or((name, ""));
    let path =
        if file.starts_with("src/") { root.join(file) } else { root.join("tests").join(file) };
    if function.is_empty() {
        return path.is_dir();
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let function = format!("fn {function}(");
    text.find(&function).is_some_and(|at| {
        // Its attributes and comments stand between it and the last empty line.
        text[..at].rsplit("\n\n").next().is_some_and(|above| above.contains("test]"))
    })
}

/// README.md and the other documents of the root, then those of docs/.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let in_folder = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file"));
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
        files.sort();
        files
    };
    [in_folder(root), in_folder(&root.join("docs"))].concat()
}

/// True if a heading of the text has this anchor.
fn has_heading(text: &str, anchor: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-") == anchor
    })
}

// ---------------------------------------------------------------------------------- Steps

/// One thing that a document shows.
struct Step {
    line: usize,
    /// The command, or none for lines of the log.
    command: Option<String>,
    expected: Vec<String>,
}

impl Step {
    /// True if it speaks to the admin service.
    fn needs_admin(&self) -> bool {
        self.command.as_ref().is_some_and(|command| command.contains(DOCUMENTED_ADMIN))
    }
}

/// Reads the blocks of a document.
fn steps(document: &Path) -> Vec<Step> {
    let text = fs::read_to_string(document).expect("a document");
    let mut steps: Vec<Step> = Vec::new();
    let mut kind = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (kind, line.strip_prefix("```")) {
            (None, Some(opened)) => {
                kind = Some(opened);
                if opened == "log" {
                    steps.push(Step { line: number, command: None, expected: Vec::new() });
                }
            }
            (Some(_), Some(_)) => kind = None,
            (Some("console"), None) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    let command = Some(command.to_owned());
                    steps.push(Step { line: number, command, expected: Vec::new() });
                    continue;
                }
                let step = steps.last_mut();
                let step = step.unwrap_or_else(|| panic!("{}:{number}", document.display()));
                match (line.strip_prefix("> "), &mut step.command) {
                    (Some(more), Some(command)) if step.expected.is_empty() => {
                        command.push('\n');
                        command.push_str(more);
                    }
                    _ => step.expected.push(line.to_owned()),
                }
            }
            (Some("log"), None) => {
                steps.last_mut().expect("the block's step").expected.push(line.to_owned());
            }
            _ => {}
        }
    }
    steps
}

/// Follows a document; what came out otherwise.
fn follow(document: &Path, steps: &[Step]) -> Vec<String> {
    let site = checkout();
    let has_admin = steps.iter().any(Step::needs_admin);
    if has_admin {
        site.write("meridian.toml", ADMIN);
        site.write("admin.token", "a-token-that-only-this-test-has\n");
        let path = site.path().join("admin.token");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    }
    let mut server = Server::spawn(&site, serve_arguments());
    server.address = server.next_address();
    server.wait_for("ready");
    let admin = if has_admin { server.admin_address().to_string() } else { String::new() };
    let mut logged = 0;
    let mut mismatches = Vec::new();
    for step in steps {
        let (what, actual) = match &step.command {
            Some(command) => {
                let output = run(command, &site, &server, &admin);
                if command.contains("kill -HUP") {
                    wait_for_reload(&mut server);
                }
                (command.as_str(), output)
            }
            None => {
                let found = find_in_log(&step.expected, &mut server, &mut logged);
                ("the log", found)
            }
        };
        let expected: Vec<_> = step.expected.iter().map(|line| normal(line)).collect();
        let actual: Vec<_> = actual.iter().map(|line| normal(line)).collect();
        if !matches(&expected, &actual) {
            let place = format!("{}:{}", document.display(), step.line);
            mismatches.push(format!("{place}: {what}\n{}", difference(&expected, &actual)));
        }
    }
    mismatches
}

/// A folder that looks to its user like the checkout after `cargo build --release`.
fn checkout() -> Site {
    let site = Site::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::remove_file(site.path().join("meridian.toml")).expect("a file");
    for folder in ["zones", "geo"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder of the checkout") {
            let path = entry.expect("a file").path();
            let name = path.file_name().expect("a name");
            fs::copy(&path, site.path().join(folder).join(name)).expect("a copy");
        }
    }
    let built = site.path().join("target/release");
    fs::create_dir_all(&built).expect("a new folder");
    std::os::unix::fs::symlink(program(), built.join("meridian")).expect("a link");
    site
}

/// How the server is started: as the README says, or on a free port.
fn serve_arguments() -> &'static [&'static str] {
    let is_free = || UdpSocket::bind(DOCUMENTED).is_ok() && TcpListener::bind(DOCUMENTED).is_ok();
    if std::env::var_os(PROGRAM).is_some() && is_free() {
        &["serve"]
    } else {
        &["serve", "--listen", "127.0.0.1:0"]
    }
}

/// Runs a command by the shell: all that it prints.
fn run(command: &str, site: &Site, server: &Server, admin: &str) -> Vec<String> {
    let (port, pid) = (server.address.port(), server.pid());
    let command = command
        .replace("-p 5300", &format!("-p {port}"))
        .replace(DOCUMENTED, &server.address.to_string())
        .replace(DOCUMENTED_ADMIN, admin)
        .replace("$(pidof meridian)", &pid.to_string());
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(site.path())
        .env("PATH", format!("{}:{path}", site.path().join("target/release").display()))
        .env("HOME", site.path())
        .env("LC_ALL", "C.UTF-8")
        .env("MERIDIAN_AT", format!("http://{admin}"))
        .env_remove("MERIDIAN_LOG")
        .env_remove("MERIDIAN_TOKEN_FILE")
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text.replace(&server.address.to_string(), DOCUMENTED);
    let text = if admin.is_empty() { text } else { text.replace(admin, DOCUMENTED_ADMIN) };
    text.trim_end().lines().map(str::to_owned).collect()
}

// ---------------------------------------------------------------------------------- Log

fn wait_for_reload(server: &mut Server) {
    let mut number = server.lines_read();
    while let Some(line) = server.log_line(number) {
        if ["reloaded", "reload refused"].iter().any(|&word| line["fields"]["message"] == word) {
            return;
        }
        number += 1;
    }
    panic!("the server does not reload");
}

/// The lines of the log that are expected, each as it is expected if the log has it.
fn find_in_log(expected: &[String], server: &mut Server, logged: &mut usize) -> Vec<String> {
    let address = server.address.to_string();
    let mut found = Vec::new();
    for line in expected {
        let first = *logged;
        let mut number = first;
        loop {
            let Some(entry) = server.log_line(number) else {
                let logged = server.lines_read();
                found.extend((first..logged).filter_map(|n| Some(server.log_line(n)?.to_string())));
                return found;
            };
            number += 1;
            if is_entry(&line.replace(DOCUMENTED, &address), entry) {
                found.push(line.clone());
                *logged = number;
                break;
            }
        }
    }
    found
}

/// True if a line, as a terminal shows it after the time, says all that a log entry says.
fn is_entry(line: &str, entry: &Value) -> bool {
    let (Some(level), Some(fields)) = (entry["level"].as_str(), entry["fields"].as_object()) else {
        return false;
    };
    let message = fields.get("message").and_then(Value::as_str).unwrap_or_default();
    let Some(rest) = line.trim().strip_prefix(level) else { return false };
    let Some(rest) = rest.trim_start().strip_prefix(message) else { return false };
    let mut rest = rest.to_owned();
    for (key, value) in fields.iter().filter(|(key, _)| *key != "message") {
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown = [format!(" {key}={plain}"), format!(" {key}={plain:?}")];
        let Some(shown) = shown.iter().find(|shown| rest.contains(*shown)) else { return false };
        rest = rest.replacen(shown, "", 1);
    }
    rest.trim().is_empty()
}

// ---------------------------------------------------------------------------------- Comparison

/// A line without what differs from run to run.
fn normal(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let volatile = [";; Query time:", ";; WHEN:", ";; MSG SIZE", "; <<>> DiG"];
    let line = words.join(" ");
    if let Some(start) = volatile.into_iter().find(|start| line.starts_with(start)) {
        return start.to_owned();
    }
    let mut after_id = false;
    let tells_age = line.contains("healthy") || line.starts_with("meridian ");
    let word = |word: &&str| {
        let number = word.trim_end_matches(',');
        let is_serial = number.len() == 10 && number.bytes().all(|octet| octet.is_ascii_digit());
        let varies = is_serial
            || is_time(word)
            || (tells_age && is_age(word))
            || std::mem::replace(&mut after_id, *word == "id:");
        if varies { "N".to_owned() } else { (*word).to_owned() }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// True for a time of day, as 2026-11-30T14:05:00Z, with what stands around it.
fn is_time(word: &str) -> bool {
    let time = word.trim_matches(['"', ',', ':']);
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    // One that is far from now is what the document itself has set.
    time.len() == 20 && digits == 14 && time.ends_with('Z') && !time.starts_with("2099")
}

/// True for how long something has been so, as 13s or 3m, with what stands around it.
fn is_age(word: &str) -> bool {
    let age = word.trim_matches([',', ':', ';']);
    age.strip_suffix(['s', 'm', 'h']).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// True if the lines are those expected, where `…` stands for any lines.
fn matches(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((left_out, rest)) if left_out == "…" => {
            (0..=actual.len()).any(|skipped| matches(rest, &actual[skipped..]))
        }
        Some((first, rest)) => {
            actual.split_first().is_some_and(|(line, more)| line == first && matches(rest, more))
        }
    }
}

/// Both texts, what is the same at the beginning and at the end once.
fn difference(expected: &[String], actual: &[String]) -> String {
    let common = expected.iter().zip(actual).take_while(|(a, b)| a == b).count();
    let (same, expected) = expected.split_at(common);
    let (_, actual) = actual.split_at(common);
    let tail = expected.iter().rev().zip(actual.iter().rev()).take_while(|(a, b)| a == b).count();
    let (expected, end) = expected.split_at(expected.len() - tail);
    let (actual, _) = actual.split_at(actual.len() - tail);
    let marked = |mark: &str, lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| format!("{mark} {line}")).collect()
    };
    [marked(" ", same), marked("-", expected), marked("+", actual), marked(" ", end)]
        .concat()
        .join("\n")
}
