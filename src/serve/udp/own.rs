//! What a worker has to itself, so that nothing on the path of a query is shared: counters, and the numbers of
//! answers.

use std::sync::Arc;

use crate::serve::live::{Live, Moment};
use crate::serve::sessions::{SharedSessions, Tick};
use crate::serve::traffic::Traffic;
use crate::steer::Sequences;
use crate::steer::session::{OriginTag, SessionKey, Sessions};
use crate::steer::slots::Slots;
use crate::tally::counters::{Counts, Fixed};
use crate::tally::{Alone, Tally};

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

    /// What does not depend on the configuration.
    pub(super) fn fixed(&self) -> &Fixed {
        &self.fixed
    }

    /// Where answers from that moment are counted.
    pub fn tally(&self) -> Tally<'_, Alone> {
        Tally::new(&self.fixed, &self.counts)
    }
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
    pub(super) fn approach(&self, slot: u32) -> u32 {
        self.slots.approach(slot)
    }

    /// Starts the memory of a session on its way.
    #[inline]
    pub(super) fn approach_session(&self, key: SessionKey) -> u32 {
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
