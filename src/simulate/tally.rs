//! Counts what the load balancers answered.

use crate::simulate::Outcome;
use crate::state::State;
use crate::steer::load_balancer::LoadBalancerId;
use crate::steer::pool::PoolId;

/// What was answered, by load balancer.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By [`LoadBalancerId`].
    balancers: Vec<BalancerTally>,
    /// Queries for names and types that no load balancer answers.
    pub others: u64,
}

/// What one load balancer answered.
#[derive(Clone, Debug, Default)]
pub struct BalancerTally {
    /// SERVFAIL: no pool could answer.
    pub no_answer: u64,
    /// Answers of the fallback pool because no candidate was available.
    pub fallback: u64,
    /// Answers to clients that are in a zone.
    pub zoned: u64,
    /// Those of them whose origin is not in the client's zone.
    pub cross_zone: u64,
    /// Its pools, in the order of their ids.
    pub pools: Vec<PoolTally>,
}

/// What a pool answered for a load balancer.
#[derive(Clone, Debug)]
pub struct PoolTally {
    /// The pool.
    pub pool: PoolId,
    /// Queries without an answer of their type.
    pub no_data: u64,
    /// Answers by their first origin, in the order of the pool.
    pub origins: Vec<u64>,
}

impl Tally {
    /// Nothing, for the load balancers of a state.
    pub fn new(state: &State) -> Self {
        let pool = |&(pool, _): &(PoolId, u32)| {
            let origins = state.pool(pool).map_or(0, |pool| pool.origins.len());
            PoolTally { pool, no_data: 0, origins: vec![0; origins] }
        };
        let balancer = |balancer: &crate::steer::load_balancer::LoadBalancer| BalancerTally {
            pools: balancer.slots.iter().map(pool).collect(),
            ..BalancerTally::default()
        };
        Self { balancers: state.balancers.iter().map(balancer).collect(), others: 0 }
    }

    /// What a load balancer answered.
    pub fn balancer(&self, id: LoadBalancerId) -> Option<&BalancerTally> {
        self.balancers.get(id.0 as usize)
    }

    /// Counts an answer.
    pub fn add(&mut self, state: &State, outcome: &Outcome) {
        let Some(tally) = self.balancers.get_mut(outcome.balancer.0 as usize) else { return };
        let Some(id) = outcome.pool else {
            tally.no_answer += 1;
            return;
        };
        let Some(pool) = tally.pools.iter_mut().find(|tally| tally.pool == id) else { return };
        let Some(origin) = outcome.origin else {
            pool.no_data += 1;
            return;
        };
        if let Some(count) = pool.origins.get_mut(usize::from(origin.0)) {
            *count += 1;
        }
        tally.fallback += u64::from(outcome.fallback);
        if outcome.is_zoned {
            // A zone counts in its own region only, so a client from elsewhere is in none of the
            // pool's zones.
            let zone = state.pool(id).and_then(|pool| pool.origin(origin)?.zone);
            tally.zoned += 1;
            tally.cross_zone += u64::from(outcome.zone.is_none() || zone != outcome.zone);
        }
    }
}

impl BalancerTally {
    /// Answers with an origin.
    pub fn answers(&self) -> u64 {
        self.pools.iter().map(PoolTally::answers).sum()
    }

    /// Queries without an answer of their type.
    pub fn no_data(&self) -> u64 {
        self.pools.iter().map(|pool| pool.no_data).sum()
    }

    /// All queries.
    pub fn queries(&self) -> u64 {
        self.answers() + self.no_data() + self.no_answer
    }
}

impl PoolTally {
    /// Answers with an origin.
    pub fn answers(&self) -> u64 {
        self.origins.iter().sum()
    }
}
