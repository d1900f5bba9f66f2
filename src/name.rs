//! Domain names in wire format: the one spelling of a name past the configuration boundary.
//!
//! Names are absolute, keep the letters they were written with, and compare without case
//! (RFC 4343). The lookup tables are keyed by the lower-case wire form ([`Name::to_key`]), which is
//! also what the query parser produces, so that a look-up never builds a name.

use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest name in octets, the root label included (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 255;
/// The longest label in octets (RFC 1035 section 2.3.4).
pub const MAX_LABEL: usize = 63;

/// An absolute domain name in uncompressed wire format, spelling kept.
#[derive(Clone)]
pub struct Name {
    wire: Box<[u8]>,
}

/// Why a text is no domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name is empty; the apex is written @ and the root .")]
    Empty,
    /// Two dots in a row, or a dot in front.
    #[error("a label is empty (two dots in a row, or a dot in front)")]
    EmptyLabel,
    /// A label has more than 63 octets.
    #[error("a label is longer than 63 octets")]
    LongLabel,
    /// The whole name has more than 255 octets.
    #[error("the name is longer than 255 octets")]
    LongName,
    /// A backslash is not followed by three digits up to 255 or by one character.
    #[error("a backslash must be followed by three digits (000 to 255) or one character")]
    BadEscape,
    /// A character outside ASCII: internationalised names are given as A-labels (RFC 5890).
    #[error(
        "the name has a character outside ASCII; give internationalised names as xn-- A-labels"
    )]
    NotAscii,
    /// White space or a control character that is not escaped.
    #[error("the name has white space or a control character in it")]
    WhiteSpace,
    /// The name does not end in the root, and there is nothing to complete it with.
    #[error("the name must end in a dot here")]
    NotAbsolute,
    /// Octets that are no uncompressed wire-format name.
    #[error("not a wire-format name")]
    BadWire,
}

impl Name {
    /// The root.
    pub fn root() -> Self {
        Self { wire: Box::new([0]) }
    }

    /// Reads a name in master-file form (RFC 1035 section 5.1): `\DDD` and `\X` escapes, `@` for
    /// the origin, and without a final dot relative to `origin`.
    ///
    /// # Errors
    /// [`NameError`] if it is none, or is relative where there is no origin.
    pub fn parse(text: &str, origin: Option<&Self>) -> Result<Self, NameError> {
        if text == "@" {
            return origin.cloned().ok_or(NameError::NotAbsolute);
        }
        if text == "." {
            return Ok(Self::root());
        }
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let mut wire: Vec<u8> = Vec::with_capacity(text.len() + 2);
        let mut label: Vec<u8> = Vec::with_capacity(MAX_LABEL);
        let mut absolute = false;
        let mut octets = text.bytes();
        while let Some(octet) = octets.next() {
            absolute = false;
            match octet {
                b'.' => {
                    end_label(&mut wire, &mut label)?;
                    absolute = true;
                }
                b'\\' => label.push(escaped(&mut octets)?),
                0..=b' ' | 0x7f => return Err(NameError::WhiteSpace),
                0x80.. => return Err(NameError::NotAscii),
                _ => label.push(octet),
            }
        }
        if absolute {
            wire.push(0);
        } else {
            end_label(&mut wire, &mut label)?;
            wire.extend_from_slice(&origin.ok_or(NameError::NotAbsolute)?.wire);
        }
        if wire.len() > MAX_NAME {
            return Err(NameError::LongName);
        }
        Ok(Self { wire: wire.into() })
    }

    /// Reads a host name or another absolute name, with or without the final dot.
    ///
    /// # Errors
    /// [`NameError`] if it is none.
    pub fn parse_absolute(text: &str) -> Result<Self, NameError> {
        Self::parse(text, Some(&Self::root()))
    }

    /// Takes an uncompressed wire-format name that fills `octets` to the end.
    ///
    /// # Errors
    /// [`NameError::BadWire`] if it does not.
    pub fn from_wire(octets: &[u8]) -> Result<Self, NameError> {
        if wire_length(octets) == Some(octets.len()) {
            Ok(Self { wire: octets.into() })
        } else {
            Err(NameError::BadWire)
        }
    }

    /// The wire form, root label included.
    pub fn as_wire(&self) -> &[u8] {
        &self.wire
    }

    /// The lower-case wire form, by which tables are keyed.
    pub fn to_key(&self) -> Box<[u8]> {
        self.wire.to_ascii_lowercase().into()
    }

    /// The labels from the left, without the root label.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        Labels { rest: &self.wire }
    }

    /// True for the root.
    pub fn is_root(&self) -> bool {
        self.wire.len() == 1
    }

    /// True if the leftmost label is `*` (RFC 4592 section 2.1.1).
    pub fn is_wildcard(&self) -> bool {
        self.wire.starts_with(b"\x01*")
    }

    /// The name without its leftmost label; none for the root.
    pub fn parent(&self) -> Option<Self> {
        parent_of(&self.wire).map(|wire| Self { wire: wire.into() })
    }

    /// True if this is `other` or lies below it.
    pub fn is_at_or_below(&self, other: &Self) -> bool {
        let mut suffix: &[u8] = &self.wire;
        loop {
            if suffix.eq_ignore_ascii_case(&other.wire) {
                return true;
            }
            match parent_of(suffix) {
                Some(parent) => suffix = parent,
                None => return false,
            }
        }
    }
}

/// The wire-format name without its first label; none for the root and for what is no name.
pub fn parent_of(wire: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*wire.first()?);
    if length == 0 { None } else { wire.get(length + 1..) }
}

/// The length of the uncompressed wire-format name that `octets` begins with, root label included.
/// None if there is none: cut short, a pointer or an unknown label type, or over 255 octets.
pub fn wire_length(octets: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = usize::from(*octets.get(at)?);
        at += 1;
        match length {
            0 => return (at <= MAX_NAME).then_some(at),
            1..=MAX_LABEL => at += length,
            _ => return None,
        }
        if at >= MAX_NAME {
            return None;
        }
    }
}

/// Closes a label of the text form.
fn end_label(wire: &mut Vec<u8>, label: &mut Vec<u8>) -> Result<(), NameError> {
    let length = u8::try_from(label.len()).map_err(|_| NameError::LongLabel)?;
    match usize::from(length) {
        0 => Err(NameError::EmptyLabel),
        1..=MAX_LABEL => {
            wire.push(length);
            wire.append(label);
            Ok(())
        }
        _ => Err(NameError::LongLabel),
    }
}

/// Reads what follows a backslash.
fn escaped(octets: &mut std::str::Bytes<'_>) -> Result<u8, NameError> {
    let first = octets.next().ok_or(NameError::BadEscape)?;
    if !first.is_ascii_digit() {
        return if first.is_ascii() { Ok(first) } else { Err(NameError::NotAscii) };
    }
    let mut value = u16::from(first - b'0');
    for _ in 0..2 {
        let digit = octets.next().filter(u8::is_ascii_digit).ok_or(NameError::BadEscape)?;
        value = value * 10 + u16::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::BadEscape)
}

/// Iterates over the labels of a wire-format name.
struct Labels<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&length, rest) = self.rest.split_first()?;
        if length == 0 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        Some(label)
    }
}

/// Writes a wire-format name in master-file form, with the final dot.
pub fn write_wire(f: &mut fmt::Formatter<'_>, wire: &[u8]) -> fmt::Result {
    if wire.len() <= 1 {
        return f.write_str(".");
    }
    for label in (Labels { rest: wire }) {
        for &octet in label {
            match octet {
                b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                    write!(f, "\\{}", char::from(octet))?;
                }
                0x21..=0x7e => write!(f, "{}", char::from(octet))?,
                _ => write!(f, "\\{octet:03}")?,
            }
        }
        f.write_str(".")?;
    }
    Ok(())
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_wire(f, &self.wire)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_wire(f, &self.wire)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.wire.eq_ignore_ascii_case(&other.wire)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for octet in &self.wire {
            state.write_u8(octet.to_ascii_lowercase());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text, Some(&Name::parse_absolute("example.test").unwrap())).unwrap()
    }

    #[test]
    fn relative_names_are_completed_and_absolute_ones_are_not() {
        assert_eq!(name("www").to_string(), "www.example.test.");
        assert_eq!(name("www.example.net.").to_string(), "www.example.net.");
        assert_eq!(name("@").to_string(), "example.test.");
        assert_eq!(name(".").to_string(), ".");
        assert_eq!(Name::parse_absolute("a.b").unwrap().to_string(), "a.b.");
    }

    #[test]
    fn escapes_are_octets_and_come_back_as_escapes() {
        let name = name(r"a\000b\.c");
        assert_eq!(name.labels().next().unwrap(), b"a\0b.c");
        assert_eq!(name.to_string(), r"a\000b\.c.example.test.");
    }

    #[test]
    fn limits_are_63_and_255_octets() {
        let label = "a".repeat(63);
        assert!(Name::parse_absolute(&label).is_ok());
        assert_eq!(Name::parse_absolute(&"a".repeat(64)), Err(NameError::LongLabel));
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(Name::parse_absolute(&longest).unwrap().as_wire().len(), 255);
        assert_eq!(Name::parse_absolute(&format!("{longest}a")), Err(NameError::LongName));
        assert_eq!(wire_length(Name::parse_absolute(&longest).unwrap().as_wire()), Some(255));
    }

    #[test]
    fn mistakes_have_their_own_errors() {
        let root = Name::root();
        for (text, error) in [
            ("", NameError::Empty),
            ("a..b", NameError::EmptyLabel),
            (".a", NameError::EmptyLabel),
            (r"a\25", NameError::BadEscape),
            (r"a\256", NameError::BadEscape),
            ("a b", NameError::WhiteSpace),
            ("ä.test", NameError::NotAscii),
        ] {
            assert_eq!(Name::parse(text, Some(&root)), Err(error), "{text}");
        }
        assert_eq!(Name::parse("a", None), Err(NameError::NotAbsolute));
    }

    #[test]
    fn comparison_ignores_case_but_spelling_is_kept() {
        assert_eq!(name("WwW"), name("www"));
        assert_eq!(name("WwW").to_string(), "WwW.example.test.");
        assert_eq!(name("WwW").to_key(), name("www").to_key());
    }

    #[test]
    fn below_means_whole_labels() {
        assert!(name("a.b").is_at_or_below(&name("b")));
        assert!(name("b").is_at_or_below(&name("b")));
        assert!(!name("ab").is_at_or_below(&name("b")));
        assert!(name("b").is_at_or_below(&Name::root()));
    }
}
