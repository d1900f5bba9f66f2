//! What `Control` writes into the journal: changes of health, and what follows for the pools.

use std::collections::HashMap;
use std::sync::Arc;

use crate::explain::{Facts, Said, Scene, pool_part};
use crate::health::board::Changed;
use crate::health::overrides::{Overrides, Subject};
use crate::journal::{Entry, entries};
use crate::rtt::figures::Moved;
use crate::serve::control::{Control, Inner};
use crate::serve::live::Moment;
use crate::state::State;
use crate::steer::load_balancer::RttTolerance;
use crate::steer::pool::{OriginIndex, PoolId};
use crate::steer::rtt::RttTable;

/// The most round-trip times that are told each by itself when many move together.
const MOST_MOVED: usize = 20;

impl Control {
    /// Swaps a moment in, and tells what caused it and which pools became available or ceased to be.
    pub(super) fn swap(
        &self,
        inner: &Inner,
        moment: Moment,
        causes: impl IntoIterator<Item = Entry>,
    ) {
        let old = self.live.load_full();
        self.live.swap(moment);
        let new = self.live.load();
        let told = causes.into_iter().chain(availability(&inner.overrides, &old, &new));
        self.journal.record(told);
    }

    /// Tells which round-trip times moved.
    pub(super) fn tell_moved(&self, state: &State, moved: &[Moved]) {
        let told = moved.iter().take(MOST_MOVED).map(|moved| entries::rtt(state, moved));
        let more = moved.len().saturating_sub(MOST_MOVED);
        self.journal.record(told.chain((more > 0).then(|| entries::more_rtt(more))));
    }
}

impl Inner {
    /// The entries of changes of health.
    pub(super) fn told(&self, moment: &Moment, changes: &[Changed]) -> Vec<Entry> {
        let mut told = Vec::new();
        for Changed { probe, change } in changes {
            if let Some(target) = self.board.target(*probe) {
                told.extend(entries::health(&moment.state, &moment.pools, target, change));
            }
        }
        told
    }
}

/// An entry for each pool of both moments that is available in one of them only.
fn availability(overrides: &Overrides, old: &Moment, new: &Moment) -> Vec<Entry> {
    let is_same = Arc::ptr_eq(&old.state, &new.state);
    let before: HashMap<Subject, PoolId> = if is_same {
        HashMap::new()
    } else {
        pools(&old.state).map(|id| (Subject::pool(&old.state, id), id)).collect()
    };
    let scene = Scene {
        state: &new.state,
        pools: &new.pools,
        health: &new.health,
        plan: &new.plan,
        facts: &Words { state: &new.state, overrides },
    };
    let changed = |id: PoolId| {
        let subject = || Subject::pool(&new.state, id);
        let was = if is_same { Some(id) } else { before.get(&subject()).copied() }?;
        let (was, is) = (old.plan.pool(was)?.available, new.plan.pool(id)?.available);
        (was != is).then(|| entries::pool(subject(), is, pool_part(&scene, id).reason))
    };
    pools(&new.state).filter_map(changed).collect()
}

fn pools(state: &State) -> impl Iterator<Item = PoolId> + use<> {
    (0u32..).map(PoolId).take(state.pools.len())
}

/// What operators said, which is in the reasons.
struct Words<'w> {
    state: &'w State,
    overrides: &'w Overrides,
}

impl Facts for Words<'_> {
    fn said_of_pool(&self, pool: PoolId) -> Option<Said> {
        Said::among(self.overrides, &Subject::pool(self.state, pool))
    }

    fn said_of_origin(&self, pool: PoolId, origin: OriginIndex) -> Option<Said> {
        let name = self.state.pool(pool)?.origin(origin)?.name.clone();
        Said::among(
            self.overrides,
            &Subject { origin: Some(name), ..Subject::pool(self.state, pool) },
        )
    }

    fn probed(&self, _: PoolId, _: OriginIndex) -> Option<String> {
        None
    }

    fn times(&self, _: RttTolerance) -> Option<&RttTable> {
        None
    }
}
