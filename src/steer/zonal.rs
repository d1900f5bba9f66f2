//! Zonal affinity: from the original eligible backends to the modified eligible backends
//! (zonal-affinity.md, "When there is a zonal match" and "Modes").

use crate::locate::place::{AvailabilityZoneId, Place, RegionId};
use crate::steer::eligible::Original;
use crate::steer::pool::{OriginIndex, Pool, ZonalAffinity};

/// The outcome of zonal affinity for one pool and one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zonal {
    /// Whether there is a zonal match, and if not, why.
    pub verdict: Verdict,
    /// Set C: the test backends in the client's zone; empty without a match.
    pub matched: Vec<OriginIndex>,
    /// count(A∩C) and count(C) of a match in mode `spill_cross_zone`.
    pub ratio: Option<(usize, usize)>,
    /// The set that the answer is chosen from.
    pub modified: Vec<OriginIndex>,
    /// True where the client stays in a zone of which nothing is eligible: its members are
    /// answered although they are unhealthy.
    pub stays_unhealthy: bool,
}

/// Whether there is a zonal match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is.
    Match,
    /// Set A is empty.
    NothingEligible,
    /// The mode is `disabled`.
    Disabled,
    /// The pool has no region.
    PoolWithoutRegion,
    /// The client's region is not exactly the pool's.
    OtherRegion,
    /// The client has no zone.
    ClientWithoutZone,
    /// No test backend is in the client's zone.
    NoBackendInZone,
}

/// True if the client is in exactly the pool's region (rule 2).
fn is_compatible(pool: &Pool, region: Option<RegionId>) -> bool {
    pool.region.is_some() && pool.region == region
}

/// The zone that counts for a client of a pool: its own, if it is in exactly the pool's region.
#[inline]
pub fn zone_in(pool: &Pool, place: &Place) -> Option<AvailabilityZoneId> {
    place.zone.filter(|_| is_compatible(pool, place.region))
}

/// Applies zonal affinity for a client in `region` and `zone`.
pub fn modify(
    pool: &Pool,
    original: &Original,
    region: Option<RegionId>,
    zone: Option<AvailabilityZoneId>,
) -> Zonal {
    let unchanged = |verdict| Zonal {
        verdict,
        matched: Vec::new(),
        ratio: None,
        modified: original.members.clone(),
        stays_unhealthy: false,
    };
    if original.members.is_empty() {
        return unchanged(Verdict::NothingEligible);
    }
    if pool.zonal_affinity == ZonalAffinity::Disabled {
        return unchanged(Verdict::Disabled);
    }
    if pool.region.is_none() {
        return unchanged(Verdict::PoolWithoutRegion);
    }
    if !is_compatible(pool, region) {
        return unchanged(Verdict::OtherRegion);
    }
    let Some(zone) = zone else {
        return unchanged(Verdict::ClientWithoutZone);
    };
    let in_zone =
        |&index: &OriginIndex| pool.origin(index).is_some_and(|origin| origin.zone == Some(zone));
    let matched: Vec<_> = original.test_backends(pool).into_iter().filter(in_zone).collect();
    if matched.is_empty() {
        return unchanged(Verdict::NoBackendInZone);
    }

    // A∩C: all of A in the zone, since A is a subset of B.
    let within: Vec<_> = original.members.iter().copied().filter(in_zone).collect();
    let (within_count, matched_count) = (within.len(), matched.len());
    let (modified, stays_unhealthy) = match pool.zonal_affinity {
        ZonalAffinity::StayWithinZone if within.is_empty() => (matched.clone(), true),
        ZonalAffinity::SpillCrossZone { spillover_ratio }
            if within.is_empty() || !spillover_ratio.is_reached_by(within_count, matched_count) =>
        {
            (original.members.clone(), false)
        }
        _ => (within, false),
    };
    let ratio = matches!(pool.zonal_affinity, ZonalAffinity::SpillCrossZone { .. })
        .then_some((within_count, matched_count));
    Zonal { verdict: Verdict::Match, matched, ratio, modified, stays_unhealthy }
}
