//! The log of queries: samples of what was asked and answered, for people and for collectors. Off by
//! default.
//!
//! ```text
//! a thread that answers ─ one in N ─► Record ─► QueryLog (a bounded queue) ─► serve::query_log
//!                                                                                ├─ line ─► a file, as JSON
//!                                                                                └─ dnstap, frames ─► a socket
//! ```
//!
//! Threads that answer never wait for it: what has no room in the queue is counted and lost.

pub mod dnstap;
pub mod frames;
pub mod line;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;

use crate::served::Served;

/// The longest query that is kept. Common ones have less than a hundred octets.
pub const MAX_QUERY: usize = 512;
/// The longest reply that is kept: every one over UDP.
pub const MAX_REPLY: usize = 1232;
/// How many records wait at the most: about 15 MB, taken if the log is on.
const QUEUE: usize = 8192;
/// Places of the queue that are left free. In a queue that is quite full a thread that answers could have to
/// wait until the writer has emptied the place that it has begun with.
const SPARE: usize = 256;

/// Where the log goes, and how much of it: the table `[query_log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to.
    pub target: Target,
    /// Of so many answers one is logged.
    pub one_in: u32,
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the end of a file, a line of JSON each.
    Lines(PathBuf),
    /// To whoever listens on a Unix socket, as dnstap in frame streams.
    Dnstap(PathBuf),
}

/// A query that is logged, with its answer.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it was answered.
    pub at: SystemTime,
    /// Who asked.
    pub client: IpAddr,
    /// From which port; none over streams.
    pub port: Option<u16>,
    /// What was answered.
    pub served: Served,
    /// The state that `served` is of.
    pub generation: u64,
    /// The query; empty if it is longer than [`MAX_QUERY`].
    pub query: ArrayVec<u8, MAX_QUERY>,
    /// The reply; empty if it is longer than [`MAX_REPLY`], or was not sent.
    pub reply: ArrayVec<u8, MAX_REPLY>,
}

/// The records that are on their way.
#[derive(Debug)]
pub struct QueryLog {
    queue: ArrayQueue<Record>,
    one_in: u32,
    seed: u64,
    samplers: AtomicU64,
    streams: AtomicU64,
    lost: AtomicU64,
}

/// Chooses among the answers of one thread.
#[derive(Debug)]
pub struct Sampler {
    log: Arc<QueryLog>,
    random: u64,
    /// How many of the present group are to come.
    left: u32,
    /// The one of them that is taken is the one before so many.
    taken: u32,
}

impl Sampler {
    /// True for one of each so many answers. It is at a random place among them: what comes in turns, as A
    /// and AAAA, is taken of each kind.
    #[inline]
    pub fn takes(&mut self) -> bool {
        if self.left == 0 {
            self.left = self.log.one_in;
            self.random = self.random.wrapping_add(1);
            self.taken = below(self.log.one_in, self.random);
        }
        self.left -= 1;
        self.left == self.taken
    }

    /// The log.
    pub fn log(&self) -> &QueryLog {
        &self.log
    }
}

impl QueryLog {
    /// One that takes one of so many answers; `seed` is any number.
    pub fn new(one_in: u32, seed: u64) -> Self {
        Self {
            queue: ArrayQueue::new(QUEUE + SPARE),
            one_in: one_in.max(1),
            seed,
            samplers: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// What chooses among the answers of one thread.
    pub fn sampler(self: &Arc<Self>) -> Sampler {
        // Far from those of other threads.
        let number = self.samplers.fetch_add(1, Ordering::Relaxed) << 32;
        let (log, random) = (Arc::clone(self), self.seed.wrapping_add(number));
        Sampler { log, random, left: 0, taken: 0 }
    }

    /// True for one of each so many answers of the threads that share the streams, as [`Sampler::takes`].
    pub fn takes_stream(&self) -> bool {
        let number = self.streams.fetch_add(1, Ordering::Relaxed);
        let (group, place) = (number / u64::from(self.one_in), number % u64::from(self.one_in));
        place == u64::from(below(self.one_in, self.seed.wrapping_sub(group)))
    }

    /// Keeps a record for the writer, if there is room.
    #[inline(never)]
    pub fn push(
        &self,
        at: SystemTime,
        client: (IpAddr, Option<u16>),
        served: &Served,
        generation: u64,
        messages: (&[u8], &[u8]),
    ) {
        let is_kept = self.queue.len() < QUEUE
            && self.queue.push(Record::new(at, client, *served, generation, messages)).is_ok();
        if !is_kept {
            self.lose(1);
        }
    }

    /// The oldest record.
    pub fn pop(&self) -> Option<Record> {
        self.queue.pop()
    }

    /// Counts records that nobody was there to take.
    pub fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    /// How many records were lost.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A number below `limit` that looks random: the finalizer of splitmix64.
fn below(limit: u32, number: u64) -> u32 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let high = (mixed ^ (mixed >> 31)) >> 32;
    u32::try_from((high * u64::from(limit)) >> 32).unwrap_or(0)
}

impl Record {
    /// An answer that is given now.
    pub fn new(
        at: SystemTime,
        (client, port): (IpAddr, Option<u16>),
        served: Served,
        generation: u64,
        (query, reply): (&[u8], &[u8]),
    ) -> Self {
        let (query, reply) = (kept(query), kept(reply));
        Self { at, client, port, served, generation, query, reply }
    }
}

/// All of the octets, or none: a part of a message is none.
fn kept<const N: usize>(octets: &[u8]) -> ArrayVec<u8, N> {
    octets.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::query::Rcode;

    const CLIENT: (IpAddr, Option<u16>) = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), Some(53));

    #[test]
    fn one_of_each_so_many_is_taken_at_no_fixed_place() {
        let log = Arc::new(QueryLog::new(10, 7));
        let mut sampler = log.sampler();
        let mut places = HashSet::new();
        for group in 0..200 {
            let mut taken = (0..10).filter(|_| sampler.takes());
            places.insert(taken.next().expect("one is taken"));
            assert_eq!(taken.count(), 0, "group {group}");
            assert_eq!((0..10).filter(|_| log.takes_stream()).count(), 1, "group {group}");
        }
        assert_eq!(places.len(), 10, "each place has its turn");
        let all = Arc::new(QueryLog::new(1, 7));
        let mut sampler = all.sampler();
        assert!((0..9).all(|_| sampler.takes() && all.takes_stream()));
    }

    #[test]
    fn what_has_no_room_is_counted_and_lost() {
        let log = QueryLog::new(1, 0);
        let served = Served::new(Rcode::NoError);
        for _ in 0..QUEUE + 2 {
            log.push(SystemTime::UNIX_EPOCH, CLIENT, &served, 1, (&[1], &[2]));
        }
        assert_eq!(log.lost(), 2);
        assert_eq!(std::iter::from_fn(|| log.pop()).count(), QUEUE);
    }

    #[test]
    fn a_message_is_kept_whole_or_not_at_all() {
        let served = Served::new(Rcode::NoError);
        let record = Record::new(SystemTime::UNIX_EPOCH, CLIENT, served, 1, (&[1; 600], &[2]));
        assert!(record.query.is_empty(), "600 octets are too many");
        assert_eq!(record.reply.as_slice(), [2]);
    }
}
