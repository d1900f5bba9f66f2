//! The TSIG record that a message of ours ends with: of a reply, of each message of a transfer, of a
//! notification (RFC 8945 section 5.1, 5.3).

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::query::{CLASS_ANY, HEADER};
use crate::rr::RecordType;
use crate::tsig::check::Fault;
use crate::tsig::digest::{Covered, Variables, mac, time_octets};
use crate::tsig::{FUDGE, Key, MAX_MAC};

/// Signs messages, one after the other.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// The key's name in lower-case wire form.
    key_name: Box<[u8]>,
    /// The algorithm's.
    algorithm: Box<[u8]>,
    /// None where there is no signature, as the key is not known or the request was not signed with it.
    key: Option<Arc<Key>>,
    error: u16,
    time: u64,
    other: ArrayVec<u8, 6>,
    /// The MAC that the next one follows.
    prior: ArrayVec<u8, MAX_MAC>,
    /// True if a message was signed before.
    continues: bool,
}

impl Stamp {
    /// For a request with this key.
    pub fn request(key: &Arc<Key>, now: u64) -> Self {
        Self {
            key_name: key.name.to_key(),
            algorithm: key.algorithm.wire().into(),
            key: Some(Arc::clone(key)),
            error: 0,
            time: now,
            other: ArrayVec::new(),
            prior: ArrayVec::new(),
            continues: false,
        }
    }

    /// For the reply to a request that had this MAC.
    pub(super) fn reply(key: &Arc<Key>, request_mac: &[u8], now: u64) -> Self {
        Self {
            prior: request_mac.iter().copied().take(MAX_MAC).collect(),
            ..Self::request(key, now)
        }
    }

    /// For the reply to a request that was not signed with a key of ours: it has no signature itself
    /// (RFC 8945 section 5.3.2).
    pub(super) fn unsigned(key_name: &[u8], algorithm: &[u8], fault: Fault, now: u64) -> Self {
        Self {
            key_name: key_name.into(),
            algorithm: algorithm.into(),
            key: None,
            error: fault.code(),
            time: now,
            other: ArrayVec::new(),
            prior: ArrayVec::new(),
            continues: false,
        }
    }

    /// With the time of a client whose clock differs, so that it can read the reply, and ours, so that it
    /// knows (RFC 8945 section 5.2.3).
    pub(super) fn with_other_time(mut self, theirs: u64, ours: u64) -> Self {
        self.error = Fault::BadTime.code();
        self.time = theirs;
        self.other = time_octets(ours).into();
        self
    }

    /// The name of the key in lower-case wire form, as it was given.
    pub fn key_name(&self) -> &[u8] {
        &self.key_name
    }

    /// The key that it signs with.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref()
    }

    /// The MAC of the last message, which its reply is signed with too.
    pub fn last_mac(&self) -> &[u8] {
        &self.prior
    }

    /// Goes on at another time.
    pub fn set_time(&mut self, now: u64) {
        self.time = now;
    }

    /// How many octets the record adds to a message.
    pub fn length(&self) -> usize {
        let mac = self.key.as_ref().map_or(0, |key| key.algorithm.mac_length());
        // Type, class, TTL, length; time, fudge, length of the MAC; id, error, length of other data.
        self.key_name.len() + 10 + self.algorithm.len() + 10 + mac + 6 + self.other.len()
    }

    /// Signs the message of this length that `out` begins with, and gives its new length; none if there is
    /// no room.
    pub fn sign(&mut self, out: &mut [u8], length: usize) -> Option<usize> {
        let message = out.get(..length)?;
        let id = u16::from_be_bytes(*message.first_chunk()?);
        let covered = Covered::of(message, id, false)?;
        let additionals = covered.additionals.checked_add(1)?;
        let made = self.key.as_ref().map(|key| {
            let Self { key_name, time, error, other, .. } = self;
            let (time, error) = (*time, *error);
            let variables = Variables { key_name, time, fudge: FUDGE, error, other };
            mac(key, &self.prior, &covered, &variables, self.continues)
        });
        let mac = made.as_ref().map_or(&[][..], |mac| mac.as_ref());
        let rdata_length = self.length() - self.key_name.len() - 10;
        let end = length + self.length();
        let mut at = length;
        let mut put = |octets: &[u8]| {
            let room = out.get_mut(at..at + octets.len())?;
            room.copy_from_slice(octets);
            at += octets.len();
            Some(())
        };
        let number = u16::to_be_bytes;
        let length_of = |octets: &[u8]| u16::try_from(octets.len()).unwrap_or(0).to_be_bytes();
        put(&self.key_name)?;
        put(&number(RecordType::TSIG.0))?;
        put(&number(CLASS_ANY))?;
        put(&[0; 4])?;
        put(&number(u16::try_from(rdata_length).ok()?))?;
        put(&self.algorithm)?;
        put(&time_octets(self.time))?;
        put(&number(FUDGE))?;
        put(&length_of(mac))?;
        put(mac)?;
        put(&number(id))?;
        put(&number(self.error))?;
        put(&length_of(&self.other))?;
        put(&self.other)?;
        out.get_mut(HEADER - 2..HEADER)?.copy_from_slice(&number(additionals));
        self.prior = mac.iter().copied().take(MAX_MAC).collect();
        self.continues = true;
        Some(end)
    }
}
