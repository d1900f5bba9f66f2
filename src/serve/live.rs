//! The state of the moment, and its swap: readers load one pointer and see the configuration, the
//! plan and the sequences that belong together, never a mix.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption, Cache};

use crate::cookies::{Cookies, Secrets};
use crate::query_log::QueryLog;
use crate::quick::Quick;
use crate::respond::Responder;
use crate::serve::meters::Meters;
use crate::serve::sequences::SharedSequences;
use crate::serve::sessions::{SharedMemory, SharedSessions};
use crate::serve::traffic::Traffic;
use crate::served::Served;
use crate::state::State;
use crate::steer::Memory;
use crate::steer::availability::{Health, HealthState};
use crate::steer::load_balancer::Rules;
use crate::steer::plan::Plan;
use crate::steer::pool::{Pool, PoolId};
use crate::tally::counters::Counts;
use crate::tally::{Shared, Tally};
use crate::transfer::published;

/// One moment: everything that an answer is made from.
#[derive(Debug)]
pub struct Moment {
    /// Counts the states from 1; shown in logs.
    pub generation: u64,
    /// The configuration.
    pub state: Arc<State>,
    /// Its pools with the addresses of host names, as far as an operator did not disable or drain them.
    pub pools: Arc<[Pool]>,
    /// The health of the moment.
    pub health: Health,
    /// What it makes of the pools.
    pub plan: Plan,
    /// The same for common queries.
    pub quick: Quick,
    /// The numbers of the answers.
    pub sequences: Arc<SharedSequences>,
    /// What answers over streams are counted by.
    pub counts: Arc<Counts>,
    /// What secondaries get of the pools, once one asks.
    published: OnceLock<Arc<Plan>>,
}

impl Moment {
    /// The first moment of a state; `pools` are the state's, or those that overrides make of them.
    pub fn new(
        generation: u64,
        state: State,
        pools: Arc<[Pool]>,
        health: Health,
        measured: Arc<[Rules]>,
    ) -> Self {
        let plan = Plan::new(&pools, &health).with_measured(measured);
        let quick = Quick::compile(&state, &plan);
        let sequences = Arc::new(SharedSequences::new(state.slot_count));
        let (state, published) = (Arc::new(state), OnceLock::new());
        let counts = Arc::new(Counts::new(Arc::clone(&state.layout)));
        Self { generation, state, pools, health, plan, quick, sequences, counts, published }
    }

    /// The first moment of a state with every origin healthy.
    pub fn healthy(state: State) -> Self {
        let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
        let pools = Arc::clone(&state.pools);
        Self::new(1, state, pools, health, Arc::default())
    }

    /// The same state after the health of some pools changed.
    pub fn with_health(&self, health: Health, changed: &[PoolId]) -> Self {
        let plan = self.plan.updated(&self.pools, &health, changed);
        let quick = self.quick.updated(&self.state, &plan, changed);
        self.following(Arc::clone(&self.pools), health, plan, quick)
    }

    /// The same state after overrides changed.
    pub fn with_overrides(&self, pools: Arc<[Pool]>, health: Health) -> Self {
        let measured = Arc::clone(self.plan.measured());
        let plan = Plan::new(&pools, &health).with_measured(measured);
        let all: Vec<_> = (0u32..).take(pools.len()).map(PoolId).collect();
        let quick = self.quick.updated(&self.state, &plan, &all);
        self.following(pools, health, plan, quick)
    }

    /// The same state after some pools changed: their addresses, or the numbers of what probes them.
    pub fn with_pools(&self, pools: Arc<[Pool]>, health: Health, changed: &[PoolId]) -> Self {
        let plan = self.plan.updated(&pools, &health, changed);
        let quick = self.quick.updated(&self.state, &plan, changed);
        self.following(pools, health, plan, quick)
    }

    /// The same state after round-trip times were published: these candidate lists of the load balancers
    /// with RTT steering.
    pub fn with_measured(&self, measured: Arc<[Rules]>) -> Self {
        let is_alike = |(old, new): (&Rules, &Rules)| {
            old.regions == new.regions && old.lists.len() == new.lists.len()
        };
        let old = self.plan.measured();
        let alike = old.len() == measured.len() && old.iter().zip(measured.iter()).all(is_alike);
        let plan = self.plan.clone().with_measured(measured);
        // Who matches which list is worked out anew only where there are others than before.
        let quick = if alike {
            self.quick.updated(&self.state, &plan, &[])
        } else {
            Quick::compile(&self.state, &plan)
        };
        self.following(Arc::clone(&self.pools), self.health.clone(), plan, quick)
    }

    fn following(&self, pools: Arc<[Pool]>, health: Health, plan: Plan, quick: Quick) -> Self {
        let (state, sequences) = (Arc::clone(&self.state), Arc::clone(&self.sequences));
        let (counts, published) = (Arc::clone(&self.counts), OnceLock::new());
        let generation = self.generation;
        Self { generation, state, pools, health, plan, quick, sequences, counts, published }
    }

    /// The plan that zones are transferred with: all origins are healthy.
    pub fn published(&self) -> &Arc<Plan> {
        self.published.get_or_init(|| Arc::new(published::plan(&self.state, &self.pools)))
    }

    /// What answers are made from, with what they leave for the next.
    pub fn responder<'m, M: Memory>(&'m self, memory: &'m M) -> Responder<'m, M> {
        Responder { state: &self.state, plan: &self.plan, sequences: memory }
    }
}

/// The current moment, shared by everything that answers.
#[derive(Clone, Debug)]
pub struct Live {
    moment: Arc<ArcSwap<Moment>>,
    /// Moments that a worker may still hold. They are let go of here, not there: freeing a large one
    /// takes longer than many answers.
    retired: Arc<Mutex<Vec<Arc<Moment>>>>,
    /// Whether much was freed that the allocator may still keep.
    leavings: Arc<AtomicBool>,
    /// What outlasts the moments.
    sessions: Arc<SharedSessions>,
    /// The secrets of cookies, which change by themselves.
    secrets: Arc<ArcSwapOption<Secrets>>,
    /// What was answered.
    traffic: Arc<Traffic>,
    /// What else is counted.
    meters: Arc<Meters>,
    /// The log of queries, if there is one.
    query_log: Arc<OnceLock<Arc<QueryLog>>>,
}

impl Live {
    /// Begins with a moment.
    pub fn new(moment: Moment, sessions: SharedSessions) -> Self {
        let traffic = Arc::new(Traffic::new(&moment.state, &moment.counts));
        let live = Self {
            traffic,
            meters: Arc::default(),
            query_log: Arc::default(),
            moment: Arc::new(ArcSwap::from_pointee(moment)),
            retired: Arc::default(),
            // What the files were read with.
            leavings: Arc::new(AtomicBool::new(true)),
            sessions: Arc::new(sessions),
            secrets: Arc::default(),
        };
        live.make_room(&live.load());
        live
    }

    /// The sessions of all load balancers.
    pub fn sessions(&self) -> &Arc<SharedSessions> {
        &self.sessions
    }

    /// What was answered.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// What else is counted.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Logs queries to this from now on; of several the first counts.
    pub fn log_to(&self, query_log: Arc<QueryLog>) {
        self.query_log.get_or_init(|| query_log);
    }

    /// The log of queries, if there is one.
    pub fn query_log(&self) -> Option<&Arc<QueryLog>> {
        self.query_log.get()
    }

    /// Counts a reply to a client over a stream, and logs it if it is its turn.
    pub fn note(&self, moment: &Moment, client: IpAddr, served: &Served, messages: (&[u8], &[u8])) {
        self.tally(moment).count(served);
        let Some(log) = self.query_log.get().filter(|log| log.takes_stream()) else { return };
        log.push(SystemTime::now(), (client, None), served, moment.generation, messages);
    }

    /// Where answers from a moment over streams are counted.
    pub fn tally<'m>(&'m self, moment: &'m Moment) -> Tally<'m, Shared> {
        Tally::new(self.traffic.shared(), &moment.counts)
    }

    /// What answers from a moment leave for those after them, by now.
    pub fn memory<'m>(&'m self, moment: &'m Moment) -> SharedMemory<'m> {
        let sessions = self.sessions.at(self.sessions.now());
        SharedMemory { sequences: &moment.sequences, sessions }
    }

    /// The secrets of cookies, and the time: what the cookies of a batch are judged by.
    pub fn cookies(&self) -> Cookies {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Times of cookies are modulo 2³² (RFC 9018 section 4.3).
        let now = u32::try_from(time.as_secs() & u64::from(u32::MAX)).unwrap_or(0);
        Cookies::new(self.secrets.load().as_deref().copied(), now)
    }

    /// Makes cookies with these secrets from now on.
    pub fn set_secrets(&self, secrets: Secrets) {
        self.secrets.store(Some(Arc::new(secrets)));
    }

    /// Makes room for sessions if a load balancer has them.
    fn make_room(&self, moment: &Moment) {
        if moment.state.has_sessions {
            self.sessions.open();
        }
    }

    /// The current moment.
    pub fn load(&self) -> arc_swap::Guard<Arc<Moment>> {
        self.moment.load()
    }

    /// The current moment, to be kept for longer.
    pub fn load_full(&self) -> Arc<Moment> {
        self.moment.load_full()
    }

    /// A reader for one thread, which keeps the moment until there is a new one.
    pub fn reader(&self) -> Reader {
        Reader { cache: Cache::new(Arc::clone(&self.moment)) }
    }

    /// Replaces the moment whole.
    pub fn swap(&self, moment: Moment) {
        self.make_room(&moment);
        // Before anyone counts by it.
        self.traffic.follow(&moment.state, &moment.counts);
        let old = self.moment.swap(Arc::new(moment));
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.push(old);
        self.release(&mut retired);
    }

    /// Frees what no worker holds any more.
    pub fn tidy(&self) {
        self.release(&mut self.retired.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn release(&self, retired: &mut Vec<Arc<Moment>>) {
        let generation = self.load().generation;
        let older = |retired: &[Arc<Moment>]| {
            retired.iter().filter(|moment| moment.generation < generation).count()
        };
        let before = older(retired);
        retired.retain(|moment| Arc::strong_count(moment) > 1);
        if older(retired) < before {
            self.leave();
        }
    }

    /// Tells that much was freed: a state, or what one was made of.
    pub fn leave(&self) {
        self.leavings.store(true, Ordering::Relaxed);
    }

    /// True if that was told since the last time.
    pub fn take_leavings(&self) -> bool {
        self.leavings.swap(false, Ordering::Relaxed)
    }
}

/// Reads the current moment at the cost of comparing a pointer.
#[derive(Debug)]
pub struct Reader {
    cache: Cache<Arc<ArcSwap<Moment>>, Arc<Moment>>,
}

impl Reader {
    /// The current moment.
    pub fn load(&mut self) -> &Arc<Moment> {
        self.cache.load()
    }
}
