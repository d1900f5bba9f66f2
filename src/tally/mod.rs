//! Counting answers: what queries leave behind for metrics.
//!
//! ```text
//! a thread that answers ─ Served ─► Tally ─► Fixed (codes, scopes, times; as long as the process)
//!                                        └─► Counts (load balancers, zones, samples; of a state)
//!                                               │ read, never stopped
//! serve::traffic ◄──────────────────────────────┘
//! ```
//!
//! Counters are atomic so that they can be read while they grow. Each UDP worker has its own and is the
//! only one that writes them: a load and a store, which cost what ordinary ones do. Streams share one set
//! and add to it atomically, as they share their sequences.

pub mod counters;
pub mod grown;
pub mod histogram;
pub mod layout;
pub mod window;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limit::Verdict;
use crate::served::{Scoped, Served, Steered};
use crate::tally::counters::{Counts, Dropped, Fixed};

/// How many threads write a set of counters.
pub trait Writers {
    /// Adds to a counter, and gives what it was.
    fn add(counter: &AtomicU64, by: u64) -> u64;
}

/// One thread alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

/// Any number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

impl Writers for Alone {
    #[inline]
    fn add(counter: &AtomicU64, by: u64) -> u64 {
        let old = counter.load(Ordering::Relaxed);
        counter.store(old.wrapping_add(by), Ordering::Relaxed);
        old
    }
}

impl Writers for Shared {
    #[inline]
    fn add(counter: &AtomicU64, by: u64) -> u64 {
        counter.fetch_add(by, Ordering::Relaxed)
    }
}

/// Where a thread counts what it answers.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'t, W> {
    fixed: &'t Fixed,
    counts: &'t Counts,
    writers: PhantomData<W>,
}

impl<'t, W: Writers> Tally<'t, W> {
    /// Counts here.
    pub fn new(fixed: &'t Fixed, counts: &'t Counts) -> Self {
        Self { fixed, counts, writers: PhantomData }
    }

    /// Counts an answer.
    #[inline]
    pub fn count(&self, served: &Served) {
        self.fixed.count::<W>(served);
        if served.verdict == Verdict::Send {
            self.counts.count::<W>(served);
        }
    }

    /// The same for a whole reply over UDP with records that a load balancer chose: most are that.
    #[inline]
    pub fn count_usual(&self, steered: &Steered, subnet: Option<Scoped>) {
        self.fixed.count_usual::<W>(steered, subnet);
        self.counts.count_steered::<W>(steered);
    }

    /// Counts a message that got no reply for what it is.
    pub fn count_dropped(&self, why: Dropped) {
        W::add(self.fixed.dropped(why), 1);
    }

    /// Counts a fault of the program that became nobody's answer.
    pub fn count_fault(&self) {
        W::add(&self.fixed.faults, 1);
    }

    /// Starts the memory of a counter on its way.
    #[inline]
    pub fn approach(&self, counter: u32) -> u64 {
        self.counts.get(counter as usize)
    }
}
