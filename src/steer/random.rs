//! Random steering: which available pool the n-th answer is from (steering.md, "Steering policies").
//!
//! The first available pool of a weighted random order is each available pool with its share of the
//! available weight, so that is what is chosen. The sequence is low-variance, as within a pool, but
//! always spread by the golden ratio and never gone round in a short schedule: clients that alternate
//! in step with a short round would each meet one pool only. The numbers are counted apart from those
//! within the pools, and by family, so that A and AAAA of a client who asks both meet in one pool.

use crate::steer::Sequences;
use crate::steer::choose::spread;
use crate::steer::plan::Plan;
use crate::steer::pool::{Family, PoolId};

/// How many sequence slots the choice takes in a load balancer: one for each family.
pub const SLOTS: u32 = 2;

/// The pools of a load balancer with random steering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RandomPools {
    /// The pools in the order of the configuration, with their weights in millionths.
    pub weights: Vec<(PoolId, u32)>,
    /// The first of its sequence slots.
    pub first_slot: u32,
}

impl RandomPools {
    /// The pool that the next answer is from; none if no pool with a weight above 0 is available.
    #[inline]
    pub fn choose(
        &self,
        plan: &Plan,
        family: Family,
        sequences: &impl Sequences,
    ) -> Option<PoolId> {
        // FNV-1a over the available pools: the sequence starts again when they change.
        let (mut total, mut fingerprint) = (0_u64, 0x811c_9dc5_u32);
        for (pool, weight) in self.available(plan) {
            total += u64::from(weight);
            fingerprint = (fingerprint ^ pool.0).wrapping_mul(0x0100_0193);
        }
        if total == 0 {
            return None;
        }
        let slot = self.first_slot + u32::from(family == Family::V6);
        let mut point = spread(sequences.next(slot, fingerprint), total);
        let chosen = self.available(plan).find(|&(_, weight)| {
            let weight = u64::from(weight);
            let here = point < weight;
            point = point.saturating_sub(weight);
            here
        });
        chosen.map(|(pool, _)| pool)
    }

    /// Each available pool's share of the answers, 0 to 1.
    pub fn shares(&self, plan: &Plan) -> Vec<(PoolId, f64)> {
        let total: f64 = self.available(plan).map(|(_, weight)| f64::from(weight)).sum();
        self.available(plan).map(|(pool, weight)| (pool, f64::from(weight) / total)).collect()
    }

    /// The pools that can be chosen.
    pub(super) fn available<'a>(
        &'a self,
        plan: &'a Plan,
    ) -> impl Iterator<Item = (PoolId, u32)> + 'a {
        let can = |&(pool, weight): &(PoolId, u32)| {
            weight > 0 && plan.pool(pool).is_some_and(|plan| plan.available)
        };
        self.weights.iter().copied().filter(can)
    }
}
