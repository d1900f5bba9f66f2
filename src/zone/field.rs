//! The fields that RDATA is made of, one table for all types: text to octets, octets to text, and
//! the check that octets are what a type wants are three walks over the same list.
//!
//! Only [`rdata`](crate::zone::rdata) uses this; it adds what no list of fields can say.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{BASE64, HEXUPPER};

use crate::name::{Name, wire_length};
use crate::rr::RecordType;
use crate::zone::lexer::Token;
use crate::zone::rdata::RdataError;
use crate::zone::word::{
    bare, octets, parse_base64, parse_hex, parse_ipv4, parse_ipv6, parse_name, parse_number,
    parse_seconds, push_text, shorten, show_quoted, wrong,
};

/// How one field is written, and what it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A domain name, uncompressed.
    Name,
    /// A number of one octet.
    U8,
    /// A number of two octets.
    U16,
    /// A number of four octets.
    U32,
    /// A number of four octets that may be written with units, as `1h30m`.
    Seconds,
    /// A DNSSEC algorithm: one octet, by number or mnemonic (RFC 4034 appendix A.1).
    Algorithm,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A character string: a length octet and up to 255 octets.
    Text,
    /// One or more character strings up to the end.
    Texts,
    /// A character string of letters and digits only (RFC 8659 section 4.1).
    Tag,
    /// One string whose octets, without a length, go up to the end.
    Tail,
    /// Octets in hexadecimal up to the end.
    Hex,
    /// Octets in base64 up to the end.
    Base64,
}

/// The fields of a type by name, and an example of its text.
#[derive(Debug)]
pub(super) struct Format {
    /// What each field is called, and how it is written.
    pub(super) fields: &'static [(&'static str, Field)],
    /// RDATA as it should be written.
    pub(super) example: &'static str,
}

macro_rules! formats {
    ($($($record_type:ident)|+: $($name:literal $field:ident),+; $example:literal)*) => {
        /// The format of a type's RDATA; none if it is no list of fields, or not known.
        pub(super) fn format_of(record_type: RecordType) -> Option<&'static Format> {
            match record_type {
                $($(RecordType::$record_type)|+ => Some(&Format {
                    fields: &[$(($name, Field::$field)),+],
                    example: $example,
                }),)*
                _ => None,
            }
        }

        /// Every type that has a format.
        #[cfg(test)]
        pub(super) const FORMATTED: &[RecordType] = &[$($(RecordType::$record_type),+),*];
    };
}

formats! {
    A: "address" Ipv4; "192.0.2.1"
    AAAA: "address" Ipv6; "2001:db8::1"
    NS: "server" Name; "ns1"
    CNAME | DNAME | PTR: "target" Name; "www.example.net."
    SOA: "mname" Name, "rname" Name, "serial" U32, "refresh" Seconds, "retry" Seconds,
        "expire" Seconds, "minimum" Seconds; "ns1 hostmaster 2026010100 7200 900 1209600 60"
    HINFO: "cpu" Text, "os" Text; r#""AMD64" "Linux""#
    MINFO: "rmailbx" Name, "emailbx" Name; "owner errors"
    MX | KX: "preference" U16, "exchange" Name; "10 mail"
    TXT | SPF: "text" Texts; r#""v=spf1 -all""#
    RP: "mbox" Name, "txt" Name; "admin people"
    AFSDB: "subtype" U16, "host" Name; "1 afs"
    SRV: "priority" U16, "weight" U16, "port" U16, "target" Name; "0 5 5060 sip"
    NAPTR: "order" U16, "preference" U16, "flags" Text, "services" Text, "regexp" Text,
        "replacement" Name; r#"100 10 "S" "SIP+D2U" "" _sip._udp"#
    DS | CDS: "key tag" U16, "algorithm" Algorithm, "digest type" U8, "digest" Hex;
        "12345 13 2 (64 hexadecimal digits)"
    SSHFP: "algorithm" U8, "type" U8, "fingerprint" Hex; "4 2 (64 hexadecimal digits)"
    DNSKEY | CDNSKEY: "flags" U16, "protocol" U8, "algorithm" Algorithm, "key" Base64;
        "257 3 13 (base64)"
    TLSA | SMIMEA: "usage" U8, "selector" U8, "matching type" U8, "data" Hex;
        "3 1 1 (64 hexadecimal digits)"
    OPENPGPKEY: "key" Base64; "(base64)"
    URI: "priority" U16, "weight" U16, "target" Tail; r#"10 1 "https://www.example.net/""#
    CAA: "flags" U8, "tag" Tag, "value" Tail; r#"0 issue "ca.example.net""#
}

/// The DNSSEC algorithms that may be written by mnemonic.
const ALGORITHMS: &[(&str, u8)] = &[
    ("RSASHA1", 5),
    ("NSEC3RSASHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
];

impl Field {
    /// True if the field takes all tokens that are left.
    fn is_rest(self) -> bool {
        matches!(self, Self::Texts | Self::Hex | Self::Base64)
    }
}

impl Format {
    /// Reads tokens to octets.
    pub(super) fn parse(
        &self,
        record_type: RecordType,
        tokens: &[Token<'_>],
        origin: &Name,
    ) -> Result<Vec<u8>, RdataError> {
        let mut wire = Vec::new();
        let mut rest = tokens;
        for &(name, field) in self.fields {
            let Some((token, after)) = rest.split_first() else {
                let offset = tokens.last().map(Token::offset);
                let message = format!("the {name} is missing");
                return Err(RdataError::new(offset, message, self.help(record_type)));
            };
            if field.is_rest() {
                parse_rest(field, rest, &mut wire)?;
                rest = &[];
            } else {
                parse_one(name, field, token, origin, &mut wire)?;
                rest = after;
            }
        }
        match rest.first() {
            None => Ok(wire),
            Some(token) => {
                let message = format!("{} is more than the type takes", shorten(token.text()));
                Err(RdataError::at(token, message, self.help(record_type)))
            }
        }
    }

    /// Writes octets as text; none if they are not what the format says.
    pub(super) fn show(&self, rdata: &[u8]) -> Option<String> {
        let mut text = String::new();
        let mut rest = rdata;
        for &(_, field) in self.fields {
            if !text.is_empty() {
                text.push(' ');
            }
            show_one(field, &mut rest, &mut text)?;
        }
        rest.is_empty().then_some(text)
    }

    /// What a record of the type should look like.
    fn help(&self, record_type: RecordType) -> String {
        let names: Vec<_> = self.fields.iter().map(|&(name, _)| name).collect();
        let (names, example) = (names.join(", "), self.example);
        format!("{record_type} takes: {names}; as {example}")
    }
}

/// Reads a field of one token.
fn parse_one(
    name: &str,
    field: Field,
    token: &Token<'_>,
    origin: &Name,
    wire: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let number = |limit: u32| parse_number(name, token, limit);
    match field {
        Field::Name => wire.extend_from_slice(parse_name(token, origin)?.as_wire()),
        Field::U8 => wire.extend(number(0xff)?.to_be_bytes().into_iter().skip(3)),
        Field::U16 => wire.extend(number(0xffff)?.to_be_bytes().into_iter().skip(2)),
        Field::U32 => wire.extend(number(u32::MAX)?.to_be_bytes()),
        Field::Seconds => match parse_seconds(bare(token)?) {
            Some(seconds) => wire.extend(seconds.to_be_bytes()),
            None => {
                let help = format!("give the {name} in seconds, as 3600, or with units, as 1h30m");
                return Err(wrong(token, "a number of seconds", help));
            }
        },
        Field::Algorithm => {
            let text = bare(token)?;
            let known = ALGORITHMS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
            match known {
                Some(&(_, number)) => wire.push(number),
                None => wire.extend(number(0xff)?.to_be_bytes().into_iter().skip(3)),
            }
        }
        Field::Ipv4 => wire.extend(parse_ipv4(token)?.octets()),
        Field::Ipv6 => wire.extend(parse_ipv6(token)?.octets()),
        Field::Text => push_text(token, wire)?,
        Field::Tag => {
            let text = bare(token)?;
            if !text.bytes().all(|octet| octet.is_ascii_alphanumeric()) {
                let help = "write letters and digits, as issue, issuewild or iodef";
                return Err(wrong(token, "a tag", help));
            }
            push_text(token, wire)?;
        }
        Field::Tail => wire.extend_from_slice(&octets(token)?),
        // These take all tokens that are left: parse_rest reads them.
        Field::Texts | Field::Hex | Field::Base64 => {}
    }
    Ok(())
}

/// Reads a field that takes all tokens that are left, at least one.
fn parse_rest(field: Field, tokens: &[Token<'_>], wire: &mut Vec<u8>) -> Result<(), RdataError> {
    match field {
        Field::Hex => wire.extend(parse_hex(tokens)?),
        Field::Base64 => wire.extend(parse_base64(tokens)?),
        _ => {
            for token in tokens {
                push_text(token, wire)?;
            }
        }
    }
    Ok(())
}

/// Moves one field from `rest` to the text; none if the octets are no such field.
fn show_one(field: Field, rest: &mut &[u8], text: &mut String) -> Option<()> {
    match field {
        Field::Name => {
            let length = wire_length(rest)?;
            let name = take(rest, length)?;
            write!(text, "{}", Name::from_wire(name).ok()?).ok()
        }
        Field::U8 | Field::Algorithm => write!(text, "{}", number(take(rest, 1)?)).ok(),
        Field::U16 => write!(text, "{}", number(take(rest, 2)?)).ok(),
        Field::U32 | Field::Seconds => write!(text, "{}", number(take(rest, 4)?)).ok(),
        Field::Ipv4 => {
            let octets: [u8; 4] = take(rest, 4)?.try_into().ok()?;
            write!(text, "{}", Ipv4Addr::from(octets)).ok()
        }
        Field::Ipv6 => {
            let octets: [u8; 16] = take(rest, 16)?.try_into().ok()?;
            write!(text, "{}", Ipv6Addr::from(octets)).ok()
        }
        Field::Text => {
            show_quoted(take_text(rest)?, text);
            Some(())
        }
        Field::Texts => {
            show_quoted(take_text(rest)?, text);
            while !rest.is_empty() {
                text.push(' ');
                show_quoted(take_text(rest)?, text);
            }
            Some(())
        }
        Field::Tag => {
            let tag = std::str::from_utf8(take_text(rest)?).ok()?;
            text.push_str(tag);
            (!tag.is_empty() && tag.bytes().all(|octet| octet.is_ascii_alphanumeric()))
                .then_some(())
        }
        Field::Tail => {
            show_quoted(take(rest, rest.len())?, text);
            Some(())
        }
        Field::Hex | Field::Base64 => {
            let octets = take(rest, rest.len())?;
            text.push_str(&match field {
                Field::Hex => HEXUPPER.encode(octets),
                _ => BASE64.encode(octets),
            });
            (!octets.is_empty()).then_some(())
        }
    }
}

/// The first octets of `rest`, which moves on behind them.
pub(super) fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// The character string that `rest` begins with.
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(*rest.first()?);
    take(rest, 1)?;
    take(rest, length)
}

/// The number that up to four octets stand for.
pub(super) fn number(octets: &[u8]) -> u32 {
    octets.iter().fold(0, |number, &octet| (number << 8) | u32::from(octet))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Any type that has a format, with octets that it may have.
    pub(in crate::zone) fn any_rdata() -> impl Strategy<Value = (RecordType, Vec<u8>)> {
        proptest::sample::select(FORMATTED).prop_flat_map(|record_type| {
            let fields = format_of(record_type).unwrap().fields;
            let octets: Vec<_> = fields.iter().map(|&(_, field)| any_octets(field)).collect();
            octets.prop_map(move |parts| (record_type, parts.concat()))
        })
    }

    /// Any name in wire form.
    pub(in crate::zone) fn any_name() -> impl Strategy<Value = Vec<u8>> {
        vec(vec(any::<u8>(), 1..=63), 0..=3).prop_map(|labels| {
            let mut wire: Vec<u8> = labels.iter().flat_map(|label| with_length(label)).collect();
            wire.push(0);
            wire
        })
    }

    fn with_length(octets: &[u8]) -> Vec<u8> {
        let length = u8::try_from(octets.len()).unwrap();
        [&[length], octets].concat()
    }

    fn any_octets(field: Field) -> BoxedStrategy<Vec<u8>> {
        let octets = |range: std::ops::RangeInclusive<usize>| vec(any::<u8>(), range);
        match field {
            Field::Name => any_name().boxed(),
            Field::U8 | Field::Algorithm => octets(1..=1).boxed(),
            Field::U16 => octets(2..=2).boxed(),
            Field::U32 | Field::Seconds | Field::Ipv4 => octets(4..=4).boxed(),
            Field::Ipv6 => octets(16..=16).boxed(),
            Field::Text => octets(0..=255).prop_map(|text| with_length(&text)).boxed(),
            Field::Texts => vec(octets(0..=255), 1..=4)
                .prop_map(|texts| texts.iter().flat_map(|text| with_length(text)).collect())
                .boxed(),
            Field::Tag => "[a-z0-9]{1,15}".prop_map(|tag| with_length(tag.as_bytes())).boxed(),
            Field::Tail => octets(0..=300).boxed(),
            Field::Hex | Field::Base64 => octets(1..=80).boxed(),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_as_text_is_read_back((record_type, rdata) in any_rdata()) {
            let format = format_of(record_type).unwrap();
            let text = format.show(&rdata).unwrap();
            let entry = crate::zone::lexer::Lexer::new(&text).next().unwrap().unwrap();
            let read = format.parse(record_type, &entry.tokens, &Name::root());
            prop_assert_eq!(read, Ok(rdata));
        }
    }

    #[test]
    fn seconds_have_units_as_in_bind() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("3600", Some(3600)),
            ("1h30m", Some(5400)),
            ("1W2D3H4M5S", Some(788_645)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("8000w", None),
            ("1h30", None),
            ("h", None),
            ("1x", None),
            ("-1", None),
            ("+1", None),
            ("", None),
        ] {
            assert_eq!(parse_seconds(text), seconds, "{text}");
        }
    }
}
