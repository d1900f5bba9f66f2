//! The rows: read from `rows/*.txt`, and written as docs/conformance.md. A file is one part of the table.
//!
//! ```text
//! # Title of the part
//! A paragraph on it.
//!
//! = 1034 4.3.2 | The requirement in a sentence
//! $ dig static.example.test TXT
//! status NOERROR
//! flags qr aa
//! ```
//!
//! A requirement may have several commands. Beside what must come of it (`answer` judges that), a command
//! may have the lines
//!
//! ```text
//! over UDP TCP      if it is not carried as usual
//! shown TEXT        what the table shows of a command that is hard to read
//! differs REASON    a difference that is meant: the other lines hold to it
//! off REASON        what is not offered: it is not run
//! ```

use std::fmt::Write as _;

use crate::own_file;
use crate::run::Outcome;

/// The files in the order of the table.
const FILES: [&str; 10] = [
    "lookup",
    "messages",
    "edns",
    "subnet",
    "rfc8906",
    "transports",
    "clients",
    "unbound",
    "named",
    "recursor",
];

/// What stands above the table.
const HEAD: &str = "rows/head.md";

/// A part of the table.
pub(crate) struct Part {
    /// Its file in `rows/`, without the ending.
    name: &'static str,
    title: String,
    paragraph: String,
    pub(crate) checks: Vec<Check>,
}

/// A row: a command and what must come of it.
#[derive(Clone)]
pub(crate) struct Check {
    /// The RFC, then the section if one is named.
    source: String,
    pub(crate) rule: String,
    pub(crate) command: String,
    pub(crate) over: Vec<Transport>,
    /// Lines that `answer` and `run` judge.
    pub(crate) expected: Vec<String>,
    /// What the table shows instead of a command that is hard to read.
    shown: Option<String>,
    differs: Option<String>,
    pub(crate) off: Option<String>,
}

/// How a query is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Tls,
    Https,
    Quic,
    /// As the command says it itself.
    Own,
}

impl Transport {
    const ALL: [(&'static str, Self); 6] = [
        ("UDP", Self::Udp),
        ("TCP", Self::Tcp),
        ("TLS", Self::Tls),
        ("HTTPS", Self::Https),
        ("QUIC", Self::Quic),
        ("", Self::Own),
    ];

    fn named(word: &str) -> Self {
        let found = Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.unwrap_or_else(|| panic!("no transport is called {word:?}")).1
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, transport)| *transport == self).map_or("", |(name, _)| name)
    }

    /// What a command is carried over if it does not say so.
    fn usual(command: &str) -> Vec<Self> {
        match command.split(' ').next() {
            Some("dig") if command.contains('@') => vec![Self::Udp],
            Some("dig") => vec![Self::Udp, Self::Tcp, Self::Tls, Self::Https],
            Some("packet") => vec![Self::Udp, Self::Tcp],
            _ => vec![Self::Own],
        }
    }
}

/// Reads all files.
pub(crate) fn parts() -> Vec<Part> {
    FILES.iter().map(|name| part(name)).collect()
}

fn part(name: &'static str) -> Part {
    let text = own_file(&format!("rows/{name}.txt"));
    let mut part =
        Part { name, title: String::new(), paragraph: String::new(), checks: Vec::new() };
    let (mut source, mut rule) = (String::new(), String::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut part.title);
        } else if let Some(requirement) = line.strip_prefix("= ") {
            let (place, sentence) = requirement.split_once(" | ").expect("PLACE | SENTENCE");
            (source, rule) = (place.to_owned(), sentence.to_owned());
        } else if let Some(command) = line.strip_prefix("$ ") {
            part.checks.push(Check {
                source: source.clone(),
                rule: rule.clone(),
                command: command.to_owned(),
                over: Transport::usual(command),
                expected: Vec::new(),
                shown: None,
                differs: None,
                off: None,
            });
        } else if let Some(check) = part.checks.last_mut() {
            check.take(line);
        } else {
            assert!(rule.is_empty(), "no command yet: {line}");
            writeln!(part.paragraph, "{line}").expect("writing to a string");
        }
    }
    part
}

impl Check {
    fn take(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("over", list)) => {
                self.over = list.split_whitespace().map(Transport::named).collect();
            }
            Some(("shown", text)) => self.shown = Some(text.to_owned()),
            Some(("differs", reason)) => self.differs = Some(reason.to_owned()),
            Some(("off", reason)) => self.off = Some(reason.to_owned()),
            _ => self.expected.push(line.to_owned()),
        }
    }

    /// The last column. A row that was skipped here is written as where it was run.
    fn result(&self, outcome: &Outcome) -> String {
        match (outcome, &self.differs, &self.off) {
            (Outcome::Failed(_), _, _) => "**fails**".into(),
            (_, _, Some(reason)) => format!("not offered: {reason}"),
            (_, Some(reason), _) => format!("differs: {reason}"),
            _ => "pass".into(),
        }
    }
}

/// The document.
pub(crate) fn render(parts: &[Part], outcomes: &[Vec<Outcome>]) -> String {
    let mut text = own_file(HEAD);
    let checks = || parts.iter().flat_map(|part| &part.checks);
    let differ = checks().filter(|check| check.differs.is_some()).count();
    let off = checks().filter(|check| check.off.is_some()).count();
    let all = checks().count();
    write!(text, "\n{all} checks; {differ} differ on purpose, {off} are of what is not offered.\n")
        .expect("writing to a string");
    for (part, outcomes) in parts.iter().zip(outcomes) {
        write!(text, "\n## {}\n\n{}", part.title, part.paragraph).expect("writing to a string");
        let name = part.name;
        writeln!(text, "Rows: [{name}.txt](../tests/conformance/rows/{name}.txt)")
            .expect("writing to a string");
        text.push_str("\n| RFC, section | requirement | check | over | result |\n");
        text.push_str("| --- | --- | --- | --- | --- |\n");
        let mut above = None;
        for (check, outcome) in part.checks.iter().zip(outcomes) {
            let this = Some((&check.source, &check.rule));
            let (source, rule) =
                if above == this { ("", "") } else { (check.source.as_str(), check.rule.as_str()) };
            above = this;
            let over: Vec<_> = check.over.iter().map(|over| over.name()).collect();
            let command = check.shown.as_ref().unwrap_or(&check.command).replace('|', "\\|");
            let result = check.result(outcome);
            writeln!(text, "| {source} | {rule} | `{command}` | {} | {result} |", over.join(", "))
                .expect("writing to a string");
        }
    }
    text
}
