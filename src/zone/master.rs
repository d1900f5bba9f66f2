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
                reader
                    .findings
                    .error(error.offset, String::new, message, error.kind.help());
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
                self.findings
                    .error(first.offset(), String::new, message, help);
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
        let key = || token.text().to_owned();
        match parse_name(token, &self.origin) {
            Err(error) => self
                .findings
                .rdata_error(token.offset(), String::new, error),
            Ok(name) if !name.is_at_or_below(self.zone) => {
                let message = format!("{name} is not in the zone {}", self.zone);
                let help = "remove the record, or put it into the file of its own zone";
                self.findings.error(token.offset(), key, message, help);
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
        let key = || {
            format!("{} {record_type}", owner_key())
                .trim_start()
                .to_owned()
        };
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
            self.minimum = rdata
                .last_chunk()
                .map(|&octets| Ttl::saturating(u32::from_be_bytes(octets)));
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
        let known = stated
            .or(self.stated_ttl)
            .or(self.last_ttl)
            .or(self.default_ttl);
        if known.is_some() {
            return known;
        }
        let help = "write $TTL and a number of seconds at the top of the file, as $TTL 3600";
        let Some(minimum) = self.minimum else {
            self.findings
                .error(start, key, "the record has no TTL", help);
            return None;
        };
        let message = format!(
            "no TTL is stated, so the SOA's minimum {} is taken",
            minimum.seconds()
        );
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
            self.findings
                .warning(start, || place.key.clone(), message, help);
        }
        let record = Record {
            owner,
            record_type,
            ttl,
            rdata,
        };
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
            self.findings
                .warning(comment, key, COMMENT_IN_TEXT, QUOTE_THE_TEXT);
        }
    }

    /// Warns of a name that ends in the zone's own name and has no final dot.
    fn doubtful(&mut self, token: &Token<'_>, key: &str) {
        let text = token.text();
        if ends_in_zone(text, self.zone) {
            let message = format!("{} is relative and ends in the zone's name", shorten(text));
            let help = format!("if it is the whole name, write the final dot: {text}.");
            self.findings
                .warning(token.offset(), || key.to_owned(), message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_zone_is_read_whole() {
        let source = Source::new(
            "example.test.zone",
            include_str!("../../tests/data/example.test.zone"),
        );
        let report = Report::default();
        let zone = Name::parse_absolute("example.test").unwrap();
        let records = parse_master(&source, &zone, None, &report);
        assert_eq!(report.into_sorted(), []);
        assert_eq!(records.len(), 28);
    }
}
