//! Zones as RFC 1035 master files: text in, records with their places out.
//!
//! Pure, and linear in the text's length however hostile it is. Nothing here knows the zone as a
//! whole: whether there is an SOA, what stands beside a CNAME or below a cut is checked where the
//! records of all sources meet.

use std::collections::HashMap;

use crate::config::reader::Place;
use crate::config::report::{Report, Source, nearest};
use crate::name::Name;
use crate::rr::{Rdata, Record, RecordType, Ttl};
use crate::zone::findings::Findings;
use crate::zone::header::{parse_header, parse_ttl, suggestion};
use crate::zone::lexer::{Entry, Lexer, Quoting, Token};
use crate::zone::rdata::{COMMENT_IN_TEXT, QUOTE_THE_TEXT};
use crate::zone::rdata::{RdataError, doubtful_names, ends_in_zone, parse_rdata};
use crate::zone::word::{parse_name, shorten};

/// A record, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedRecord {
    /// The record.
    pub record: Record,
    /// Where it was written; the key is its owner and type.
    pub place: Place,
}

/// Reads the master file of the zone `zone`, which is also the first `$ORIGIN`.
///
/// A record without a TTL takes that of `$TTL` (RFC 2308 section 4), else the last one that a
/// record stated (RFC 1035 section 5.1), else `default_ttl`, else the SOA's minimum as BIND does,
/// with a warning; the file's own rules come first so that a file means the same here and there.
///
/// Mistakes go to `report`, and reading goes on at the next record. Of more than a hundred errors
/// the rest is counted only. The records are those that have no error; TTLs that differ within a
/// set are warned of, and kept as they are.
pub fn parse_master(
    source: &Source,
    zone: &Name,
    default_ttl: Option<Ttl>,
    report: &Report,
) -> Vec<SourcedRecord> {
    let mut reader = Reader {
        zone,
        origin: zone.clone(),
        owner: Owner::None,
        stated_ttl: None,
        last_ttl: None,
        default_ttl,
        minimum: None,
        set_ttls: HashMap::new(),
        findings: Findings::new(source, report),
        records: Vec::new(),
    };
    for entry in Lexer::new(source.text()) {
        match entry {
            Ok(entry) => reader.entry(&entry),
            Err(error) => {
                let message = error.kind.to_string();
                reader.findings.error(error.offset, String::new, message, error.kind.help());
                // What the lost entry named is not known, so what leans on it is not judged.
                reader.owner = Owner::Lost;
            }
        }
    }
    reader.findings.finish();
    reader.records
}

/// The owner that a blank first field repeats.
enum Owner {
    /// No record yet.
    None,
    /// The record before had a mistake there, which is reported already.
    Lost,
    /// The owner of the record before.
    Named(Name),
}

/// An owner's key and a type.
type SetKey = (Box<[u8]>, RecordType);

/// What is known while a file is read.
struct Reader<'a> {
    zone: &'a Name,
    origin: Name,
    owner: Owner,
    /// `$TTL`.
    stated_ttl: Option<Ttl>,
    /// The last TTL that a record stated.
    last_ttl: Option<Ttl>,
    default_ttl: Option<Ttl>,
    /// The SOA's minimum; none before the SOA.
    minimum: Option<Ttl>,
    /// The first TTL of each set, and whether another one was warned of.
    set_ttls: HashMap<SetKey, (Ttl, bool)>,
    findings: Findings<'a>,
    records: Vec<SourcedRecord>,
}

impl Reader<'_> {
    /// Reads a record or a directive.
    fn entry(&mut self, entry: &Entry<'_>) {
        let Some((first, rest)) = entry.tokens.split_first() else {
            return;
        };
        if entry.blank {
            if matches!(self.owner, Owner::None) {
                let help = "begin the first record's line with its owner; @ is the zone itself";
                let message = "there is no record above whose owner this one could take";
                self.findings.error(first.offset(), String::new, message, help);
                self.owner = Owner::Lost;
            }
            self.record(entry, &entry.tokens);
        } else if first.text().starts_with('$') && first.quoting() == Quoting::Bare {
            if let Err(error) = self.directive(first, rest) {
                let key = || first.text().chars().take(20).collect();
                self.findings.rdata_error(first.offset(), key, error);
            }
        } else {
            self.owner = self.read_owner(first);
            self.record(entry, rest);
        }
    }

    /// Obeys a directive.
    fn directive(&mut self, name: &Token<'_>, values: &[Token<'_>]) -> Result<(), RdataError> {
        const DIRECTIVES: [&str; 4] = ["$ORIGIN", "$TTL", "$INCLUDE", "$GENERATE"];
        let word = name.text().to_ascii_uppercase();
        match (word.as_str(), values) {
            ("$ORIGIN", [value]) => {
                self.doubtful(value, "$ORIGIN");
                self.origin = parse_name(value, &self.origin)?;
            }
            ("$ORIGIN", _) => {
                let help = "write one domain name after it, as $ORIGIN example.com.";
                return Err(RdataError::at(name, "it takes one value", help));
            }
            ("$TTL", [value]) => self.stated_ttl = Some(parse_ttl(value)?),
            ("$TTL", _) => {
                let help = "write one number of seconds after it, as $TTL 3600";
                return Err(RdataError::at(name, "it takes one value", help));
            }
            ("$INCLUDE", _) => {
                let help = "put the other file's records here: a zone has one master file";
                return Err(RdataError::at(name, "not offered", help));
            }
            ("$GENERATE", _) => {
                let help = "write the records out one by one";
                return Err(RdataError::at(name, "not offered", help));
            }
            _ => {
                let word: String = word.chars().take(20).collect();
                let help = match nearest(&word, DIRECTIVES) {
                    Some(near) => format!("did you mean {near}?"),
                    None => {
                        r"the directives are $ORIGIN and $TTL; an owner is written \$name".into()
                    }
                };
                return Err(RdataError::at(name, "unknown directive", help));
            }
        }
        Ok(())
    }

    /// Reads the owner of a record.
    fn read_owner(&mut self, token: &Token<'_>) -> Owner {
        match parse_name(token, &self.origin) {
            Err(error) => self.findings.rdata_error(token.offset(), String::new, error),
            Ok(name) if !name.is_at_or_below(self.zone) => {
                let message = format!("the owner is not in the zone {}", self.zone);
                let help = "remove the record, or put it into the file of its own zone";
                self.findings.error(token.offset(), || name.to_string(), message, help);
            }
            Ok(name) => {
                self.doubtful(token, "");
                return Owner::Named(name);
            }
        }
        Owner::Lost
    }

    /// Reads a record from behind its owner.
    fn record(&mut self, entry: &Entry<'_>, tokens: &[Token<'_>]) {
        let start = entry.tokens.first().map_or(entry.offset, Token::offset);
        let owner = match &self.owner {
            Owner::Named(owner) => Some(owner.clone()),
            _ => None,
        };
        let owner_key = || owner.as_ref().map(ToString::to_string).unwrap_or_default();
        let (header, data) = match parse_header(tokens, start) {
            Ok(header) => header,
            Err(mut error) => {
                // Guessing costs more than reading, so it is done for what is shown only.
                let guess = error.offset.filter(|_| !self.findings.is_full());
                let better = guess.and_then(|offset| suggestion(entry, offset));
                error.help = better.unwrap_or(error.help);
                return self.findings.rdata_error(start, owner_key, error);
            }
        };
        let record_type = header.record_type;
        self.last_ttl = header.ttl.or(self.last_ttl);
        let key = || format!("{} {record_type}", owner_key()).trim_start().to_owned();
        let rdata = match parse_rdata(record_type, data, &self.origin) {
            Ok(rdata) => rdata,
            Err(error) => return self.findings.rdata_error(start, key, error),
        };
        for token in doubtful_names(record_type, data, self.zone) {
            self.doubtful(token, &key());
        }
        if matches!(record_type, RecordType::TXT | RecordType::SPF) {
            self.cut_text(entry, key);
        }
        if record_type == RecordType::SOA && self.minimum.is_none() {
            self.minimum =
                rdata.last_chunk().map(|&octets| Ttl::saturating(u32::from_be_bytes(octets)));
        }
        let Some(ttl) = self.ttl(header.ttl, start, key) else {
            return;
        };
        if let Some(owner) = owner {
            self.push(owner, record_type, ttl, rdata, start);
        }
    }

    /// The TTL of a record.
    fn ttl(&mut self, stated: Option<Ttl>, start: usize, key: impl Fn() -> String) -> Option<Ttl> {
        let known = stated.or(self.stated_ttl).or(self.last_ttl).or(self.default_ttl);
        if known.is_some() {
            return known;
        }
        let help = "write $TTL and a number of seconds at the top of the file, as $TTL 3600";
        let Some(minimum) = self.minimum else {
            self.findings.error(start, key, "the record has no TTL", help);
            return None;
        };
        let message =
            format!("no TTL is stated, so the SOA's minimum {} is taken", minimum.seconds());
        self.findings.warning(start, key, message, help);
        self.default_ttl = Some(minimum);
        Some(minimum)
    }

    /// Adds a record.
    fn push(&mut self, owner: Name, record_type: RecordType, ttl: Ttl, rdata: Rdata, start: usize) {
        let place = Place {
            key: format!("{owner} {record_type}"),
            position: self.findings.source.position(start),
            file: self.findings.source.path().to_owned(),
        };
        let set = (owner.to_key(), record_type);
        let (first, warned) = self.set_ttls.entry(set).or_insert((ttl, false));
        // An RRSIG's TTL is that of the set it covers (RFC 4034 section 3).
        if *first != ttl && !*warned && record_type != RecordType::RRSIG {
            *warned = true;
            let message = format!(
                "the TTL {} differs from {} above, and the lowest of the set is used",
                ttl.seconds(),
                first.seconds()
            );
            let help = "give all records of one owner and type the same TTL (RFC 2181 section 5.2)";
            self.findings.warning(start, || place.key.clone(), message, help);
        }
        let record = Record { owner, record_type, ttl, rdata };
        self.records.push(SourcedRecord { record, place });
    }

    /// Warns of a text that a comment cuts short, as `v=DKIM1;k=rsa` without quotes.
    fn cut_text(&mut self, entry: &Entry<'_>, key: impl FnOnce() -> String) {
        let text = self.findings.source.text().as_bytes();
        let Some(comment) = entry.comment else {
            return;
        };
        let before = comment.checked_sub(1).and_then(|before| text.get(before));
        if before.is_some_and(|&octet| !matches!(octet, b' ' | b'\t' | b'\n' | b'"' | b'(' | b')'))
        {
            self.findings.warning(comment, key, COMMENT_IN_TEXT, QUOTE_THE_TEXT);
        }
    }

    /// Warns of a name that ends in the zone's own name and has no final dot.
    fn doubtful(&mut self, token: &Token<'_>, key: &str) {
        let text = token.text();
        if ends_in_zone(text, self.zone) {
            let message = format!("{} is relative and ends in the zone's name", shorten(text));
            let help = format!("if it is the whole name, write the final dot: {text}.");
            self.findings.warning(token.offset(), || key.to_owned(), message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::config::report::Diagnostic;
    use crate::zone::rdata::describe;

    fn read_in(zone: &str, text: &str, ttl: Option<u32>) -> (Vec<SourcedRecord>, Vec<Diagnostic>) {
        let source = Source::new("f.zone", text);
        let report = Report::default();
        let zone = Name::parse_absolute(zone).unwrap();
        let records = parse_master(&source, &zone, ttl.and_then(Ttl::new), &report);
        (records, report.into_sorted())
    }

    /// The records of a zone file without mistakes, one a line.
    fn read(zone: &str, text: &str) -> Vec<String> {
        let (records, findings) = read_in(zone, text, Some(300));
        assert_eq!(findings, []);
        records.iter().map(|sourced| show(&sourced.record)).collect()
    }

    fn show(record: &Record) -> String {
        let (owner, ttl, record_type) = (&record.owner, record.ttl.seconds(), record.record_type);
        format!("{owner} {ttl} {record_type} {}", describe(record_type, &record.rdata))
    }

    #[test]
    fn the_example_zone_is_read_whole() {
        let records = read("example.test", include_str!("../../tests/data/example.test.zone"));
        assert_eq!(records.len(), 28);
        for line in [
            "example.test. 3600 SOA ns1.example.test. hostmaster.example.test. 2026113001 7200 900 1209600 60",
            "example.test. 300 MX 10 mail.example.test.",
            "MiXeD.example.test. 300 TXT \"mixed case owner\"",
            "*.wild.example.test. 300 TXT \"wild\"",
            "f.*.we.example.test. 300 A 192.0.2.41",
            "ext.example.test. 300 CNAME www.example.net.",
            "intosub.example.test. 300 CNAME host.sub.example.test.",
            "unk.example.test. 300 TYPE65400 \\# 4 0A000001",
            "www.example.test. 30 AAAA 2001:db8::10",
        ] {
            assert!(records.iter().any(|record| record == line), "{line}");
        }
        let big = records.iter().find(|record| record.starts_with("big")).unwrap();
        assert_eq!(big.matches(" \"0").count(), 10);
    }

    #[test]
    fn the_example_of_rfc_1035_section_5_3_is_read() {
        let text = "\
@   IN  SOA     VENERA      Action\\.domains (
                                 20     ; SERIAL
                                 7200   ; REFRESH
                                 600    ; RETRY
                                 3600000; EXPIRE
                                 60)    ; MINIMUM

        NS      A.ISI.EDU.
        NS      VENERA
        NS      VAXA
        MX      10      VENERA
        MX      20      VAXA

A       A       26.3.0.103

VENERA  A       10.1.0.52
        A       128.9.0.32

VAXA    A       10.2.0.27
        A       128.9.0.33
";
        let records = read("ISI.EDU", text);
        assert_eq!(records.len(), 11);
        assert_eq!(
            records[0],
            r"ISI.EDU. 300 SOA VENERA.ISI.EDU. Action\.domains.ISI.EDU. 20 7200 600 3600000 60"
        );
        assert_eq!(records[5], "ISI.EDU. 300 MX 20 VAXA.ISI.EDU.");
        assert_eq!(records[10], "VAXA.ISI.EDU. 300 A 128.9.0.33");
    }

    #[test]
    fn ttl_and_class_stand_in_any_order() {
        for line in [
            "a 1h IN A 192.0.2.1",
            "a IN 3600 A 192.0.2.1",
            "a 60M a 192.0.2.1",
            "a CLASS1 3600 TYPE1 192.0.2.1",
            "a in 3600 TYPE1 \\# 4 C0000201",
            "$TTL 3600\na A 192.0.2.1",
            "$ttl 1h\n$origin a.x.\n@ A 192.0.2.1",
        ] {
            assert_eq!(read("x", line), ["a.x. 3600 A 192.0.2.1"], "{line}");
        }
    }

    #[test]
    fn a_missing_ttl_is_that_of_the_file_before_that_of_the_zone() {
        let lines = "a A 192.0.2.1\nb 60 A 192.0.2.1\nc A 192.0.2.1\n$TTL 90\nd A 192.0.2.1\n";
        assert_eq!(
            read("x", lines),
            [
                "a.x. 300 A 192.0.2.1",
                "b.x. 60 A 192.0.2.1",
                "c.x. 60 A 192.0.2.1",
                "d.x. 90 A 192.0.2.1"
            ]
        );
        let (records, findings) = read_in("x", "@ SOA a b 1 2 3 4 55\na A 192.0.2.1", None);
        let ttls: Vec<_> = records.iter().map(|sourced| sourced.record.ttl.seconds()).collect();
        assert_eq!(ttls, [55, 55]);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn owners_are_any_octets_and_the_origin_changes_them() {
        let lines = "a\\.b\\@ A 192.0.2.1\n$ORIGIN b\n\\$c\\000 A 192.0.2.1\n@ A 192.0.2.1\n";
        assert_eq!(
            read("x", lines),
            [r"a\.b\@.x. 300 A 192.0.2.1", r"\$c\000.b.x. 300 A 192.0.2.1", "b.x. 300 A 192.0.2.1"]
        );
    }

    #[test]
    fn records_know_where_they_were_written() {
        let (records, _) = read_in("x", "; c\na 60 A 192.0.2.1\n   A 192.0.2.2\n", None);
        let places: Vec<_> = records.iter().map(|sourced| &sourced.place).collect();
        assert_eq!(places[0].key, "a.x. A");
        assert_eq!((places[0].position.line, places[0].position.column), (2, 1));
        assert_eq!((places[1].position.line, places[1].position.column), (3, 4));
        assert_eq!(places[1].file, Path::new("f.zone"));
    }

    /// Each file is named by what is found in it, and the whole report stands beside it. BLESS=1
    /// writes the reports anew.
    #[test]
    fn bad_zone_files_are_reported_as_expected() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/zonefile-bad");
        let mut paths: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "zone"))
            .collect();
        paths.sort();
        assert!(!paths.is_empty());
        let mut differing = String::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            let source = Source::new(path.file_name().unwrap(), text);
            let report = Report::default();
            parse_master(&source, &Name::parse_absolute("example.test").unwrap(), None, &report);
            let lines: Vec<_> = report.into_sorted().iter().map(ToString::to_string).collect();
            let found = lines.join("\n") + "\n";
            let expected_path = path.with_extension("err");
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&expected_path, &found).unwrap();
            }
            let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
            if found != expected {
                writeln!(differing, "--- {}\n{found}", path.display()).unwrap();
            }
        }
        assert!(differing.is_empty(), "other reports than expected:\n{differing}");
    }

    #[test]
    fn a_file_of_mistakes_is_read_to_the_end_but_reported_in_part() {
        let (records, findings) = read_in("x", &"a b\n".repeat(300_000), None);
        assert_eq!(records, []);
        assert_eq!(findings.len(), 101);
        assert_eq!(findings[100].message, "and 299900 more errors");
        assert_eq!(findings[100].position.unwrap().line, 101);
        for line in ["a 1 A 1.1.1.1\na 2 A 1.1.1.2\n", "a.x 1 A 1.1.1.1\n", "a TXT b;c\n", "$X\n"] {
            let (_, findings) = read_in("x", &line.repeat(1000), Some(1));
            assert!(findings.len() <= 202, "{line}");
        }
    }

    #[test]
    fn hostile_files_end_soon() {
        let endless = |word: &str| word.repeat((1 << 20) / word.len());
        for text in [
            endless("("),
            endless("(\n"),
            endless("a (\n"),
            endless("\\"),
            endless("\"\n"),
            endless("a"),
            format!("$ORIGIN {}", endless("a.")),
            format!("${}", endless("a")),
            format!("{} A 192.0.2.1", endless("a.")),
            format!("a {}", endless("1")),
            format!("a {}", endless("IN ")),
            format!("a {}", endless("IN")),
            format!("a CLASS{}", endless("1")),
            format!("a 1 A {}", endless("1 ")),
            format!("a 1 TXT {}", endless("a ")),
            format!("a 1 TYPE9 \\# 9 {}", endless("0 ")),
            format!("a 1 HTTPS 1 . {}", endless("alpn=h2 ")),
        ] {
            let (_, findings) = read_in("x", &text, None);
            let longest = findings.iter().map(|finding| finding.to_string().len()).max();
            assert!(!findings.is_empty() && findings.len() <= 101);
            assert!(longest < Some(1000));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(
            text in r#"(([a-c]?[ \t])?(IN|60|A|TXT|HTTPS|MX|\$ORIGIN|\$TTL|[ \t\n\\"();=,.@$+0-9a-f]|\PC)|\n){0,80}"#
        ) {
            read_in("x", &text, None);
        }
    }
}
