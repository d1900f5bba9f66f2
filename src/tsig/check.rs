//! Is a signature good (RFC 8945 section 5.2, 5.4)?

use subtle::ConstantTimeEq;

use crate::query::{Signature, signature_of};
use crate::tsig::digest::{Covered, Variables, mac};
use crate::tsig::record::Record;
use crate::tsig::stamp::Stamp;
use crate::tsig::{Key, Keys};

/// What is wrong with a signature; the message is answered NOTAUTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The signature is not the one that the key makes.
    #[error("BADSIG: the signature is not one of the key's; compare the secrets")]
    BadSig,
    /// There is no such key, or it has another algorithm.
    #[error("BADKEY: there is no key of this name and algorithm in [tsig_keys]")]
    BadKey,
    /// It was signed at another time than now.
    #[error("BADTIME: it was signed at another time; compare the clocks")]
    BadTime,
}

impl Fault {
    /// The number in the reply's record (RFC 8945 section 3).
    pub fn code(self) -> u16 {
        match self {
            Self::BadSig => 16,
            Self::BadKey => 17,
            Self::BadTime => 18,
        }
    }
}

/// What the TSIG error of another's reply is called.
pub fn error_word(code: u16) -> &'static str {
    match code {
        16 => "BADSIG",
        17 => "BADKEY",
        18 => "BADTIME",
        22 => "BADTRUNC",
        _ => "an unknown error",
    }
}

/// A signature that was looked at: whether it is good, and what the reply's record says.
#[derive(Debug)]
pub struct Checked {
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// The reply's record.
    pub stamp: Stamp,
}

/// Checks the signature of a request; none if it is malformed, which is a FORMERR.
pub fn check(message: &[u8], signature: Signature<'_>, keys: &Keys, now: u64) -> Option<Checked> {
    let record = Record::read(message, signature)?;
    let key = keys.get(&record.key_name).filter(|key| *record.algorithm == *key.algorithm.wire());
    let faulty = |fault: Fault| {
        let stamp = Stamp::unsigned(&record.key_name, &record.algorithm, fault, now);
        Some(Checked { fault: Some(fault), stamp })
    };
    // "The key check, the MAC check, the time values check", in this order (section 5.2).
    let Some(key) = key else { return faulty(Fault::BadKey) };
    if !is_mac_length(record.mac.len(), key) {
        return None;
    }
    if !is_signed(message, signature, &record, key, &[])? {
        return faulty(Fault::BadSig);
    }
    let stamp = Stamp::reply(key, record.mac, now);
    if record.time.abs_diff(now) <= u64::from(record.fudge) {
        return Some(Checked { fault: None, stamp });
    }
    let stamp = stamp.with_other_time(record.time, now);
    Some(Checked { fault: Some(Fault::BadTime), stamp })
}

/// What is wrong with the signature of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyFault {
    /// There is no record, or it is malformed.
    #[error("the reply is not signed")]
    Unsigned,
    /// It says what is wrong with the request.
    #[error("the signature was not accepted: {}", error_word(*.0))]
    Refused(u16),
    /// It is not signed with the key, or not for this request.
    #[error("the reply is not signed with the same key")]
    BadSig,
    /// It was signed at another time than now.
    #[error("the reply is signed at another time: compare the clocks")]
    BadTime,
}

/// Checks the signature of the reply to a request that had this MAC.
///
/// # Errors
/// [`ReplyFault`].
pub fn check_reply(
    message: &[u8],
    key: &Key,
    request_mac: &[u8],
    now: u64,
) -> Result<(), ReplyFault> {
    let unsigned = ReplyFault::Unsigned;
    let signature = signature_of(message).ok_or(unsigned)?;
    let record = Record::read(message, signature).ok_or(unsigned)?;
    if record.error != 0 {
        return Err(ReplyFault::Refused(record.error));
    }
    let is_of_key = *record.key_name == *key.name.to_key()
        && *record.algorithm == *key.algorithm.wire()
        && is_mac_length(record.mac.len(), key);
    let signed =
        is_of_key && is_signed(message, signature, &record, key, request_mac).ok_or(unsigned)?;
    if !signed {
        return Err(ReplyFault::BadSig);
    }
    let is_now = record.time.abs_diff(now) <= u64::from(record.fudge);
    if is_now { Ok(()) } else { Err(ReplyFault::BadTime) }
}

/// True for the length of a MAC that may be given: whole, or truncated to half of it at most and ten octets
/// at least (RFC 8945 section 5.2.2.1).
fn is_mac_length(length: usize, key: &Key) -> bool {
    let whole = key.algorithm.mac_length();
    (10.max(whole / 2)..=whole).contains(&length)
}

/// True if the key makes this MAC; none if there is no message to be signed.
fn is_signed(
    message: &[u8],
    signature: Signature<'_>,
    record: &Record<'_>,
    key: &Key,
    prior: &[u8],
) -> Option<bool> {
    let covered = Covered::of(message.get(..signature.start)?, record.original_id, true)?;
    let Record { key_name, time, fudge, error, other, .. } = record;
    let variables = Variables { key_name, time: *time, fudge: *fudge, error: *error, other };
    let mac = mac(key, prior, &covered, &variables, false);
    let made = mac.as_ref().get(..record.mac.len())?;
    Some(made.ct_eq(record.mac).into())
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "the tests' own messages")]
mod tests;
