//! The state that `explain` is asked to assume: origins and pools up or down, round-trip times.

use std::time::Duration;

use crate::name::Name;
use crate::scope::{FindError, Scope};
use crate::state::State;
use crate::steer::availability::{Health, HealthState};
use crate::steer::load_balancer::Policy;
use crate::steer::pool::{OriginIndex, PoolId};

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
    let scopes = vec![Scope::of_name(state, name)];
    let (effects, unknown) = effects(&scopes, assumptions)?;
    let health = effects.apply(state);
    unknown.into_iter().next().map_or(Ok(health), Err)
}

/// Applies assumptions for questions about any name: in each zone a name means what it would mean
/// there. Gives the names that mean nothing in any zone, too.
///
/// # Errors
/// [`FindError::Ambiguous`] if a name means several things in a zone.
pub fn assume_everywhere(
    state: &mut State,
    assumptions: &[Assumption],
) -> Result<(Health, Vec<FindError>), FindError> {
    let scopes: Vec<_> = state.zones.iter().map(|zone| Scope::of_name(state, &zone.apex)).collect();
    let (effects, mut unknown) = effects(&scopes, assumptions)?;
    for error in &mut unknown {
        if let FindError::Unknown { zone, .. } = error {
            *zone = Some("any zone".to_owned());
        }
    }
    Ok((effects.apply(state), unknown))
}

/// What assumptions come to.
#[derive(Default)]
struct Effects {
    forced: Vec<(PoolId, OriginIndex, bool)>,
    times: Vec<(PoolId, Duration)>,
}

impl Effects {
    fn apply(self, state: &mut State) -> Health {
        let mut health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
        for (pool, origin, up) in self.forced {
            health.force(pool, origin, up);
        }
        if !self.times.is_empty() {
            assume_times(state, &self.times);
        }
        health
    }
}

/// What assumptions come to in these zones, and the names that mean nothing in any of them.
fn effects(
    scopes: &[Scope<'_>],
    assumptions: &[Assumption],
) -> Result<(Effects, Vec<FindError>), FindError> {
    let (mut effects, mut unknown) = (Effects::default(), Vec::new());
    for assumption in assumptions {
        let mut nothing = None;
        let mut is_known = false;
        for scope in scopes {
            let found = match assumption {
                Assumption::Forced(name, up) => scope.find(name).map(|found| {
                    let origins = scope.origins(found).into_iter();
                    effects.forced.extend(origins.map(|(pool, origin)| (pool, origin, *up)));
                }),
                Assumption::Rtt(name, time) => {
                    scope.pool(name).map(|pool| effects.times.push((pool, *time)))
                }
            };
            match found {
                Ok(()) => is_known = true,
                Err(error @ FindError::Ambiguous { .. }) => return Err(error),
                Err(error) => nothing = Some(error),
            }
        }
        unknown.extend(nothing.filter(|_| !is_known));
    }
    Ok((effects, unknown))
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
        balancer.rules = crate::steer::rtt::rules(
            &source.pools,
            rtt,
            pop.as_deref(),
            locator.regions(),
            source.rtt_tolerance,
        );
    }
}
