//! The state that `explain` is asked to assume: origins and pools up or down, round-trip times.

use std::time::Duration;

use crate::config::report::nearest;
use crate::name::Name;
use crate::rr::RecordType;
use crate::state::State;
use crate::steer::availability::{Health, HealthState};
use crate::steer::load_balancer::Policy;
use crate::steer::pool::{OriginIndex, Pool, PoolId};

/// One thing to assume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// An origin (ORIGIN or POOL/ORIGIN) or a pool is forced up (true) or down.
    Forced(String, bool),
    /// The round-trip time to a pool, whatever the client.
    Rtt(String, Duration),
}

/// Why something cannot be assumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// Nothing has the name.
    #[error("there is no origin or pool {name:?} that {zone} can use{}", hint(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// The zone of the question.
        zone: String,
        /// A name that is near.
        nearest: Option<String>,
    },
    /// Several things have the name.
    #[error("{name:?} is not one thing: it is {}; name one of them", .meanings.join(" and "))]
    Ambiguous {
        /// The name.
        name: String,
        /// What it could be.
        meanings: Vec<String>,
    },
}

impl AssumeError {
    /// What was named.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. } | Self::Ambiguous { name, .. } => name,
        }
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// Applies assumptions for a question about `name`: gives the health, and puts round-trip times into
/// the state. Everything not mentioned is healthy. An assumed state is a forced one: it also holds
/// where no monitor could have told.
///
/// # Errors
/// [`AssumeError`] if a name means nothing or several things.
pub fn assume(
    state: &mut State,
    name: &Name,
    assumptions: &[Assumption],
) -> Result<Health, AssumeError> {
    let scopes = vec![Scope::of(state, name)];
    let (effects, unknown) = effects(&scopes, assumptions)?;
    let health = effects.apply(state);
    unknown.into_iter().next().map_or(Ok(health), Err)
}

/// Applies assumptions for questions about any name: in each zone a name means what it would mean
/// there. Gives the names that mean nothing in any zone, too.
///
/// # Errors
/// [`AssumeError::Ambiguous`] if a name means several things in a zone.
pub fn assume_everywhere(
    state: &mut State,
    assumptions: &[Assumption],
) -> Result<(Health, Vec<AssumeError>), AssumeError> {
    let scopes: Vec<_> = state.zones.iter().map(|zone| Scope::of(state, &zone.apex)).collect();
    let (effects, mut unknown) = effects(&scopes, assumptions)?;
    for error in &mut unknown {
        if let AssumeError::Unknown { zone, .. } = error {
            *zone = "any zone".to_owned();
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
) -> Result<(Effects, Vec<AssumeError>), AssumeError> {
    let (mut effects, mut unknown) = (Effects::default(), Vec::new());
    for assumption in assumptions {
        let mut nothing = None;
        let mut is_known = false;
        for scope in scopes {
            let found = match assumption {
                Assumption::Forced(name, up) => scope.find(name).map(|origins| {
                    let forced = origins.into_iter().map(|(pool, origin)| (pool, origin, *up));
                    effects.forced.extend(forced);
                }),
                Assumption::Rtt(name, time) => {
                    scope.pool(name).map(|pool| effects.times.push((pool, *time)))
                }
            };
            match found {
                Ok(()) => is_known = true,
                Err(error @ AssumeError::Ambiguous { .. }) => return Err(error),
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

/// The pools that a name's zone can use.
struct Scope<'s> {
    pools: Vec<(PoolId, &'s Pool)>,
    zone: String,
}

impl<'s> Scope<'s> {
    fn of(state: &'s State, name: &Name) -> Self {
        let zone = state.zones.find(&name.to_key(), RecordType::A).map(|zone| &zone.apex);
        let usable = |owner: &Option<Name>| owner.is_none() || owner.as_ref() == zone;
        let pools = (0u32..).map(PoolId).zip(state.pools.iter()).zip(&state.pool_zones);
        Self {
            pools: pools.filter(|(_, owner)| usable(owner)).map(|(pool, _)| pool).collect(),
            zone: zone.unwrap_or(name).to_string(),
        }
    }

    /// The origins that are meant.
    fn find(&self, name: &str) -> Result<Vec<(PoolId, OriginIndex)>, AssumeError> {
        let of_pool = |&(id, pool): &(PoolId, &'s Pool)| {
            pool.indexed().map(move |(index, _)| (id, index)).collect::<Vec<_>>()
        };
        if let Some((pool_name, origin_name)) = name.split_once('/') {
            let pool = self.pools.iter().find(|(_, pool)| pool.name == pool_name);
            let origin = pool.and_then(|&(id, pool)| {
                let (index, _) = pool.indexed().find(|(_, origin)| origin.name == origin_name)?;
                Some(vec![(id, index)])
            });
            return origin.ok_or_else(|| self.unknown(name));
        }
        let pool = self.pools.iter().find(|(_, pool)| pool.name == name);
        let origins: Vec<_> = self
            .pools
            .iter()
            .flat_map(|&(id, pool)| pool.indexed().map(move |(index, o)| (id, pool, index, o)))
            .filter(|(_, _, _, origin)| origin.name == name)
            .collect();
        match (pool, origins.as_slice()) {
            (Some(pool), []) => Ok(of_pool(pool)),
            (None, &[(id, _, index, _)]) => Ok(vec![(id, index)]),
            (None, []) => Err(self.unknown(name)),
            (pool, origins) => {
                let origins = origins.iter().map(|(_, pool, _, _)| format!("{}/{name}", pool.name));
                let meanings = pool.map(|_| format!("pool {name}")).into_iter().chain(origins);
                Err(AssumeError::Ambiguous { name: name.to_owned(), meanings: meanings.collect() })
            }
        }
    }

    fn pool(&self, name: &str) -> Result<PoolId, AssumeError> {
        let pool = self.pools.iter().find(|(_, pool)| pool.name == name);
        pool.map(|&(id, _)| id).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> AssumeError {
        let names = self.pools.iter().flat_map(|(_, pool)| {
            std::iter::once(pool.name.as_str()).chain(pool.origins.iter().map(|o| o.name.as_str()))
        });
        AssumeError::Unknown {
            name: name.to_owned(),
            zone: self.zone.clone(),
            nearest: nearest(name, names).map(str::to_owned),
        }
    }
}
