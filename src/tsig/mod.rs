//! Transaction signatures (RFC 8945): which key a message was signed with, and the signature of its reply.
//!
//! ```text
//! query ─► Signature ─► record (what it says) ─► check (is it good) ─► Stamp ─► the reply's record
//! ```
//!
//! Pure: keys and time are arguments. Who may do what with a key is decided elsewhere (`transfer`).

#![deny(clippy::indexing_slicing)]

pub mod check;
mod digest;
mod record;
pub mod stamp;

use std::collections::HashMap;
use std::sync::Arc;

use ring::hmac;

use crate::name::Name;

/// How many seconds clocks may differ (RFC 8945 section 10).
pub const FUDGE: u16 = 300;
/// The most octets of a MAC that is made here.
const MAX_MAC: usize = 64;

/// How messages are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    #[default]
    HmacSha256,
    /// HMAC with SHA-512.
    HmacSha512,
}

impl Algorithm {
    /// All of them, by their names.
    pub const ALL: [(&'static str, Self); 2] =
        [("hmac-sha256", Self::HmacSha256), ("hmac-sha512", Self::HmacSha512)];

    /// Its name in wire form, in lower case.
    fn wire(self) -> &'static [u8] {
        match self {
            Self::HmacSha256 => b"\x0bhmac-sha256\0",
            Self::HmacSha512 => b"\x0bhmac-sha512\0",
        }
    }

    /// The octets of a MAC that is not truncated.
    fn mac_length(self) -> usize {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacSha512 => MAX_MAC,
        }
    }
}

/// A key that is shared with others. It is not shown.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name, which both sides call it by.
    pub name: Name,
    algorithm: Algorithm,
    hmac: hmac::Key,
}

impl Key {
    /// Makes a key of its secret.
    pub fn new(name: Name, algorithm: Algorithm, secret: &[u8]) -> Self {
        let digest = match algorithm {
            Algorithm::HmacSha256 => hmac::HMAC_SHA256,
            Algorithm::HmacSha512 => hmac::HMAC_SHA512,
        };
        Self { name, algorithm, hmac: hmac::Key::new(digest, secret) }
    }
}

/// The secret is kept in the form in which it signs, so it is compared by a signature.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let signature = |key: &Self| hmac::sign(&key.hmac, b"is it the same secret?");
        self.name == other.name
            && self.algorithm == other.algorithm
            && signature(self).as_ref() == signature(other).as_ref()
    }
}

/// The keys of a server.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    by_name: HashMap<Box<[u8]>, Arc<Key>>,
}

impl Keys {
    /// The names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.by_name.values().map(|key| &key.name)
    }

    /// A key by its name in lower-case wire form.
    pub fn get(&self, key: &[u8]) -> Option<&Arc<Key>> {
        self.by_name.get(key)
    }
}

impl FromIterator<Key> for Keys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        Self { by_name: keys.into_iter().map(|key| (key.name.to_key(), Arc::new(key))).collect() }
    }
}
