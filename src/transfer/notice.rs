//! The message that tells a secondary of a new version of a zone, and its reply (RFC 1996).

use std::sync::Arc;

use crate::query::{CLASS_IN, HEADER, signature_of};
use crate::rr::RecordType;
use crate::tsig::Key;
use crate::tsig::check::{ReplyFault, check_reply};
use crate::tsig::stamp::Stamp;
use crate::zone::node::Zone;

/// QR.
const REPLY: u8 = 0x80;
/// The opcode NOTIFY, where it stands in the header.
const NOTIFY: u8 = 4 << 3;
/// AA, which a notification has.
const AUTHORITATIVE: u8 = 4;
/// A pointer to the name in the question.
const TO_QUESTION: [u8; 2] = [0xc0, 12];

/// What a secondary is told.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The zone's name in wire form.
    pub zone: Box<[u8]>,
    /// Its SOA, as it stands in the message.
    soa: Box<[u8]>,
    /// Its serial.
    pub serial: u32,
}

/// What is wrong with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It is another message.
    #[error("what came is not a reply to the notification")]
    Unrelated,
    /// Its signature is not as it should be.
    #[error(transparent)]
    Signature(#[from] ReplyFault),
    /// The secondary does not take it.
    #[error("the secondary answered {}", rcode_word(*.0))]
    Rcode(u8),
}

impl Notice {
    /// Of the version of a zone.
    pub fn of(zone: &Zone) -> Option<Self> {
        let set = &zone.soa.rrset;
        let rdata = set.rdata.first()?;
        let length = u16::try_from(rdata.len()).ok()?;
        let mut soa = Vec::with_capacity(rdata.len() + 12);
        soa.extend(TO_QUESTION);
        soa.extend(RecordType::SOA.0.to_be_bytes());
        soa.extend(CLASS_IN.to_be_bytes());
        soa.extend(set.ttl.seconds().to_be_bytes());
        soa.extend(length.to_be_bytes());
        soa.extend(&rdata[..]);
        Some(Self { zone: zone.apex.as_wire().into(), soa: soa.into(), serial: zone.serial() })
    }

    /// The message with this id, signed if there is a key; then with what its reply goes by.
    pub fn message(&self, id: u16, key: Option<&Arc<Key>>, now: u64) -> (Vec<u8>, Option<Stamp>) {
        let mut message = Vec::with_capacity(512);
        message.extend(id.to_be_bytes());
        message.extend([NOTIFY | AUTHORITATIVE, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
        message.extend(&*self.zone);
        message.extend(RecordType::SOA.0.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        message.extend(&*self.soa);
        let Some(key) = key else { return (message, None) };
        let mut stamp = Stamp::request(key, now);
        let length = message.len();
        message.resize(length + stamp.length(), 0);
        // There is room, as it was just made.
        let signed = stamp.sign(&mut message, length);
        debug_assert_eq!(signed, Some(message.len()));
        (message, Some(stamp))
    }
}

/// Checks the reply to a notification with this id, which was signed with a key, and had this MAC, or was not
/// signed.
///
/// # Errors
/// [`Failure`].
pub fn check(
    reply: &[u8],
    id: u16,
    signed: Option<(&Key, &[u8])>,
    now: u64,
) -> Result<(), Failure> {
    let Some([id_high, id_low, flags, rcode, ..]) = reply.first_chunk::<HEADER>().copied() else {
        return Err(Failure::Unrelated);
    };
    let is_reply = flags & 0xf8 == REPLY | NOTIFY;
    if !is_reply || u16::from_be_bytes([id_high, id_low]) != id {
        return Err(Failure::Unrelated);
    }
    let rcode = rcode & 0x0f;
    match signed {
        // A server that could not even read the signature says so without one.
        Some(_) if rcode != 0 && signature_of(reply).is_none() => Err(Failure::Rcode(rcode)),
        Some((key, mac)) => {
            check_reply(reply, key, mac, now)?;
            if rcode == 0 { Ok(()) } else { Err(Failure::Rcode(rcode)) }
        }
        None if rcode == 0 => Ok(()),
        None => Err(Failure::Rcode(rcode)),
    }
}

fn rcode_word(rcode: u8) -> &'static str {
    match rcode {
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        9 => "NOTAUTH",
        _ => "an unknown code",
    }
}
