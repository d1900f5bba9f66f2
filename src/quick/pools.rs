//! The sets of all pools, laid out so that a query touches as few cache lines as can be: for each
//! pool a head (its region, and its sets by zone and family), followed by the sets' schedules and
//! addresses.

use std::sync::Arc;

use crate::locate::Locator;
use crate::steer::choose::Chooser;
use crate::steer::plan::{FamilyPlan, Plan, PoolPlan, ZonePlan};
use crate::steer::pool::{Family, Pool, PoolId};

/// No region, and no zone: no configuration has as many.
const NONE: u16 = u16::MAX;

/// How many octets of schedules and addresses a pool's head holds itself.
const INLINE: usize = 84;

/// How many octets may be left unused, however few there are in all.
const SPARE: usize = 64 << 10;

/// All pools.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    heads: Vec<Head>,
    /// The sets for clients of particular zones.
    zones: Vec<ZoneSets>,
    /// Schedules and addresses that heads have no room for.
    octets: Vec<u8>,
    /// How long `zones` and `octets` were when every pool was laid out anew. What replaces a pool's is
    /// put at their end; the old stays where it was.
    fresh: (usize, usize),
}

/// What a rule leads to: a pool, and the first of the sequence slots that the load balancer has for
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) pool: u32,
    pub(super) slot: u32,
}

/// A pool, in two cache lines that the processor fetches together.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
struct Head {
    regional: [SetHead; 2],
    region: u16,
    zone_count: u16,
    first_zone: u32,
    octets: [u8; INLINE],
}

/// The sets for clients of one zone.
#[derive(Clone, Debug)]
struct ZoneSets {
    zone: u16,
    families: [SetHead; 2],
}

/// Where a set's schedule and addresses are, one after the other: in the pool's head if they end
/// within it, else in the common octets. A set that takes the long way has no schedule.
#[derive(Clone, Copy, Debug, Default)]
struct SetHead {
    first: u32,
    fingerprint: u32,
    schedule_length: u16,
    slot: u16,
    is_inline: bool,
    is_last_resort: bool,
}

/// A set, for one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set<'q> {
    /// The schedule, then the addresses.
    octets: &'q [u8],
    schedule_length: u16,
    /// Which of the pool's sequence slots counts its answers.
    pub(super) slot: u32,
    /// Tells it from others of that slot.
    pub(super) fingerprint: u32,
    /// True if health does not count.
    pub(super) is_last_resort: bool,
}

impl Target {
    /// The long way.
    pub(super) const NONE: Self = Self { pool: u32::MAX, slot: 0 };

    /// A pool by its number, with the load balancer's first slot for it.
    pub(super) fn new(pool: u32, slot: u32) -> Self {
        Self { pool, slot }
    }
}

impl Pools {
    /// Lays out pools, which are numbered in their order.
    pub(super) fn new(pools: &[Pool], plan: &Plan) -> Self {
        let mut laid_out = Self::default();
        for (pool, plan) in pools.iter().zip(plan.pools()) {
            let head = laid_out.head(pool, plan);
            laid_out.heads.push(head);
        }
        laid_out.fresh = (laid_out.zones.len(), laid_out.octets.len());
        laid_out
    }

    /// The same after the plan of some pools changed.
    pub(super) fn updated(&self, pools: &[Pool], plan: &Plan, changed: &[PoolId]) -> Self {
        let (zones, octets) = self.fresh;
        let has_grown = self.zones.len() > zones * 2 || self.octets.len() > octets * 2 + SPARE;
        if has_grown || changed.len() > pools.len() / 2 {
            return Self::new(pools, plan);
        }
        let mut laid_out = self.clone();
        for &id in changed {
            let index = id.0 as usize;
            let (Some(pool), Some(plan)) = (pools.get(index), plan.pool(id)) else { continue };
            let head = laid_out.head(pool, plan);
            if let Some(place) = laid_out.heads.get_mut(index) {
                *place = head;
            }
        }
        laid_out
    }

    /// Lays out a pool, and gives its head.
    fn head(&mut self, pool: &Pool, plan: &PoolPlan) -> Head {
        let first_zone = u32::try_from(self.zones.len()).unwrap_or(u32::MAX);
        let mut inline = Vec::with_capacity(INLINE);
        let regional = self.add_sets(&plan.regional, &mut inline);
        // A zone whose sets are the regional ones need not be looked for.
        let differs = |zone: &ZonePlan| {
            let pairs = zone.families.iter().zip(&plan.regional.families).take(Family::ALL.len());
            pairs.into_iter().any(|(own, regional)| !Arc::ptr_eq(&own.set, &regional.set))
        };
        for (zone, zone_plan) in plan.zones.iter().filter(|(_, zone)| differs(zone)) {
            let families = self.add_sets(zone_plan, &mut inline);
            self.zones.push(ZoneSets { zone: zone.0, families });
        }
        let count = self.zones.len() - first_zone as usize;
        let region = pool.region.map_or(NONE, |region| region.0);
        let zone_count = u16::try_from(count).unwrap_or(0);
        let mut octets = [0; INLINE];
        octets.iter_mut().zip(inline).for_each(|(to, from)| *to = from);
        Head { regional, region, zone_count, first_zone, octets }
    }

    fn add_sets(&mut self, plan: &ZonePlan, inline: &mut Vec<u8>) -> [SetHead; 2] {
        // A CNAME takes the long way.
        let [v4, v6, _] = &plan.families;
        [v4, v6].map(|plan| self.add_set(plan, inline).unwrap_or_default())
    }

    /// Lays a set out; none if it takes the long way: it is empty, too large, spread by the golden
    /// ratio, caps the TTL, or has a member with several addresses.
    fn add_set(&mut self, plan: &FamilyPlan, inline: &mut Vec<u8>) -> Option<SetHead> {
        let Chooser::Schedule(schedule) = &plan.set.chooser else { return None };
        let members = &plan.set.members;
        let is_single = members.iter().all(|member| member.rdata.len() == 1);
        if members.len() > usize::from(u8::MAX) || !is_single || plan.set.is_capped {
            return None;
        }
        let schedule: Option<Vec<u8>> = schedule.iter().map(|&i| u8::try_from(i).ok()).collect();
        let mut octets = schedule?;
        let schedule_length = u16::try_from(octets.len()).ok()?;
        octets.extend(members.iter().flat_map(|member| &member.rdata).flat_map(|r| r.iter()));
        let is_inline = inline.len() + octets.len() <= INLINE;
        let place = if is_inline { inline } else { &mut self.octets };
        let first = u32::try_from(place.len()).ok()?;
        place.extend(octets);
        let (fingerprint, slot) = (plan.set.fingerprint, u16::try_from(plan.slot).ok()?);
        let is_last_resort = plan.any_health;
        Some(SetHead { first, fingerprint, schedule_length, slot, is_inline, is_last_resort })
    }

    /// Starts the memory of a rule's pool on its way.
    #[inline]
    pub(super) fn approach(&self, target: Target) -> u32 {
        self.heads.get(target.pool as usize).map_or(0, |head| head.first_zone)
    }

    /// True if some pool has sets for clients of particular zones.
    #[inline]
    pub(super) fn have_zones(&self) -> bool {
        !self.zones.is_empty()
    }

    /// Starts the memory of those of a rule's pool on its way, once that of the pool has come.
    #[inline]
    pub(super) fn approach_zones(&self, target: Target) -> u16 {
        let Some(head) = self.heads.get(target.pool as usize) else { return 0 };
        let (first, count) = (head.first_zone as usize, usize::from(head.zone_count));
        let at = |index| self.zones.get(index).map_or(0, |sets: &ZoneSets| sets.zone);
        if count > 0 { at(first) ^ at(first + count - 1) } else { 0 }
    }

    /// The set that answers a client; none where it takes the long way.
    #[inline]
    pub(super) fn set(
        &self,
        target: Target,
        family: Family,
        place: u32,
        locator: &Locator,
    ) -> Option<Set<'_>> {
        let head = self.heads.get(target.pool as usize)?;
        let mut families = &head.regional;
        if head.zone_count > 0 {
            let place = locator.table().places().get(place as usize)?;
            let own_region = place.region.is_some_and(|region| region.0 == head.region);
            if let Some(zone) = place.zone.filter(|_| own_region) {
                let first = head.first_zone as usize;
                let zones = self.zones.get(first..first + usize::from(head.zone_count))?;
                if let Some(sets) = zones.iter().find(|sets| sets.zone == zone.0) {
                    families = &sets.families;
                }
            }
        }
        let set = *families.get(family.index())?;
        if set.schedule_length == 0 {
            return None;
        }
        let octets = if set.is_inline { &head.octets[..] } else { &self.octets[..] };
        let (slot, fingerprint) = (u32::from(set.slot), set.fingerprint);
        Some(Set {
            octets: octets.get(set.first as usize..)?,
            schedule_length: set.schedule_length,
            slot,
            fingerprint,
            is_last_resort: set.is_last_resort,
        })
    }
}

impl<'q> Set<'q> {
    /// The address of `N` octets that the n-th answer carries.
    #[inline]
    pub(super) fn address<const N: usize>(&self, n: u32) -> Option<&'q [u8; N]> {
        let schedule_length = u32::from(self.schedule_length);
        let (schedule, addresses) = self.octets.split_at_checked(schedule_length as usize)?;
        let member = *schedule.get(n.checked_rem(schedule_length)? as usize)?;
        addresses.get(usize::from(member) * N..)?.first_chunk()
    }
}
