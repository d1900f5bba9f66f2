//! The load balancers in the status: which pools they answer from, and whether one of these can.

use serde::{Deserialize, Serialize};

use crate::explain::Scene;
use crate::rr::RecordType;
use crate::state::BalancerSource;
use crate::steer::load_balancer::LoadBalancer;
use crate::steer::pool::PoolId;

/// A load balancer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadBalancerStatus {
    /// Its name.
    pub name: String,
    /// The zone that it belongs to.
    pub zone: String,
    /// How it steers, by the word of the configuration.
    pub steering: String,
    /// Its pools: those of `pools` in that order, then those that only some clients get.
    pub pools: Vec<String>,
    /// What is answered when none of them is available.
    pub fallback_pool: String,
    /// Whether one of its pools is available.
    pub available: bool,
}

/// All that are enabled, in the order of the configuration.
pub(super) fn status(scene: &Scene<'_>) -> Vec<LoadBalancerStatus> {
    let state = scene.state;
    let shown = |(balancer, source): (&LoadBalancer, &BalancerSource)| {
        let mut pools = source.pools.clone();
        let others = balancer.slots.iter().map(|&(pool, _)| pool);
        for pool in others.filter(|&pool| pool != balancer.fallback_pool) {
            if !pools.contains(&pool) {
                pools.push(pool);
            }
        }
        let name = |pool: PoolId| state.pool_name(pool).to_owned();
        let is_available =
            |&pool: &PoolId| scene.plan.pool(pool).is_some_and(|plan| plan.available);
        let zone = state.zones.find(&balancer.name.to_key(), RecordType::A);
        LoadBalancerStatus {
            name: balancer.name.to_string(),
            zone: zone.map(|zone| zone.apex.to_string()).unwrap_or_default(),
            steering: balancer.policy.word().to_owned(),
            available: pools.iter().any(is_available),
            pools: pools.into_iter().map(name).collect(),
            fallback_pool: name(balancer.fallback_pool),
        }
    };
    state.balancers.iter().zip(&state.balancer_sources).map(shown).collect()
}
