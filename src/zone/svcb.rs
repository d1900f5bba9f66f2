//! The RDATA of SVCB and HTTPS (RFC 9460): a priority, a target, and parameters by key.
//!
//! Only [`rdata`](crate::zone::rdata) uses this. It is read here and not by
//! hickory-proto because that resolves neither escapes nor the lists of appendix A.1.

use std::cmp::Ordering;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::BASE64;

use crate::config::report::nearest;
use crate::name::{Name, wire_length};
use crate::rr::RecordType;
use crate::zone::field::{number, take};
use crate::zone::lexer::{Token, unescape};
use crate::zone::rdata::RdataError;
use crate::zone::word::{parse_name, parse_number, shorten, show_quoted};

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6_HINT: u16 = 6;
const DOH_PATH: u16 = 7;
const OHTTP: u16 = 8;

/// The keys of hints: of IPv4 addresses, and of IPv6 addresses.
pub const HINTS: [u16; 2] = [IPV4_HINT, IPV6_HINT];

/// The keys that have a name (RFC 9460 section 14.3.2, RFC 9461, RFC 9540).
const KEYS: [(&str, u16); 9] = [
    ("mandatory", MANDATORY),
    ("alpn", ALPN),
    ("no-default-alpn", NO_DEFAULT_ALPN),
    ("port", PORT),
    ("ipv4hint", IPV4_HINT),
    ("ech", ECH),
    ("ipv6hint", IPV6_HINT),
    ("dohpath", DOH_PATH),
    ("ohttp", OHTTP),
];

/// True for the types of this form.
pub(super) fn is_svcb(record_type: RecordType) -> bool {
    matches!(record_type, RecordType::SVCB | RecordType::HTTPS)
}

/// Reads tokens to octets.
pub(super) fn parse(
    record_type: RecordType,
    tokens: &[Token<'_>],
    origin: &Name,
) -> Result<Vec<u8>, RdataError> {
    let [priority, target, params @ ..] = tokens else {
        let offset = tokens.last().map(Token::offset);
        let help = format!("{record_type} takes: priority, target, parameters; as 1 . alpn=h2");
        return Err(RdataError::new(offset, "the target is missing", help));
    };
    let priority_number = parse_number("priority", priority, 0xffff)?;
    let mut wire: Vec<u8> = priority_number.to_be_bytes().into_iter().skip(2).collect();
    wire.extend_from_slice(parse_name(target, origin)?.as_wire());
    if let (0, Some(param)) = (priority_number, params.first()) {
        let help = "give a priority of 1 or more, or remove the parameters";
        return Err(RdataError::at(param, "an alias (priority 0) has no parameters", help));
    }
    let mut values = Vec::with_capacity(params.len());
    for param in params {
        let (name, value) = param.key_and_value();
        let key = parse_key(name).ok_or_else(|| unknown_key(param, name))?;
        let value = parse_value(key, name, value, param)?;
        if u16::try_from(value.len()).is_err() {
            let help = "give at most 65535 octets";
            return Err(RdataError::at(param, "the value is too long", help));
        }
        values.push((key, value, param));
    }
    // The order on the wire is that of the keys (RFC 9460 section 2.2).
    values.sort_by_key(|&(key, ..)| key);
    for pair in values.windows(2) {
        if let [(first, ..), (second, _, param)] = pair
            && first == second
        {
            let message = format!("{} stands twice", show_key(*second));
            return Err(RdataError::at(param, message, "give each key once"));
        }
    }
    for (key, value, _) in &values {
        wire.extend(key.to_be_bytes());
        wire.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        wire.extend_from_slice(value);
    }
    let present: Vec<_> = values.iter().map(|(key, value, _)| (*key, value.as_slice())).collect();
    match conflict(&present) {
        None => Ok(wire),
        Some(message) => {
            let help = "add the key that is missing, or remove the one that needs it";
            Err(RdataError::new(params.first().map(Token::offset), message, help))
        }
    }
}

/// Writes octets as text; none if they are not what RFC 9460 says.
pub(super) fn show(rdata: &[u8]) -> Option<String> {
    let mut rest = rdata;
    let priority = number(take(&mut rest, 2)?);
    let length = wire_length(rest)?;
    let target = take(&mut rest, length)?;
    let mut text = format!("{priority} {}", Name::from_wire(target).ok()?);
    let mut params: Vec<(u16, &[u8])> = Vec::new();
    while !rest.is_empty() {
        let key = u16::try_from(number(take(&mut rest, 2)?)).ok()?;
        let length = usize::try_from(number(take(&mut rest, 2)?)).ok()?;
        let value = take(&mut rest, length)?;
        if key == u16::MAX || params.last().is_some_and(|&(last, _)| last >= key) {
            return None;
        }
        write!(text, " {}", show_key(key)).ok()?;
        show_value(key, value, &mut text)?;
        params.push((key, value));
    }
    let valid = conflict(&params).is_none() && (priority > 0 || params.is_empty());
    valid.then_some(text)
}

/// Where ipv4hint and ipv6hint go in RDATA that has none, in the order of the keys (RFC 9460 section 2.2);
/// none if it has one, is an alias, or names another target than `owner`, whose addresses the hints are
/// (section 7.3).
pub fn hint_places(rdata: &[u8], owner: &[u8]) -> Option<[usize; 2]> {
    let mut rest = rdata;
    let priority = number(take(&mut rest, 2)?);
    let length = wire_length(rest)?;
    let target = take(&mut rest, length)?;
    if priority == 0 || !(target.len() == 1 || target.eq_ignore_ascii_case(owner)) {
        return None;
    }
    let mut places = [rdata.len(); 2];
    while !rest.is_empty() {
        let at = rdata.len() - rest.len();
        let key = u16::try_from(number(take(&mut rest, 2)?)).ok()?;
        let length = usize::try_from(number(take(&mut rest, 2)?)).ok()?;
        take(&mut rest, length)?;
        for (hint, place) in HINTS.into_iter().zip(&mut places) {
            match key.cmp(&hint) {
                Ordering::Equal => return None,
                Ordering::Greater => *place = at.min(*place),
                Ordering::Less => {}
            }
        }
    }
    Some(places)
}

/// The RDATA with the addresses of `hints` (IPv4, IPv6) as hints; none as for [`hint_places`].
pub fn with_hints(rdata: &[u8], owner: &[u8], hints: &[Vec<u8>; 2]) -> Option<Vec<u8>> {
    let mut hinted = Vec::with_capacity(rdata.len());
    let mut begin = 0;
    for ((place, key), value) in hint_places(rdata, owner)?.into_iter().zip(HINTS).zip(hints) {
        hinted.extend_from_slice(rdata.get(begin..place)?);
        begin = place;
        // An empty list of hints is malformed.
        if !value.is_empty() {
            hinted.extend(key.to_be_bytes());
            hinted.extend(u16::try_from(value.len()).ok()?.to_be_bytes());
            hinted.extend_from_slice(value);
        }
    }
    hinted.extend_from_slice(rdata.get(begin..)?);
    Some(hinted)
}

/// What the keys ask of each other (RFC 9460 sections 7.1.1 and 8).
fn conflict(params: &[(u16, &[u8])]) -> Option<String> {
    let has = |wanted: u16| params.iter().any(|&(key, _)| key == wanted);
    if has(NO_DEFAULT_ALPN) && !has(ALPN) {
        return Some("no-default-alpn needs alpn".to_owned());
    }
    let mandatory = params.iter().find(|&&(key, _)| key == MANDATORY);
    let mut keys = mandatory.map_or(&[][..], |&(_, value)| value).chunks_exact(2).map(key_of);
    keys.find(|&key| !has(key))
        .map(|key| format!("{} is mandatory, but is not there", show_key(key)))
}

fn key_of(octets: &[u8]) -> u16 {
    u16::try_from(number(octets)).unwrap_or(u16::MAX)
}

/// Reads a key by name, or as `key65400`, without leading zeros.
fn parse_key(text: &str) -> Option<u16> {
    if let Some(&(_, key)) = KEYS.iter().find(|&&(name, _)| name == text) {
        return Some(key);
    }
    let digits = text.strip_prefix("key")?;
    let plain = digits.bytes().all(|octet| octet.is_ascii_digit());
    let shortest = digits == "0" || !digits.starts_with('0');
    let key = digits.parse().ok()?;
    (plain && shortest && key != u16::MAX).then_some(key)
}

fn unknown_key(token: &Token<'_>, name: &str) -> RdataError {
    let names = KEYS.iter().map(|&(name, _)| name);
    let word: String = name.chars().take(20).collect();
    let help = match nearest(&word, names.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            format!("the keys are {}, and key9 to key65534", names.collect::<Vec<_>>().join(", "))
        }
    };
    RdataError::at(token, format!("{} is not a key", shorten(name)), help)
}

fn show_key(key: u16) -> String {
    match KEYS.iter().find(|&&(_, number)| number == key) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("key{key}"),
    }
}

/// Reads the value of a parameter.
fn parse_value(
    key: u16,
    name: &str,
    text: Option<&str>,
    token: &Token<'_>,
) -> Result<Vec<u8>, RdataError> {
    let octets = unescape(text.unwrap_or_default());
    // Written as key3, the octets are the value as it is (RFC 9460 section 2.1).
    let value = if name.starts_with("key") {
        show_value(key, &octets, &mut String::new()).map(|()| octets.into_owned())
    } else {
        match key {
            MANDATORY => parse_mandatory(&octets),
            ALPN => parse_alpn(&octets),
            PORT => plain(&octets)
                .and_then(|text| text.parse().ok())
                .map(|n: u16| n.to_be_bytes().into()),
            IPV4_HINT => parse_hints(&octets, |address: Ipv4Addr| address.octets()),
            IPV6_HINT => parse_hints(&octets, |address: Ipv6Addr| address.octets()),
            ECH => BASE64.decode(&octets).ok().filter(|value| !value.is_empty()),
            _ => show_value(key, &octets, &mut String::new()).map(|()| octets.into_owned()),
        }
    };
    value.ok_or_else(|| {
        let message = format!("the value of {} is wrong", show_key(key));
        RdataError::at(token, message, value_help(key))
    })
}

/// What the value of a key should look like.
fn value_help(key: u16) -> &'static str {
    match key {
        MANDATORY => "write other keys, each once, as mandatory=alpn,port",
        ALPN => "write protocols with commas between them, as alpn=h2,h3",
        NO_DEFAULT_ALPN => "write no-default-alpn without a value",
        PORT => "write a number from 0 to 65535, as port=8443",
        IPV4_HINT => "write IPv4 addresses with commas, as ipv4hint=192.0.2.1,192.0.2.2",
        ECH => "write the list of configurations in base64",
        IPV6_HINT => "write IPv6 addresses with commas, as ipv6hint=2001:db8::1,2001:db8::2",
        DOH_PATH => "write a path with the variable dns, as dohpath=/dns-query{?dns}",
        OHTTP => "write ohttp without a value",
        _ => r#"write the octets of the value, as key667="text\000""#,
    }
}

/// A text of letters, digits and the like, which needs no escapes.
fn plain(octets: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(octets).ok()?;
    (!text.starts_with('+')).then_some(text)
}

fn parse_mandatory(octets: &[u8]) -> Option<Vec<u8>> {
    let keys: Option<Vec<u16>> = plain(octets)?.split(',').map(parse_key).collect();
    let mut keys = keys?;
    keys.sort_unstable();
    let distinct = keys.windows(2).all(|pair| pair.first() != pair.last());
    let valid = distinct && !keys.contains(&MANDATORY);
    valid.then(|| keys.into_iter().flat_map(u16::to_be_bytes).collect())
}

/// Reads a list of protocols, in which a backslash keeps a comma or a backslash from its meaning
/// (RFC 9460 appendix A.1), on top of the escapes of the master file.
fn parse_alpn(octets: &[u8]) -> Option<Vec<u8>> {
    let mut items = vec![Vec::new()];
    let mut octets = octets.iter().copied();
    while let Some(octet) = octets.next() {
        match octet {
            b',' => items.push(Vec::new()),
            b'\\' => {
                items.last_mut()?.push(octets.next().filter(|next| matches!(next, b',' | b'\\'))?)
            }
            _ => items.last_mut()?.push(octet),
        }
    }
    let mut value = Vec::new();
    for item in items {
        value.push(u8::try_from(item.len()).ok().filter(|&length| length > 0)?);
        value.extend(item);
    }
    Some(value)
}

fn parse_hints<T: std::str::FromStr, const N: usize>(
    octets: &[u8],
    address: impl Fn(T) -> [u8; N],
) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    for text in plain(octets)?.split(',') {
        value.extend(address(text.parse().ok()?));
    }
    Some(value)
}

/// Adds `=` and a value to the text; none if the value is not what the key wants.
fn show_value(key: u16, value: &[u8], text: &mut String) -> Option<()> {
    match key {
        MANDATORY => {
            let keys: Vec<_> = value.chunks(2).map(key_of).collect();
            let increasing = keys.windows(2).all(|pair| pair.first() < pair.last());
            let valid = !value.is_empty() && value.len().is_multiple_of(2);
            let names: Vec<_> = keys.iter().map(|&key| show_key(key)).collect();
            write!(text, "={}", names.join(",")).ok()?;
            (valid && increasing && !keys.contains(&MANDATORY)).then_some(())
        }
        ALPN => {
            let mut list = Vec::new();
            let mut rest = value;
            while let Some(&length) = rest.first() {
                take(&mut rest, 1)?;
                for &octet in take(&mut rest, usize::from(length))? {
                    if matches!(octet, b',' | b'\\') {
                        list.push(b'\\');
                    }
                    list.push(octet);
                }
                if length == 0 {
                    return None;
                }
                list.push(b',');
            }
            // What ends the list is the last item, not a comma; an empty list has neither.
            list.pop()?;
            text.push('=');
            show_quoted(&list, text);
            Some(())
        }
        NO_DEFAULT_ALPN | OHTTP => value.is_empty().then_some(()),
        PORT => (value.len() == 2).then(|| write!(text, "={}", number(value)).ok())?,
        IPV4_HINT => show_hints(value, text, |octets: [u8; 4]| Ipv4Addr::from(octets)),
        IPV6_HINT => show_hints(value, text, |octets: [u8; 16]| Ipv6Addr::from(octets)),
        ECH => {
            write!(text, "={}", BASE64.encode(value)).ok()?;
            (!value.is_empty()).then_some(())
        }
        DOH_PATH => {
            let path = std::str::from_utf8(value).ok()?;
            text.push('=');
            show_quoted(value, text);
            (path.starts_with('/') && path.contains("dns")).then_some(())
        }
        _ if value.is_empty() => Some(()),
        _ => {
            text.push('=');
            show_quoted(value, text);
            Some(())
        }
    }
}

fn show_hints<T: std::fmt::Display, const N: usize>(
    value: &[u8],
    text: &mut String,
    address: impl Fn([u8; N]) -> T,
) -> Option<()> {
    let (addresses, rest) = value.as_chunks::<N>();
    let mut separator = '=';
    for &octets in addresses {
        write!(text, "{separator}{}", address(octets)).ok()?;
        separator = ',';
    }
    (rest.is_empty() && !addresses.is_empty()).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::zone::rdata::{describe, parse_record_data};

    fn read(text: &str) -> Result<Vec<u8>, String> {
        let origin = Name::parse_absolute("example.com").unwrap();
        parse_record_data(RecordType::SVCB, text, &origin)
            .map(|rdata| rdata.to_vec())
            .map_err(|error| error.to_string())
    }

    /// A name of RFC 9460 appendix D in wire form.
    const FOO: &[u8] = b"\x03foo\x07example\x03com\x00";
    const FOO_ORG: &[u8] = b"\x03foo\x07example\x03org\x00";

    #[test]
    fn hints_are_put_among_the_keys_in_their_order() {
        let hints = [vec![192, 0, 2, 1, 192, 0, 2, 2], vec![0x20; 16]];
        let show_hinted = |text: &str, hints| {
            let hinted = with_hints(&read(text).unwrap(), FOO, hints)?;
            Some(describe(RecordType::SVCB, &hinted))
        };
        let (v4, v6) =
            ("ipv4hint=192.0.2.1,192.0.2.2", "ipv6hint=2020:2020:2020:2020:2020:2020:2020:2020");
        for (text, expected) in [
            ("1 .", format!("1 . {v4} {v6}")),
            ("1 foo port=53", format!("1 foo.example.com. port=53 {v4} {v6}")),
            ("1 FOO ech=AAAA", format!("1 FOO.example.com. {v4} ech=AAAA {v6}")),
            ("1 . dohpath=/{?dns} key667=x", format!("1 . {v4} {v6} dohpath=/{{?dns}} key667=x")),
        ] {
            let expected = describe(RecordType::SVCB, &read(&expected).unwrap());
            assert_eq!(show_hinted(text, &hints), Some(expected), "{text}");
        }
        // An empty list of hints would be malformed.
        let none = [Vec::new(), Vec::new()];
        assert_eq!(with_hints(&read("1 .").unwrap(), FOO, &none), read("1 .").ok());
        let only_v6 = [Vec::new(), vec![0x20; 16]];
        assert_eq!(
            show_hinted("1 . key667=x", &only_v6),
            Some(describe(RecordType::SVCB, &read(&format!("1 . {v6} key667=x")).unwrap()))
        );
        for text in ["0 foo", "1 bar", "1 . ipv4hint=192.0.2.1", "1 . ipv6hint=::1"] {
            assert_eq!(show_hinted(text, &hints), None, "{text}");
        }
    }

    #[test]
    fn the_vectors_of_rfc_9460_appendix_d_are_read() {
        let alpn = b"\x00\x01\x00\x0c\x08f\\oo,bar\x02h2";
        let vectors: &[(&str, &[&[u8]])] = &[
            ("0 foo.example.com.", &[b"\0\0", FOO]),
            ("1 .", &[b"\0\x01\0"]),
            ("16 foo port=53", &[b"\0\x10", FOO, b"\0\x03\0\x02\0\x35"]),
            ("1 foo key667=hello", &[b"\0\x01", FOO, b"\x02\x9b\0\x05hello"]),
            (r#"1 foo key667="hello\210qoo""#, &[b"\0\x01", FOO, b"\x02\x9b\0\x09hello\xd2qoo"]),
            (
                r#"1 foo (ipv6hint="2001:db8::1,2001:db8::53:1")"#,
                &[
                    b"\0\x01",
                    FOO,
                    b"\0\x06\0\x20",
                    b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
                    b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\x53\0\x01",
                ],
            ),
            (
                r#"1 @ ipv6hint="2001:db8:122:344::192.0.2.33""#,
                &[
                    b"\0\x01\x07example\x03com\0\0\x06\0\x10",
                    b"\x20\x01\x0d\xb8\x01\x22\x03\x44\0\0\0\0\xc0\0\x02\x21",
                ],
            ),
            (
                "16 foo.example.org. (\n alpn=h2,h3-19 mandatory=ipv4hint,alpn\n ipv4hint=192.0.2.1)",
                &[
                    b"\0\x10",
                    FOO_ORG,
                    b"\0\0\0\x04\0\x01\0\x04",
                    b"\0\x01\0\x09\x02h2\x05h3-19",
                    b"\0\x04\0\x04\xc0\0\x02\x01",
                ],
            ),
            (r#"16 foo.example.org. alpn="f\\\\oo\\,bar,h2""#, &[b"\0\x10", FOO_ORG, alpn]),
            (r"16 foo.example.org. alpn=f\\\092oo\092,bar,h2", &[b"\0\x10", FOO_ORG, alpn]),
        ];
        for (text, parts) in vectors {
            let wire = read(text).unwrap();
            assert_eq!(wire, parts.concat(), "{text}");
            let described = describe(RecordType::SVCB, &wire);
            assert_eq!(read(&described).as_ref(), Ok(&wire), "{described}");
        }
    }

    #[test]
    fn the_failures_of_rfc_9460_appendix_d_3_are_refused() {
        for (text, error) in [
            ("1 foo key123=abc key123=def", "key123 stands twice"),
            ("1 foo mandatory", "the value of mandatory is wrong"),
            ("1 foo alpn", "as alpn=h2,h3"),
            ("1 foo port", "as port=8443"),
            ("1 foo ipv4hint", "as ipv4hint=192.0.2.1"),
            ("1 foo ipv6hint", "as ipv6hint=2001:db8::1"),
            ("1 foo no-default-alpn=abc", "without a value"),
            ("1 foo mandatory=key123", "key123 is mandatory, but is not there"),
            ("1 foo mandatory=mandatory", "write other keys"),
            ("1 foo mandatory=key123,key123 key123=abc", "each once"),
            ("1 foo no-default-alpn", "no-default-alpn needs alpn"),
            ("0 foo port=1", "an alias (priority 0) has no parameters"),
            ("1 foo prot=1", "did you mean port?"),
            ("1 foo key065=1", "is not a key"),
            ("1 foo key65535=1", "is not a key"),
            ("1 foo key3=1", "as port=8443"),
            ("1", "the target is missing"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    proptest! {
        #[test]
        fn what_is_described_is_read_back(
            alpn in vec(vec(any::<u8>(), 1..20), 1..4),
            port in any::<u16>(),
            hint in any::<[u8; 32]>(),
            other in vec(any::<u8>(), 0..40),
        ) {
            let length = |octets: &[u8]| u8::try_from(octets.len()).unwrap();
            let alpn: Vec<u8> = alpn.iter().flat_map(|id| [&[length(id)], &id[..]].concat()).collect();
            let mut wire = b"\0\x01\0\0\0\0\x02\0\x01".to_vec();
            for (key, value) in [
                (ALPN, &alpn[..]),
                (PORT, &port.to_be_bytes()),
                (IPV4_HINT, &hint[..8]),
                (IPV6_HINT, &hint),
                (667, &other),
            ] {
                wire.extend(key.to_be_bytes());
                wire.extend([0, length(value)]);
                wire.extend(value);
            }
            let text = describe(RecordType::SVCB, &wire);
            prop_assert!(!text.starts_with(r"\#"));
            prop_assert_eq!(read(&text), Ok(wire));
        }
    }
}
