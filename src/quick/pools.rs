//! The sets of all pools, laid out so that a query touches as few cache lines as can be: for each
//! pool a head (its region, and its sets by zone and family), followed by the sets' schedules and
//! addresses.

use crate::locate::Locator;
use crate::steer::choose::Chooser;
use crate::steer::plan::{FamilyPlan, PoolPlan, ZonePlan};
use crate::steer::pool::{Family, Pool};

/// No region, and no zone: no configuration has as many.
const NONE: u16 = u16::MAX;

/// All pools.
#[derive(Debug, Default)]
pub(super) struct Pools {
    heads: Vec<Head>,
    /// The sets for clients of particular zones.
    zones: Vec<ZoneSets>,
    /// Schedules and addresses.
    octets: Vec<u8>,
}

/// What a rule leads to: a pool, and the first of the sequence slots that the load balancer has for
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pool: u32,
    pub(super) slot: u32,
}

/// A pool, in a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Head {
    regional: [SetHead; 2],
    region: u16,
    zone_count: u16,
    first_zone: u32,
}

/// The sets for clients of one zone.
#[derive(Clone, Debug)]
struct ZoneSets {
    zone: u16,
    families: [SetHead; 2],
}

/// Where a set's schedule and addresses are. A set that takes the long way has no schedule.
#[derive(Clone, Copy, Debug, Default)]
struct SetHead {
    schedule: u32,
    addresses: u32,
    fingerprint: u32,
    schedule_length: u16,
    slot: u16,
}

/// A set, for one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set<'q> {
    octets: &'q [u8],
    head: SetHead,
    address_length: usize,
    /// Which of the pool's sequence slots counts its answers.
    pub(super) slot: u32,
    /// Tells it from others of that slot.
    pub(super) fingerprint: u32,
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
    /// Adds a pool; they are numbered in the order they are added.
    pub(super) fn add(&mut self, pool: &Pool, plan: &PoolPlan) {
        let first_zone = u32::try_from(self.zones.len()).unwrap_or(u32::MAX);
        let regional = self.add_sets(&plan.regional);
        // A zone whose sets are the regional ones need not be looked for.
        let differs = |zone: &ZonePlan| {
            let pairs = zone.families.iter().zip(&plan.regional.families);
            pairs
                .into_iter()
                .any(|(own, regional)| !std::sync::Arc::ptr_eq(&own.set, &regional.set))
        };
        for (zone, zone_plan) in plan.zones.iter().filter(|(_, zone)| differs(zone)) {
            let families = self.add_sets(zone_plan);
            self.zones.push(ZoneSets { zone: zone.0, families });
        }
        let count = self.zones.len() - first_zone as usize;
        let region = pool.region.map_or(NONE, |region| region.0);
        let zone_count = u16::try_from(count).unwrap_or(0);
        self.heads.push(Head { regional, region, zone_count, first_zone });
    }

    fn add_sets(&mut self, plan: &ZonePlan) -> [SetHead; 2] {
        plan.families.each_ref().map(|plan| self.add_set(plan).unwrap_or_default())
    }

    /// Lays a set out; none if it takes the long way: it is empty, too large, spread by the golden
    /// ratio, or has a member with several addresses.
    fn add_set(&mut self, plan: &FamilyPlan) -> Option<SetHead> {
        let Chooser::Schedule(schedule) = &plan.set.chooser else { return None };
        let members = &plan.set.members;
        if members.len() > usize::from(u8::MAX) || members.iter().any(|m| m.rdata.len() != 1) {
            return None;
        }
        let schedule: Option<Vec<u8>> = schedule.iter().map(|&i| u8::try_from(i).ok()).collect();
        let schedule = schedule?;
        let head = SetHead {
            schedule: u32::try_from(self.octets.len()).ok()?,
            addresses: u32::try_from(self.octets.len() + schedule.len()).ok()?,
            fingerprint: plan.set.fingerprint,
            schedule_length: u16::try_from(schedule.len()).ok()?,
            slot: u16::try_from(plan.slot).ok()?,
        };
        self.octets.extend(schedule);
        self.octets.extend(members.iter().flat_map(|member| &member.rdata).flat_map(|r| r.iter()));
        Some(head)
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
        let head = *families.get(family.index())?;
        if head.schedule_length == 0 {
            return None;
        }
        let address_length = match family {
            Family::V4 => 4,
            Family::V6 => 16,
        };
        let (slot, fingerprint) = (u32::from(head.slot), head.fingerprint);
        Some(Set { octets: &self.octets, head, address_length, slot, fingerprint })
    }
}

impl<'q> Set<'q> {
    /// The address that the n-th answer carries.
    #[inline]
    pub(super) fn address(&self, n: u32) -> Option<&'q [u8]> {
        let turn = n % u32::from(self.head.schedule_length);
        let member = *self.octets.get((self.head.schedule + turn) as usize)?;
        let at = self.head.addresses as usize + usize::from(member) * self.address_length;
        self.octets.get(at..at + self.address_length)
    }
}
