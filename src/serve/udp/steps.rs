//! The steps that a worker takes a batch through, each for the whole batch: what a query needs from memory for
//! its next step arrives while the others are worked on. First the short way of the common ones, then every
//! answer: limited, counted, logged and put into line.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use tracing::error;

use crate::cookies::{Cookies, Judged};
use crate::limit::{Limiter, Verdict};
use crate::query_log::Sampler;
use crate::quick::{self, CommonQuery};
use crate::respond::Responder;
use crate::serve::live::Moment;
use crate::serve::mmsg::{Batch, Exchange};
use crate::serve::reply::{self, Arrival, Made};
use crate::serve::udp::own::OwnSequences;
use crate::served::Served;
use crate::state::State;
use crate::tally::counters::Dropped;
use crate::tally::{Alone, Tally};

/// What the queries of a batch are answered by.
pub(super) struct Turn<'t> {
    pub(super) moment: &'t Moment,
    pub(super) sequences: &'t OwnSequences,
    pub(super) cookies: Cookies,
    pub(super) tally: Tally<'t, Alone>,
    /// Microseconds, modulo 2³².
    pub(super) now: u32,
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
pub(super) struct Steps {
    steps: Box<[Step]>,
    finish: Finish,
}

impl Steps {
    pub(super) fn new(batch: usize, limiter: Limiter, sampler: Option<Sampler>) -> Self {
        Self { steps: vec![Step::EMPTY; batch].into(), finish: Finish { limiter, sampler } }
    }

    /// Answers a batch: the common queries the short way, the others the long way.
    pub(super) fn answer(&mut self, batch: &mut Batch, count: usize, turn: &Turn<'_>) {
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
pub(super) fn is_answered(judged: Option<&Judged>, state: &State) -> bool {
    !state.require_cookies || judged.is_none_or(|judged| judged.is_valid)
}
