//! The fields that RDATA is made of, one table for all types: text to octets, octets to text, and
//! the check that octets are what a type wants are three walks over the same list.
//!
//! Only [`rdata`](crate::zone::rdata) uses this; it adds what no list of fields can say.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE, HEXUPPER};

use crate::name::{Name, wire_length};
use crate::rr::RecordType;
use crate::zone::lexer::{Quoting, Token};
use crate::zone::rdata::{RdataError, shorten};

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
            let name = take(rest, wire_length(rest)?)?;
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

/// Writes octets as a character string in quotes.
pub(super) fn show_quoted(octets: &[u8], text: &mut String) {
    text.push('"');
    for &octet in octets {
        match octet {
            b'"' | b'\\' => text.extend(['\\', char::from(octet)]),
            b' '..=b'~' => text.push(char::from(octet)),
            _ => text.push_str(&format!("\\{octet:03}")),
        }
    }
    text.push('"');
}

/// Says what a token is not.
pub(super) fn wrong(token: &Token<'_>, wanted: &str, help: impl Into<String>) -> RdataError {
    RdataError::at(token, format!("{} is not {wanted}", shorten(token.text())), help)
}

/// The text of a token that must not be in quotes.
pub(super) fn bare<'a>(token: &Token<'a>) -> Result<&'a str, RdataError> {
    match token.quoting() {
        Quoting::Bare => Ok(token.text()),
        _ => {
            let message = format!("{} stands in quotes", shorten(token.text()));
            Err(RdataError::at(token, message, "write it without quotes"))
        }
    }
}

/// The octets of a token that may be in quotes, as a whole.
fn octets<'a>(token: &Token<'a>) -> Result<std::borrow::Cow<'a, [u8]>, RdataError> {
    if token.quoting() == Quoting::Pair {
        let help = r#"put the quotes around the whole string, as "key=value""#;
        return Err(RdataError::at(token, "only a part of the string stands in quotes", help));
    }
    Ok(token.octets())
}

/// Reads a name, completed by `origin`.
pub(super) fn parse_name(token: &Token<'_>, origin: &Name) -> Result<Name, RdataError> {
    Name::parse(bare(token)?, Some(origin)).map_err(|error| {
        let message = format!("{} is not a domain name: {error}", shorten(token.text()));
        RdataError::at(token, message, "correct the name")
    })
}

/// Reads a number from 0 to `limit`: digits only.
pub(super) fn parse_number(name: &str, token: &Token<'_>, limit: u32) -> Result<u32, RdataError> {
    let text = bare(token)?;
    let digits = text.bytes().all(|octet| octet.is_ascii_digit());
    let number = text.parse().ok().filter(|&number| digits && number <= limit);
    number.ok_or_else(|| {
        let help = format!("give the {name} as a number from 0 to {limit}");
        wrong(token, "a number in range", help)
    })
}

/// Reads a number of seconds, as 3600 or as BIND's 1h30m: numbers with the units w, d, h, m, s in
/// any case, where a number without a unit stands alone.
pub(super) fn parse_seconds(text: &str) -> Option<u32> {
    if text.bytes().all(|octet| octet.is_ascii_digit()) {
        return text.parse().ok();
    }
    let mut seconds: u32 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let unit = match after.bytes().next()?.to_ascii_lowercase() {
            b'w' => 604_800,
            b'd' => 86_400,
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        let number: u32 = number.parse().ok()?;
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = after.get(1..)?;
    }
    Some(seconds)
}

fn parse_ipv4(token: &Token<'_>) -> Result<Ipv4Addr, RdataError> {
    let text = bare(token)?;
    text.parse().map_err(|_| {
        let help = match text.parse::<Ipv6Addr>() {
            Ok(_) => "the type of an IPv6 address is AAAA",
            Err(_) => "write four numbers 0 to 255, as 192.0.2.1",
        };
        wrong(token, "an IPv4 address", help)
    })
}

fn parse_ipv6(token: &Token<'_>) -> Result<Ipv6Addr, RdataError> {
    let text = bare(token)?;
    text.parse().map_err(|_| {
        let help = match text.parse::<Ipv4Addr>() {
            Ok(_) => "the type of an IPv4 address is A",
            Err(_) => "write up to eight groups of hexadecimal digits, as 2001:db8::1",
        };
        wrong(token, "an IPv6 address", help)
    })
}

/// Adds a character string with its length.
fn push_text(token: &Token<'_>, wire: &mut Vec<u8>) -> Result<(), RdataError> {
    let octets = octets(token)?;
    let Ok(length) = u8::try_from(octets.len()) else {
        let message = format!("a string of {} octets; one holds at most 255", octets.len());
        let help = r#"split it into several strings, as "first part" "second part""#;
        return Err(RdataError::at(token, message, help));
    };
    wire.push(length);
    wire.extend_from_slice(&octets);
    Ok(())
}

/// The text of all tokens as one.
fn joined(tokens: &[Token<'_>]) -> Result<String, RdataError> {
    tokens.iter().map(bare).collect()
}

/// Reads hexadecimal digits, which may be spread over tokens.
pub(super) fn parse_hex(tokens: &[Token<'_>]) -> Result<Vec<u8>, RdataError> {
    let digits = joined(tokens)?;
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| {
        let message = format!("{} is not hexadecimal", shorten(&digits));
        let help = "write two of the digits 0 to 9 and A to F for each octet";
        RdataError::new(tokens.first().map(Token::offset), message, help)
    })
}

/// Reads base64, which may be spread over tokens.
fn parse_base64(tokens: &[Token<'_>]) -> Result<Vec<u8>, RdataError> {
    let text = joined(tokens)?;
    BASE64.decode(text.as_bytes()).map_err(|_| {
        let message = format!("{} is not base64", shorten(&text));
        let help = "write it as RFC 4648 section 4 says, with = to fill up at the end";
        RdataError::new(tokens.first().map(Token::offset), message, help)
    })
}
