//! Zones as RFC 1035 master files: text in, records with their places out.
//!
//! Pure, and linear in the text's length however hostile it is. Nothing here knows the zone as a
//! whole: whether there is an SOA, what stands beside a CNAME or below a cut is checked where the
//! records of all sources meet.

use std::collections::HashMap;

use crate::config::reader::Place;
use crate::config::report::{Report, Severity, Source, nearest};
use crate::name::Name;
use crate::rr::{Rdata, Record, RecordType, Ttl};
use crate::zone::field::parse_seconds;
use crate::zone::lexer::{Entry, Lexer, Quoting, Token};
use crate::zone::rdata::{RdataError, doubtful_names, ends_in_zone, parse_rdata, shorten};

/// A record, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedRecord {
    /// The record.
    pub record: Record,
    /// Where it was written; the key is its owner and type.
    pub place: Place,
}

/// How many errors, and how many warnings, of one file are reported one by one.
pub const MOST_FINDINGS: usize = 100;

/// Reads the master file of the zone `zone`, which is also the first `$ORIGIN`.
///
/// A record without a TTL takes that of `$TTL` (RFC 2308 section 4), else the last one that a
/// record stated (RFC 1035 section 5.1), else `default_ttl`, else the SOA's minimum as BIND does,
/// with a warning; the file's own rules come first so that a file means the same here and there.
///
/// Mistakes go to `report`, and reading goes on at the next record. Of more than
/// [`MOST_FINDINGS`] errors the rest is counted only. The records are those that have no error;
/// TTLs that differ within a set are warned of, and kept as they are.
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

/// What stands between a record's owner and its data.
struct Header {
    ttl: Option<Ttl>,
    record_type: RecordType,
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
            self.record(&entry.tokens, first.offset());
        } else if first.text().starts_with('$') && first.quoting() == Quoting::Bare {
            if let Err(error) = self.directive(first, rest) {
                let key = || first.text().to_owned();
                self.findings.rdata_error(first.offset(), key, error);
            }
        } else {
            self.owner = self.read_owner(first);
            self.record(rest, first.offset());
        }
    }

    /// Obeys a directive.
    fn directive(&mut self, name: &Token<'_>, values: &[Token<'_>]) -> Result<(), RdataError> {
        const DIRECTIVES: [&str; 4] = ["$ORIGIN", "$TTL", "$INCLUDE", "$GENERATE"];
        let word = name.text().to_ascii_uppercase();
        match (word.as_str(), values) {
            ("$ORIGIN", [value]) => {
                self.doubtful(value, "$ORIGIN");
                self.origin = super::field::parse_name(value, &self.origin)?;
            }
            ("$ORIGIN", _) => {
                let help = "write one domain name after it, as $ORIGIN example.com.";
                return Err(RdataError::at(name, "it takes one value", help));
            }
            ("$TTL", [value]) => self.stated_ttl = Some(read_ttl(value)?),
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
        match super::field::parse_name(token, &self.origin) {
            Err(error) => self.findings.rdata_error(token.offset(), String::new, error),
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
    fn record(&mut self, tokens: &[Token<'_>], start: usize) {
        let owner = match &self.owner {
            Owner::Named(owner) => Some(owner.clone()),
            _ => None,
        };
        let owner_key = || owner.as_ref().map(ToString::to_string).unwrap_or_default();
        let (header, data) = match self.header(tokens, start) {
            Ok(header) => header,
            Err(error) => return self.findings.rdata_error(start, owner_key, error),
        };
        let record_type = header.record_type;
        let key = || format!("{} {record_type}", owner_key()).trim_start().to_owned();
        let rdata = match parse_rdata(record_type, data, &self.origin) {
            Ok(rdata) => rdata,
            Err(error) => return self.findings.rdata_error(start, key, error),
        };
        for token in doubtful_names(record_type, data, self.zone) {
            self.doubtful(token, &key());
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

    /// Reads TTL, class and type, the first two in any order, and leaves the data.
    fn header<'t, 'a>(
        &mut self,
        tokens: &'t [Token<'a>],
        start: usize,
    ) -> Result<(Header, &'t [Token<'a>]), RdataError> {
        let (mut ttl, mut class) = (None, false);
        let mut rest = tokens;
        while let Some((token, after)) = rest.split_first() {
            rest = after;
            let text = super::field::bare(token)?;
            if text.starts_with(|c: char| c.is_ascii_digit()) && ttl.is_none() {
                ttl = Some(read_ttl(token)?);
            } else if is_class(text) && !class {
                class = read_class(token)?;
            } else {
                let record_type = read_type(token)?;
                self.last_ttl = ttl.or(self.last_ttl);
                return Ok((Header { ttl, record_type }, rest));
            }
        }
        let offset = tokens.last().map_or(start, Token::offset);
        let help = "write owner, TTL, class, type and data, as www 300 IN A 192.0.2.1";
        Err(RdataError::new(Some(offset), "the record has no type", help))
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

/// Reads a TTL.
fn read_ttl(token: &Token<'_>) -> Result<Ttl, RdataError> {
    let seconds = parse_seconds(super::field::bare(token)?);
    seconds.and_then(Ttl::new).ok_or_else(|| {
        let help = format!("write seconds from 0 to {}, as 3600, or units, as 1h30m", Ttl::MAX);
        super::field::wrong(token, "a TTL", help)
    })
}

/// The classes that have a name.
const CLASSES: [&str; 8] = ["IN", "CS", "CH", "CHAOS", "HS", "HESIOD", "NONE", "ANY"];

/// True if a word is a class, offered or not.
fn is_class(text: &str) -> bool {
    CLASSES.iter().any(|class| text.eq_ignore_ascii_case(class)) || class_number(text).is_some()
}

/// The number of a class in the form `CLASS1` (RFC 3597 section 5).
fn class_number(text: &str) -> Option<&str> {
    let (prefix, digits) = text.split_at_checked(5)?;
    let plain = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
    (prefix.eq_ignore_ascii_case("CLASS") && plain).then_some(digits)
}

/// Accepts the class IN.
fn read_class(token: &Token<'_>) -> Result<bool, RdataError> {
    let text = token.text();
    if text.eq_ignore_ascii_case("IN") || class_number(text).is_some_and(|n| n.parse() == Ok(1)) {
        return Ok(true);
    }
    let message = format!("the class {text} is not offered");
    Err(RdataError::at(token, message, "write IN, or leave the class out"))
}

/// Reads a type.
fn read_type(token: &Token<'_>) -> Result<RecordType, RdataError> {
    let text = token.text();
    RecordType::parse(text).ok_or_else(|| {
        let known = (1..=257).filter_map(|code| RecordType(code).mnemonic());
        let help = match nearest(&text.chars().take(16).collect::<String>(), known) {
            Some(near) => format!("did you mean {near}?"),
            None => r"write an unknown type as TYPE65400, its data as \# 2 0A00".to_owned(),
        };
        super::field::wrong(token, "a record type", help)
    })
}

/// Passes mistakes on to the report, up to a number of them.
struct Findings<'a> {
    source: &'a Source,
    report: &'a Report,
    errors: usize,
    warnings: usize,
    /// Where the first one was that was not passed on, by severity.
    left_out: [Option<usize>; 2],
}

impl<'a> Findings<'a> {
    fn new(source: &'a Source, report: &'a Report) -> Self {
        Self { source, report, errors: 0, warnings: 0, left_out: [None; 2] }
    }

    fn error(
        &mut self,
        offset: usize,
        key: impl FnOnce() -> String,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Error, offset, key, message.into(), help.into());
    }

    fn warning(
        &mut self,
        offset: usize,
        key: impl FnOnce() -> String,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Warning, offset, key, message.into(), help.into());
    }

    /// An error of an entry that begins at `start`.
    fn rdata_error(&mut self, start: usize, key: impl FnOnce() -> String, error: RdataError) {
        self.error(error.offset.unwrap_or(start), key, error.message, error.help);
    }

    fn add(
        &mut self,
        severity: Severity,
        offset: usize,
        key: impl FnOnce() -> String,
        message: String,
        help: String,
    ) {
        let (count, left_out) = match severity {
            Severity::Error => (&mut self.errors, &mut self.left_out[0]),
            Severity::Warning => (&mut self.warnings, &mut self.left_out[1]),
        };
        *count += 1;
        if *count > MOST_FINDINGS {
            left_out.get_or_insert(offset);
            return;
        }
        let position = Some(self.source.position(offset));
        let file = self.source.path();
        match severity {
            Severity::Error => self.report.error(file, position, key(), message, help),
            Severity::Warning => self.report.warning(file, position, key(), message, help),
        }
    }

    /// Says how many there were beyond those reported, where the first of them was.
    fn finish(self) {
        let file = self.source.path();
        let help = "mend those above, then run the check again";
        let [errors, warnings] =
            self.left_out.map(|offset| offset.map(|at| self.source.position(at)));
        if errors.is_some() {
            let message = format!("and {} more errors", self.errors - MOST_FINDINGS);
            self.report.error(file, errors, "", message, help);
        }
        if warnings.is_some() {
            let message = format!("and {} more warnings", self.warnings - MOST_FINDINGS);
            self.report.warning(file, warnings, "", message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_zone_is_read_whole() {
        let source =
            Source::new("example.test.zone", include_str!("../../tests/data/example.test.zone"));
        let report = Report::default();
        let zone = Name::parse_absolute("example.test").unwrap();
        let records = parse_master(&source, &zone, None, &report);
        assert_eq!(report.into_sorted(), []);
        assert_eq!(records.len(), 28);
    }
}
