//! Response rate limiting: how often one network gets the same answer over UDP. Who sends queries in a
//! victim's name makes the server send it answers; so each network gets only so many that are equal.
//!
//! A table of fixed size counts, a bucket for a network and an answer. A bucket is one time: until when
//! the answers that were sent are paid for, at the rate that is allowed. Memory and cost do not grow
//! with the number of clients; where the table is full, the bucket with the least debt makes room.
//!
//! Each worker has a table of its own. Clients are spread over the workers, so each allows its share of the
//! rate. It allows the answers of a whole second at once, as one client may meet one worker only.

use std::net::IpAddr;

use crate::answer::Answer;
use crate::query::Rcode;
use crate::rr::RecordType;

/// How answers are limited: the table `[rate_limit]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Whether they are limited at all.
    pub enabled: bool,
    /// How many equal answers a network gets in a second.
    pub responses_per_second: u32,
    /// Every so many of the answers that are too many is sent without its records and with TC; the
    /// others are not sent. 0: none is.
    pub slip: u32,
    /// How many bits of an IPv4 address are its network.
    pub ipv4_prefix: u8,
    /// How many bits of an IPv6 address are its network.
    pub ipv6_prefix: u8,
}

impl Default for RateLimit {
    fn default() -> Self {
        // dns.md, "abuse".
        Self { enabled: true, responses_per_second: 200, slip: 2, ipv4_prefix: 24, ipv6_prefix: 56 }
    }
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent.
    Send,
    /// The client is told to come again over TCP.
    Truncate,
    /// It is not sent.
    Drop,
}

/// The buckets of a set, which share a cache line.
const WAYS: usize = 4;
/// The sets of a table: 65,536 buckets, 1 MiB.
const SETS: usize = 16_384;
/// Microseconds in a second.
const SECOND: u64 = 1_000_000;

/// A network and an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// The hash of both; 0 where there is none.
    key: u64,
    /// Until when what was sent is paid for, in microseconds.
    paid_until: u32,
    /// How many answers were too many.
    limited: u32,
}

/// A set of buckets.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set([Bucket; WAYS]);

/// The table of one worker.
#[derive(Debug)]
pub struct Limiter {
    sets: Box<[Set]>,
    seed: u64,
    workers: u32,
    price: Price,
}

/// What follows from the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    /// The rate; 0 if none was worked out yet.
    rate: u32,
    /// How long an answer is paid for, in microseconds.
    cost: u32,
    /// How far a network may be in debt: the answers of a second.
    most: u32,
}

impl Price {
    fn new(rate: u32, workers: u32) -> Self {
        let cost = (SECOND * u64::from(workers) / u64::from(rate.max(1))).max(1);
        Self { rate, cost: clamped(cost), most: clamped(cost * u64::from(rate)) }
    }
}

impl Limiter {
    /// The table of one of so many workers. `seed` is a random number, so that nobody can choose who shares
    /// a bucket.
    pub fn new(seed: u64, workers: u32) -> Self {
        let (sets, workers) = (vec![Set::default(); SETS].into(), workers.max(1));
        Self { sets, seed, workers, price: Price::default() }
    }

    /// The number of a network's bucket for an answer; none for a client that is not limited.
    #[inline]
    pub fn key(&self, settings: &RateLimit, source: &IpAddr, answer: u64) -> Option<u64> {
        if !settings.enabled {
            return None;
        }
        let network = network(settings, source.to_canonical())?;
        // Never 0, which is the key of an empty bucket.
        Some(mixed(mixed(network ^ self.seed) ^ answer) | 1)
    }

    /// Starts a bucket's memory on its way.
    #[inline]
    pub fn approach(&self, key: u64) -> u32 {
        self.sets.get(index(key)).map_or(0, |set| set.0[0].paid_until)
    }

    /// Counts an answer that is about to be sent; `now` are microseconds, modulo 2³².
    #[inline]
    pub fn count(&mut self, settings: &RateLimit, key: u64, now: u32) -> Verdict {
        if self.price.rate != settings.responses_per_second {
            self.price = Price::new(settings.responses_per_second, self.workers);
        }
        let Price { cost, most, .. } = self.price;
        let Some(Set(buckets)) = self.sets.get_mut(index(key)) else { return Verdict::Send };
        let debt = |bucket: &Bucket| {
            let debt = bucket.paid_until.wrapping_sub(now).cast_signed();
            // What no debt can be is a time that is long past: the clock has gone round.
            if (0..=most.cast_signed()).contains(&debt) { debt.cast_unsigned() } else { 0 }
        };
        let bucket = match buckets.iter().position(|bucket| bucket.key == key) {
            Some(found) => &mut buckets[found],
            None => {
                let owed =
                    |&way: &usize| if buckets[way].key == 0 { 0 } else { debt(&buckets[way]) };
                let least = (0..WAYS).min_by_key(owed).unwrap_or(0);
                buckets[least] = Bucket { key, paid_until: now, limited: 0 };
                &mut buckets[least]
            }
        };
        let debt = debt(bucket) + cost;
        if debt <= most {
            bucket.paid_until = now.wrapping_add(debt);
            return Verdict::Send;
        }
        bucket.limited = bucket.limited.wrapping_add(1);
        match settings.slip {
            0 => Verdict::Drop,
            slip if bucket.limited.is_multiple_of(slip) => Verdict::Truncate,
            _ => Verdict::Drop,
        }
    }
}

/// At most the 17 minutes of which no sum reaches the half of what a time can tell.
fn clamped(microseconds: u64) -> u32 {
    u32::try_from(microseconds).unwrap_or(u32::MAX).min(1 << 30)
}

/// The set of a key.
#[inline]
fn index(key: u64) -> usize {
    // The upper bits: the lowest is always 1.
    usize::try_from(key >> 40).unwrap_or(0) % SETS
}

/// The network of an address, as a number; none for those that are never limited: the machine itself, and
/// networks that nobody outside can claim to be in (dns.md, "abuse").
#[inline]
fn network(settings: &RateLimit, address: IpAddr) -> Option<u64> {
    match address {
        IpAddr::V4(address) => {
            if address.is_loopback() || address.is_private() || address.is_link_local() {
                return None;
            }
            let beyond = 32 - u32::from(settings.ipv4_prefix.min(32));
            let network = u32::MAX.checked_shl(beyond).unwrap_or(0) & address.to_bits();
            Some(u64::from(network))
        }
        IpAddr::V6(address) => {
            let local = address.is_unique_local() || address.is_unicast_link_local();
            if address.is_loopback() || local {
                return None;
            }
            let beyond = 128 - u32::from(settings.ipv6_prefix.min(128));
            let network = u128::MAX.checked_shl(beyond).unwrap_or(0) & address.to_bits();
            let (high, low) = ((network >> 64) as u64, network as u64);
            // Apart from IPv4, whose numbers are below 2³².
            Some(mixed(high ^ 1 << 63) ^ low)
        }
    }
}

/// What makes answers equal: the name that matched, the type where there are records, and what kind of
/// answer it is. It is the same for all names that do not exist in a zone, and for all of a wildcard.
pub fn answer_hash(answer: &Answer<'_>, record_type: RecordType) -> u64 {
    let name = answer.matched.map_or(0, name_hash);
    match (answer.rcode, answer.answer.is_empty()) {
        (Rcode::NoError, false) => positive_hash(name, record_type),
        // Without data the type makes no difference.
        (rcode, _) => mixed(name) ^ (1 << 32) ^ u64::from(rcode.code()),
    }
}

/// The same for records of a type at a name, by its [`name_hash`].
#[inline]
pub fn positive_hash(name: u64, record_type: RecordType) -> u64 {
    name ^ u64::from(record_type.0)
}

/// A hash of a name in wire form, without regard to case.
pub fn name_hash(wire: &[u8]) -> u64 {
    let mut hash = wire.len() as u64;
    for part in wire.chunks(8) {
        let mut word = [0; 8];
        word.iter_mut().zip(part).for_each(|(to, octet)| *to = octet.to_ascii_lowercase());
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash ^ (hash >> 32)
}

/// Spreads a number over all bits.
#[inline]
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;

    const CLIENT: &str = "198.51.100.7";

    fn key(limiter: &Limiter, client: &str, answer: u64) -> Option<u64> {
        limiter.key(&RateLimit::default(), &client.parse().unwrap(), answer)
    }

    /// How many of so many answers at a time are sent, truncated, dropped.
    fn counts(
        limiter: &mut Limiter,
        settings: &RateLimit,
        client: &str,
        now: u32,
        n: u32,
    ) -> [u32; 3] {
        let mut counts = [0; 3];
        let key = key(limiter, client, 1).unwrap();
        for _ in 0..n {
            counts[limiter.count(settings, key, now) as usize] += 1;
        }
        counts
    }

    #[test]
    fn a_network_gets_the_answers_of_a_second_and_then_at_the_rate() {
        let (mut limiter, settings) = (Limiter::new(7, 1), RateLimit::default());
        // Across the end of the clock too.
        let start = u32::MAX - 500_000;
        assert_eq!(counts(&mut limiter, &settings, CLIENT, start, 300), [200, 50, 50]);
        let later = start.wrapping_add(500_000);
        assert_eq!(counts(&mut limiter, &settings, "198.51.100.200", later, 110), [100, 5, 5]);
        assert_eq!(counts(&mut limiter, &settings, "198.51.101.7", later, 200), [200, 0, 0]);
        let much_later = later.wrapping_add(10_000_000);
        assert_eq!(counts(&mut limiter, &settings, CLIENT, much_later, 201), [200, 0, 1]);
    }

    #[test]
    fn workers_share_the_rate_and_each_allows_a_whole_second_at_once() {
        let (mut limiter, settings) = (Limiter::new(7, 4), RateLimit::default());
        assert_eq!(counts(&mut limiter, &settings, CLIENT, 0, 202), [200, 1, 1]);
        assert_eq!(counts(&mut limiter, &settings, CLIENT, 1_000_000, 52), [50, 1, 1]);
        let mut limiter = Limiter::new(7, 1024);
        let rare = RateLimit { responses_per_second: 1, ..settings };
        assert_eq!(counts(&mut limiter, &rare, CLIENT, 0, 3), [1, 1, 1]);
    }

    #[test]
    fn slip_says_how_many_are_truncated() {
        for (slip, expected) in [(0, [200, 0, 60]), (1, [200, 60, 0]), (3, [200, 20, 40])] {
            let settings = RateLimit { slip, ..RateLimit::default() };
            let mut limiter = Limiter::new(7, 1);
            assert_eq!(counts(&mut limiter, &settings, CLIENT, 9, 260), expected, "slip {slip}");
        }
    }

    #[test]
    fn networks_are_told_apart_and_local_ones_are_exempt() {
        let limiter = Limiter::new(7, 1);
        let same = [
            (CLIENT, "198.51.100.255"),
            (CLIENT, "::ffff:198.51.100.1"),
            ("2001:db8:0:ff::1", "2001:db8:0:1::2"),
        ];
        for (a, b) in same {
            assert_eq!(key(&limiter, a, 1), key(&limiter, b, 1), "{a} and {b}");
        }
        let different = [(CLIENT, "198.51.101.7"), ("2001:db8:0:ff::1", "2001:db8:0:100::1")];
        for (a, b) in different {
            assert_ne!(key(&limiter, a, 1), key(&limiter, b, 1), "{a} and {b}");
        }
        assert_ne!(key(&limiter, CLIENT, 1), key(&limiter, CLIENT, 2));
        assert_ne!(key(&limiter, CLIENT, 1), key(&Limiter::new(8, 1), CLIENT, 1));
        for local in [
            "127.0.0.1",
            "10.9.9.9",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.1.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(key(&limiter, local, 1), None, "{local}");
        }
        let off = RateLimit { enabled: false, ..RateLimit::default() };
        assert_eq!(limiter.key(&off, &CLIENT.parse().unwrap(), 1), None);
    }

    #[test]
    fn who_is_in_debt_is_remembered_in_a_full_table() {
        let (mut limiter, settings) = (Limiter::new(7, 1), RateLimit::default());
        counts(&mut limiter, &settings, CLIENT, 0, 200);
        for other in 2..500_000 {
            let other = key(&limiter, "203.0.113.1", other).unwrap();
            assert_eq!(limiter.count(&settings, other, 10), Verdict::Send);
        }
        assert_eq!(counts(&mut limiter, &settings, CLIENT, 10, 2), [0, 1, 1]);
    }

    #[test]
    fn what_does_not_exist_is_one_answer_and_types_with_data_are_several() {
        let mut answer = Answer::empty(Rcode::NxDomain);
        answer.matched = Some(b"\x04Test\x00");
        let nothing = answer_hash(&answer, RecordType::A);
        assert_eq!(nothing, answer_hash(&answer, RecordType::AAAA));
        answer.matched = Some(b"\x04tesT\x00");
        assert_eq!(nothing, answer_hash(&answer, RecordType::A));
        answer.rcode = Rcode::Refused;
        assert_ne!(nothing, answer_hash(&answer, RecordType::A));
        let name = name_hash(b"\x04test\x00");
        assert_ne!(positive_hash(name, RecordType::A), positive_hash(name, RecordType::AAAA));
    }
}
