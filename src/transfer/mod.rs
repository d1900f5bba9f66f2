//! Zone transfers to secondaries (RFC 5936, 1995): who may have a zone, and its records, message by
//! message; and what tells a secondary that there is a new version (RFC 1996).
//!
//! ```text
//! query for a transfer ─► judge: Refused, Soa, Whole ─► serve::outgoing ─► pages ─► wire::page
//! a new serial ─► notice ─► serve::notifier
//! ```
//!
//! A secondary gets what a query without a location would: each steered name as its first answer with all
//! origins healthy. That is also what serials go by (`serial`), so health changes neither.
//!
//! Pure.

#![deny(clippy::indexing_slicing)]

pub mod notice;
pub mod pages;
pub mod published;

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::answer::ExtendedError;
use crate::query::{Query, Rcode};
use crate::rr::RecordType;
use crate::state::State;
use crate::tsig::Key;
use crate::tsig::check::Fault;
use crate::zone::node::Zone;

/// Who may have a zone, and who is told of a new one. By default nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The networks that may have it; empty for any, if keys are asked for.
    pub allow: Vec<IpNet>,
    /// The names, in lower-case wire form, of the keys that may have it; empty if none is asked for.
    pub keys: Vec<Box<[u8]>>,
    /// Who is told of a new version.
    pub notify: Vec<Secondary>,
}

/// A server that is told of a new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// Where it listens.
    pub address: SocketAddr,
    /// The name, in lower-case wire form, of the key that what is said to it is signed with.
    pub key: Option<Box<[u8]>>,
}

impl Rules {
    /// Sees whether a client may have the zone: it must meet each of the conditions that are set, and without
    /// one there is none that it could meet.
    ///
    /// # Errors
    /// The first [`Refusal`] that holds.
    pub fn admit(&self, source: IpAddr, key: Option<&Key>) -> Result<(), Refusal> {
        let source = source.to_canonical();
        if self.allow.is_empty() && self.keys.is_empty() {
            return Err(Refusal::Closed);
        }
        if !self.allow.is_empty() && !self.allow.iter().any(|net| net.contains(&source)) {
            return Err(Refusal::Address);
        }
        match key {
            _ if self.keys.is_empty() => Ok(()),
            None => Err(Refusal::Unsigned),
            Some(key) if self.keys.contains(&key.name.to_key()) => Ok(()),
            Some(_) => Err(Refusal::OtherKey),
        }
    }
}

/// Why a query for a transfer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such zone.
    #[error("there is no zone of this name here")]
    NoSuchZone,
    /// Nobody may have it.
    #[error("the zone has no transfer rules, so nobody may have it")]
    Closed,
    /// The client's address is not one of those that may.
    #[error("the zone's allow does not have the client's address")]
    Address,
    /// A key is asked for, and there is none.
    #[error("the query is not signed, and the zone asks for one of its keys")]
    Unsigned,
    /// A key is asked for, and this is another one.
    #[error("the zone's keys do not have the key that the query is signed with")]
    OtherKey,
    /// The signature is not good.
    #[error("{0}")]
    Signature(Fault),
    /// One message does not have room for a zone.
    #[error("a zone is transferred over TCP or TLS alone")]
    NeedsStream,
    /// It is not said which version the client has.
    #[error("a query for IXFR must have one SOA record, the zone's, in its authority section")]
    NoVersion,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoSuchZone,
        Self::Closed,
        Self::Address,
        Self::Unsigned,
        Self::OtherKey,
        Self::Signature(Fault::BadSig),
        Self::Signature(Fault::BadKey),
        Self::Signature(Fault::BadTime),
        Self::NeedsStream,
        Self::NoVersion,
    ];

    /// What is answered.
    pub fn rcode(self) -> Rcode {
        match self {
            // "NOTAUTH" (RFC 5936 section 2.2.1, RFC 8945 section 5.2).
            Self::NoSuchZone | Self::Signature(_) => Rcode::NotAuth,
            Self::Closed | Self::Address | Self::Unsigned | Self::OtherKey | Self::NeedsStream => {
                Rcode::Refused
            }
            Self::NoVersion => Rcode::FormErr,
        }
    }

    /// What is said of it besides.
    pub fn extended_error<'s>(self) -> Option<ExtendedError<'s>> {
        match self {
            Self::NoSuchZone => Some(ExtendedError::NoSuchZone),
            Self::Closed | Self::Address | Self::Unsigned | Self::OtherKey => {
                Some(ExtendedError::TransferNotAllowed)
            }
            Self::NeedsStream => Some(ExtendedError::TransferNeedsStream),
            Self::Signature(_) | Self::NoVersion => None,
        }
    }
}

/// How the reply to a query for a transfer is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// In one datagram.
    Datagram,
    /// In one message, though there would be room for more.
    Single,
    /// In as many messages as are needed.
    Several,
}

/// Who asks for a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The key that the query is signed with, if that was checked.
    pub key: Option<&'a Key>,
    /// How the reply goes back.
    pub carriage: Carriage,
}

/// What becomes of a query for a transfer.
#[derive(Debug)]
pub enum Verdict<'s> {
    /// It is refused.
    Refused(Refusal),
    /// The SOA alone answers it.
    Soa(&'s Zone),
    /// The whole zone does.
    Whole(&'s Zone),
}

/// Decides a query for a transfer.
pub fn judge<'s>(state: &'s State, query: &Query<'_>, asker: &Asker<'_>) -> Verdict<'s> {
    let key = &query.question.key;
    let Some(zone) = state.zones.at_key(key) else {
        return Verdict::Refused(Refusal::NoSuchZone);
    };
    let rules = state.transfers.get(key.as_slice());
    let admitted = rules.map_or(Err(Refusal::Closed), |rules| rules.admit(asker.source, asker.key));
    if let Err(refusal) = admitted {
        return Verdict::Refused(refusal);
    }
    let is_incremental = query.question.record_type == RecordType::IXFR;
    match (asker.carriage, is_incremental, query.serial) {
        // Exactly one SOA, that of the zone, says what the client has (RFC 1995 section 3).
        (_, true, None) => Verdict::Refused(Refusal::NoVersion),
        // It says that there is more, and that more comes over TCP (RFC 1995 section 2).
        (Carriage::Datagram, true, _) => Verdict::Soa(zone),
        (Carriage::Datagram | Carriage::Single, ..) => Verdict::Refused(Refusal::NeedsStream),
        (Carriage::Several, true, Some(serial)) if !is_newer(zone.serial(), serial) => {
            Verdict::Soa(zone)
        }
        (Carriage::Several, ..) => Verdict::Whole(zone),
    }
}

/// True if a serial is newer than another (RFC 1982 section 3.2).
fn is_newer(serial: u32, than: u32) -> bool {
    let ahead = serial.wrapping_sub(than);
    // What is half the circle away is neither newer nor older: better a transfer too many.
    ahead != 0 && ahead <= 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::tsig::Algorithm;

    fn rules(allow: &[&str], keys: &[&Key]) -> Rules {
        Rules {
            allow: allow.iter().map(|net| net.parse().unwrap()).collect(),
            keys: keys.iter().map(|key| key.name.to_key()).collect(),
            notify: Vec::new(),
        }
    }

    #[test]
    fn each_condition_that_is_set_must_be_met() {
        let key =
            |name| Key::new(Name::parse_absolute(name).unwrap(), Algorithm::HmacSha256, b"secret");
        let (a, b) = (key("a"), key("b"));
        let inside: IpAddr = "192.0.2.7".parse().unwrap();
        let mapped: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
        let outside: IpAddr = "198.51.100.7".parse().unwrap();
        let closed = rules(&[], &[]);
        assert_eq!(closed.admit(inside, Some(&a)), Err(Refusal::Closed));
        let by_address = rules(&["192.0.2.0/24"], &[]);
        assert_eq!(by_address.admit(inside, None), Ok(()));
        assert_eq!(by_address.admit(mapped, Some(&b)), Ok(()));
        assert_eq!(by_address.admit(outside, Some(&a)), Err(Refusal::Address));
        let by_key = rules(&[], &[&a]);
        assert_eq!(by_key.admit(outside, Some(&a)), Ok(()));
        assert_eq!(by_key.admit(outside, Some(&b)), Err(Refusal::OtherKey));
        assert_eq!(by_key.admit(outside, None), Err(Refusal::Unsigned));
        let by_both = rules(&["192.0.2.0/24"], &[&a]);
        assert_eq!(by_both.admit(inside, Some(&a)), Ok(()));
        assert_eq!(by_both.admit(inside, None), Err(Refusal::Unsigned));
        assert_eq!(by_both.admit(outside, Some(&a)), Err(Refusal::Address));
    }

    #[test]
    fn serials_go_round() {
        assert!(is_newer(2, 1) && !is_newer(1, 1) && !is_newer(1, 2));
        assert!(is_newer(0, u32::MAX) && !is_newer(u32::MAX, 0));
        assert!(is_newer(0, 1 << 31), "neither is newer");
    }
}
