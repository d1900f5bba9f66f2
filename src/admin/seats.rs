//! How many connections the admin service carries, and which gives way to one that comes when all seats are
//! taken: the one whose client has been waited for longest. Who sends nothing, or half a request, so keeps nobody
//! out; who is being answered stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::warn;

use crate::serve::seldom::Seldom;
use crate::serve::turn::Turn;

/// How many connections there may be at a time.
pub const MOST_CONNECTIONS: usize = 256;
/// How often it is looked who gives way while the server is at work in all connections.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The seats of all listeners.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    free: Arc<Semaphore>,
    /// Held for a few instructions, once a connection.
    inner: Mutex<Inner>,
    /// When it was told that connections give way.
    told: Seldom,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    sitting: BTreeMap<u64, Sitting>,
}

#[derive(Clone, Debug)]
struct Sitting {
    turn: Arc<Turn>,
    leave: Arc<Notify>,
}

/// The seat of a connection, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    sitting: Sitting,
    _permit: OwnedSemaphorePermit,
}

impl Default for Seats {
    fn default() -> Self {
        Self::new(MOST_CONNECTIONS)
    }
}

impl Seats {
    fn new(most: usize) -> Self {
        let free = Arc::new(Semaphore::new(most));
        Self { most, free, inner: Mutex::default(), told: Seldom::default() }
    }

    /// A seat for one more connection, as soon as one is free or somebody gives way.
    pub(super) async fn take(self: &Arc<Self>) -> Seat {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.make_room();
            let freed = timeout(LOOK_AGAIN, Arc::clone(&self.free).acquire_owned()).await;
            if let Ok(Ok(permit)) = freed {
                break permit;
            }
        };
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        let sitting = Sitting { turn: Arc::default(), leave: Arc::default() };
        inner.sitting.insert(number, sitting.clone());
        Seat { seats: Arc::clone(self), number, sitting, _permit: permit }
    }

    /// Asks the one to leave whose client has been waited for longest.
    fn make_room(&self) {
        let mut inner = self.lock();
        let waiting = inner.sitting.iter().filter_map(|(&number, Sitting { turn, .. })| {
            turn.waited().map(|waited| (waited, number))
        });
        let Some((_, number)) = waiting.max_by_key(|&(waited, _)| waited) else { return };
        if let Some(Sitting { leave, .. }) = inner.sitting.remove(&number) {
            leave.notify_one();
        }
        if self.told.due(Instant::now()).is_some() {
            warn!(
                connections = self.most,
                "there are as many admin connections as there may be; who is silent gives way"
            );
        }
    }

    /// Waits until nobody sits.
    pub(super) async fn are_free(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        let _all = self.free.acquire_many(all).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Where it is kept whose turn it is in the connection.
    pub(super) fn turn(&self) -> Arc<Turn> {
        Arc::clone(&self.sitting.turn)
    }

    /// Waits until it has to be given to another.
    pub(super) async fn is_wanted(&self) {
        self.sitting.leave.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().sitting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::turn::Exchange;
    use tokio::task::JoinHandle;

    /// Gives a seat back when it is wanted.
    fn sit(seat: Seat) -> JoinHandle<()> {
        tokio::spawn(async move { seat.is_wanted().await })
    }

    #[tokio::test]
    async fn who_was_waited_for_longest_gives_way() {
        let seats = Arc::new(Seats::new(2));
        let first = sit(seats.take().await);
        let second = sit(seats.take().await);
        let third = seats.take().await;
        first.await.unwrap();
        assert!(!second.is_finished(), "it came later");
        drop(third);
        let _fourth = sit(seats.take().await);
        assert!(!second.is_finished(), "a seat was free");
        let _fifth = sit(seats.take().await);
        second.await.unwrap();
        assert_eq!(seats.lock().sitting.len(), 2);
    }

    #[tokio::test]
    async fn who_is_answered_stays() {
        let seats = Arc::new(Seats::new(2));
        let answered = seats.take().await;
        let exchange = Exchange::new(&answered.turn());
        exchange.is_ours();
        let answered = sit(answered);
        let silent = sit(seats.take().await);
        let _third = sit(seats.take().await);
        silent.await.unwrap();
        assert!(!answered.is_finished());
    }

    #[tokio::test]
    async fn one_that_comes_waits_while_all_are_answered() {
        let seats = Arc::new(Seats::new(1));
        let answered = seats.take().await;
        let exchange = Exchange::new(&answered.turn());
        exchange.is_ours();
        let mut next = Box::pin(seats.take());
        assert!(timeout(2 * LOOK_AGAIN, &mut next).await.is_err());
        let answered = sit(answered);
        exchange.is_theirs();
        let _next = next.await;
        answered.await.unwrap();
    }
}
