//! The original eligible backends of a pool: failover policy over health (zonal-affinity.md,
//! "Original eligible backends and failover policy"). Sets A and B of that document.

use crate::steer::availability::Assessment;
use crate::steer::pool::{OriginIndex, Pool, Role};

/// Where set A came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Steps 1 and 3: the healthy primaries.
    HealthyPrimaries,
    /// Step 2: the healthy failovers.
    HealthyFailovers,
    /// Step 4: all configured primaries, none of them healthy.
    LastResort,
    /// Step 4 with `drop_traffic_if_unhealthy`: nothing.
    Dropped,
    /// No configured primary, and no healthy failover: nothing.
    None,
}

/// The original eligible backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Set A, in the pool's order.
    pub members: Vec<OriginIndex>,
    /// Where it came from.
    pub source: Source,
}

impl Original {
    /// The role whose configured backends are the zonal match test backends (set B).
    pub fn tested_role(&self) -> Role {
        match self.source {
            Source::HealthyFailovers => Role::Failover,
            _ => Role::Primary,
        }
    }

    /// Set B: all configured backends of the role that A came from, healthy or not.
    pub fn test_backends(&self, pool: &Pool) -> Vec<OriginIndex> {
        configured(pool, self.tested_role())
    }

    /// True if the members are answered although they are not eligible.
    pub fn is_last_resort(&self) -> bool {
        self.source == Source::LastResort
    }
}

/// Applies the failover policy, steps 1 to 4.
pub fn original_eligible(pool: &Pool, assessment: &Assessment) -> Original {
    let healthy = |role| -> Vec<OriginIndex> {
        let members = configured(pool, role).into_iter();
        members.filter(|&index| assessment.is_eligible(index)).collect()
    };
    let primaries = configured(pool, Role::Primary);
    let healthy_primaries = healthy(Role::Primary);
    let healthy_failovers = healthy(Role::Failover);

    let ratio = pool.failover_policy.failover_ratio;
    let enough = ratio.is_reached_by(healthy_primaries.len(), primaries.len());
    let (members, source) = if !healthy_primaries.is_empty() && enough {
        (healthy_primaries, Source::HealthyPrimaries)
    } else if !healthy_failovers.is_empty() {
        (healthy_failovers, Source::HealthyFailovers)
    } else if !healthy_primaries.is_empty() {
        (healthy_primaries, Source::HealthyPrimaries)
    } else if pool.failover_policy.drop_traffic_if_unhealthy {
        (Vec::new(), Source::Dropped)
    } else if primaries.is_empty() {
        (Vec::new(), Source::None)
    } else {
        (primaries, Source::LastResort)
    };
    Original { members, source }
}

/// The configured backends of a role: enabled, and weight above 0.
fn configured(pool: &Pool, role: Role) -> Vec<OriginIndex> {
    pool.indexed()
        .filter(|(_, origin)| origin.is_configured() && origin.role == role)
        .map(|(index, _)| index)
        .collect()
}
