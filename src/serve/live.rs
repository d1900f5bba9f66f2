//! The state of the moment, and its swap: readers load one pointer and see the configuration, the
//! plan and the sequences that belong together, never a mix.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::quick::Quick;
use crate::respond::Responder;
use crate::serve::sequences::SharedSequences;
use crate::state::State;
use crate::steer::availability::{Health, HealthState};
use crate::steer::plan::Plan;

/// One moment: everything that an answer is made from.
#[derive(Debug)]
pub struct Moment {
    /// Counts the states from 1; shown in logs.
    pub generation: u64,
    /// The configuration.
    pub state: Arc<State>,
    /// What health makes of it.
    pub plan: Plan,
    /// The same for common queries.
    pub quick: Quick,
    /// The numbers of the answers.
    pub sequences: SharedSequences,
}

impl Moment {
    /// A moment with every origin healthy: nothing probes yet.
    pub fn new(generation: u64, state: State) -> Self {
        let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
        let plan = Plan::new(&state.pools, &health);
        let quick = Quick::compile(&state, &plan);
        let sequences = SharedSequences::new(state.slot_count);
        Self { generation, state: Arc::new(state), plan, quick, sequences }
    }

    /// What answers are made from.
    pub fn responder(&self) -> Responder<'_, SharedSequences> {
        Responder { state: &self.state, plan: &self.plan, sequences: &self.sequences }
    }
}

/// The current moment, shared by everything that answers.
#[derive(Clone, Debug)]
pub struct Live {
    moment: Arc<ArcSwap<Moment>>,
}

impl Live {
    /// Begins with a moment.
    pub fn new(moment: Moment) -> Self {
        Self { moment: Arc::new(ArcSwap::from_pointee(moment)) }
    }

    /// The current moment.
    pub fn load(&self) -> arc_swap::Guard<Arc<Moment>> {
        self.moment.load()
    }

    /// A reader for one thread, which keeps the moment until there is a new one.
    pub fn reader(&self) -> Reader {
        Reader { cache: Cache::new(Arc::clone(&self.moment)) }
    }

    /// Replaces the moment whole.
    pub fn swap(&self, moment: Moment) {
        self.moment.store(Arc::new(moment));
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
