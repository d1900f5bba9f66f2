//! The UDP workers: a thread for each core and address, each with a socket of its own that the
//! kernel spreads the clients over. A worker takes a batch of queries, answers each where it stands,
//! and sends the batch of replies. No task, channel, lock or allocation; one pointer is compared per
//! batch to notice a new state.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tracing::{error, warn};

use crate::cookies::Cookies;
use crate::limit::{Limiter, Verdict};
use crate::query_log::{QueryLog, Sampler};
use crate::quick::{self, CommonQuery, Quick, Short};
use crate::respond::Responder;
use crate::serve::live::{Live, Moment};
use crate::serve::mmsg::Batch;
use crate::serve::reply::{self, Arrival};
use crate::serve::secrets::fill_random;
use crate::serve::sessions::{SharedSessions, Tick};
use crate::serve::traffic::Traffic;
use crate::served::Served;
use crate::state::State;
use crate::steer::session::{OriginTag, SessionKey, Sessions};
use crate::steer::slots::Slots;
use crate::steer::{Memory, Sequences};
use crate::tally::counters::{Counts, Dropped, Fixed};
use crate::tally::{Alone, Tally};

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
    let mut batch = Batch::new(settings.batch, settings.reports_arrival);
    let mut reader = live.reader();
    let mut sequences = OwnSequences::with_sessions(Arc::clone(live.sessions()));
    let limiter = Limiter::new(seed(), settings.workers);
    let mut steps = Steps::new(settings.batch, limiter, live.query_log().map(QueryLog::sampler));
    let mut counters = OwnCounters::new(live);
    let mut batches: u32 = 0;
    let mut failing = false;
    let start = Instant::now();
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
        counters.follow(moment);
        let elapsed = start.elapsed();
        let turn = Turn {
            moment,
            sequences: &sequences,
            cookies: live.cookies(),
            tally: counters.tally(),
            now: u32::try_from(elapsed.as_micros() & u128::from(u32::MAX)).unwrap_or(0),
        };
        steps.answer(&mut batch, count, &turn);
        batch.send(socket);
        // A clock read for some batches, not for each; those that timed out have nothing to tell.
        batches = batches.wrapping_add(u32::from(count > 0));
        if count > 0 && batches.is_multiple_of(TIMED) {
            let took = start.elapsed().saturating_sub(elapsed);
            counters.fixed.times.add::<Alone>(took, count as u64);
        }
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

/// What the queries of a batch are answered by.
struct Turn<'t> {
    moment: &'t Moment,
    sequences: &'t OwnSequences,
    cookies: Cookies,
    tally: Tally<'t, Alone>,
    /// Microseconds, modulo 2³².
    now: u32,
}

impl<'t> Turn<'t> {
    fn responder(&self) -> Responder<'t, OwnSequences> {
        let Moment { state, plan, .. } = self.moment;
        Responder { state, plan, sequences: self.sequences }
    }
}

/// Takes a batch through the steps of the short way, each step for the whole batch: what a query
/// needs from memory for its next step arrives while the others are worked on.
#[derive(Debug)]
struct Steps {
    queries: Vec<Option<CommonQuery>>,
    found: Vec<Option<quick::Found>>,
    located: Vec<Option<quick::Located>>,
    /// The buckets that their answers are counted in; none for those that are not limited.
    buckets: Vec<Option<u64>>,
    limiter: Limiter,
    /// What chooses answers for the log of queries, if there is one.
    sampler: Option<Sampler>,
}

impl Steps {
    fn new(batch: usize, limiter: Limiter, sampler: Option<Sampler>) -> Self {
        Self {
            queries: vec![None; batch],
            found: vec![None; batch],
            located: vec![None; batch],
            buckets: vec![None; batch],
            limiter,
            sampler,
        }
    }

    /// Answers a batch: the common queries the short way, the others the long way.
    fn answer(&mut self, batch: &mut Batch, count: usize, turn: &Turn<'_>) {
        // A fault in one answer is that answer's failure, and the long way says which it is.
        let short = AssertUnwindSafe(|| self.look_up(batch, count, turn));
        if catch_unwind(short).is_err() {
            self.located.fill(None);
            turn.tally.count_fault();
            error!("the short way panicked; the batch takes the long way");
        }
        for i in 0..count {
            if let Some(length) = self.reply(batch, i, turn) {
                batch.reply(i, length);
            }
        }
    }

    /// Answers one query of a batch; none if it gets no reply.
    #[inline]
    fn reply(&mut self, batch: &mut Batch, i: usize, turn: &Turn<'_>) -> Option<usize> {
        let port = batch.port(i);
        let Some((message, source, out)) = batch.query(i) else {
            turn.tally.count_dropped(Dropped::Unreadable);
            return None;
        };
        let query = self.queries.get(i).and_then(Option::as_ref);
        let located = self.located.get(i).and_then(Option::as_ref);
        let Moment { state, quick, .. } = turn.moment;
        let short = query.zip(located).and_then(|(query, located)| {
            let short =
                || quick.answer(message, query, *located, &state.locator, turn.sequences, out);
            catch_unwind(AssertUnwindSafe(short)).unwrap_or_default()
        });
        let arrival = Arrival::datagram(source, &turn.cookies);
        let (length, mut served, bucket) = match short {
            Some(Short { length, served }) => {
                (length, served, self.buckets.get(i).copied().flatten())
            }
            None => {
                let Some(made) = reply::make(message, &arrival, &turn.responder(), out) else {
                    turn.tally.count_dropped(Dropped::of(message));
                    return None;
                };
                let key = || self.limiter.key(&state.rate_limit, source, made.equal);
                (made.length, made.served, if made.is_proven { None } else { key() })
            }
        };
        if let Some(bucket) = bucket {
            served.verdict = self.limiter.count(&state.rate_limit, bucket, turn.now);
        }
        turn.tally.count(&served);
        let length = match served.verdict {
            Verdict::Send => Some(length),
            Verdict::Truncate => reply::truncated(message, &arrival, &state.keys, out),
            Verdict::Drop => None,
        };
        if let Some(sampler) = &mut self.sampler
            && sampler.takes()
        {
            let reply = out.get(..length.unwrap_or(0)).unwrap_or_default();
            let (client, messages) = ((source, port), (message, reply));
            let generation = turn.moment.generation;
            sampler.log().push(SystemTime::now(), client, &served, generation, messages);
        }
        length
    }

    /// Reads the batch's common queries, finds their names, and locates their clients. The steps are
    /// loops of their own, short enough for the processor to wait for the memory of several queries
    /// at once.
    fn look_up(&mut self, batch: &mut Batch, count: usize, turn: &Turn<'_>) {
        let Moment { state, quick, .. } = turn.moment;
        let (mut approached, mut counters) = (0, 0);
        for (i, query) in self.queries.iter_mut().enumerate().take(count) {
            *query = batch.query(i).and_then(|(message, _, _)| quick::parse(message));
            if let Some(query) = query {
                approached ^= quick.approach(query);
            }
        }
        for (query, found) in self.queries.iter().zip(&mut self.found).take(count) {
            *found = query.as_ref().and_then(|query| quick.find(query));
        }
        let found = self.queries.iter().zip(&self.found).zip(&mut self.buckets);
        let found = found.enumerate().take(count);
        for ((i, ((query, found), bucket)), located) in found.zip(&mut self.located) {
            *located = query.as_ref().and_then(|query| {
                let (_, source, _) = batch.query(i)?;
                let located =
                    quick.locate(query, (*found)?, source, &state.locator, &turn.cookies)?;
                let is_proven = is_proven(&located);
                let key = || self.limiter.key(&state.rate_limit, source, query.answer_hash());
                *bucket = if is_proven { None } else { key() };
                is_answered(&located, state).then_some(located)
            });
        }
        for (located, bucket) in self.located.iter().zip(&self.buckets).take(count) {
            let Some(located) = located else { continue };
            counters ^= turn.tally.approach(located.counter());
            approached ^= bucket.map_or(0, |bucket| self.limiter.approach(bucket));
            if let Some((tags, key)) = quick.approach_session(located) {
                approached ^= tags ^ turn.sequences.approach_session(key);
                continue;
            }
            let (pool, slot) = quick.approach_pool(located);
            approached ^= pool ^ turn.sequences.approach(slot);
        }
        std::hint::black_box((approached, counters));
    }
}

/// True if the client has the address that it claims.
#[inline]
fn is_proven(located: &quick::Located) -> bool {
    located.judged().is_some_and(|judged| judged.is_valid)
}

/// True if nothing more is asked of a client before it is answered.
#[inline]
fn is_answered(located: &quick::Located, state: &State) -> bool {
    !state.require_cookies || located.judged().is_none_or(|judged| judged.is_valid)
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
        let located = quick.locate(&query, found, source, &state.locator, cookies)?;
        if !is_answered(&located, state) {
            return None;
        }
        let short = quick.answer(message, &query, located, &state.locator, *sequences, out)?;
        Some((short.length, short.served))
    });
    let arrival = Arrival::datagram(source, cookies);
    let long = |out| reply::make(message, &arrival, responder, out);
    short.or_else(|| long(out).map(|made| (made.length, made.served)))
}

/// What one worker counts by: nobody else writes it.
#[derive(Debug)]
pub struct OwnCounters {
    traffic: Arc<Traffic>,
    fixed: Arc<Fixed>,
    counts: Arc<Counts>,
}

impl OwnCounters {
    /// For the moments of these.
    pub fn new(live: &Live) -> Self {
        let traffic = Arc::clone(live.traffic());
        let counts = traffic.counts(&live.load().state.layout);
        Self { fixed: traffic.fixed(), counts, traffic }
    }

    /// Makes the counters fit a moment; allocates only if it is of another state.
    pub fn follow(&mut self, moment: &Moment) {
        if !Arc::ptr_eq(self.counts.layout(), &moment.state.layout) {
            self.counts = self.traffic.counts(&moment.state.layout);
        }
    }

    /// Where answers from that moment are counted.
    pub fn tally(&self) -> Tally<'_, Alone> {
        Tally::new(&self.fixed, &self.counts)
    }
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

/// The numbers of the answers of one worker: nobody else draws from them. They start again with a
/// new state. The sessions beside them are everybody's.
#[derive(Debug, Default)]
pub struct OwnSequences {
    /// The state that the slots belong to.
    generation: u64,
    slots: Slots,
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
            self.slots = Slots::new(moment.state.slot_count);
        }
    }

    /// Starts the memory of a slot on its way.
    #[inline]
    fn approach(&self, slot: u32) -> u32 {
        self.slots.approach(slot)
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
        self.slots.next(slot, fingerprint)
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
