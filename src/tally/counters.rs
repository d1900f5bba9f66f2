//! The counters that threads write: [`Fixed`] is as long as the process, [`Counts`] is of one state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limit::Verdict;
use crate::query::Rcode;
use crate::served::{Protocol, Scoped, Served, Steered};
use crate::tally::Writers;
use crate::tally::histogram::Histogram;
use crate::tally::layout::Layout;

/// All response codes, in the order of their indices.
pub const RCODES: [Rcode; 10] = [
    Rcode::NoError,
    Rcode::FormErr,
    Rcode::ServFail,
    Rcode::NxDomain,
    Rcode::NotImp,
    Rcode::Refused,
    Rcode::YxDomain,
    Rcode::NotAuth,
    Rcode::BadVers,
    Rcode::BadCookie,
];
/// How many scopes there are, of IPv4 and of IPv6.
const SCOPES: [usize; 2] = [33, 129];
/// The bounds of the time that a batch takes, in microseconds.
const BATCH_BOUNDS: &[u64] =
    &[10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000];

/// Why a message gets no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is too long for a query, or its sender cannot be replied to.
    Unreadable,
    /// It has no whole header.
    Short,
    /// It is a reply itself (QR), or cannot be replied to.
    NoQuery,
}

/// What does not depend on the configuration. Kept apart from what other threads write.
#[derive(Debug)]
#[repr(align(128))]
pub struct Fixed {
    replies: [[AtomicU64; RCODES.len()]; Protocol::ALL.len()],
    truncated: [AtomicU64; Protocol::ALL.len()],
    scopes: [AtomicU64; SCOPES[0] + SCOPES[1]],
    dropped: [AtomicU64; Dropped::ALL.len()],
    limited: [AtomicU64; 2],
    /// Answers for which health did not count.
    pub last_resort: AtomicU64,
    /// Faults of the program.
    pub faults: AtomicU64,
    /// How long batches took, for each of their queries.
    pub times: Histogram,
}

impl Default for Fixed {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            replies: std::array::from_fn(|_| std::array::from_fn(zero)),
            truncated: std::array::from_fn(zero),
            scopes: std::array::from_fn(zero),
            dropped: std::array::from_fn(zero),
            limited: std::array::from_fn(zero),
            last_resort: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            times: Histogram::new(BATCH_BOUNDS),
        }
    }
}

impl Dropped {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Self); 3] =
        [("unreadable", Self::Unreadable), ("short", Self::Short), ("no_query", Self::NoQuery)];

    /// Why a message that was read gets no reply.
    pub fn of(message: &[u8]) -> Self {
        if message.len() < crate::query::HEADER { Self::Short } else { Self::NoQuery }
    }
}

impl Fixed {
    #[inline]
    pub(super) fn count<W: Writers>(&self, served: &Served) {
        let Served { rcode, protocol, subnet, verdict, .. } = *served;
        if verdict != Verdict::Send {
            // What became of the answer is nothing that the client can use.
            W::add(&self.limited[usize::from(verdict == Verdict::Drop)], 1);
            return;
        }
        if let Some(count) = self.replies[protocol as usize].get(rcode as usize) {
            W::add(count, 1);
        }
        self.count_scope::<W>(subnet);
        if served.is_truncated {
            W::add(&self.truncated[protocol as usize], 1);
        }
        if served.is_fault {
            W::add(&self.faults, 1);
        }
        if served.steered.is_some_and(|steered| steered.is_last_resort) {
            W::add(&self.last_resort, 1);
        }
    }

    /// The same for a whole reply over UDP with records.
    #[inline]
    pub(super) fn count_usual<W: Writers>(&self, steered: &Steered, subnet: Option<Scoped>) {
        W::add(&self.replies[Protocol::Udp as usize][Rcode::NoError as usize], 1);
        self.count_scope::<W>(subnet);
        if steered.is_last_resort {
            W::add(&self.last_resort, 1);
        }
    }

    #[inline]
    fn count_scope<W: Writers>(&self, subnet: Option<Scoped>) {
        let Some(scoped) = subnet else { return };
        let first = if scoped.is_v6 { SCOPES[0] } else { 0 };
        if let Some(count) = self.scopes.get(first + usize::from(scoped.scope)) {
            W::add(count, 1);
        }
    }

    pub(super) fn dropped(&self, why: Dropped) -> &AtomicU64 {
        &self.dropped[why as usize]
    }

    /// The replies over a protocol with a response code.
    pub fn replies(&self, protocol: Protocol, rcode: Rcode) -> u64 {
        let count = self.replies[protocol as usize].get(rcode as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The replies over a protocol with TC.
    pub fn truncated(&self, protocol: Protocol) -> u64 {
        self.truncated[protocol as usize].load(Ordering::Relaxed)
    }

    /// The messages that got no reply for this reason.
    pub fn count_of_dropped(&self, why: Dropped) -> u64 {
        self.dropped(why).load(Ordering::Relaxed)
    }

    /// The answers that were limited: truncated, and not sent.
    pub fn limited(&self) -> [u64; 2] {
        [0, 1].map(|i: usize| self.limited[i].load(Ordering::Relaxed))
    }

    /// The answers by scope: is it one of IPv6, its length, how many.
    pub fn scopes(&self) -> impl Iterator<Item = (bool, usize, u64)> + '_ {
        self.scopes.iter().enumerate().map(|(index, count)| {
            let is_v6 = index >= SCOPES[0];
            let length = if is_v6 { index - SCOPES[0] } else { index };
            (is_v6, length, count.load(Ordering::Relaxed))
        })
    }

    /// All replies.
    pub fn total(&self) -> u64 {
        self.replies.iter().flatten().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// How many samples are kept until they are taken.
pub const RING: usize = 1024;
/// How many are wanted between two takings.
const WANTED: u64 = 512;
/// The bits of a place in a sample, and of a counter.
const PLACE_BITS: u32 = 23;
const COUNTER_BITS: u32 = 32;

/// What depends on the configuration, with samples of where clients are. Kept apart from what other threads
/// write, as its parts are.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counts {
    layout: Arc<Layout>,
    counters: Box<[Block]>,
    /// How many answers came from a pool.
    answers: AtomicU64,
    /// How many samples were written.
    written: AtomicU64,
    /// Every 2 to the power of this is sampled.
    shift: AtomicU32,
    ring: Box<Ring>,
}

/// How many counters a block has.
const BLOCK: usize = 16;

/// Some counters, in cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Block([AtomicU64; BLOCK]);

/// The samples, likewise.
#[derive(Debug)]
#[repr(align(128))]
struct Ring([AtomicU64; RING]);

/// An answer that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The counter of its load balancer and pool.
    pub counter: u32,
    /// The number of its client's place.
    pub place: u32,
    /// How many answers it stands for.
    pub weight: u64,
}

impl Counts {
    /// Counters of a state.
    pub fn new(layout: Arc<Layout>) -> Self {
        let zero = |_| AtomicU64::new(0);
        let block = |_| Block(std::array::from_fn(zero));
        Self {
            counters: (0..layout.len().div_ceil(BLOCK)).map(block).collect(),
            layout,
            answers: AtomicU64::new(0),
            written: AtomicU64::new(0),
            shift: AtomicU32::new(0),
            ring: Box::new(Ring(std::array::from_fn(zero))),
        }
    }

    /// Whose counters they are.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// A counter.
    #[inline]
    pub fn get(&self, counter: usize) -> u64 {
        self.counter(counter).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    #[inline]
    fn counter(&self, number: usize) -> Option<&AtomicU64> {
        self.counters.get(number / BLOCK).map(|block| &block.0[number % BLOCK])
    }

    /// All of them; there may be some more than the layout has, which are 0.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.counters.iter().flat_map(|block| &block.0).map(|count| count.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn count<W: Writers>(&self, served: &Served) {
        match (&served.steered, served.zone) {
            (Some(steered), _) => self.count_steered::<W>(steered),
            (None, Some(zone)) => self.add::<W>(self.layout.of_zone(zone, served.rcode)),
            (None, None) => {}
        }
    }

    #[inline]
    pub(super) fn count_steered<W: Writers>(&self, steered: &Steered) {
        self.sample::<W>(steered);
        self.add::<W>(steered.counter as usize);
    }

    #[inline]
    fn add<W: Writers>(&self, counter: usize) {
        if let Some(count) = self.counter(counter) {
            W::add(count, 1);
        }
    }

    #[inline]
    fn sample<W: Writers>(&self, steered: &Steered) {
        if steered.pool.is_none() {
            return;
        }
        let number = W::add(&self.answers, 1);
        let shift = self.shift.load(Ordering::Relaxed);
        if number & ((1 << shift) - 1) != 0 {
            return;
        }
        let place = u64::from(steered.place) & ((1 << PLACE_BITS) - 1);
        let packed = u64::from(shift) << (COUNTER_BITS + PLACE_BITS)
            | place << COUNTER_BITS
            | u64::from(steered.counter);
        // A reader that is a lap behind finds a later sample in the place: it is as good.
        let at = usize::try_from(self.written.load(Ordering::Relaxed)).unwrap_or(0) % RING;
        self.ring.0[at].store(packed, Ordering::Relaxed);
        W::add(&self.written, 1);
    }

    /// Takes the samples since `taken` were written, and sets how many are taken until the next time, which
    /// is as far away. Gives how many were written by now.
    pub fn take(&self, taken: u64, mut sample: impl FnMut(Sample)) -> u64 {
        let written = self.written.load(Ordering::Acquire);
        let new = written.saturating_sub(taken);
        let kept = new.min(RING as u64);
        for number in written - kept..written {
            let at = usize::try_from(number).unwrap_or(0) % RING;
            let packed = self.ring.0[at].load(Ordering::Relaxed);
            #[allow(clippy::cast_possible_truncation, reason = "the parts are taken apart")]
            let (counter, place) = (packed as u32, (packed >> COUNTER_BITS) as u32);
            let shift = packed >> (COUNTER_BITS + PLACE_BITS);
            // Those that were overwritten are stood for by the others.
            let weight = (1u64 << shift.min(32)) * new / kept.max(1);
            sample(Sample { counter, place: place & ((1 << PLACE_BITS) - 1), weight });
        }
        let shift = self.shift.load(Ordering::Relaxed);
        let next = match new {
            _ if new > WANTED => (shift + (new / WANTED).ilog2() + 1).min(30),
            _ if new < WANTED / 4 => shift.saturating_sub(1),
            _ => shift,
        };
        self.shift.store(next, Ordering::Relaxed);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::pool::PoolId;
    use crate::tally::{Alone, Shared, Tally};

    fn steered(place: u32) -> Served {
        let steered =
            Steered { counter: 0, pool: Some(PoolId(0)), place, is_last_resort: place == 9 };
        Served { steered: Some(steered), ..Served::new(Rcode::NoError) }
    }

    #[test]
    fn an_answer_is_counted_by_all_that_it_is() {
        let (fixed, counts) = (Fixed::default(), Counts::new(Arc::default()));
        let tally = Tally::<Alone>::new(&fixed, &counts);
        let subnet = Some(Scoped { is_v6: true, scope: 48 });
        tally.count(&Served { protocol: Protocol::Tls, subnet, ..Served::new(Rcode::NxDomain) });
        tally.count(&Served { verdict: Verdict::Drop, ..Served::new(Rcode::NoError) });
        tally.count(&Served { is_truncated: true, is_fault: true, ..steered(9) });
        tally.count_dropped(Dropped::of(&[0; 11]));
        assert_eq!(fixed.replies(Protocol::Tls, Rcode::NxDomain), 1);
        assert_eq!(fixed.replies(Protocol::Udp, Rcode::NoError), 1, "one was not sent");
        assert_eq!(fixed.scopes().filter(|&(.., n)| n > 0).collect::<Vec<_>>(), [(true, 48, 1)]);
        assert_eq!(fixed.limited(), [0, 1]);
        assert_eq!(fixed.truncated(Protocol::Udp), 1);
        assert_eq!(fixed.count_of_dropped(Dropped::Short), 1);
        let rest = [&fixed.faults, &fixed.last_resort].map(|count| count.load(Ordering::Relaxed));
        assert_eq!((rest, fixed.total()), ([1, 1], 2));
        let usual = (Fixed::default(), Counts::new(Arc::default()));
        let (steered, subnet) =
            (steered(9).steered.unwrap(), Some(Scoped { is_v6: false, scope: 7 }));
        Tally::<Alone>::new(&usual.0, &usual.1).count_usual(&steered, subnet);
        let plain = (Fixed::default(), Counts::new(Arc::default()));
        let served = Served { steered: Some(steered), subnet, ..Served::new(Rcode::NoError) };
        Tally::<Alone>::new(&plain.0, &plain.1).count(&served);
        assert_eq!(format!("{usual:?}"), format!("{plain:?}"), "one count by both ways");
        assert!(RCODES.iter().enumerate().all(|(index, &rcode)| rcode as usize == index));
    }

    #[test]
    fn samples_stand_for_all_answers() {
        let (fixed, counts) = (Fixed::default(), Counts::new(Arc::default()));
        let mut taken = 0;
        for (answers, most_error) in [(10, 0), (100_000, 0), (100_000, 2_000), (100_000, 2_000)] {
            for number in 0..answers {
                Tally::<Shared>::new(&fixed, &counts).count(&steered(number % 4));
            }
            let (mut weight, mut samples) = (0, 0u64);
            taken = counts.take(taken, |sample| {
                assert!(sample.place < 4 && sample.counter == 0);
                (weight, samples) = (weight + sample.weight, samples + 1);
            });
            assert!(samples <= RING as u64);
            assert!(weight.abs_diff(u64::from(answers)) <= most_error + 1_000, "{weight}");
        }
    }
}
