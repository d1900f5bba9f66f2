//! What stands between a record's owner and its data in a master file: TTL, class and type.

use crate::config::report::nearest;
use crate::rr::{RecordType, Ttl};
use crate::zone::lexer::{Entry, Token};
use crate::zone::rdata::RdataError;
use crate::zone::word::{bare, parse_seconds, shorten, wrong};

/// What stands between a record's owner and its data.
pub(super) struct Header {
    /// The TTL, if it is stated.
    pub(super) ttl: Option<Ttl>,
    /// The type.
    pub(super) record_type: RecordType,
}

/// Reads TTL, class and type, the first two in any order, and leaves the data.
pub(super) fn parse_header<'t, 'a>(
    tokens: &'t [Token<'a>],
    start: usize,
) -> Result<(Header, &'t [Token<'a>]), RdataError> {
    let (mut ttl, mut class) = (None, false);
    let mut rest = tokens;
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        let text = bare(token)?;
        if looks_like_ttl(text) && ttl.is_none() {
            ttl = Some(parse_ttl(token)?);
        } else if is_class(text) && !class {
            class = parse_class(token)?;
        } else {
            let record_type = parse_type(token)?;
            return Ok((Header { ttl, record_type }, rest));
        }
    }
    let offset = tokens.last().map_or(start, Token::offset);
    let help = "write owner, TTL, class, type and data, as www 300 IN A 192.0.2.1";
    Err(RdataError::new(Some(offset), "the record has no type", help))
}

/// What was probably meant where [`parse_header`] found a mistake at `offset`.
pub(super) fn suggestion(entry: &Entry<'_>, offset: usize) -> Option<String> {
    let first = entry.tokens.first()?.text();
    if !entry.blank && (is_class(first) || RecordType::parse(first).is_some()) {
        return Some("begin a line whose owner is left out with white space".to_owned());
    }
    let wrong = entry.tokens.iter().find(|token| token.offset() == offset)?;
    let word: String = wrong.text().chars().take(16).collect();
    if word.starts_with('$') {
        return Some("begin a directive in the first column".to_owned());
    }
    let known = (1..=257).filter_map(|code| RecordType(code).mnemonic());
    let near = nearest(&word, known).filter(|_| RecordType::parse(&word).is_none())?;
    Some(format!("did you mean {near}?"))
}

/// Reads a TTL.
pub(super) fn parse_ttl(token: &Token<'_>) -> Result<Ttl, RdataError> {
    let seconds = parse_seconds(bare(token)?);
    seconds.and_then(Ttl::new).ok_or_else(|| {
        let help = format!("write seconds from 0 to {}, as 3600, or units, as 1h30m", Ttl::MAX);
        wrong(token, "a TTL", help)
    })
}

/// True for what is a TTL or was meant to be one: types do not begin with a digit.
fn looks_like_ttl(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|octet| octet.is_ascii_alphanumeric())
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
fn parse_class(token: &Token<'_>) -> Result<bool, RdataError> {
    let text = token.text();
    if text.eq_ignore_ascii_case("IN") || class_number(text).is_some_and(|n| n.parse() == Ok(1)) {
        return Ok(true);
    }
    let message = format!("the class {} is not offered", shorten(text));
    Err(RdataError::at(token, message, "write IN, or leave the class out"))
}

/// Reads a type.
fn parse_type(token: &Token<'_>) -> Result<RecordType, RdataError> {
    let text = token.text();
    RecordType::parse(text).ok_or_else(|| {
        let help = r"write an unknown type as TYPE65400, its data as \# 2 0A00";
        wrong(token, "a record type", help)
    })
}
