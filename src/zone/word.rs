//! What single words of a zone's text mean: names, numbers, addresses, strings, and the octets that
//! stand behind hexadecimal digits and base64.
//!
//! Only the readers of records use this. Each function says in its error what would be right.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

use crate::name::Name;
use crate::zone::lexer::{Quoting, Token};
use crate::zone::rdata::RdataError;

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
pub(super) fn octets<'a>(token: &Token<'a>) -> Result<Cow<'a, [u8]>, RdataError> {
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

/// Reads an IPv4 address.
pub(super) fn parse_ipv4(token: &Token<'_>) -> Result<Ipv4Addr, RdataError> {
    let text = bare(token)?;
    text.parse().map_err(|_| {
        let help = match text.parse::<Ipv6Addr>() {
            Ok(_) => "the type of an IPv6 address is AAAA",
            Err(_) => "write four numbers 0 to 255, as 192.0.2.1",
        };
        wrong(token, "an IPv4 address", help)
    })
}

/// Reads an IPv6 address.
pub(super) fn parse_ipv6(token: &Token<'_>) -> Result<Ipv6Addr, RdataError> {
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
pub(super) fn push_text(token: &Token<'_>, wire: &mut Vec<u8>) -> Result<(), RdataError> {
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
pub(super) fn parse_base64(tokens: &[Token<'_>]) -> Result<Vec<u8>, RdataError> {
    let text = joined(tokens)?;
    BASE64.decode(text.as_bytes()).map_err(|_| {
        let message = format!("{} is not base64", shorten(&text));
        let help = "write it as RFC 4648 section 4 says, with = to fill up at the end";
        RdataError::new(tokens.first().map(Token::offset), message, help)
    })
}

/// A text for a message, in quotes and not longer than a line. Backslashes stay single, so that it
/// is found in the file as it is shown.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown = String::from("\"");
    let mut rest = text.chars();
    for character in rest.by_ref().take(LONGEST) {
        match character {
            _ if character.is_control() => shown.extend(character.escape_default()),
            _ => shown.push(character),
        }
    }
    shown.push_str(if rest.next().is_some() { "\"..." } else { "\"" });
    shown
}
