//! A reply as the rows see it, made of what `dig` or `kdig` prints or of octets, and judged by the lines of
//! a row:
//!
//! ```text
//! status NOERROR|SERVFAIL    one of these
//! flags qr aa [cd]           exactly these; one in brackets may be there
//! question NAME TYPE         with the spelling that is shown
//! answer OWNER TTL TYPE DATA a line for each record of the section, in any order
//! answer none                no record; likewise `authority` and `additional`, where OPT is no record
//! answers 3                  so many records in the answer
//! first TYPE                 the type of the answer's first record
//! opt none                   no OPT; else `opt VERSION` and the flags
//! option TEXT                an option is shown that begins so; `option none`
//! size <= 512                octets of the message; also >= and =
//! replies 3                  so many replies are shown
//! says TEXT                  the output has this text
//! says not TEXT              and not this one
//! ```

use std::collections::HashMap;

use crate::wire::{Record, Reply, bit};

/// A reply.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    status: String,
    flags: Vec<String>,
    question: String,
    answer: Vec<String>,
    authority: Vec<String>,
    additional: Vec<String>,
    /// Version and flags.
    opt: Option<String>,
    options: Vec<String>,
    size: usize,
    replies: usize,
    text: String,
}

/// The header bits in the order of `dig`.
const FLAGS: [(u16, &str); 8] = [
    (bit::QR, "qr"),
    (bit::AA, "aa"),
    (bit::TC, "tc"),
    (bit::RD, "rd"),
    (bit::RA, "ra"),
    (bit::Z, "MBZ"),
    (bit::AD, "ad"),
    (0x0010, "cd"),
];

/// Response codes by number.
const STATUS: [(u16, &str); 9] = [
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (9, "NOTAUTH"),
    (16, "BADVERS"),
    (23, "BADCOOKIE"),
];

/// What a client prints when it cannot read a message.
const COMPLAINTS: [&str; 5] =
    ["malformed", "bad packet", "mismatch", "garbage", "unexpected source"];

impl Answer {
    /// Reads the output of `dig` or `kdig`; of several replies the last one.
    pub(crate) fn printed(text: &str) -> Self {
        let mut this = Self { text: text.to_owned(), ..Self::default() };
        let mut section = "";
        for line in text.lines().map(str::trim) {
            let bare = line.trim_start_matches(';').trim();
            if let Some((_, header)) = line.split_once("->>HEADER<<-") {
                this = Self { text: this.text, replies: this.replies + 1, ..Self::default() };
                this.status = between(header, "status: ", &[',', ';']).to_owned();
            } else if let Some(flags) = bare.to_lowercase().strip_prefix("flags:") {
                let words = flags.split("query:").next().unwrap_or_default();
                let words = words.replace(';', " ").replace("mbz: 0x", "MBZ");
                this.flags = words.split_whitespace().map(str::to_owned).collect();
            } else if line.starts_with(";;") && line.to_uppercase().ends_with("SECTION:") {
                section = bare.split(' ').next().unwrap_or_default();
            } else if let Some(size) = bare.strip_prefix("MSG SIZE  rcvd: ") {
                this.size = size.parse().unwrap_or_default();
            } else if let Some(size) = bare.strip_prefix("Received ") {
                this.size = size.trim_end_matches(" B").parse().unwrap_or_default();
            } else if line.is_empty() {
                continue;
            } else {
                this.take(section, line, bare);
            }
        }
        this
    }

    fn take(&mut self, section: &str, line: &str, bare: &str) {
        let records = match section {
            "OPT" | "EDNS" => {
                let lower = bare.to_lowercase();
                if let Some((_, version)) = lower.split_once("version: ") {
                    // dig: "0, flags: do; udp: 1232"; kdig: "0; flags: do; UDP size: 1232 B; …".
                    let words = version.split("udp").next().unwrap_or_default();
                    let words = words.replace([',', ';'], " ").replace("flags:", "");
                    self.opt = Some(words.split_whitespace().collect::<Vec<_>>().join(" "));
                } else if line.starts_with(';') {
                    self.options.push(bare.to_owned());
                }
                return;
            }
            "QUESTION" if self.question.is_empty() => {
                self.question = fields(bare);
                return;
            }
            "ANSWER" => &mut self.answer,
            "AUTHORITY" => &mut self.authority,
            "ADDITIONAL" => &mut self.additional,
            _ => return,
        };
        if !line.starts_with(';') {
            records.push(fields(line));
        }
    }

    /// Reads a message.
    pub(crate) fn message(reply: &Reply) -> Self {
        let flags = FLAGS.iter().filter(|(bit, _)| reply.has(*bit));
        let status = STATUS.iter().find(|(number, _)| *number == reply.rcode());
        let records =
            |section: &[Record]| section.iter().map(|record| fields(&record.line())).collect();
        let opt = reply.opt.as_ref();
        Self {
            status: status
                .map_or_else(|| reply.rcode().to_string(), |(_, name)| (*name).to_owned()),
            flags: flags.map(|(_, name)| (*name).to_owned()).collect(),
            question: String::new(),
            answer: records(&reply.answer),
            authority: records(&reply.authority),
            additional: records(&reply.additional),
            opt: opt.map(|opt| {
                format!("{} {}", opt.version, if opt.flags == 0x8000 { "do" } else { "" })
                    .trim()
                    .to_owned()
            }),
            options: opt.map_or_else(Vec::new, |opt| {
                opt.options.iter().map(|(code, data)| format!("{code} {data:02x?}")).collect()
            }),
            size: reply.octets.len(),
            replies: 1,
            text: format!("{reply:02x?}"),
        }
    }

    /// What must hold for every reply of an authoritative server.
    pub(crate) fn judge_always(&self) -> Result<(), String> {
        let text = self.text.to_lowercase();
        if let Some(complaint) = COMPLAINTS.iter().find(|complaint| text.contains(*complaint)) {
            return Err(format!("the client says {complaint:?}"));
        }
        // RFC 1035 4.1.1: RA and Z are clear; RFC 4035 3.1.6: so is AD.
        if let Some(flag) =
            self.flags.iter().find(|f| *f == "ra" || *f == "ad" || f.starts_with("MBZ"))
        {
            return Err(format!("the flag {flag}"));
        }
        // RFC 2181 5.2: one TTL in a set.
        let mut ttls = HashMap::new();
        for record in self.answer.iter().chain(&self.authority).chain(&self.additional) {
            let words: Vec<_> = record.splitn(4, ' ').collect();
            if let [owner, ttl, rtype, ..] = words[..]
                && *ttls.entry((owner, rtype)).or_insert(ttl) != ttl
            {
                return Err(format!("two TTLs in the set of {owner} {rtype}"));
            }
        }
        Ok(())
    }

    /// Judges the reply by the lines of a row.
    pub(crate) fn judge(&self, expected: &[String]) -> Result<(), String> {
        for section in ["answer", "authority", "additional"] {
            self.judge_section(section, expected)?;
        }
        for line in expected {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let found = match word {
                "answer" | "authority" | "additional" => continue,
                "status" if rest.split('|').any(|status| status == self.status) => continue,
                "status" => self.status.clone(),
                "flags" if self.has_flags(rest) => continue,
                "flags" => self.flags.join(" "),
                "question" if self.question == rest => continue,
                "question" => self.question.clone(),
                "answers" if self.answer.len().to_string() == rest => continue,
                "answers" => self.answer.len().to_string(),
                "first" if self.answer.first().and_then(|r| r.split(' ').nth(2)) == Some(rest) => {
                    continue;
                }
                "first" => self.answer.join("; "),
                "opt" if self.opt.as_deref().unwrap_or("none") == rest => continue,
                "opt" => self.opt.clone().unwrap_or_else(|| "none".into()),
                "option" if rest == "none" && self.options.is_empty() => continue,
                "option" if self.options.iter().any(|option| option.starts_with(rest)) => continue,
                "option" => self.options.join("; "),
                "size" if self.has_size(rest) => continue,
                "size" => self.size.to_string(),
                "replies" if self.replies.to_string() == rest => continue,
                "replies" => self.replies.to_string(),
                "says" if self.says(rest) => continue,
                "says" => "it does not".into(),
                _ => return Err(format!("no expectation is called {word:?}")),
            };
            return Err(format!("expected: {line}\nfound: {found}"));
        }
        Ok(())
    }

    fn judge_section(&self, section: &str, expected: &[String]) -> Result<(), String> {
        let found = match section {
            "answer" => &self.answer,
            "authority" => &self.authority,
            _ => &self.additional,
        };
        let lines =
            expected.iter().filter_map(|line| line.strip_prefix(section)?.strip_prefix(' '));
        let mut wanted: Vec<String> = lines.map(fields).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        wanted.retain(|line| line != "none");
        let mut found: Vec<String> = found.clone();
        found.sort();
        wanted.sort();
        if found == wanted {
            return Ok(());
        }
        Err(format!("{section}\nexpected: {}\nfound: {}", wanted.join("; "), found.join("; ")))
    }

    fn has_flags(&self, list: &str) -> bool {
        let (optional, wanted): (Vec<_>, Vec<_>) =
            list.split_whitespace().partition(|flag| flag.starts_with('['));
        let optional: Vec<_> = optional.iter().map(|flag| flag.trim_matches(['[', ']'])).collect();
        wanted.iter().all(|flag| self.flags.iter().any(|found| found == flag))
            && self.flags.iter().all(|f| wanted.contains(&&**f) || optional.contains(&&**f))
    }

    fn has_size(&self, rest: &str) -> bool {
        let (relation, octets) = rest.split_once(' ').expect("a relation and a number");
        let octets: usize = octets.parse().expect("a number of octets");
        match relation {
            "<=" => self.size > 0 && self.size <= octets,
            ">=" => self.size >= octets,
            _ => self.size == octets,
        }
    }

    fn says(&self, rest: &str) -> bool {
        match rest.strip_prefix("not ") {
            Some(text) => !self.text.contains(text),
            None => self.text.contains(rest),
        }
    }

    /// What is shown of a reply that is not as it should be.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// A line with single spaces between its words, and without the class IN.
fn fields(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let is_class = |at: usize| at < 3 && words[at] == "IN";
    let kept: Vec<_> = (0..words.len()).filter(|at| !is_class(*at)).map(|at| words[at]).collect();
    kept.join(" ")
}

fn between<'a>(text: &'a str, start: &str, ends: &[char]) -> &'a str {
    let rest = text.split_once(start).map_or("", |(_, rest)| rest);
    rest.split(ends).next().unwrap_or_default()
}
