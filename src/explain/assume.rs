//! The state that `explain` is asked to assume: origins and pools up or down, round-trip times.

use std::time::Duration;

use crate::name::Name;
use crate::scope::{FindError, Found, Scope};
use crate::state::State;
use crate::steer::availability::{Health, HealthState};
use crate::steer::load_balancer::{Policy, Rule, Rules};
use crate::steer::pool::{Pool, PoolId};

/// One thing to assume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// An origin (ORIGIN or POOL/ORIGIN) or a pool is forced up (true) or down.
    Forced(String, bool),
    /// The round-trip time to a pool, whatever the client.
    Rtt(String, Duration),
}

/// Applies assumptions for a question about `name`: gives the health, and puts round-trip times into
/// the state. Everything not mentioned is healthy. An assumed state is a forced one: it also holds
/// where no monitor could have told.
///
/// # Errors
/// [`FindError`] if a name means nothing or several things.
pub fn assume(
    state: &mut State,
    name: &Name,
    assumptions: &[Assumption],
) -> Result<Health, FindError> {
    let mut health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let mut times = Vec::new();
    let scope = Scope::of_name(state, name);
    for assumption in assumptions {
        match assumption {
            Assumption::Forced(name, up) => match scope.find(name)? {
                Found::Origin(pool, origin) => health.force(pool, origin, *up),
                Found::Pool(id) => {
                    for (origin, _) in state.pool(id).into_iter().flat_map(Pool::indexed) {
                        health.force(id, origin, *up);
                    }
                }
            },
            Assumption::Rtt(name, time) => times.push((scope.pool(name)?, *time)),
        }
    }
    if !times.is_empty() {
        assume_times(state, &times);
    }
    Ok(health)
}

/// Gives the pools these times in every row, and orders the candidates of all RTT steering anew.
fn assume_times(state: &mut State, times: &[(PoolId, Duration)]) {
    let times = || times.iter().copied();
    let rows = state.rtt.regions.values_mut().chain(state.rtt.pops.values_mut());
    for row in rows {
        row.extend(times());
    }
    // A client of a region without figures, or of none, has the assumed ones alone.
    state.rtt.assumed = times().collect();
    let State { balancers, balancer_sources, rtt, locator, pop, .. } = state;
    for (balancer, source) in balancers.iter_mut().zip(balancer_sources) {
        if balancer.policy != Policy::Rtt {
            continue;
        }
        let order = |row| crate::steer::rtt::order(&source.pools, Some(row), source.rtt_tolerance);
        let own = pop.as_deref().and_then(|pop| rtt.pops.get(pop)).unwrap_or(&rtt.assumed);
        let mut rules = Rules {
            lists: vec![Rule { name: "rtt (assumed)".to_owned(), candidates: order(own) }],
            ..Rules::default()
        };
        for (region, name) in locator.regions().iter() {
            if let Some(row) = rtt.regions.get(&region) {
                rules.regions.push((region, u16::try_from(rules.lists.len()).unwrap_or(u16::MAX)));
                rules.lists.push(Rule { name: format!("rtt.{name}"), candidates: order(row) });
            }
        }
        balancer.rules = rules;
    }
}
