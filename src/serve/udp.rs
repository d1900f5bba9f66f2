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

use crate::cookies::{Cookies, Judged};
use crate::limit::{Limiter, Verdict};
use crate::query_log::{QueryLog, Sampler};
use crate::quick::{self, CommonQuery, Quick};
use crate::respond::Responder;
use crate::serve::live::{Live, Moment, Reader};
use crate::serve::mmsg::{Batch, Exchange};
use crate::serve::reply::{self, Arrival, Made};
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
            self.counters.fixed.times.add::<Alone>(took, count as u64);
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

/// A query of a batch, as far as it has come on the short way. It is written over with each batch: moving it
/// about costs more than reading it.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// What was read, if it is a common query that may be answered.
    query: CommonQuery,
    is_common: bool,
    located: Option<quick::Located>,
    /// What its cookie is worth; none if it has none.
    judged: Option<Judged>,
    /// The bucket that its answer is counted in; none if that is not limited.
    bucket: Option<u64>,
}

impl Step {
    const EMPTY: Self = Self {
        query: CommonQuery::EMPTY,
        is_common: false,
        located: None,
        judged: None,
        bucket: None,
    };
}

/// Takes a batch through the steps of the short way, each step for the whole batch: what a query
/// needs from memory for its next step arrives while the others are worked on.
#[derive(Debug)]
struct Steps {
    steps: Box<[Step]>,
    finish: Finish,
}

impl Steps {
    fn new(batch: usize, limiter: Limiter, sampler: Option<Sampler>) -> Self {
        Self { steps: vec![Step::EMPTY; batch].into(), finish: Finish { limiter, sampler } }
    }

    /// Answers a batch: the common queries the short way, the others the long way.
    fn answer(&mut self, batch: &mut Batch, count: usize, turn: &Turn<'_>) {
        let short = AssertUnwindSafe(|| self.look_up(batch, turn));
        if catch_unwind(short).is_err() {
            self.steps.iter_mut().for_each(|step| step.located = None);
            turn.tally.count_fault();
            error!("the short way panicked; the batch takes the long way");
        }
        let mut next = 0;
        while next < count {
            let steps = self.steps.get(next..).unwrap_or_default();
            let rest = AssertUnwindSafe(|| {
                for (step, exchange) in steps.iter().zip(batch.exchanges(next)) {
                    self.finish.reply(step, exchange, turn);
                    next += 1;
                }
            });
            if catch_unwind(rest).is_ok() {
                return;
            }
            turn.tally.count_fault();
            error!("the short way panicked; the query takes the long way");
            // The fault is that answer's failure, and the long way says which it is.
            let step = self.steps.get_mut(next);
            next += usize::from(step.and_then(|step| step.located.take()).is_none());
        }
    }

    /// Reads the batch's common queries, finds their names, and locates their clients.
    fn look_up(&mut self, batch: &Batch, turn: &Turn<'_>) {
        let Moment { state, quick, .. } = turn.moment;
        let settings = &state.rate_limit;
        let (mut approached, mut counters, mut count) = (0, 0, 0);
        for (step, received) in self.steps.iter_mut().zip(batch.received()) {
            count += 1;
            step.is_common = false;
            let Some((message, source)) = received else { continue };
            if !step.query.read(message) {
                continue;
            }
            step.is_common = true;
            step.judged = None;
            step.bucket = self.finish.limiter.key(settings, &source, step.query.answer_hash());
            if let Some(cookie) = step.query.cookie() {
                step.judged = turn.cookies.judge(cookie, source);
                step.is_common = is_answered(step.judged.as_ref(), state);
                if step.judged.is_some_and(|judged| judged.is_valid) {
                    step.bucket = None;
                }
            }
        }
        let steps = self.steps.get_mut(..count).unwrap_or_default();
        // Loops of a few instructions, so that the memory of all queries is on its way at once.
        for step in steps.iter().filter(|step| step.is_common) {
            approached ^= quick.approach(&step.query, &state.locator);
        }
        for step in steps.iter().filter(|step| step.is_common) {
            approached ^= quick.approach_entry(&step.query, &state.locator);
        }
        for (i, step) in steps.iter_mut().enumerate() {
            step.located = None;
            if step.is_common
                && let Some(found) = quick.find(&step.query)
            {
                let source = || batch.source(i);
                step.located = quick.locate(&step.query, found, source, &state.locator);
            }
        }
        for Step { located, bucket, .. } in &*steps {
            let Some(located) = located else { continue };
            counters ^= turn.tally.approach(located.counter());
            approached ^= bucket.map_or(0, |bucket| self.finish.limiter.approach(bucket));
            if let Some((tags, key)) = quick.approach_session(located) {
                approached ^= tags ^ turn.sequences.approach_session(key);
                continue;
            }
            let (pool, slot) = quick.approach_pool(located);
            approached ^= pool ^ turn.sequences.approach(slot);
        }
        let mut zones = 0;
        if quick.have_zones() {
            for located in steps.iter().filter_map(|step| step.located.as_ref()) {
                zones ^= quick.approach_zones(located);
            }
        }
        std::hint::black_box((approached, counters, zones));
    }
}

/// What becomes of answers: they are limited, counted, logged and sent.
#[derive(Debug)]
struct Finish {
    limiter: Limiter,
    /// What chooses answers for the log of queries, if there is one.
    sampler: Option<Sampler>,
}

/// An answer that was written.
struct Written {
    length: usize,
    served: Served,
    /// The bucket that it is counted in; none if that is not limited.
    bucket: Option<u64>,
}

impl Finish {
    /// Answers one query of a batch, if it gets a reply.
    #[inline]
    fn reply(&mut self, step: &Step, mut exchange: Exchange<'_>, turn: &Turn<'_>) {
        let Moment { state, quick, .. } = turn.moment;
        let Step { query, judged, located, bucket, .. } = step;
        let short = located.as_ref().and_then(|located| {
            let (message, out) = exchange.parts();
            let way = (located, judged.as_ref());
            let short = quick.answer(message, query, way, &state.locator, turn.sequences, out)?;
            Some((short, short.steered(located), located.scoped(query)))
        });
        match short {
            Some((short, steered, subnet)) if bucket.is_none() && self.sampler.is_none() => {
                turn.tally.count_usual(&steered, subnet);
                exchange.send(short.length);
            }
            Some((short, steered, subnet)) => {
                let served = Served::steered(steered, subnet);
                let written = Written { length: short.length, served, bucket: *bucket };
                self.finish(exchange, turn, written);
            }
            None => self.reply_long(exchange, turn),
        }
    }

    /// The same the long way.
    #[inline(never)]
    fn reply_long(&mut self, mut exchange: Exchange<'_>, turn: &Turn<'_>) {
        let Some(source) = exchange.source() else {
            turn.tally.count_dropped(Dropped::Unreadable);
            return;
        };
        let arrival = Arrival::datagram(source, &turn.cookies);
        let (message, out) = exchange.parts();
        let Some(made) = reply::make(message, &arrival, &turn.responder(), out) else {
            turn.tally.count_dropped(Dropped::of(message));
            return;
        };
        let settings = &turn.moment.state.rate_limit;
        let key = || self.limiter.key(settings, &source, made.equal);
        let bucket = if made.is_proven { None } else { key() };
        let Made { length, served, .. } = made;
        self.finish(exchange, turn, Written { length, served, bucket });
    }

    /// Limits, counts, logs and sends an answer that was written.
    #[inline(never)]
    fn finish(&mut self, mut exchange: Exchange<'_>, turn: &Turn<'_>, written: Written) {
        let Some(source) = exchange.source() else { return };
        let Written { length, mut served, bucket } = written;
        let port = exchange.port();
        let (message, out) = exchange.parts();
        if let Some(bucket) = bucket {
            let settings = &turn.moment.state.rate_limit;
            served.verdict = self.limiter.count(settings, bucket, turn.now);
        }
        turn.tally.count(&served);
        let length = match served.verdict {
            Verdict::Send => Some(length),
            Verdict::Truncate => {
                let arrival = Arrival::datagram(source, &turn.cookies);
                reply::truncated(message, &arrival, &turn.moment.state.keys, out)
            }
            Verdict::Drop => None,
        };
        if let Some(sampler) = &mut self.sampler
            && sampler.takes()
        {
            let reply = out.get(..length.unwrap_or(0)).unwrap_or_default();
            let (client, messages) = ((source, Some(port)), (message, reply));
            let generation = turn.moment.generation;
            sampler.log().push(SystemTime::now(), client, &served, generation, messages);
        }
        if let Some(length) = length {
            exchange.send(length);
        }
    }
}

/// True if nothing more is asked of a client before it is answered.
#[inline]
fn is_answered(judged: Option<&Judged>, state: &State) -> bool {
    !state.require_cookies || judged.is_none_or(|judged| judged.is_valid)
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
