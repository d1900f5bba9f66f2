//! RDATA between its two forms: the text of a master file or of `data = [...]` in a zone's TOML,
//! and the octets on the wire, which are all that the rest of the program knows.
//!
//! Pure. Most types are lists of fields (field.rs), SVCB and HTTPS are lists of parameters (svcb.rs);
//! the few that are neither go through hickory-proto, and every type can be written as RFC 3597
//! says. No type of hickory-proto leaves this file.

use std::fmt;

use data_encoding::HEXUPPER;
use hickory_proto::rr::{RData, RecordType as HickoryType};
use hickory_proto::serialize::binary::{BinDecoder, BinEncodable, Restrict};

use crate::name::Name;
use crate::rr::{Rdata, RecordType};
use crate::zone::field::{Field, format_of};
use crate::zone::lexer::{Entry, Lexer, Quoting, Token};
use crate::zone::svcb::{self, is_svcb};
pub use crate::zone::svcb::{HINTS, hint_places, with_hints};
use crate::zone::word::{bare, parse_hex, parse_number, shorten, wrong};

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
        Some((mark, rest)) if mark.text() == r"\#" && mark.quoting() == Quoting::Bare => {
            parse_generic(record_type, mark, rest)?
        }
        _ if is_svcb(record_type) => svcb::parse(record_type, tokens, origin)?,
        _ => match format_of(record_type) {
            Some(format) => format.parse(record_type, tokens, origin)?,
            None => parse_foreign(record_type, tokens)?,
        },
    };
    check_digest(record_type, &wire, tokens)?;
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
    let entry = only_entry(text)?;
    let tokens = entry.map(|entry| entry.tokens).unwrap_or_default();
    parse_rdata(record_type, &tokens, origin)
}

/// Splits a text that holds the data of one record.
fn only_entry(text: &str) -> Result<Option<Entry<'_>>, RdataError> {
    let mut entries = Lexer::new(text);
    let entry = entries.next().transpose().map_err(|error| {
        RdataError::new(Some(error.offset), error.kind.to_string(), error.kind.help())
    })?;
    if entries.next().is_some() {
        let help = "give each record a string of its own";
        return Err(RdataError::new(None, "the data has more than one line", help));
    }
    // Nothing is ignored in TOML, which has comments of its own: a ; was meant as a part of a text.
    if let Some(offset) = entry.as_ref().and_then(|entry| entry.comment) {
        return Err(RdataError::new(Some(offset), COMMENT_IN_TEXT, QUOTE_THE_TEXT));
    }
    Ok(entry)
}

/// What a semicolon outside quotes does, where a text was probably meant to go on.
pub(super) const COMMENT_IN_TEXT: &str = "a ; outside quotes begins a comment";
/// What to do about it.
pub(super) const QUOTE_THE_TEXT: &str =
    r#"put the text into quotes, as "v=DKIM1; k=rsa", or write \;"#;

/// The names without a final dot in a record's data that end in the zone's own name, where a final
/// dot was probably forgotten.
pub fn doubtful_names<'t, 'a>(
    record_type: RecordType,
    tokens: &'t [Token<'a>],
    zone: &Name,
) -> impl Iterator<Item = &'t Token<'a>> {
    let fields = format_of(record_type).map_or(&[][..], |format| format.fields);
    // Only fields of one token stand before a name, so that fields and tokens go in step.
    let is_name = move |at: usize| {
        matches!(fields.get(at), Some((_, Field::Name))) || (is_svcb(record_type) && at == 1)
    };
    tokens
        .iter()
        .enumerate()
        .filter(move |&(at, token)| is_name(at) && ends_in_zone(token.text(), zone))
        .map(|(_, token)| token)
}

/// The same of the data of one record in a text of its own.
pub fn doubtful_names_of(record_type: RecordType, text: &str, zone: &Name) -> Vec<String> {
    let tokens = only_entry(text).ok().flatten().map(|entry| entry.tokens).unwrap_or_default();
    doubtful_names(record_type, &tokens, zone).map(|token| token.text().to_owned()).collect()
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
    show(record_type, rdata)
        .unwrap_or_else(|| format!(r"\# {} {}", rdata.len(), HEXUPPER.encode(rdata)))
}

/// Writes RDATA of a type whose text is known; none if it is not, or the octets are wrong.
fn show(record_type: RecordType, rdata: &[u8]) -> Option<String> {
    match format_of(record_type) {
        Some(format) => format.show(rdata),
        None if is_svcb(record_type) => svcb::show(rdata),
        None => read_foreign(record_type, rdata).map(|data| data.to_string().trim_end().to_owned()),
    }
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
    let known =
        format_of(record_type).is_some() || is_svcb(record_type) || FOREIGN.contains(&record_type);
    if known && show(record_type, &wire).is_none() {
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
        let word = bare(token)?;
        // Escapes mean something else to hickory-proto, and no text of these types needs them.
        if !word.bytes().all(|octet| octet.is_ascii_graphic() && octet != b'\\') {
            return Err(wrong(token, "a word of letters and digits", FORM_OF_RFC_3597));
        }
        text.push_str(word);
        text.push(' ');
    }
    let code = HickoryType::from(record_type.0);
    let parsed = RData::try_from_str(code, &text).map_err(|error| error.to_string());
    let encoded = parsed.and_then(|data| data.to_bytes().map_err(|error| error.to_string()));
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

/// Checks the length of a digest whose algorithm says how long it is: cut short while copying, it
/// would make every validator fail.
fn check_digest(
    record_type: RecordType,
    wire: &[u8],
    tokens: &[Token<'_>],
) -> Result<(), RdataError> {
    let (kind_at, lengths): (usize, &[(u8, usize)]) = match record_type {
        // RFC 3658, 4509, 6605
        RecordType::DS | RecordType::CDS => (3, &[(1, 20), (2, 32), (4, 48)]),
        // RFC 4255, 6594
        RecordType::SSHFP => (1, &[(1, 20), (2, 32)]),
        // RFC 6698 section 2.1.3
        RecordType::TLSA | RecordType::SMIMEA => (2, &[(1, 32), (2, 64)]),
        _ => return Ok(()),
    };
    let found = wire.len().saturating_sub(kind_at + 1);
    let known = lengths.iter().find(|&&(kind, _)| wire.get(kind_at) == Some(&kind));
    match known {
        Some(&(kind, length)) if length != found => {
            let message = format!("the digest has {found} octets; one of type {kind} has {length}");
            let help = format!("copy it whole: {} hexadecimal digits", 2 * length);
            Err(RdataError::new(tokens.last().map(Token::offset), message, help))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::serialize::binary::{BinEncoder, NameEncoding};
    use proptest::prelude::*;

    use super::*;
    use crate::zone::field::tests::{any_name, any_rdata};

    fn read(record_type: RecordType, text: &str) -> Result<Vec<u8>, String> {
        let origin = Name::parse_absolute("example.com").unwrap();
        parse_record_data(record_type, text, &origin)
            .map(|rdata| rdata.to_vec())
            .map_err(|error| error.to_string())
    }

    /// Text as it is described, and the octets that it stands for in the zone example.com.
    fn examples() -> Vec<(RecordType, &'static str, Vec<u8>)> {
        let com = b"\x07example\x03com\0";
        let name = |label: &[u8]| [&[u8::try_from(label.len()).unwrap()], label, com].concat();
        let digest = [0x2b; 32];
        let hex = "2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B2B";
        let with_digest = |text: &str| format!("{text} {hex}").leak() as &str;
        vec![
            (RecordType::A, "192.0.2.1", vec![192, 0, 2, 1]),
            (RecordType::AAAA, "2001:db8::1", b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01".into()),
            (RecordType::NS, "ns1.example.com.", name(b"ns1")),
            (RecordType::CNAME, r"a\.b\000.example.com.", name(b"a.b\0")),
            (RecordType::PTR, ".", vec![0]),
            (RecordType::DNAME, "Frobozz.example.com.", name(b"Frobozz")),
            (RecordType::MX, "10 mail.example.com.", [b"\0\x0a", &name(b"mail")[..]].concat()),
            (RecordType::TXT, r#""a b" "" "\"\\\255""#, b"\x03a b\0\x03\"\\\xff".into()),
            (RecordType::SPF, r#""v=spf1 -all""#, b"\x0bv=spf1 -all".into()),
            // RFC 2782
            (
                RecordType::SRV,
                "0 1 9 old-slow-box.example.com.",
                [b"\0\0\0\x01\0\x09", &name(b"old-slow-box")[..]].concat(),
            ),
            (
                RecordType::SOA,
                "ns1.example.com. hostmaster.example.com. 2026010100 7200 900 1209600 60",
                [
                    &name(b"ns1")[..],
                    &name(b"hostmaster"),
                    b"\x78\xc2\x75\xf4\0\0\x1c\x20\0\0\x03\x84\0\x12\x75\0\0\0\0\x3c",
                ]
                .concat(),
            ),
            // RFC 8659 section 4.1.1
            (
                RecordType::CAA,
                r#"0 issue "ca1.example.net; account=230123""#,
                b"\0\x05issueca1.example.net; account=230123".into(),
            ),
            (RecordType::CAA, r#"128 tbs "Unknown""#, b"\x80\x03tbsUnknown".into()),
            (
                RecordType::DS,
                with_digest("12345 13 2"),
                [b"\x30\x39\x0d\x02", &digest[..]].concat(),
            ),
            // RFC 8078 section 4
            (RecordType::CDS, "0 0 0 00", vec![0; 5]),
            (RecordType::CDNSKEY, "0 3 0 AA==", vec![0, 0, 3, 0, 0]),
            (RecordType::TLSA, with_digest("3 1 1"), [b"\x03\x01\x01", &digest[..]].concat()),
            (RecordType::SSHFP, with_digest("4 2"), [b"\x04\x02", &digest[..]].concat()),
            (
                RecordType::RP,
                "admin.example.com. people.example.com.",
                [name(b"admin"), name(b"people")].concat(),
            ),
            (RecordType::AFSDB, "1 afs.example.com.", [b"\0\x01", &name(b"afs")[..]].concat()),
            (RecordType::HINFO, r#""RFC8482" """#, b"\x07RFC8482\0".into()),
            // RFC 3403 section 6.2
            (
                RecordType::NAPTR,
                r#"100 50 "a" "z3950+N2L+N2C" "" cidserver.example.com."#,
                [b"\0\x64\0\x32\x01a\x0dz3950+N2L+N2C\0", &name(b"cidserver")[..]].concat(),
            ),
            // RFC 7553 section 4.5
            (
                RecordType::URI,
                r#"10 1 "ftp://ftp1.example.com/public""#,
                b"\0\x0a\0\x01ftp://ftp1.example.com/public".into(),
            ),
            // RFC 7477 section 2.1.1
            (RecordType::CSYNC, "66 3 A NS AAAA", b"\0\0\0\x42\0\x03\0\x04\x60\0\0\x08".into()),
            (RecordType::OPENPGPKEY, "AQIDBA==", vec![1, 2, 3, 4]),
            // RFC 3597 section 5
            (RecordType(731), r"\# 6 ABCDEF012345", b"\xab\xcd\xef\x01\x23\x45".into()),
            (RecordType(62347), r"\# 0", vec![]),
        ]
    }

    #[test]
    fn examples_are_read_and_described() {
        for (record_type, text, wire) in examples() {
            assert_eq!(read(record_type, text).as_ref(), Ok(&wire), "{record_type} {text}");
            assert_eq!(describe(record_type, &wire).trim_end(), text, "{record_type}");
        }
    }

    #[test]
    fn hickory_proto_reads_and_writes_the_same_octets() {
        for (record_type, text, wire) in examples() {
            let length = Restrict::new(u16::try_from(wire.len()).unwrap());
            let code = HickoryType::from(record_type.0);
            let data = RData::read(&mut BinDecoder::new(&wire), code, length).unwrap();
            let mut written = Vec::new();
            let mut encoder = BinEncoder::new(&mut written);
            encoder.set_name_encoding(NameEncoding::Uncompressed);
            data.emit(&mut encoder).unwrap();
            assert_eq!(written, wire, "{record_type} {text}");
        }
    }

    #[test]
    fn names_are_completed_by_the_origin_everywhere() {
        for (record_type, text, whole) in [
            (RecordType::NS, "ns1", "ns1.example.com."),
            (RecordType::CNAME, "@", "example.com."),
            (RecordType::MX, "10 mail", "10 mail.example.com."),
            (RecordType::SRV, "0 5 5060 sip", "0 5 5060 sip.example.com."),
            (RecordType::HTTPS, "0 svc", "0 svc.example.com."),
            (RecordType::SVCB, "1 svc port=53", "1 svc.example.com. port=53"),
            (RecordType::NAPTR, r#"1 2 "S" "" "" x"#, r#"1 2 "S" "" "" x.example.com."#),
        ] {
            let wire = read(record_type, text).unwrap();
            assert_eq!(describe(record_type, &wire), whole);
        }
    }

    #[test]
    fn texts_may_be_written_in_several_ways() {
        for (record_type, one, other) in [
            (RecordType::TXT, "hello", r#""hello""#),
            (RecordType::TXT, r"a\ b\;", r#""a b;""#),
            (RecordType::TXT, "(a\n\"b\"\n)", r#""a" "b""#),
            (RecordType::TXT, r#""a""b""#, r#""a" "b""#),
            (RecordType::SOA, "a b 1 2h 15m 2w 1m", "a b 1 7200 900 1209600 60"),
            (RecordType::DS, "1 ecdsap256sha256 0 0a 0B", "1 13 0 0A0B"),
            (RecordType::A, r"\# 4 0A00 0001", "10.0.0.1"),
            (RecordType::AAAA, "::ffff:192.0.2.1", "::ffff:c000:201"),
            (RecordType::HTTPS, r"\# 3 00 01 00", "1 ."),
        ] {
            assert_eq!(read(record_type, one), read(record_type, other), "{one}");
            assert!(read(record_type, one).is_ok(), "{one}");
        }
        // In quotes it is a string, not the mark of RFC 3597.
        assert_eq!(read(RecordType::TXT, r#""\#" 1"#), Ok(b"\x01#\x011".to_vec()));
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        for (record_type, text, error) in [
            (
                RecordType::A,
                "192.0.2.300",
                "\"192.0.2.300\" is not an IPv4 address; write four numbers 0 to 255, as 192.0.2.1",
            ),
            (
                RecordType::A,
                "::1",
                "\"::1\" is not an IPv4 address; the type of an IPv6 address is AAAA",
            ),
            (
                RecordType::AAAA,
                "192.0.2.1",
                "\"192.0.2.1\" is not an IPv6 address; the type of an IPv4 address is A",
            ),
            (
                RecordType::AAAA,
                "2001:db8:::1",
                "\"2001:db8:::1\" is not an IPv6 address; write up to eight groups of hexadecimal digits, as 2001:db8::1",
            ),
            (RecordType::A, "", "the address is missing; A takes: address; as 192.0.2.1"),
            (
                RecordType::MX,
                "10",
                "the exchange is missing; MX takes: preference, exchange; as 10 mail",
            ),
            (
                RecordType::MX,
                "10 a b",
                "\"b\" is more than the type takes; MX takes: preference, exchange; as 10 mail",
            ),
            (
                RecordType::MX,
                "65536 a",
                "\"65536\" is not a number in range; give the preference as a number from 0 to 65535",
            ),
            (
                RecordType::MX,
                "+1 a",
                "\"+1\" is not a number in range; give the preference as a number from 0 to 65535",
            ),
            (RecordType::NS, "\"a\"", "\"a\" stands in quotes; write it without quotes"),
            (
                RecordType::NS,
                "a..b",
                "\"a..b\" is not a domain name: a label is empty (two dots in a row, or a dot in front); correct the name",
            ),
            (
                RecordType::SOA,
                "a b 1 x 1 1 1",
                "\"x\" is not a number of seconds; give the refresh in seconds, as 3600, or with units, as 1h30m",
            ),
            (
                RecordType::CAA,
                "0 is-sue \"\"",
                "\"is-sue\" is not a tag; write letters and digits, as issue, issuewild or iodef",
            ),
            (
                RecordType::TXT,
                "a=\"b c\"",
                "only a part of the string stands in quotes; put the quotes around the whole string, as \"key=value\"",
            ),
            (
                RecordType::TXT,
                "v=DKIM1; k=rsa",
                "a ; outside quotes begins a comment; put the text into quotes, as \"v=DKIM1; k=rsa\", or write \\;",
            ),
            (
                RecordType::TXT,
                "a\nb",
                "the data has more than one line; give each record a string of its own",
            ),
            (
                RecordType::TXT,
                "\"a",
                "the quote is not closed on its line; close it with \" on the same line; a quote in the text is \\\"",
            ),
            (
                RecordType::DS,
                "1 8 2 0a0",
                "\"0a0\" is not hexadecimal; write two of the digits 0 to 9 and A to F for each octet",
            ),
            (
                RecordType::DS,
                "1 8 2 0a",
                "the digest has 1 octets; one of type 2 has 32; copy it whole: 64 hexadecimal digits",
            ),
            (
                RecordType::OPENPGPKEY,
                "AQ",
                "\"AQ\" is not base64; write it as RFC 4648 section 4 says, with = to fill up at the end",
            ),
            (
                RecordType::A,
                r"\# 3 0a0000",
                r#"the octets are no A data; correct them, or write them as the text of A"#,
            ),
            (
                RecordType::NS,
                r"\# 2 c000",
                r#"the octets are no NS data; correct them, or write them as the text of NS"#,
            ),
            (
                RecordType::CSYNC,
                r"\# 2 c000",
                r#"the octets are no CSYNC data; correct them, or write them as the text of CSYNC"#,
            ),
            (RecordType(731), r"\# 2 0a", "the length is 2, but 1 octets follow; write 1"),
            (
                RecordType(731),
                r"\#",
                r"the length is missing after \#; write the data as RFC 3597 says: \# and the length, then the octets in hexadecimal",
            ),
            (
                RecordType(731),
                "x",
                r"the text of TYPE731 data is not known; write the data as RFC 3597 says: \# and the length, then the octets in hexadecimal",
            ),
            (
                RecordType::LOC,
                "",
                r"the text of LOC data is not known; write the data as RFC 3597 says: \# and the length, then the octets in hexadecimal",
            ),
            (
                RecordType::OPT,
                r"\# 0",
                "OPT is no data of a zone; remove the record: the type stands in messages only",
            ),
        ] {
            assert_eq!(read(record_type, text), Err(error.to_owned()), "{record_type} {text}");
        }
        let long = format!("\"{}\"", "a".repeat(256));
        assert_eq!(
            read(RecordType::TXT, &long).unwrap_err(),
            "a string of 256 octets; one holds at most 255; split it into several strings, as \"first part\" \"second part\""
        );
        let longest = "0".repeat(2 * 70_000);
        assert!(read(RecordType(731), &format!(r"\# 70000 {longest}")).is_err());
        let texts = format!("{} ", "a".repeat(255)).repeat(257);
        assert_eq!(
            read(RecordType::TXT, &texts).unwrap_err(),
            "the data has 65792 octets; a record holds at most 65535 octets: write several records"
        );
    }

    #[test]
    fn octets_of_another_form_are_described_as_rfc_3597_says() {
        assert_eq!(describe(RecordType::A, &[1, 2, 3]), r"\# 3 010203");
        assert_eq!(describe(RecordType::MX, b"\0\x0a\xc0\x0c"), r"\# 4 000AC00C");
        assert_eq!(
            describe(RecordType::HTTPS, b"\0\x01\0\0\x03\0\x01\0"),
            r"\# 8 0001000003000100"
        );
        assert_eq!(describe(RecordType(65400), b"\x0a\0\0\x01"), r"\# 4 0A000001");
    }

    #[test]
    fn names_that_end_in_the_zone_without_a_dot_are_doubtful() {
        let zone = Name::parse_absolute("example.com").unwrap();
        let found = |record_type, text| doubtful_names_of(record_type, text, &zone);
        assert_eq!(found(RecordType::MX, "10 mail.Example.com"), ["mail.Example.com"]);
        assert_eq!(found(RecordType::HTTPS, "1 example.com port=1"), ["example.com"]);
        for text in ["10 mail", "10 mail.example.com.", "10 mailexample.com", "10 @"] {
            assert_eq!(found(RecordType::MX, text), [""; 0], "{text}");
        }
        assert_eq!(found(RecordType::TXT, "www.example.com"), [""; 0]);
        assert!(!ends_in_zone("com", &Name::root()));
    }

    proptest! {
        #[test]
        fn what_is_described_is_read_back((record_type, rdata) in any_rdata()) {
            prop_assume!(check_digest(record_type, &rdata, &[]).is_ok());
            let text = describe(record_type, &rdata);
            prop_assert!(!text.starts_with(r"\#"));
            prop_assert_eq!(read(record_type, &text), Ok(rdata));
        }

        #[test]
        fn names_go_through_text_unchanged(wire in any_name()) {
            let name = Name::from_wire(&wire).unwrap();
            let read = Name::parse(&name.to_string(), None).unwrap();
            prop_assert_eq!(read.as_wire(), &wire[..]);
        }

        #[test]
        fn any_octets_are_described_and_read_back(
            code in prop_oneof![0..=260_u16, any::<u16>()],
            rdata in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let record_type = RecordType(code);
            let text = describe(record_type, &rdata);
            if let Ok(read) = read(record_type, &text) {
                prop_assert_eq!(read, rdata);
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic(
            code in prop_oneof![0..=260_u16, any::<u16>()],
            text in r#"(\\# )?([ \t\n\\"();=,.@$:+0-9a-f]|\PC){0,40}"#,
        ) {
            drop(read(RecordType(code), &text));
        }
    }
}
