//! Reads a common query in place; what is unusual about a message makes it none.

use crate::cookies::Cookie;
use crate::limit::positive_hash;
use crate::name::MAX_LABEL;
use crate::query::{ClientSubnet, HEADER, OPTION_CLIENT_SUBNET, OPTION_COOKIE, OPTION_NSID};
use crate::rr::RecordType;
use crate::steer::pool::Family;

/// The longest name in octets; longer ones take the long way.
pub(super) const KEY: usize = 64;
/// A name in lower-case wire form, filled up with zeros: words of octets in their order.
pub(super) type Key = [u64; KEY / 8];

/// A common query.
#[derive(Clone, Copy, Debug)]
pub struct CommonQuery {
    pub(super) key: Key,
    pub(super) hash: u64,
    pub(super) key_length: u8,
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
        key: [0; KEY / 8],
        hash: 0,
        key_length: 0,
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
        self.key_length = u8::try_from(name_length).ok()?;
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
#[inline]
pub(super) fn key_and_hash(name: &[u8], key: &mut Key) -> u64 {
    *key = [0; KEY / 8];
    let mut hash = name.len() as u64;
    let mut add = |to: &mut u64, word: u64| {
        let lower = lower_case(word);
        *to = lower;
        hash = (hash ^ lower).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    };
    let (words, rest) = name.as_chunks::<8>();
    key.iter_mut().zip(words).for_each(|(to, word)| add(to, u64::from_le_bytes(*word)));
    if !rest.is_empty()
        && let Some(to) = key.get_mut(words.len())
    {
        // The last octets of the name end its last eight.
        let word = name.last_chunk::<8>().map_or_else(
            || u64::from_le_bytes(padded(rest)),
            |last| u64::from_le_bytes(*last) >> ((8 - rest.len()) * 8),
        );
        add(to, word);
    }
    hash ^ (hash >> 32)
}

/// True if keys are the same; without a call, as they are short.
#[inline]
pub(super) fn is_same(a: &Key, b: &Key) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// Less than eight octets, filled up with zeros.
#[cold]
fn padded(octets: &[u8]) -> [u8; 8] {
    let mut word = [0; 8];
    word.iter_mut().zip(octets).for_each(|(to, octet)| *to = *octet);
    word
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
                    prop_assert_eq!(common.has_opt, long.edns.is_some());
                    if let Some(edns) = long.edns {
                        prop_assert_eq!(common.dnssec_ok, edns.dnssec_ok);
                        prop_assert_eq!(common.subnet, edns.client_subnet);
                        prop_assert_eq!(common.cookie, edns.cookie);
                    }
                    let hash = crate::limit::name_hash(&long.question.key);
                    prop_assert_eq!(common.hash, hash, "one bucket for both ways");
                    let length = usize::from(common.key_length);
                    let key = common.key.map(u64::to_le_bytes);
                    prop_assert_eq!(&key.as_flattened()[..length], long.question.key.as_slice());
                    prop_assert_eq!(usize::from(common.question_end), 12 + length + 4);
                }
            }
        }
    }
}
