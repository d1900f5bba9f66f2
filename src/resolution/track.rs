//! What is known of one host name: the addresses that were found last, how long they hold, and when to
//! ask again.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::resolution::ResolvedAddress;
use crate::rr::Ttl;
use crate::steer::pool::Family;

/// A name is asked for again after this time at the soonest, and after this at the latest.
const SOONEST: Duration = Duration::from_secs(5);
const LATEST: Duration = Duration::from_secs(3600);
/// The longest pause while a name cannot be resolved.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The most addresses of a family that are taken.
const MAX_ADDRESSES: usize = 64;

/// What a resolver said of a name and a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Addresses, and the time that they hold for.
    Addresses(Vec<IpAddr>, Duration),
    /// The name has no addresses of the family.
    NoData,
    /// The name does not exist.
    NoName,
    /// It said nothing of use: why.
    Failed(String),
}

/// A host name.
#[derive(Clone, Debug, Default)]
pub struct NameTrack {
    /// By [`Family::index`].
    known: [Known; 2],
    /// How many times in a row it could not be resolved.
    failures: u32,
    /// What was said of it last.
    said: Option<Said>,
}

/// The addresses of one family.
#[derive(Clone, Debug, Default)]
struct Known {
    addresses: Vec<IpAddr>,
    /// When they were found, and how long they hold from then on.
    since: Option<(Instant, Duration)>,
}

/// What there is to say of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Why it cannot be resolved, if it cannot; the addresses are those of before then.
    pub failure: Option<String>,
}

impl NameTrack {
    /// Takes in what was found, by [`Family::index`]. Gives what there is to say, if that is new.
    pub fn record(&mut self, now: Instant, found: [Found; 2], keep: Duration) -> Option<Said> {
        let is_good = found.iter().any(|found| matches!(found, Found::Addresses(..)));
        let failure = failure(&found, is_good);
        for (known, found) in self.known.iter_mut().zip(found) {
            match found {
                Found::Addresses(mut addresses, ttl) => {
                    // A resolver turns their order; that is no change.
                    addresses.sort_unstable();
                    addresses.dedup();
                    addresses.truncate(MAX_ADDRESSES);
                    *known = Known { addresses, since: Some((now, ttl)) };
                }
                // A name without any address has rather lost them than moved.
                Found::NoData | Found::NoName if is_good => *known = Known::default(),
                _ => {}
            }
        }
        self.failures = if failure.is_some() { self.failures.saturating_add(1) } else { 0 };
        self.say(now, keep, failure)
    }

    /// Forgets addresses that were kept for long enough. Gives what there is to say, if that is new.
    pub fn expire(&mut self, now: Instant, keep: Duration) -> Option<Said> {
        let failure = self.said.as_ref().and_then(|said| said.failure.clone());
        self.say(now, keep, failure)
    }

    fn say(&mut self, now: Instant, keep: Duration, failure: Option<String>) -> Option<Said> {
        for known in &mut self.known {
            let is_over = |(at, ttl): (Instant, Duration)| now.duration_since(at) > ttl + keep;
            // What could be renewed is not over, however short it holds.
            if failure.is_some() && known.since.is_some_and(is_over) {
                *known = Known::default();
            }
        }
        let addresses = self.known.iter().flat_map(|known| known.addresses.iter().copied());
        let said = Said { addresses: addresses.collect(), failure };
        let is_new = self.said.as_ref() != Some(&said);
        self.said = Some(said.clone());
        is_new.then_some(said)
    }

    /// What was said of it last.
    pub fn said(&self) -> Option<&Said> {
        self.said.as_ref()
    }

    /// How long to wait before the name is asked for again. `phase`, from 0 to 1 in 2^-64, spreads names
    /// that were asked for together.
    pub fn pause(&self, now: Instant, phase: u64) -> Duration {
        let left = |&(at, ttl): &(Instant, Duration)| (at + ttl).saturating_duration_since(now);
        let times = self.known.iter().filter_map(|known| known.since.as_ref().map(left));
        let pause = match self.failures {
            0 => times.min().unwrap_or(SOONEST).clamp(SOONEST, LATEST),
            failures => {
                let doubled = SOONEST * (1 << (failures - 1).min(8));
                doubled.min(LONGEST_PAUSE)
            }
        };
        let spread = (pause / 10).min(SOONEST);
        let nanos = (spread.as_nanos() * u128::from(phase)) >> 64;
        pause + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// The addresses, each with the time that an answer may be kept for: what is left of the record's
    /// own TTL, and no more than `longest`. A rest below the time after which it is renewed counts as
    /// that time, so that answers can be cached while it is.
    pub fn addresses(&self, now: Instant, longest: Ttl) -> Vec<ResolvedAddress> {
        let of = |family: Family| {
            let known = self.known.get(family.index())?;
            let (at, own) = known.since?;
            let left = (at + own).saturating_duration_since(now);
            let ttl = own.min(left.max(SOONEST)).as_secs();
            let ttl = Ttl::saturating(u32::try_from(ttl).unwrap_or(u32::MAX)).min(longest);
            Some(known.addresses.iter().map(move |&ip| ResolvedAddress { ip, ttl }))
        };
        Family::ALL.into_iter().filter_map(of).flatten().collect()
    }
}

/// Why a name counts as not resolved.
fn failure(found: &[Found; 2], is_good: bool) -> Option<String> {
    let failed = found.iter().zip(["A", "AAAA"]).find_map(|(found, family)| match found {
        Found::Failed(reason) if is_good => Some(format!("{family}: {reason}")),
        Found::Failed(reason) => Some(reason.clone()),
        _ => None,
    });
    let nothing = || {
        let reason = if found.contains(&Found::NoName) {
            "the name does not exist"
        } else {
            "the name has no addresses"
        };
        (!is_good).then(|| reason.to_owned())
    };
    failed.or_else(nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn found(address: &str, ttl: u64) -> Found {
        Found::Addresses(vec![address.parse().unwrap()], seconds(ttl))
    }

    fn failed() -> Found {
        Found::Failed("no reply".to_owned())
    }

    fn ttls(track: &NameTrack, now: Instant, longest: u32) -> Vec<u32> {
        let addresses = track.addresses(now, Ttl::saturating(longest));
        addresses.iter().map(|address| address.ttl.seconds()).collect()
    }

    #[test]
    fn a_ttl_counts_down_and_is_never_above_the_records_own() {
        let mut track = NameTrack::default();
        let start = Instant::now();
        track.record(start, [found("192.0.2.1", 60), found("2001:db8::1", 3)], HOUR);
        assert_eq!(ttls(&track, start, 300), [60, 3]);
        assert_eq!(ttls(&track, start, 30), [30, 3]);
        assert_eq!(ttls(&track, start + seconds(50), 30), [10, 3]);
        assert_eq!(ttls(&track, start + seconds(70), 30), [5, 3]);
    }

    #[test]
    fn it_is_asked_again_when_the_ttl_is_over_within_bounds() {
        let start = Instant::now();
        let pause = |ttl, phase| {
            let mut track = NameTrack::default();
            track.record(start, [found("192.0.2.1", ttl), Found::NoData], HOUR);
            track.pause(start, phase)
        };
        assert_eq!(pause(60, 0), seconds(60));
        assert_eq!(pause(0, 0), seconds(5));
        assert_eq!(pause(86_400, 0), HOUR);
        let spread = pause(60, u64::MAX);
        assert!(spread > seconds(64) && spread <= seconds(65), "{spread:?}");
    }

    #[test]
    fn failures_keep_the_last_good_addresses_for_a_time_and_are_told_once() {
        let mut track = NameTrack::default();
        let start = Instant::now();
        let at = |after| start + seconds(after);
        let first = track.record(start, [found("192.0.2.1", 60), Found::NoData], HOUR);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(first, Some(Said { addresses: vec![address], failure: None }));
        let said = track.record(at(60), [failed(), failed()], HOUR).unwrap();
        assert_eq!(said.addresses, [address]);
        assert_eq!(said.failure.as_deref(), Some("no reply"));
        assert_eq!(track.record(at(65), [failed(), failed()], HOUR), None);
        assert_eq!(ttls(&track, at(3000), 30), [5]);
        assert_eq!(track.expire(at(3660), HOUR), None);
        let said = track.expire(at(3661), HOUR).unwrap();
        assert!(said.addresses.is_empty() && said.failure.is_some());
        assert!(ttls(&track, at(3661), 30).is_empty());
    }

    #[test]
    fn pauses_after_failures_grow_to_a_bound() {
        let mut track = NameTrack::default();
        let now = Instant::now();
        let pauses: Vec<_> = (0..12)
            .map(|_| {
                track.record(now, [Found::NoName, Found::NoName], HOUR);
                track.pause(now, 0).as_secs()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60, 60]);
        track.record(now, [found("192.0.2.1", 7), Found::NoData], HOUR);
        assert_eq!(track.pause(now, 0), seconds(7));
    }

    #[test]
    fn a_family_that_is_gone_while_the_other_is_there_is_no_failure() {
        let mut track = NameTrack::default();
        let now = Instant::now();
        track.record(now, [found("192.0.2.1", 60), found("2001:db8::1", 60)], HOUR);
        let said = track.record(now, [found("192.0.2.1", 60), Found::NoData], HOUR).unwrap();
        assert_eq!((said.addresses.len(), said.failure), (1, None));
    }

    #[test]
    fn a_family_that_fails_keeps_its_addresses_beside_the_other() {
        let mut track = NameTrack::default();
        let now = Instant::now();
        track.record(now, [found("192.0.2.1", 60), found("2001:db8::1", 60)], HOUR);
        let said = track.record(now, [found("192.0.2.2", 60), failed()], HOUR).unwrap();
        assert_eq!(said.addresses.len(), 2);
        assert_eq!(said.failure.as_deref(), Some("AAAA: no reply"));
    }

    #[test]
    fn the_order_of_addresses_is_no_change() {
        let mut track = NameTrack::default();
        let now = Instant::now();
        let both = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let found = |list: Vec<IpAddr>| [Found::Addresses(list, seconds(9)), Found::NoData];
        assert!(track.record(now, found(both.to_vec()), HOUR).is_some());
        assert_eq!(track.record(now, found(both.iter().rev().copied().collect()), HOUR), None);
    }
}
