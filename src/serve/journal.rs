//! The journal of a running server (`crate::journal`): who writes gives an entry its time and wakes
//! those who follow. A follower has no queue of its own, only the number that it has come to; what gave
//! way meanwhile is counted, so that nobody who is slow costs memory.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, watch};

use crate::journal::{Entry, Kept, Page};
use crate::timestamp::show_time_millis;

/// How many events are kept: an outage of a large configuration, at a few megabytes.
const MOST_EVENTS: usize = 10_000;
/// How many may follow at the same time.
pub const MOST_FOLLOWERS: usize = 32;

/// What happened since the start.
#[derive(Debug)]
pub struct Journal {
    kept: Mutex<Kept>,
    progress: watch::Sender<Progress>,
    /// A permit for each follower that there may be.
    pub followers: Arc<Semaphore>,
}

/// How far the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the next event.
    pub next: u64,
    /// Whether the server ends.
    pub is_over: bool,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            kept: Mutex::new(Kept::new(MOST_EVENTS)),
            progress: watch::Sender::new(Progress { next: 1, is_over: false }),
            followers: Arc::new(Semaphore::new(MOST_FOLLOWERS)),
        }
    }
}

impl Journal {
    /// Writes what happened now.
    pub fn record(&self, entries: impl IntoIterator<Item = Entry>) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_none() {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = show_time_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let next = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            entries.for_each(|entry| kept.push(at.clone(), entry));
            kept.next()
        };
        // Writers may come here in another order.
        self.progress.send_modify(|progress| progress.next = progress.next.max(next));
    }

    /// The first events after this number, so many at most.
    pub fn after(&self, after: u64, limit: usize) -> Page {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).after(after, limit)
    }

    /// The latest events, so many at most.
    pub fn latest(&self, limit: usize) -> Page {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).latest(limit)
    }

    /// Where to go on after an event of this number ([`Kept::resume`]).
    pub fn resume(&self, after: u64) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).resume(after)
    }

    /// Tells of news, and of the end.
    pub fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// The server ends: nobody follows any more.
    pub fn end(&self) {
        self.progress.send_modify(|progress| progress.is_over = true);
    }
}
