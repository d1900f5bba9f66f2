//! Reads a common query in place; what is unusual about a message makes it none.

use std::net::IpAddr;

use crate::cookies::Cookie;
use crate::limit::positive_hash;
use crate::name::MAX_LABEL;
use crate::query::{ClientSubnet, HEADER, OPTION_CLIENT_SUBNET, OPTION_COOKIE, OPTION_NSID};
use crate::rr::RecordType;
use crate::steer::pool::Family;

/// The longest name in octets; longer ones take the long way.
pub(super) const KEY: usize = 64;
/// A name in lower-case wire form, filled up with zeros. Names of different lengths differ, as only the last
/// label is empty.
pub(super) type Key = [u8; KEY];

/// A common query.
#[derive(Clone, Copy, Debug)]
pub struct CommonQuery {
    pub(super) key: Key,
    pub(super) hash: u64,
    pub(super) family: Family,
    pub(super) question_end: u16,
    /// Whether it has an OPT, and what that says, of what matters for a reply that has room everywhere.
    pub(super) has_opt: bool,
    pub(super) dnssec_ok: bool,
    pub(super) subnet: Option<ClientSubnet>,
    pub(super) cookie: Option<Cookie>,
}

impl CommonQuery {
    /// Room for queries.
    pub const EMPTY: Self = Self {
        key: [0; KEY],
        hash: 0,
        family: Family::V4,
        question_end: 0,
        has_opt: false,
        dnssec_ok: false,
        subnet: None,
        cookie: None,
    };

    /// Reads a message into this, in place of what was there; false if it is not a common query, well-formed
    /// or not. What is here then has no meaning.
    #[inline(never)]
    pub fn read(&mut self, message: &[u8]) -> bool {
        self.try_read(message).is_some()
    }

    #[inline]
    fn try_read(&mut self, message: &[u8]) -> Option<()> {
        let (header, body) = message.split_first_chunk::<HEADER>()?;
        let [_, _, flags, _, counts @ ..] = *header;
        let counts = u64::from_be_bytes(counts);
        // A query of opcode 0 with one question and at most one additional record; of the other flags
        // only RD has a meaning in a query, and it is repeated.
        if flags & 0xf8 != 0 || counts & !1 != 1 << 48 {
            return None;
        }
        let name_length = name_length(body)?;
        let (name, rest) = body.split_at_checked(name_length)?;
        let (question, rest) = rest.split_first_chunk::<4>()?;
        self.family = match u32::from_be_bytes(*question) {
            0x0001_0001 => Family::V4,
            0x001c_0001 => Family::V6,
            _ => return None,
        };
        (self.subnet, self.cookie) = (None, None);
        self.has_opt = counts & 1 == 1;
        if self.has_opt {
            self.read_opt(rest)?;
        } else if !rest.is_empty() {
            return None;
        }
        self.hash = key_and_hash(name, &mut self.key);
        self.question_end = u16::try_from(HEADER + name_length + question.len()).ok()?;
        Some(())
    }

    /// Reads the one additional record, to the end of the message: an OPT of version 0 with options that
    /// are well-formed. What is wrong with others, the long way says; and the server's name, which is asked
    /// for seldom. All other options have no meaning in datagrams.
    #[inline]
    fn read_opt(&mut self, record: &[u8]) -> Option<()> {
        // Root, type 41, any size, any upper half of the response code, version 0, flags.
        const FIXED: u64 = 0x0000_2900_0000_0000;
        const MASK: u64 = 0xffff_ff00_0000_ff00;
        const DNSSEC_OK: u64 = 0x80;
        let (fixed, rest) = record.split_first_chunk::<8>()?;
        let ([_, length @ ..], mut left) = rest.split_first_chunk::<3>()?;
        let fixed = u64::from_be_bytes(*fixed);
        if fixed & MASK != FIXED || left.len() != usize::from(u16::from_be_bytes(*length)) {
            return None;
        }
        self.dnssec_ok = fixed & DNSSEC_OK != 0;
        while !left.is_empty() {
            let (head, rest) = left.split_first_chunk::<4>()?;
            let [code_high, code_low, length_high, length_low] = *head;
            let length = usize::from(u16::from_be_bytes([length_high, length_low]));
            let (data, after) = rest.split_at_checked(length)?;
            left = after;
            match u16::from_be_bytes([code_high, code_low]) {
                // A second one is malformed.
                OPTION_CLIENT_SUBNET if self.subnet.is_none() => {
                    ClientSubnet::read(data, &mut self.subnet).then_some(())?;
                }
                OPTION_CLIENT_SUBNET | OPTION_NSID => return None,
                // Of several the first counts (RFC 7873 section 5.2).
                OPTION_COOKIE if self.cookie.is_none() => self.cookie = Some(Cookie::parse(data)?),
                _ => {}
            }
        }
        Some(())
    }

    /// The address in its client subnet.
    #[inline]
    pub(super) fn client_subnet(&self) -> Option<&IpAddr> {
        self.subnet.as_ref()?.address.as_ref()
    }

    /// Its cookie.
    #[inline]
    pub fn cookie(&self) -> Option<&Cookie> {
        self.cookie.as_ref()
    }

    /// The hash of what is asked, for response rate limiting.
    #[inline]
    pub fn answer_hash(&self) -> u64 {
        let record_type = match self.family {
            Family::V4 => RecordType::A,
            Family::V6 => RecordType::AAAA,
            // Never a common query.
            Family::Host => RecordType::CNAME,
        };
        positive_hash(self.hash, record_type)
    }
}

/// Reads a message; none if it is not a common query, well-formed or not.
pub fn parse(message: &[u8]) -> Option<CommonQuery> {
    let mut query = CommonQuery::EMPTY;
    query.read(message).then_some(query)
}

/// The length of the name at the start, if it is at most [`KEY`].
#[inline]
fn name_length(octets: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < KEY {
        let length = usize::from(*octets.get(at)?);
        at += 1 + length;
        match length {
            0 => return Some(at),
            1..=MAX_LABEL => {}
            _ => return None,
        }
    }
    None
}

/// Makes the lower-case form of a name of at most [`KEY`] octets, and gives its hash. Lengths of labels are
/// below the letters, so that the whole can be treated as text.
#[inline(always)]
pub(super) fn key_and_hash(name: &[u8], key: &mut Key) -> u64 {
    *key = [0; KEY];
    copy(name, key);
    // Without a branch, so that many octets are done at once.
    for octet in key.iter_mut() {
        *octet |= u8::from(octet.wrapping_sub(b'A') < 26) << 5;
    }
    let mut hash = name.len() as u64;
    for word in key.as_chunks::<8>().0.iter().take(name.len().div_ceil(8)) {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash ^ (hash >> 32)
}

/// True if keys are the same; without a call, as they are short.
#[inline]
pub(super) fn is_same(a: &Key, b: &Key) -> bool {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    words.fold(0, |difference, (a, b)| {
        difference | (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b))
    }) == 0
}

/// Copies octets to the front of others, as far as there is room; most names and questions without a call
/// or a loop.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        16..=32 => copy_ends::<16>(from, to),
        33..=64 => copy_ends::<32>(from, to),
        _ => copy_any(from, to),
    }
}

/// Copies at least `N` octets and twice as many at most: the first and the last `N`, which overlap.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>())
        && let Some(to) = to.get_mut(..from.len())
    {
        if let Some(to) = to.first_chunk_mut() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = *last;
        }
    }
}

#[inline(never)]
fn copy_any(from: &[u8], to: &mut [u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_lower_case_and_filled_up(
            name in proptest::collection::vec(any::<u8>(), 0..=KEY),
        ) {
            let mut key = [7; KEY];
            let hash = key_and_hash(&name, &mut key);
            let mut expected = name.to_ascii_lowercase();
            prop_assert_eq!(hash, crate::limit::name_hash(&name));
            expected.resize(KEY, 0);
            prop_assert_eq!(&key[..], &expected);
            prop_assert!(is_same(&key, &key));
            for at in 0..KEY {
                let mut other = key;
                other[at] ^= 1 << (at % 8);
                prop_assert!(!is_same(&key, &other));
            }
        }

        #[test]
        fn what_is_common_is_read_as_the_long_way_reads_it(
            message in proptest::collection::vec(any::<u8>(), 0..40), flags in 0u8..8,
            opt in any::<bool>(), prefix in 0u8..34, last: u8, further in 0u8..16, length in 0u8..42,
        ) {
            let mut query = vec![1, 2, flags & 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(opt)];
            query.extend(b"\x03wWw\x07eXample\x00\x00\x01\x00\x01");
            if opt {
                query.extend([0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 15 + length]);
                query.extend([0, 8, 0, 7, 0, 1, prefix, 0, 192, 0, last]);
                query.extend([0, further, 0, length]);
                query.extend(std::iter::repeat_n(last, usize::from(length)));
            }
            for message in [query, message] {
                let long = crate::query::parse(&message);
                if let Some(common) = parse(&message) {
                    let crate::query::Request::Query(long) = long else {
                        panic!("the long way refuses {message:?}")
                    };
                    prop_assert_eq!(common.has_opt, long.edns.is_some());
                    if let Some(edns) = long.edns {
                        prop_assert_eq!(common.dnssec_ok, edns.dnssec_ok);
                        prop_assert_eq!(common.subnet, edns.client_subnet);
                        prop_assert_eq!(common.cookie, edns.cookie);
                    }
                    let hash = crate::limit::name_hash(&long.question.key);
                    prop_assert_eq!(common.hash, hash, "one bucket for both ways");
                    let length = long.question.key.len();
                    prop_assert_eq!(&common.key[..length], long.question.key.as_slice());
                    prop_assert_eq!(usize::from(common.question_end), 12 + length + 4);
                }
            }
        }
    }
}
