//! Runs the rows: `dig`, `kdig`, packets (`packet`), dnspython (`python`, a function of `clients.py`) and
//! what needs a program of its own (`test`, a function of `programmed`).

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::answer::Answer;
use crate::harness::is_missing;
use crate::stage::Stage;
use crate::table::{Check, Part, Transport};
use crate::{packet, programmed};

/// How many rows are run at a time.
const THREADS: usize = 4;
/// The octets of a message before its question.
const HEADER: usize = 12;

/// What came of a row.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// A tool is missing, or the server or resolver that it asks.
    Skipped,
}

/// Runs all rows. Those that look back at what others did come last.
pub(crate) fn all(parts: &[Part], stage: &Stage) -> Vec<Vec<Outcome>> {
    let checks: Vec<&Check> = parts.iter().flat_map(|part| &part.checks).collect();
    let outcomes = Mutex::new(vec![Outcome::Skipped; checks.len()]);
    let tools = Tools::find();
    let is_last = |check: &Check| check.command.starts_with("test ");
    let run = |at: usize| {
        let check: &Check = checks[at];
        let outcome = match &check.off {
            Some(_) => Outcome::Passed,
            None => panic::catch_unwind(AssertUnwindSafe(|| tools.run(check, stage)))
                .unwrap_or_else(|cause| Outcome::Failed(message(&*cause))),
        };
        outcomes.lock().expect("a list")[at] = outcome;
    };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    match checks.get(at) {
                        None => break,
                        Some(check) if !is_last(check) => run(at),
                        Some(_) => {}
                    }
                }
            });
        }
    });
    (0..checks.len()).filter(|at| is_last(checks[*at])).for_each(run);
    let mut outcomes = outcomes.into_inner().expect("a list").into_iter();
    parts.iter().map(|part| outcomes.by_ref().take(part.checks.len()).collect()).collect()
}

/// What is wrong, a text for each row that failed.
pub(crate) fn faults(parts: &[Part], outcomes: &[Vec<Outcome>]) -> Vec<String> {
    let checks = parts.iter().flat_map(|part| &part.checks);
    let pairs = checks.zip(outcomes.iter().flatten());
    pairs
        .filter_map(|(check, outcome)| match outcome {
            Outcome::Failed(why) => Some(format!("{}\n$ {}\n{why}", check.rule, check.command)),
            _ => None,
        })
        .collect()
}

fn message(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// The clients that are installed.
struct Tools {
    dig: bool,
    kdig: bool,
    /// The interpreter that has dnspython.
    python: Option<&'static str>,
}

impl Tools {
    fn find() -> Self {
        let has_dnspython = |python: &&str| {
            let mut command = Command::new(python);
            let output = command.args(["-c", "import dns.query"]).stdin(Stdio::null()).output();
            output.is_ok_and(|output| output.status.success())
        };
        let python = ["python3", "/usr/bin/python3"].into_iter().find(has_dnspython);
        if python.is_none() {
            assert!(!crate::harness::is_required(), "dnspython is missing (python3-dnspython)");
            eprintln!("skipped: dnspython is needed (Debian: python3-dnspython)");
        }
        Self {
            dig: !is_missing("dig", "-v", "bind9-dnsutils"),
            kdig: !is_missing("kdig", "-V", "knot-dnsutils"),
            python,
        }
    }

    fn run(&self, check: &Check, stage: &Stage) -> Outcome {
        let (tool, rest) = check.command.split_once(' ').expect("a tool and its arguments");
        let result = match tool {
            "dig" if self.dig => self.ask(check, tool, rest, stage),
            "kdig" if self.kdig => self.ask(check, tool, rest, stage),
            "python" => match self.python {
                Some(python) => ask_python(python, rest, stage).map(|()| true),
                None => Ok(false),
            },
            "packet" => send(check, &packet::octets(rest), stage).map(|()| true),
            "test" => programmed::run(rest, stage),
            "dig" | "kdig" => Ok(false),
            _ => Err(format!("no tool is called {tool:?}")),
        };
        match result {
            Ok(true) => Outcome::Passed,
            Ok(false) => Outcome::Skipped,
            Err(why) => Outcome::Failed(why),
        }
    }

    /// Asks with `dig` or `kdig` over each transport; false if the target does not run here.
    fn ask(&self, check: &Check, tool: &str, rest: &str, stage: &Stage) -> Result<bool, String> {
        let words = words(rest);
        let target = words.iter().find_map(|word| word.strip_prefix('@')).unwrap_or_default();
        let is_resolver = !matches!(target, "" | "other" | "everywhere");
        for over in &check.over {
            let Some(address) = stage.address(target, *over) else {
                return Ok(false);
            };
            let mut command = Command::new(tool);
            command.args([&format!("@{}", address.ip()), "-p", &address.port().to_string()]);
            command.args(match tool {
                "dig" => &["+tries=1", "+time=10"],
                _ => &["+retry=0", "+timeout=10"],
            });
            if tool == "dig" && !is_resolver {
                command.args(["+norec", "+nocookie"]);
            }
            command.args(match over {
                Transport::Udp => &["+notcp"][..],
                Transport::Tcp => &["+tcp"],
                Transport::Tls => &["+tls"],
                Transport::Https => &["+https"],
                Transport::Quic => &["+quic"],
                Transport::Own => &[],
            });
            command.args(words.iter().filter(|word| !word.starts_with('@')));
            let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
            let text =
                String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            let answer = Answer::printed(&text);
            let judged = if is_resolver { Ok(()) } else { answer.judge_always() };
            judged
                .and_then(|()| answer.judge(&check.expected))
                .map_err(|why| format!("over {over:?}: {why}\n{}", answer.text()))?;
        }
        Ok(true)
    }
}

/// The arguments of a row: words, or what stands between quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().expect("a word").push(c),
        }
    }
    words
}

fn ask_python(python: &str, function: &str, stage: &Stage) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/clients.py");
    let port = |over| stage.address("", over).expect("a server").port().to_string();
    let output = Command::new(python)
        .arg(script)
        .args([function, &port(Transport::Udp), &port(Transport::Tls)])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sends a packet over each transport. `silence` wants no reply, `or silence` takes none too.
fn send(check: &Check, octets: &[u8], stage: &Stage) -> Result<(), String> {
    for over in &check.over {
        let reply = match over {
            Transport::Tcp => packet::over_tcp(&stage.server(), octets),
            _ => packet::over_udp(&stage.server(), octets),
        };
        let says = |wanted: &str| check.expected.iter().any(|line| line == wanted);
        let (is_silence_good, is_silence_wanted) = (says("or silence"), says("silence"));
        let (_, expected): (Vec<_>, Vec<_>) =
            check.expected.iter().cloned().partition(|line| line.ends_with("silence"));
        let judged = match reply {
            None if is_silence_good || is_silence_wanted => Ok(()),
            None => Err("no reply".into()),
            Some(_) if is_silence_wanted => Err("a reply".into()),
            Some(reply) => {
                let answer = Answer::message(&reply);
                let judged = answer
                    .judge_always()
                    .and_then(|()| answer.judge(&expected))
                    .and_then(|()| judge_question(octets, &reply.question));
                judged.map_err(|why| format!("{why}\n{}", answer.text()))
            }
        };
        judged.map_err(|why| format!("over {over:?}: {why}"))?;
    }
    Ok(())
}

/// RFC 1035 4.1.2: a question that comes back is the one that was asked.
fn judge_question(query: &[u8], question: &[u8]) -> Result<(), String> {
    let asked = query.get(HEADER..).unwrap_or_default();
    if asked.starts_with(question) { Ok(()) } else { Err("another question".into()) }
}
