//! Which origins are healthy and eligible, and whether their pool is available (steering.md,
//! "Availability"). The first step that health enters; what follows reads only its result.

use std::collections::HashMap;

use crate::steer::eligible::original_eligible;
use crate::steer::pool::{Origin, OriginAddress, OriginIndex, Pool, PoolId, ProbeId};

/// What is known of an address or an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HealthState {
    /// The probes succeed, or nothing is probed.
    Healthy,
    /// The probes fail.
    Unhealthy,
    /// No probe result yet.
    #[default]
    Unknown,
}

impl HealthState {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Unknown => "unknown",
        }
    }
}

/// What an operator said of a pool as a whole (health.md); disabling it is no state of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolOverride {
    /// Available while it has an eligible set.
    ForcedUp,
    /// Not available.
    ForcedDown,
    /// Not available, so that its traffic goes elsewhere.
    Drained,
}

/// The health of everything at one moment: what the probes say, and what an operator forced.
#[derive(Clone, Debug, Default)]
pub struct Health {
    probes: Vec<HealthState>,
    /// The state of monitored origins whose host name was not resolved, so that nothing probes them.
    unresolved: HealthState,
    forced: HashMap<(PoolId, OriginIndex), bool>,
    pools: HashMap<PoolId, PoolOverride>,
}

impl Health {
    /// Every probe in the same state, nothing forced.
    pub fn uniform(probes: usize, state: HealthState) -> Self {
        Self { probes: vec![state; probes], unresolved: state, ..Self::default() }
    }

    /// Sets what a probe says.
    pub fn set_probe(&mut self, probe: ProbeId, state: HealthState) {
        if let Some(slot) = self.probes.get_mut(probe.0 as usize) {
            *slot = state;
        }
    }

    /// Forces an origin up (true) or down; a forced state replaces the probes' result (health.md).
    pub fn force(&mut self, pool: PoolId, origin: OriginIndex, up: bool) {
        self.forced.insert((pool, origin), up);
    }

    /// Takes a pool out, or puts it in, whatever its origins' states.
    pub fn override_pool(&mut self, pool: PoolId, word: PoolOverride) {
        self.pools.insert(pool, word);
    }

    /// Forgets all that was forced.
    pub fn lift_all(&mut self) {
        self.forced.clear();
        self.pools.clear();
    }

    /// What was said of a pool.
    pub fn pool_override(&self, pool: PoolId) -> Option<PoolOverride> {
        self.pools.get(&pool).copied()
    }

    /// The state of one address of an origin.
    pub fn of_address(
        &self,
        pool: PoolId,
        origin: OriginIndex,
        address: &OriginAddress,
    ) -> HealthState {
        if let Some(forced) = self.forced(pool, origin) {
            return forced;
        }
        match address.probe {
            None => HealthState::Healthy,
            Some(probe) => {
                self.probes.get(probe.0 as usize).copied().unwrap_or(HealthState::Unknown)
            }
        }
    }

    /// What was forced of an origin.
    fn forced(&self, pool: PoolId, origin: OriginIndex) -> Option<HealthState> {
        if self.forced.is_empty() {
            return None;
        }
        let up = *self.forced.get(&(pool, origin))?;
        Some(if up { HealthState::Healthy } else { HealthState::Unhealthy })
    }

    /// The state of an origin: healthy if any of its addresses is (steering.md), else unknown if
    /// any is. One whose host name was not resolved has none.
    fn of_origin(
        &self,
        id: PoolId,
        pool: &Pool,
        index: OriginIndex,
        origin: &Origin,
    ) -> HealthState {
        if origin.addresses.is_empty() && origin.host.is_some() {
            let unforced = match pool.monitor {
                Some(_) => self.unresolved,
                None => HealthState::Healthy,
            };
            return self.forced(id, index).unwrap_or(unforced);
        }
        let mut state = HealthState::Unhealthy;
        for address in &origin.addresses {
            match self.of_address(id, index, address) {
                HealthState::Healthy => return HealthState::Healthy,
                HealthState::Unknown => state = HealthState::Unknown,
                HealthState::Unhealthy => {}
            }
        }
        state
    }
}

/// What the health of a pool's origins means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The state of each origin, in the pool's order.
    pub states: Vec<HealthState>,
    /// Whether each origin may be answered, in the pool's order.
    pub eligible: Vec<bool>,
    /// How many enabled origins count as healthy toward `minimum_origins`.
    pub counted: usize,
    /// Why the pool is or is not available.
    pub availability: Availability,
}

/// Whether a pool can be answered, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Healthy, with at least one eligible origin.
    Available,
    /// Disabled in the configuration.
    Disabled,
    /// Fewer enabled origins are healthy than `minimum_origins`.
    TooFewHealthy,
    /// Healthy, but every healthy origin has weight 0.
    NothingEligible,
    /// Forced up, and with an eligible set.
    ForcedUp,
    /// Forced down.
    ForcedDown,
    /// Drained.
    Drained,
}

impl Assessment {
    /// True if the pool is *available*: healthy and with at least one eligible origin, or forced up.
    pub fn is_available(&self) -> bool {
        matches!(self.availability, Availability::Available | Availability::ForcedUp)
    }

    /// True if the origin may be answered.
    pub fn is_eligible(&self, index: OriginIndex) -> bool {
        self.eligible.get(usize::from(index.0)).copied().unwrap_or(false)
    }

    /// The state of an origin.
    pub fn state(&self, index: OriginIndex) -> HealthState {
        self.states.get(usize::from(index.0)).copied().unwrap_or(HealthState::Unknown)
    }
}

/// Assesses a pool.
///
/// An origin is *eligible* when it is enabled, has weight > 0 and is healthy; unknown origins count
/// toward `minimum_origins`, and are eligible only where no enabled origin of weight > 0 of the pool
/// is known to be healthy.
pub fn assess(id: PoolId, pool: &Pool, health: &Health) -> Assessment {
    let states: Vec<_> =
        pool.indexed().map(|(index, origin)| health.of_origin(id, pool, index, origin)).collect();
    let with_state = || pool.origins.iter().zip(&states);
    let known_healthy = with_state()
        .any(|(origin, &state)| origin.is_configured() && state == HealthState::Healthy);
    let is_eligible = |(origin, &state): (&Origin, &HealthState)| {
        origin.is_configured()
            && match state {
                HealthState::Healthy => true,
                HealthState::Unknown => !known_healthy,
                HealthState::Unhealthy => false,
            }
    };
    let eligible: Vec<bool> = with_state().map(is_eligible).collect();
    let counted = with_state()
        .filter(|&(origin, &state)| origin.enabled && state != HealthState::Unhealthy)
        .count();
    let by_health = if !pool.enabled {
        Availability::Disabled
    } else if counted < pool.minimum_origins {
        Availability::TooFewHealthy
    } else if eligible.contains(&true) {
        Availability::Available
    } else {
        Availability::NothingEligible
    };
    let mut assessment = Assessment { states, eligible, counted, availability: by_health };
    assessment.availability = match health.pool_override(id) {
        _ if !pool.enabled => Availability::Disabled,
        None => by_health,
        Some(PoolOverride::ForcedDown) => Availability::ForcedDown,
        Some(PoolOverride::Drained) => Availability::Drained,
        // The set may be that of the last resort: that no probe succeeds is what is overridden.
        Some(PoolOverride::ForcedUp)
            if !original_eligible(pool, &assessment).members.is_empty() =>
        {
            Availability::ForcedUp
        }
        Some(PoolOverride::ForcedUp) => by_health,
    };
    assessment
}
