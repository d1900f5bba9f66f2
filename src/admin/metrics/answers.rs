//! The metrics of answers.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::catalogue as metrics;
use super::exposition::Exposition;
use crate::serve::traffic::Sums;
use crate::served::{Choice, Protocol};
use crate::state::State;
use crate::steer::load_balancer::LoadBalancerId;
use crate::steer::pool::PoolId;
use crate::tally::counters::{Dropped, RCODES};
use crate::tally::histogram::Histogram;
use crate::tally::layout::CLASSES;

/// What became of queries, by the words of the label.
const OUTCOMES: [&str; 4] = ["candidate", "fallback", "nodata", "failure"];

pub(super) fn expose(out: &mut Exposition, sums: &Sums, limit: usize) {
    expose_fixed(out, sums);
    let by_name = ByName::new(sums);
    by_name.expose_zones(out, &sums.state, limit);
    by_name.expose_balancers(out, &sums.state, limit);
    by_name.expose_pools(out, &sums.state, limit);
    out.begin(&metrics::FALLBACK_ANSWERS);
    out.count(&metrics::FALLBACK_ANSWERS, &[], by_name.balancers.iter().map(|of| of[1]).sum());
}

/// What does not depend on the configuration.
fn expose_fixed(out: &mut Exposition, sums: &Sums) {
    let fixed = &sums.fixed;
    out.begin(&metrics::REPLIES);
    for protocol in Protocol::ALL {
        for rcode in RCODES {
            let count: u64 = fixed.iter().map(|fixed| fixed.replies(protocol, rcode)).sum();
            let labels = [("transport", protocol.word()), ("rcode", rcode.mnemonic())];
            out.count(&metrics::REPLIES, &labels, count);
        }
    }
    out.begin(&metrics::TRUNCATED);
    for protocol in Protocol::ALL {
        let count = fixed.iter().map(|fixed| fixed.truncated(protocol)).sum();
        out.count(&metrics::TRUNCATED, &[("transport", protocol.word())], count);
    }
    out.begin(&metrics::ECS_ANSWERS);
    let mut scopes: BTreeMap<(bool, usize), u64> = BTreeMap::new();
    for (is_v6, length, count) in fixed.iter().flat_map(|fixed| fixed.scopes()) {
        *scopes.entry((is_v6, length)).or_default() += count;
    }
    // Most lengths never occur.
    for ((is_v6, length), count) in scopes.into_iter().filter(|&(_, count)| count > 0) {
        let family = if is_v6 { "ipv6" } else { "ipv4" };
        out.count(
            &metrics::ECS_ANSWERS,
            &[("family", family), ("scope", &length.to_string())],
            count,
        );
    }
    out.begin(&metrics::LIMITED);
    let limited = fixed.iter().map(|fixed| fixed.limited());
    let limited = limited.fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    for (action, count) in ["truncated", "dropped"].into_iter().zip(limited) {
        out.count(&metrics::LIMITED, &[("action", action)], count);
    }
    out.begin(&metrics::DROPPED);
    for (reason, why) in Dropped::ALL {
        let count = fixed.iter().map(|fixed| fixed.count_of_dropped(why)).sum();
        out.count(&metrics::DROPPED, &[("reason", reason)], count);
    }
    let last_resort = fixed.iter().map(|fixed| fixed.last_resort.load(Ordering::Relaxed));
    out.begin(&metrics::LAST_RESORT_ANSWERS);
    out.count(&metrics::LAST_RESORT_ANSWERS, &[], last_resort.sum());
    let panics = fixed.iter().map(|fixed| fixed.faults.load(Ordering::Relaxed));
    out.begin(&metrics::PANICS);
    out.count(&metrics::PANICS, &[], panics.sum());
    let times = Histogram::sum(fixed.iter().map(|fixed| &fixed.times));
    out.histogram(&metrics::BATCH_DURATION, &times);
}

/// Sums of counters.
struct ByName {
    /// Of each load balancer, by [`OUTCOMES`].
    balancers: Vec<[u64; 4]>,
    /// Of each pool.
    pools: Vec<u64>,
    /// Of each zone, by [`CLASSES`].
    zones: Vec<[u64; 4]>,
}

impl ByName {
    fn new(sums: &Sums) -> Self {
        let Sums { state, counters, .. } = sums;
        let layout = &state.layout;
        let count = |counter: usize| counters.get(counter).copied().unwrap_or(0);
        let mut pools = vec![0; state.pools.len()];
        let of_zone = |zone| std::array::from_fn(|class| count(layout.class_of_zone(zone, class)));
        let mut zones: Vec<[u64; 4]> = (0u32..).take(state.zones.len()).map(of_zone).collect();
        let balancers = (0u32..).map(LoadBalancerId).zip(&state.balancers).map(|(id, balancer)| {
            let mut outcomes = [0; OUTCOMES.len()];
            let mut add = |pool: PoolId, outcome: usize, count: u64| {
                outcomes[outcome] += count;
                if let Some(pool) = pools.get_mut(pool.0 as usize) {
                    *pool += count;
                }
            };
            let first = layout.of_balancer(id).start;
            for (position, &(pool, _)) in balancer.slots.iter().enumerate() {
                add(pool, 0, count(first + position));
            }
            let number = |choice: Choice| first + choice.number(balancer.slots.len());
            add(balancer.fallback_pool, 1, count(number(Choice::Fallback)));
            outcomes[2] = count(number(Choice::NoData));
            outcomes[3] = count(number(Choice::Failure));
            if let Some(zone) = layout.zone_of(id).and_then(|zone| zones.get_mut(zone as usize)) {
                zone[0] += outcomes.iter().take(3).sum::<u64>();
                zone[2] += outcomes[3];
            }
            outcomes
        });
        Self { balancers: balancers.collect(), pools, zones }
    }

    fn expose_zones(&self, out: &mut Exposition, state: &State, limit: usize) {
        out.begin(&metrics::ZONE_REPLIES);
        let mut expose = |zone: &str, counts: &[u64; 4]| {
            for (rcode, &count) in CLASSES.into_iter().zip(counts) {
                out.count(&metrics::ZONE_REPLIES, &[("zone", zone), ("rcode", rcode)], count);
            }
        };
        if self.zones.len() > limit {
            expose("", &sum(&self.zones));
            return;
        }
        for (zone, counts) in state.zones.iter().zip(&self.zones) {
            expose(&zone.apex.to_string(), counts);
        }
    }

    fn expose_balancers(&self, out: &mut Exposition, state: &State, limit: usize) {
        out.begin(&metrics::BALANCER_ANSWERS);
        let mut expose = |zone: &str, name: &str, counts: &[u64; 4]| {
            for (outcome, &count) in OUTCOMES.into_iter().zip(counts) {
                let labels = [("zone", zone), ("load_balancer", name), ("outcome", outcome)];
                out.count(&metrics::BALANCER_ANSWERS, &labels, count);
            }
        };
        let apexes = apexes(state, limit);
        let zone_of = |id| state.layout.zone_of(id).and_then(|zone| apexes.get(zone as usize));
        let zone_of = |id| zone_of(id).map_or("", String::as_str);
        let all = (0u32..).map(LoadBalancerId).zip(&self.balancers);
        if self.balancers.len() > limit {
            let mut by_zone: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
            for (id, counts) in all {
                let of_zone = by_zone.entry(zone_of(id)).or_default();
                *of_zone = sum(&[*of_zone, *counts]);
            }
            by_zone.iter().for_each(|(zone, counts)| expose(zone, "", counts));
            return;
        }
        for ((id, counts), balancer) in all.zip(&state.balancers) {
            expose(zone_of(id), &balancer.name.to_string(), counts);
        }
    }

    fn expose_pools(&self, out: &mut Exposition, state: &State, limit: usize) {
        out.begin(&metrics::POOL_ANSWERS);
        let is_many = self.pools.len() > limit;
        let mut by_name: BTreeMap<(String, &str), u64> = BTreeMap::new();
        let has_zones = state.zones.len() <= limit;
        for ((pool, zone), count) in state.pools.iter().zip(&state.pool_zones).zip(&self.pools) {
            let zone = zone.as_ref().filter(|_| !is_many || has_zones);
            let name = if is_many { "" } else { &pool.name };
            let zone = zone.map(ToString::to_string).unwrap_or_default();
            *by_name.entry((zone, name)).or_default() += count;
        }
        for ((zone, pool), &count) in &by_name {
            out.count(&metrics::POOL_ANSWERS, &[("zone", zone), ("pool", pool)], count);
        }
    }
}

/// The names of the zones; none if there are too many.
fn apexes(state: &State, limit: usize) -> Vec<String> {
    let zones = if state.zones.len() > limit { 0 } else { state.zones.len() };
    state.zones.iter().take(zones).map(|zone| zone.apex.to_string()).collect()
}

fn sum(counts: &[[u64; 4]]) -> [u64; 4] {
    counts.iter().fold([0; 4], |sum, counts| std::array::from_fn(|i| sum[i] + counts[i]))
}
