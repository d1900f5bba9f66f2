//! Reads a common query in place; what is unusual about a message makes it none.

use std::net::IpAddr;

use crate::cookies::Cookie;
use crate::limit::positive_hash;
use crate::name::MAX_LABEL;
use crate::query::{ClientSubnet, Edns, HEADER};
use crate::rr::RecordType;
use crate::steer::pool::Family;

/// The longest name in octets; longer ones take the long way.
pub(super) const KEY: usize = 64;
/// A name in lower-case wire form, filled up with zeros.
pub(super) type Key = [u8; KEY];

/// A common query.
#[derive(Clone, Copy, Debug)]
pub struct CommonQuery {
    pub(super) key: Key,
    pub(super) key_length: u8,
    pub(super) hash: u64,
    pub(super) family: Family,
    pub(super) question_end: u16,
    pub(super) edns: Option<Edns>,
    pub(super) subnet: Option<ClientSubnet>,
}

impl CommonQuery {
    /// The client subnet's address, if it locates the client.
    pub fn subnet_address(&self) -> Option<IpAddr> {
        self.subnet.and_then(|subnet| subnet.locating_address())
    }

    /// Its cookie.
    #[inline]
    pub fn cookie(&self) -> Option<&Cookie> {
        self.edns.as_ref()?.cookie.as_ref()
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
#[inline]
pub fn parse(message: &[u8]) -> Option<CommonQuery> {
    let header = message.first_chunk::<HEADER>()?;
    let [_, _, flags, _, counts @ ..] = *header;
    let counts = u64::from_be_bytes(counts);
    // A query of opcode 0 with one question and at most one additional record; of the other flags
    // only RD has a meaning in a query, and it is repeated.
    if flags & 0xf8 != 0 || counts & !1 != 1 << 48 {
        return None;
    }
    let name_length = name_length(message.get(HEADER..)?)?;
    let name = message.get(HEADER..HEADER + name_length)?;
    let name_end = HEADER + name_length;
    let family = match message.get(name_end..name_end + 4)? {
        [0, 1, 0, 1] => Family::V4,
        [0, 28, 0, 1] => Family::V6,
        _ => return None,
    };
    let question_end = name_end + 4;
    let rest = message.get(question_end..)?;
    let edns = match counts & 1 {
        0 if rest.is_empty() => None,
        0 => return None,
        _ => Some(parse_opt(rest)?),
    };
    let (key, hash) = key_and_hash(name)?;
    Some(CommonQuery {
        key,
        key_length: u8::try_from(name_length).ok()?,
        hash,
        family,
        question_end: u16::try_from(question_end).ok()?,
        subnet: edns.and_then(|edns| edns.client_subnet),
        edns,
    })
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

/// The lower-case form of a name of at most [`KEY`] octets, and its hash. Lengths of labels are below
/// the letters, so that the whole can be treated as text.
#[inline]
pub(super) fn key_and_hash(name: &[u8]) -> Option<(Key, u64)> {
    let mut key: Key = [0; KEY];
    key.get_mut(..name.len())?.copy_from_slice(name);
    let words = name.len().div_ceil(8);
    let mut hash = name.len() as u64;
    for word in key.as_chunks_mut::<8>().0.iter_mut().take(words) {
        let lower = lower_case(u64::from_le_bytes(*word));
        *word = lower.to_le_bytes();
        hash = (hash ^ lower).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    Some((key, hash ^ (hash >> 32)))
}

/// Eight octets with the ASCII capitals among them made small.
#[inline]
fn lower_case(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let seven = word & !HIGH;
    // The high bit of each octet: is it at least 'A', is it beyond 'Z'.
    let from_a = seven + (0x80 - 0x41) * ONES;
    let beyond_z = seven + (0x80 - 0x5b) * ONES;
    let capital = from_a & !beyond_z & !word & HIGH;
    word | (capital >> 2)
}

/// Reads the one additional record, to the end of the message: an OPT of version 0 with options that
/// are well-formed. What is wrong with others, the long way says; and the server's name, which is asked for
/// seldom.
#[inline]
fn parse_opt(record: &[u8]) -> Option<Edns> {
    let (fixed, mut options) = record.split_first_chunk::<11>()?;
    let [0, 0, 41, size_high, size_low, _, 0, flags, _, length_high, length_low] = *fixed else {
        return None;
    };
    if options.len() != usize::from(u16::from_be_bytes([length_high, length_low])) {
        return None;
    }
    let mut edns = Edns::new(u16::from_be_bytes([size_high, size_low]), flags & 0x80 != 0);
    while !options.is_empty() {
        let (head, rest) = options.split_first_chunk::<4>()?;
        let [code_high, code_low, length_high, length_low] = *head;
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let (data, after) = rest.split_at_checked(length)?;
        options = after;
        edns.take_option(u16::from_be_bytes([code_high, code_low]), data).ok()?;
    }
    (!edns.wants_nsid).then_some(edns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lower_case_is_that_of_ascii(octets: [u8; 8]) {
            let lower = lower_case(u64::from_le_bytes(octets)).to_le_bytes();
            prop_assert_eq!(lower, octets.map(|octet| octet.to_ascii_lowercase()));
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
                    prop_assert_eq!(common.edns, long.edns);
                    let hash = crate::limit::name_hash(&long.question.key);
                    prop_assert_eq!(common.hash, hash, "one bucket for both ways");
                    let length = usize::from(common.key_length);
                    prop_assert_eq!(&common.key[..length], long.question.key.as_slice());
                    prop_assert_eq!(usize::from(common.question_end), 12 + length + 4);
                }
            }
        }
    }
}
