//! RDATA between its two forms: the text of a master file or of `data = [...]` in a zone's TOML,
//! and the octets on the wire, which are all that the rest of the program knows.
//!
//! Pure. Most types are lists of fields ([`field`](crate::zone::field)); the
//! few that are not go through hickory-proto, and every type can be written as RFC 3597 says. No
//! type of hickory-proto leaves this file.

use std::fmt;

use data_encoding::HEXUPPER;
use hickory_proto::rr::{RData, RecordType as HickoryType};
use hickory_proto::serialize::binary::{BinDecoder, Restrict};

use crate::name::Name;
use crate::rr::{Rdata, RecordType};
use crate::zone::field::{Field, format_of, parse_hex, parse_number, show_quoted};
use crate::zone::lexer::{Lexer, Token};

/// Why a text is no RDATA of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdataError {
    /// Where in the text, in octets; none if the record as a whole is meant.
    pub offset: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl RdataError {
    /// An error at an offset.
    pub(super) fn new(
        offset: Option<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { offset, message, help }
    }

    /// An error at a token.
    pub(super) fn at(
        token: &Token<'_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::new(Some(token.offset()), message, help)
    }
}

impl fmt::Display for RdataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for RdataError {}

/// Reads RDATA in master-file form, names relative to `origin`.
///
/// # Errors
/// [`RdataError`], which says what would be right.
pub fn parse_rdata(
    record_type: RecordType,
    tokens: &[Token<'_>],
    origin: &Name,
) -> Result<Rdata, RdataError> {
    if record_type.is_meta() {
        let message = format!("{record_type} is no data of a zone");
        let help = "remove the record: the type stands in messages only";
        return Err(RdataError::new(None, message, help));
    }
    let wire = match tokens.split_first() {
        Some((mark, rest)) if mark.text() == r"\#" => parse_generic(record_type, mark, rest)?,
        _ => match format_of(record_type) {
            Some(format) => format.parse(record_type, tokens, origin)?,
            None => parse_foreign(record_type, tokens)?,
        },
    };
    if wire.len() > usize::from(u16::MAX) {
        let message = format!("the data has {} octets", wire.len());
        let help = "a record holds at most 65535 octets: write several records";
        return Err(RdataError::new(None, message, help));
    }
    Ok(wire.into())
}

/// Reads the data of one record from a text of its own, as `data = ["10 mail"]` holds it.
///
/// # Errors
/// [`RdataError`], its offset within `text`.
pub fn parse_record_data(
    record_type: RecordType,
    text: &str,
    origin: &Name,
) -> Result<Rdata, RdataError> {
    let mut entries = Lexer::new(text);
    let first = entries.next().transpose();
    let entry = first.map_err(|error| {
        RdataError::new(Some(error.offset), error.kind.to_string(), error.kind.help())
    })?;
    if entries.next().is_some() {
        let help = "give each record a string of its own";
        return Err(RdataError::new(None, "the data has more than one line", help));
    }
    let tokens = entry.map(|entry| entry.tokens).unwrap_or_default();
    if tokens.is_empty() && format_of(record_type).is_none() {
        return Err(RdataError::new(None, "the data is empty", FORM_OF_RFC_3597));
    }
    parse_rdata(record_type, &tokens, origin)
}

/// The names without a final dot in a record's data that end in the zone's own name, where a final
/// dot was probably forgotten.
pub fn doubtful_names<'t, 'a>(
    record_type: RecordType,
    tokens: &'t [Token<'a>],
    zone: &Name,
) -> impl Iterator<Item = &'t Token<'a>> {
    let fields = format_of(record_type).map(|format| format.fields);
    let names = fields
        .unwrap_or_default()
        .iter()
        .zip(tokens)
        .filter(|&(&(_, field), _)| field == Field::Name);
    names.map(|(_, token)| token).filter(|token| ends_in_zone(token.text(), zone))
}

/// True if a relative name in master-file form ends in the zone's own name, as `www.example.com`
/// does in the zone example.com: completed, that name is there twice.
pub fn ends_in_zone(text: &str, zone: &Name) -> bool {
    !zone.is_root()
        && text != "@"
        && Name::parse(text, None).is_err()
        && Name::parse_absolute(text).is_ok_and(|name| name.is_at_or_below(zone))
}

/// Writes RDATA in master-file form; octets that are not what the type wants as RFC 3597 says.
pub fn describe(record_type: RecordType, rdata: &[u8]) -> String {
    let text = match format_of(record_type) {
        Some(format) => format.show(rdata),
        None => read_foreign(record_type, rdata).map(|data| data.to_string()),
    };
    text.unwrap_or_else(|| format!(r"\# {} {}", rdata.len(), HEXUPPER.encode(rdata)))
}

/// What to do about a type whose text nothing reads.
const FORM_OF_RFC_3597: &str =
    r"write the data as RFC 3597 says: \# and the length, then the octets in hexadecimal";

/// Reads what follows the mark of RFC 3597 section 5.
fn parse_generic(
    record_type: RecordType,
    mark: &Token<'_>,
    tokens: &[Token<'_>],
) -> Result<Vec<u8>, RdataError> {
    let Some((length, digits)) = tokens.split_first() else {
        return Err(RdataError::at(mark, r"the length is missing after \#", FORM_OF_RFC_3597));
    };
    let said = parse_number("length", length, u32::from(u16::MAX))?;
    let wire = parse_hex(digits)?;
    if u32::try_from(wire.len()) != Ok(said) {
        let message = format!("the length is {said}, but {} octets follow", wire.len());
        return Err(RdataError::at(length, message, format!("write {}", wire.len())));
    }
    let valid = match format_of(record_type) {
        Some(format) => format.show(&wire).is_some(),
        None => !FOREIGN.contains(&record_type) || read_foreign(record_type, &wire).is_some(),
    };
    if !valid {
        let message = format!("the octets are no {record_type} data");
        let help = format!("correct them, or write them as the text of {record_type}");
        return Err(RdataError::at(mark, message, help));
    }
    Ok(wire)
}

/// The types whose text and octets hickory-proto reads. None has names in it: those need an origin.
const FOREIGN: &[RecordType] = &[RecordType::CERT, RecordType::CSYNC];

/// Reads text by hickory-proto.
fn parse_foreign(record_type: RecordType, tokens: &[Token<'_>]) -> Result<Vec<u8>, RdataError> {
    let offset = tokens.first().map(Token::offset);
    if !FOREIGN.contains(&record_type) {
        let message = format!("the text of {record_type} data is not known");
        return Err(RdataError::new(offset, message, FORM_OF_RFC_3597));
    }
    let mut text = String::new();
    for token in tokens {
        show_quoted(&token.octets(), &mut text);
        text.push(' ');
    }
    let code = HickoryType::from(record_type.0);
    let parsed = RData::try_from_str(code, &text).map_err(|error| error.to_string());
    let encoded = parsed.and_then(|data| {
        use hickory_proto::serialize::binary::BinEncodable;
        data.to_bytes().map_err(|error| error.to_string())
    });
    encoded.map_err(|error| {
        let message = format!("not the text of {record_type} data: {}", shorten(&error));
        RdataError::new(offset, message, FORM_OF_RFC_3597)
    })
}

/// Reads octets by hickory-proto, all of them.
fn read_foreign(record_type: RecordType, rdata: &[u8]) -> Option<RData> {
    if !FOREIGN.contains(&record_type) {
        return None;
    }
    let length = Restrict::new(u16::try_from(rdata.len()).ok()?);
    let code = HickoryType::from(record_type.0);
    RData::read(&mut BinDecoder::new(rdata), code, length).ok()
}

/// A text for a message, in quotes and not longer than a line.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
    }
}
