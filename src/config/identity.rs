//! What the server says of itself when it is asked: `identity.nsid` (RFC 5001), and the table `[chaos]`
//! (RFC 4892). Without them it says nothing.

use crate::config::reader::{Table, Value};
use crate::rr::Rdata;

/// The longest identifier, in octets: it has room beside the longest name in the smallest reply.
pub const MAX_NSID: usize = 128;
/// The longest text in class CH: one string.
const MAX_TEXT: usize = 255;

/// What the server says of itself.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The identifier that EDNS can ask for.
    pub nsid: Option<Box<[u8]>>,
    /// The answers in class CH.
    pub chaos: Chaos,
}

/// The data of TXT records in class CH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chaos {
    version: Option<Rdata>,
    hostname: Option<Rdata>,
    id: Option<Rdata>,
}

impl Chaos {
    /// The data for a name in lower-case wire form.
    pub fn text(&self, key: &[u8]) -> Option<&Rdata> {
        match key {
            b"\x07version\x04bind\0" => self.version.as_ref(),
            b"\x08hostname\x04bind\0" => self.hostname.as_ref(),
            b"\x02id\x06server\0" => self.id.as_ref(),
            _ => None,
        }
    }
}

/// Reads `identity.nsid`.
pub(super) fn parse_nsid(value: &Value<'_, '_>) -> Option<Box<[u8]>> {
    let text = value.string("a name")?;
    let is_printable = text.bytes().all(|octet| octet.is_ascii_graphic() || octet == b' ');
    if is_printable && (1..=MAX_NSID).contains(&text.len()) {
        return Some(text.as_bytes().into());
    }
    value.error(
        format!("{text:?} is not an identifier"),
        "give 1 to 128 printable ASCII characters, as \"ams1\"",
    );
    None
}

/// Reads `[chaos]`.
pub(super) fn parse_chaos(table: &Table<'_, '_>) -> Chaos {
    let text = |key| {
        let value = table.optional(key)?;
        let text = value.string("a text")?;
        let length = u8::try_from(text.len()).ok().filter(|&length| length > 0);
        if length.is_none() {
            let length = text.len();
            let help = format!("give 1 to {MAX_TEXT} octets, or remove the key");
            value.error(format!("the text has {length} octets"), help);
        }
        Some(Rdata::from([&[length?], text.as_bytes()].concat()))
    };
    let chaos = Chaos { version: text("version"), hostname: text("hostname"), id: text("id") };
    table.finish();
    chaos
}
