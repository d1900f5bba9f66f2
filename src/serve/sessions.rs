//! The sessions of all load balancers, shared by the UDP workers and TCP: one table of fixed size that
//! is read and written without locks, and the clock that goes with it. It is no part of the state of
//! the moment, and so outlasts reloads.
//!
//! A session is one atomic word of 128 bits in the bucket of its key. A bucket that is full gives up
//! the session whose last query is the longest ago. Nothing is ever removed: a session that is over is
//! found to be so when it is looked up.

use std::sync::OnceLock;
use std::time::Instant;

use portable_atomic::{AtomicU128, Ordering};

use crate::serve::sequences::SharedSequences;
use crate::steer::Sequences;
use crate::steer::rendezvous::stir;
use crate::steer::session::{OriginTag, SessionKey, Sessions};

/// The time is counted in parts of a second, so that the oldest of many new sessions can be told.
const TICKS: u64 = 64;
/// How long a session lives at the most: a day.
const LONGEST: u64 = 86_400 * TICKS;
/// How late a query is written down, so that a client that asks often costs one write a second. A
/// session lives so much longer.
const LATENESS: u64 = TICKS;
/// The sessions of a bucket: as many as two cache lines hold, which the processor fetches together.
const WAYS: usize = 8;
/// How often it is tried to write a session while others write to its bucket.
const ATTEMPTS: usize = 16;

/// All sessions, and the time that they are counted in.
#[derive(Debug)]
pub struct SharedSessions {
    max_sessions: usize,
    seed: u64,
    began: Instant,
    /// Made when the first load balancer has sessions.
    table: OnceLock<Table>,
}

impl SharedSessions {
    /// At most so many sessions, which must be at least one; `seed` keeps clients from knowing which
    /// sessions share a bucket.
    pub fn new(max_sessions: usize, seed: u64) -> Self {
        Self { max_sessions, seed, began: Instant::now(), table: OnceLock::new() }
    }

    /// Makes room for sessions. Until then none are kept.
    pub fn open(&self) {
        self.table.get_or_init(|| Table::new(self.max_sessions, self.seed));
    }

    /// The time since the start.
    pub fn now(&self) -> Tick {
        let elapsed = self.began.elapsed();
        let parts = u64::from(elapsed.subsec_micros()) * TICKS / 1_000_000;
        Tick(elapsed.as_secs() * TICKS + parts + 1)
    }

    /// The sessions at a time.
    #[inline]
    pub fn at(&self, now: Tick) -> SessionsAt<'_> {
        SessionsAt { table: self.table.get(), now: now.0 }
    }
}

/// A time, as sessions count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

/// The sessions at one time, which was read once for a batch of queries.
#[derive(Clone, Copy, Debug)]
pub struct SessionsAt<'t> {
    table: Option<&'t Table>,
    now: u64,
}

impl SessionsAt<'_> {
    /// Starts the memory of a session on its way.
    #[inline]
    pub fn approach(&self, key: SessionKey) -> u32 {
        self.table.map_or(0, |table| table.approach(key))
    }
}

impl Sessions for SessionsAt<'_> {
    #[inline]
    fn find(&self, key: SessionKey, ttl: u32) -> Option<OriginTag> {
        self.table?.find(key, ttl, self.now)
    }

    fn begin(&self, key: SessionKey, origin: OriginTag) {
        if let Some(table) = self.table {
            table.begin(key, origin, self.now);
        }
    }
}

/// What answers by any thread leave for those after them.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory<'m> {
    /// Their numbers.
    pub sequences: &'m SharedSequences,
    /// The sessions that they began.
    pub sessions: SessionsAt<'m>,
}

impl Sequences for SharedMemory<'_> {
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        self.sequences.next(slot, fingerprint)
    }
}

impl Sessions for SharedMemory<'_> {
    fn find(&self, key: SessionKey, ttl: u32) -> Option<OriginTag> {
        self.sessions.find(key, ttl)
    }

    fn begin(&self, key: SessionKey, origin: OriginTag) {
        self.sessions.begin(key, origin);
    }
}

/// The table.
#[derive(Debug)]
struct Table {
    seed: u64,
    buckets: Box<[Bucket]>,
    /// How many sessions a bucket has room for; the first `larger` have room for one more.
    ways: usize,
    larger: usize,
}

/// A bucket is filled from the front: after an empty place there is nothing.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Bucket([AtomicU128; WAYS]);

impl Table {
    fn new(max_sessions: usize, seed: u64) -> Self {
        let count = max_sessions.div_ceil(WAYS).max(1);
        let buckets = (0..count).map(|_| Bucket::default()).collect();
        Self { seed, buckets, ways: max_sessions / count, larger: max_sessions % count }
    }

    /// The places of a key, and what tells it from the other keys there.
    #[inline]
    fn places(&self, key: SessionKey) -> (&[AtomicU128], u64) {
        let hash = stir(key.0 ^ self.seed);
        #[allow(clippy::cast_possible_truncation, reason = "below the number of buckets")]
        let index = ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize;
        let room = self.ways + usize::from(index < self.larger);
        let places = self.buckets.get(index).and_then(|bucket| bucket.0.get(..room));
        // The upper bits chose the bucket.
        (places.unwrap_or_default(), hash & Entry::TAG)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "that something is read is all")]
    fn approach(&self, key: SessionKey) -> u32 {
        let (places, _) = self.places(key);
        places.first().map_or(0, |place| place.load(Ordering::Relaxed) as u32)
    }

    /// The origin of a session that lives; this query is its last now.
    #[inline]
    fn find(&self, key: SessionKey, ttl: u32, now: u64) -> Option<OriginTag> {
        let (places, tag) = self.places(key);
        for place in places {
            let word = place.load(Ordering::Relaxed);
            let entry = Entry::from_word(word)?;
            if entry.tag != tag {
                continue;
            }
            // Another worker's batch may have begun later.
            let idle = now.saturating_sub(entry.last);
            if idle >= u64::from(ttl) * TICKS + LATENESS || entry.age(now) >= LONGEST {
                return None;
            }
            if idle >= LATENESS {
                let renewed = Entry { last: now, age: entry.age(now), ..entry };
                // If it was changed meanwhile, that query was as late.
                let _lost = place.compare_exchange(
                    word,
                    renewed.into_word(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            return Some(entry.origin);
        }
        None
    }

    /// Begins a session: in its own place, else in an empty one, else in that of the oldest.
    fn begin(&self, key: SessionKey, origin: OriginTag, now: u64) {
        let (places, tag) = self.places(key);
        let new = Entry { tag, age: 0, origin, last: now }.into_word();
        for _ in 0..ATTEMPTS {
            let mut oldest: Option<(&AtomicU128, u128, u64)> = None;
            for place in places {
                let word = place.load(Ordering::Relaxed);
                let entry = Entry::from_word(word);
                let last = entry.map_or(0, |entry| entry.last);
                if entry.is_none_or(|entry| entry.tag == tag) {
                    oldest = Some((place, word, last));
                    break;
                }
                if oldest.is_none_or(|(.., other)| last < other) {
                    oldest = Some((place, word, last));
                }
            }
            let Some((place, word, _)) = oldest else { return };
            let written = place.compare_exchange(word, new, Ordering::Relaxed, Ordering::Relaxed);
            if written.is_ok() {
                return;
            }
        }
    }
}

/// A session as the table has it: a word of 37 bits of the key, 23 of the age, 32 of the origin and 36
/// of the time, enough for 34 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The lower bits of the key's hash.
    tag: u64,
    /// How long after its first query the last was.
    age: u64,
    /// Where it was placed.
    origin: OriginTag,
    /// When its last query was; never 0.
    last: u64,
}

impl Entry {
    const TAG: u64 = (1 << 37) - 1;
    const AGE: u64 = (1 << 23) - 1;
    const LAST: u64 = (1 << 36) - 1;

    /// How long ago its first query was.
    fn age(self, now: u64) -> u64 {
        self.age.saturating_add(now.saturating_sub(self.last)).min(Self::AGE)
    }

    fn into_word(self) -> u128 {
        u128::from(self.tag & Self::TAG) << 91
            | u128::from(self.age & Self::AGE) << 68
            | u128::from(self.origin.0) << 36
            | u128::from(self.last & Self::LAST)
    }

    /// None of an empty place.
    #[allow(clippy::cast_possible_truncation, reason = "the word is taken apart")]
    fn from_word(word: u128) -> Option<Self> {
        (word != 0).then_some(Self {
            tag: (word >> 91) as u64,
            age: (word >> 68) as u64 & Self::AGE,
            origin: OriginTag((word >> 36) as u32),
            last: word as u64 & Self::LAST,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const A: OriginTag = OriginTag(1);
    const B: OriginTag = OriginTag(u32::MAX);

    /// A time in seconds.
    fn at(seconds: u64) -> u64 {
        seconds * TICKS
    }

    #[test]
    fn a_session_lives_its_ttl_after_its_last_query() {
        let table = Table::new(100, 7);
        let key = SessionKey(1);
        assert_eq!(table.find(key, 60, at(1)), None);
        table.begin(key, A, at(1));
        assert_eq!(table.find(key, 60, at(1)), Some(A));
        assert_eq!(table.find(key, 60, at(61)), Some(A), "60 s after the last");
        assert_eq!(table.find(key, 60, at(121)), Some(A), "60 s after that");
        assert_eq!(table.find(key, 60, at(182)), None, "61 s after that");
        table.begin(key, B, at(182));
        assert_eq!(table.find(key, 60, at(182)), Some(B));
        assert_eq!(table.find(SessionKey(2), 60, at(182)), None);
    }

    #[test]
    fn a_session_ends_a_day_after_its_first_query() {
        let table = Table::new(100, 7);
        let key = SessionKey(1);
        table.begin(key, A, at(10));
        for now in (10..10 + 86_400).step_by(1800) {
            assert_eq!(table.find(key, 1800, at(now)), Some(A), "at {now}");
        }
        assert_eq!(table.find(key, 86_400, at(10 + 86_400)), None);
        table.begin(key, A, at(10 + 86_400));
        assert_eq!(table.find(key, 1800, at(10 + 86_400)), Some(A), "a new one");
    }

    #[test]
    fn a_session_that_is_renewed_keeps_its_age() {
        let table = Table::new(1, 7);
        table.begin(SessionKey(1), A, 1);
        for now in 1..10_000 {
            assert_eq!(table.find(SessionKey(1), 60, now), Some(A));
        }
        let entry = Entry::from_word(table.buckets[0].0[0].load(Ordering::Relaxed)).unwrap();
        assert_eq!(entry.last - entry.age, 1);
        assert!(entry.last > 9_999 - LATENESS, "{entry:?}");
        // A clock that is a batch behind makes nothing older.
        assert_eq!(table.find(SessionKey(1), 60, 9_000), Some(A));
    }

    #[test]
    fn the_oldest_goes_first() {
        let table = Table::new(3, 7);
        for (key, now) in [(1, 1), (2, 2), (3, 3)] {
            table.begin(SessionKey(key), A, now);
        }
        assert_eq!(table.find(SessionKey(1), 60, at(2)), Some(A), "now 2 is the oldest");
        table.begin(SessionKey(4), A, at(3));
        let found = [1, 2, 3, 4].map(|key| table.find(SessionKey(key), 60, at(3)).is_some());
        assert_eq!(found, [true, false, true, true]);
    }

    #[test]
    fn the_room_is_what_was_asked_for() {
        for max_sessions in [1, 2, 7, 8, 9, 15, 17, 100, 1000, 12_345] {
            let table = Table::new(max_sessions, 7);
            let room = |index| table.ways + usize::from(index < table.larger);
            let rooms: Vec<_> = (0..table.buckets.len()).map(room).collect();
            assert_eq!(rooms.iter().sum::<usize>(), max_sessions);
            assert!(rooms.iter().all(|room| (1..=WAYS).contains(room)), "{max_sessions}");
        }
    }

    #[test]
    fn nothing_is_kept_before_there_is_room() {
        let sessions = SharedSessions::new(10, 7);
        let now = sessions.now();
        assert!(now > Tick::default());
        sessions.at(now).begin(SessionKey(1), A);
        assert_eq!(sessions.at(now).find(SessionKey(1), 60), None);
        sessions.open();
        sessions.at(now).begin(SessionKey(1), A);
        sessions.open();
        assert_eq!(sessions.at(now).find(SessionKey(1), 60), Some(A));
    }

    #[test]
    fn threads_share_the_table() {
        let sessions = SharedSessions::new(100_000, 7);
        sessions.open();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let sessions = &sessions;
                scope.spawn(move || {
                    for key in 0..2000 {
                        let at = sessions.at(Tick(1 + key % 7));
                        match at.find(SessionKey(key), 60) {
                            // Whoever comes first places it; the others find it, or wrote at once.
                            Some(origin) => assert!(origin.0 < 4),
                            None => at.begin(SessionKey(key), OriginTag(thread)),
                        }
                    }
                });
            }
        });
        let at = sessions.at(Tick(7));
        assert!((0..2000).all(|key| at.find(SessionKey(key), 60).is_some()));
    }

    proptest! {
        #[test]
        fn an_entry_is_read_as_it_was_written(
            tag in 0..=Entry::TAG, origin: u32, last in 1..=Entry::LAST, age in 0..=Entry::AGE,
        ) {
            let entry = Entry { tag, age, origin: OriginTag(origin), last };
            prop_assert_eq!(Entry::from_word(entry.into_word()), Some(entry));
        }

        /// A table with room enough is a map of keys to origins with the times of first and last.
        #[test]
        fn the_table_is_a_map_with_times(
            steps in proptest::collection::vec((0u64..20, 0u64..400, any::<bool>(), 0u32..4), 1..300),
        ) {
            let table = Table::new(100_000, 7);
            let mut model: HashMap<u64, (u32, u64, u64)> = HashMap::new();
            let mut now = 1;
            for (key, later, long, origin) in steps {
                now += if long { later * 100 } else { later };
                let lives = model.get(&key).filter(|&&(_, first, last)| {
                    now - last <= 3600 && now - first < 86_400
                });
                let expected = lives.map(|&(origin, ..)| OriginTag(origin));
                prop_assert_eq!(table.find(SessionKey(key), 3600, at(now)), expected);
                match (expected, model.get_mut(&key)) {
                    (Some(_), Some((.., last))) => *last = now,
                    _ => {
                        table.begin(SessionKey(key), OriginTag(origin), at(now));
                        model.insert(key, (origin, now, now));
                    }
                }
            }
        }
    }
}
