//! The UDP workers: a thread for each core and address, each with a socket of its own that the
//! kernel spreads the clients over. A worker takes a batch of queries, answers each where it stands,
//! and sends the batch of replies. No task, channel, lock or allocation; one pointer is compared per
//! batch to notice a new state.

mod own;
mod steps;

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::warn;

pub use crate::serve::udp::own::{OwnCounters, OwnSequences};

use crate::cookies::Cookies;
use crate::limit::Limiter;
use crate::query_log::QueryLog;
use crate::quick::{self, Quick};
use crate::respond::Responder;
use crate::serve::live::{Live, Reader};
use crate::serve::mmsg::Batch;
use crate::serve::reply::{self, Arrival};
use crate::serve::secrets::fill_random;
use crate::serve::udp::steps::{Steps, Turn, is_answered};
use crate::served::Served;
use crate::steer::Memory;
use crate::tally::Alone;

/// How long a worker waits for queries before it looks whether it is to stop.
pub const WAIT: Duration = Duration::from_millis(250);

/// Of so many batches, the time of one is measured.
const TIMED: u32 = 16;

/// How a worker runs.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// The most queries that are taken at once.
    pub batch: usize,
    /// Whether the socket tells the address that a query came to.
    pub reports_arrival: bool,
    /// The core that it stays on.
    pub core: Option<usize>,
    /// How many workers there are for its address: they share what a network may get.
    pub workers: u32,
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
    let mut worker = Worker::new(settings, live);
    let mut failing = false;
    while !stop.load(Ordering::Relaxed) {
        match worker.take_batch(socket) {
            Ok(()) => failing = false,
            Err(fault) => {
                // An unreachable client's ICMP error comes up here too: go on, but do not spin.
                if !failing {
                    warn!(%fault, "receiving over UDP failed");
                }
                failing = true;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// What a worker has to itself.
struct Worker<'l> {
    live: &'l Live,
    batch: Batch,
    reader: Reader,
    sequences: OwnSequences,
    steps: Steps,
    counters: OwnCounters,
    /// When it began.
    start: Instant,
    /// How many batches were answered.
    batches: u32,
}

impl<'l> Worker<'l> {
    fn new(settings: WorkerSettings, live: &'l Live) -> Self {
        let limiter = Limiter::new(seed(), settings.workers);
        Self {
            live,
            batch: Batch::new(settings.batch, settings.reports_arrival),
            reader: live.reader(),
            sequences: OwnSequences::with_sessions(Arc::clone(live.sessions())),
            steps: Steps::new(settings.batch, limiter, live.query_log().map(QueryLog::sampler)),
            counters: OwnCounters::new(live),
            start: Instant::now(),
            batches: 0,
        }
    }

    /// Waits for a batch of queries, not longer than [`WAIT`], and answers it. Never inlined:
    /// benches/instructions.sh counts what is in here.
    #[inline(never)]
    fn take_batch(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let count = self.batch.receive(socket)?;
        let moment = self.reader.load();
        self.sequences.follow(moment);
        self.counters.follow(moment);
        let elapsed = self.start.elapsed();
        let turn = Turn {
            moment,
            sequences: &self.sequences,
            cookies: self.live.cookies(),
            tally: self.counters.tally(),
            now: u32::try_from(elapsed.as_micros() & u128::from(u32::MAX)).unwrap_or(0),
        };
        self.steps.answer(&mut self.batch, count, &turn);
        self.batch.send(socket);
        // A clock read for some batches, not for each; those that timed out have nothing to tell.
        self.batches = self.batches.wrapping_add(u32::from(count > 0));
        if count > 0 && self.batches.is_multiple_of(TIMED) {
            let took = self.start.elapsed().saturating_sub(elapsed);
            self.counters.fixed().times.add::<Alone>(took, count as u64);
        }
        Ok(())
    }
}

/// A random number for the limiter; without one buckets can be guessed, and are as good as before.
fn seed() -> u64 {
    let mut seed = [0; 8];
    if let Err(error) = fill_random(&mut seed) {
        warn!(%error, "there is no random number for response rate limiting");
    }
    u64::from_le_bytes(seed)
}

/// Answers one datagram into `out` as a worker does, but for response rate limiting: the short way if it is
/// common, else the long way. Gives the length of the reply, if there is one, and what it is counted by.
#[inline]
pub fn answer_and_tell(
    message: &[u8],
    source: IpAddr,
    cookies: &Cookies,
    quick: &Quick,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<(usize, Served)> {
    let Responder { state, sequences, .. } = responder;
    let short = quick::parse(message).and_then(|query| {
        let found = quick.find(&query)?;
        let judged = query.cookie().and_then(|cookie| cookies.judge(cookie, source));
        if !is_answered(judged.as_ref(), state) {
            return None;
        }
        let located = quick.locate(&query, found, || Some(source), &state.locator)?;
        let way = (&located, judged.as_ref());
        let short = quick.answer(message, &query, way, &state.locator, *sequences, out)?;
        let served = Served::steered(short.steered(&located), located.scoped(&query));
        Some((short.length, served))
    });
    let arrival = Arrival::datagram(source, cookies);
    let long = |out| reply::make(message, &arrival, responder, out);
    short.or_else(|| long(out).map(|made| (made.length, made.served)))
}

/// The same without what it is counted by.
#[inline]
pub fn answer_one(
    message: &[u8],
    source: IpAddr,
    cookies: &Cookies,
    quick: &Quick,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<usize> {
    answer_and_tell(message, source, cookies, quick, responder, out).map(|(length, _)| length)
}
