//! The UDP workers: a thread for each core and address, each with a socket of its own that the
//! kernel spreads the clients over. A worker takes a batch of queries, answers each where it stands,
//! and sends the batch of replies. No task, channel, lock or allocation; one pointer is compared per
//! batch to notice a new state.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::{error, warn};

use crate::quick::{self, CommonQuery, Quick};
use crate::respond::Responder;
use crate::serve::live::{Live, Moment};
use crate::serve::mmsg::Batch;
use crate::serve::reply::answer;
use crate::serve::sessions::{SharedSessions, Tick};
use crate::steer::session::{OriginTag, SessionKey, Sessions};
use crate::steer::{Memory, Sequences};
use crate::wire::Transport;

/// How long a worker waits for queries before it looks whether it is to stop.
pub const WAIT: Duration = Duration::from_millis(250);

/// How a worker runs.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// The most queries that are taken at once.
    pub batch: usize,
    /// Whether the socket tells the address that a query came to.
    pub reports_arrival: bool,
    /// The core that it stays on.
    pub core: Option<usize>,
}

/// Starts a worker on a socket whose receive timeout is [`WAIT`].
///
/// # Errors
/// If the system refuses the thread.
pub fn start(
    socket: UdpSocket,
    settings: WorkerSettings,
    live: Live,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("udp".to_owned()).spawn(move || {
        if let Some(core) = settings.core {
            pin(core);
        }
        work(&socket, settings, &live, &stop);
    })
}

/// Keeps the thread on one core.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        warn!(core, %error, "a worker cannot be kept on its core");
    }
}

fn work(socket: &UdpSocket, settings: WorkerSettings, live: &Live, stop: &AtomicBool) {
    let mut batch = Batch::new(settings.batch, settings.reports_arrival);
    let mut reader = live.reader();
    let mut sequences = OwnSequences::with_sessions(Arc::clone(live.sessions()));
    let mut steps = Steps::new(settings.batch);
    let mut failing = false;
    while !stop.load(Ordering::Relaxed) {
        let count = match batch.receive(socket) {
            Ok(count) => count,
            Err(fault) => {
                // An unreachable client's ICMP error comes up here too: go on, but do not spin.
                if !failing {
                    warn!(%fault, "receiving over UDP failed");
                }
                failing = true;
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        failing = false;
        let moment = reader.load();
        sequences.follow(moment);
        steps.answer(&mut batch, count, moment, &sequences);
        batch.send(socket);
    }
}

/// Takes a batch through the steps of the short way, each step for the whole batch: what a query
/// needs from memory for its next step arrives while the others are worked on.
#[derive(Debug)]
struct Steps {
    queries: Vec<Option<CommonQuery>>,
    found: Vec<Option<quick::Found>>,
    located: Vec<Option<quick::Located>>,
}

impl Steps {
    fn new(batch: usize) -> Self {
        Self { queries: vec![None; batch], found: vec![None; batch], located: vec![None; batch] }
    }

    /// Answers a batch: the common queries the short way, the others the long way.
    fn answer(
        &mut self,
        batch: &mut Batch,
        count: usize,
        moment: &Moment,
        sequences: &OwnSequences,
    ) {
        // A fault in one answer is that answer's failure, and the long way says which it is.
        let short = AssertUnwindSafe(|| self.look_up(batch, count, moment, sequences));
        if catch_unwind(short).is_err() {
            self.located.fill(None);
            error!("the short way panicked; the batch takes the long way");
        }
        for i in 0..count {
            let query = self.queries.get(i).and_then(Option::as_ref);
            let located = self.located.get(i).copied().flatten();
            let Some((message, source, out)) = batch.query(i) else { continue };
            let length = match (query, located) {
                (Some(query), Some(located)) => {
                    let Moment { state, quick, .. } = moment;
                    let short =
                        || quick.answer(message, query, located, &state.locator, sequences, out);
                    catch_unwind(AssertUnwindSafe(short)).unwrap_or_default()
                }
                _ => None,
            };
            let length = length.or_else(|| {
                let Moment { state, plan, .. } = moment;
                answer(
                    message,
                    source,
                    &Responder { state, plan, sequences },
                    Transport::Datagram,
                    out,
                )
            });
            if let Some(length) = length {
                batch.reply(i, length);
            }
        }
    }

    /// Reads the batch's common queries, finds their names, and locates their clients. The steps are
    /// loops of their own, short enough for the processor to wait for the memory of several queries
    /// at once.
    fn look_up(
        &mut self,
        batch: &mut Batch,
        count: usize,
        moment: &Moment,
        sequences: &OwnSequences,
    ) {
        let Moment { state, quick, .. } = moment;
        let mut approached = 0;
        for (i, query) in self.queries.iter_mut().enumerate().take(count) {
            *query = batch.query(i).and_then(|(message, _, _)| quick::parse(message));
            if let Some(query) = query {
                approached ^= quick.approach(query);
            }
        }
        for (query, found) in self.queries.iter().zip(&mut self.found).take(count) {
            *found = query.as_ref().and_then(|query| quick.find(query));
        }
        let found = self.queries.iter().zip(&self.found).enumerate().take(count);
        for ((i, (query, found)), located) in found.zip(&mut self.located) {
            *located = query.as_ref().and_then(|query| {
                let (_, source, _) = batch.query(i)?;
                quick.locate(query, (*found)?, source, &state.locator)
            });
        }
        for located in self.located.iter().take(count).flatten() {
            if let Some((tags, key)) = quick.approach_session(located) {
                approached ^= tags ^ sequences.approach_session(key);
                continue;
            }
            let (pool, slot) = quick.approach_pool(located);
            approached ^= pool ^ sequences.approach(slot);
        }
        std::hint::black_box(approached);
    }
}

/// Answers one datagram into `out` as a worker does: the short way if it is common, else the long way.
/// Gives the length of the reply, if there is one.
#[inline]
pub fn answer_one(
    message: &[u8],
    source: IpAddr,
    quick: &Quick,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<usize> {
    let locator = &responder.state.locator;
    let short = quick::parse(message).and_then(|query| {
        let located = quick.locate(&query, quick.find(&query)?, source, locator)?;
        quick.answer(message, &query, located, locator, responder.sequences, out)
    });
    short.or_else(|| answer(message, source, responder, Transport::Datagram, out))
}

/// The numbers of the answers of one worker: nobody else draws from them. They start again with a
/// new state. The sessions beside them are everybody's.
#[derive(Debug, Default)]
pub struct OwnSequences {
    /// The state that the slots belong to.
    generation: u64,
    /// Each set's fingerprint, and the next number.
    slots: RefCell<Vec<(u32, u32)>>,
    /// By default none are kept.
    sessions: Option<Arc<SharedSessions>>,
    /// The time of the batch.
    now: Tick,
}

impl OwnSequences {
    /// With sessions that are shared.
    pub fn with_sessions(sessions: Arc<SharedSessions>) -> Self {
        Self { sessions: Some(sessions), ..Self::default() }
    }

    /// Reads the clock for the next queries, and makes the slots fit a moment; allocates only if it is
    /// of another state.
    pub fn follow(&mut self, moment: &Moment) {
        if moment.state.has_sessions {
            self.now = self.sessions.as_ref().map_or_else(Tick::default, |sessions| sessions.now());
        }
        if self.generation != moment.generation {
            self.generation = moment.generation;
            let slots = usize::try_from(moment.state.slot_count).unwrap_or(0);
            *self.slots.get_mut() = vec![(0, 0); slots];
        }
    }

    /// Starts the memory of a slot on its way.
    #[inline]
    fn approach(&self, slot: u32) -> u32 {
        self.slots.borrow().get(slot as usize).map_or(0, |&(_, next)| next)
    }

    /// Starts the memory of a session on its way.
    #[inline]
    fn approach_session(&self, key: SessionKey) -> u32 {
        self.sessions.as_ref().map_or(0, |sessions| sessions.at(self.now).approach(key))
    }
}

impl Sequences for OwnSequences {
    #[inline]
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        let mut slots = self.slots.borrow_mut();
        let Some((set, next)) = slots.get_mut(slot as usize) else { return 0 };
        if *set != fingerprint {
            (*set, *next) = (fingerprint, 0);
        }
        let number = *next;
        *next = number.wrapping_add(1);
        number
    }
}

impl Sessions for OwnSequences {
    #[inline]
    fn find(&self, key: SessionKey, ttl: u32) -> Option<OriginTag> {
        self.sessions.as_ref()?.at(self.now).find(key, ttl)
    }

    fn begin(&self, key: SessionKey, origin: OriginTag) {
        if let Some(sessions) = &self.sessions {
            sessions.at(self.now).begin(key, origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_one_another_and_start_again_with_a_new_set() {
        let sequences = OwnSequences {
            generation: 1,
            slots: RefCell::new(vec![(0, 0); 2]),
            ..OwnSequences::default()
        };
        assert_eq!([0; 3].map(|_| sequences.next(0, 7)), [0, 1, 2]);
        assert_eq!(sequences.next(1, 7), 0, "slots are apart");
        assert_eq!([0; 2].map(|_| sequences.next(0, 8)), [0, 1]);
        assert_eq!(sequences.next(9, 7), 0, "no slot, no number");
    }
}
