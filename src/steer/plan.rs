//! What the health of the moment means for every pool, worked out once per change of health, so
//! that a query only looks it up.
//!
//! For each pool: is it available; its original eligible set; and for each availability zone the
//! modified eligible set, each split by address family and with its weighted choice prepared. The
//! functions that work it out are those that `explain` shows.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::locate::place::AvailabilityZoneId;
use crate::rr::{Rdata, Ttl};
use crate::steer::availability::{Assessment, Availability, Health, HealthState, assess};
use crate::steer::choose::Chooser;
use crate::steer::eligible::{Original, Source, original_eligible};
use crate::steer::load_balancer::{LoadBalancer, Rules};
use crate::steer::pool::{Family, Origin, OriginAddress, OriginIndex, Pool, PoolId, ZonalAffinity};
use crate::steer::zonal::{Zonal, modify};

/// The plan of every pool, by [`PoolId`]. Plans that follow each other share what did not change.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pools: Vec<Arc<PoolPlan>>,
    /// The candidate lists of load balancers with RTT steering, by [`LoadBalancer::measured`]; those
    /// that are not here have their own.
    measured: Arc<[Rules]>,
}

/// What a pool answers at the moment.
#[derive(Debug)]
pub struct PoolPlan {
    /// True if it can be chosen as a candidate.
    pub available: bool,
    /// True if it is enabled.
    pub enabled: bool,
    /// True if an operator drained it: it keeps what clients it has.
    pub drained: bool,
    /// Where the original eligible set came from.
    pub source: Source,
    /// The choice for clients without a zonal match.
    pub regional: ZonePlan,
    /// The choice for clients in the pool's region, by their zone, sorted; zones without an origin
    /// of the pool are not here: they have no match and no members to put first.
    pub zones: Vec<(AvailabilityZoneId, ZonePlan)>,
    /// What becomes of sessions, by origin and family; empty where all end, or none can be.
    stays: Vec<[Stay; 3]>,
}

/// What becomes of a session that was placed on an origin, in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stay {
    /// The origin is disabled or unhealthy, or its pool is disabled or forced down.
    Ends,
    /// The origin keeps the session, and cannot answer: it has no usable address of the family, or is
    /// not probed yet while others of the pool are known to be healthy.
    Waits,
    /// The origin answers. Its weight and its role do not matter, nor whether its pool is available.
    Answers(Member),
}

/// The choice for the clients of one zone (or of none), by family.
#[derive(Debug)]
pub struct ZonePlan {
    /// By [`Family::index`].
    pub families: [FamilyPlan; 3],
}

/// The choice for one family, or for host names.
#[derive(Clone, Debug)]
pub struct FamilyPlan {
    /// The modified eligible set, as far as it has usable addresses of the family.
    pub set: Arc<FamilySet>,
    /// The members of `set` in the client's zone, which lead an answer with all of them; the whole
    /// set where there are none.
    pub lead: Arc<FamilySet>,
    /// The members of `set` that are not in `lead`.
    pub rest: Arc<FamilySet>,
    /// Which of the pool's sequence slots counts the answers from `set`.
    pub slot: u32,
    /// Which counts them when `lead` leads.
    pub lead_slot: u32,
    /// True where health does not count: as a last resort, or in an unhealthy zone that is stayed in.
    pub any_health: bool,
}

/// Origins that can be answered, with their records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FamilySet {
    /// The members, in the pool's order.
    pub members: Vec<Member>,
    /// The sum of the members' weights in millionths.
    pub total_weight: u64,
    /// Which member the n-th answer carries.
    pub chooser: Chooser,
    /// Tells this set from others: a sequence starts again when it changes.
    pub fingerprint: u32,
    /// True if a member caps the TTL of answers with it.
    pub is_capped: bool,
}

/// A member of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The origin.
    pub origin: OriginIndex,
    /// Its weight in millionths; above 0, but for one that only keeps a session.
    pub weight: u32,
    /// Its usable addresses of the family as RDATA, at least one; or its host name, as that of a
    /// CNAME.
    pub rdata: Vec<Rdata>,
    /// How long an answer with it may be kept at most, where its addresses come from a resolver.
    pub ttl: Option<Ttl>,
}

impl FamilySet {
    fn new(members: Vec<Member>) -> Self {
        let weights: Vec<u32> = members.iter().map(|member| member.weight).collect();
        let mut hasher = DefaultHasher::new();
        for member in &members {
            (member.origin, member.weight).hash(&mut hasher);
        }
        // Half of a hash; two sets of one slot that follow each other will hardly share it.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of the hash will do")]
        let fingerprint = hasher.finish() as u32;
        Self {
            total_weight: weights.iter().copied().map(u64::from).sum(),
            chooser: Chooser::new(&weights),
            is_capped: members.iter().any(|member| member.ttl.is_some()),
            members,
            fingerprint,
        }
    }

    /// True if nothing can be answered from it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// How many sequence slots a pool takes in each load balancer that names it: the original set and,
/// for each zone, the modified set and its leading part; each by family, and for host names.
pub fn slot_count(pool: &Pool) -> u32 {
    let zones = u32::try_from(pool.zones().len()).unwrap_or(u32::MAX);
    zones.saturating_mul(2).saturating_add(1).saturating_mul(kinds(pool))
}

/// How many kinds of sets a pool has.
fn kinds(pool: &Pool) -> u32 {
    if pool.has_hosts() { 3 } else { 2 }
}

impl Plan {
    /// Works out the plan of all pools.
    pub fn new(pools: &[Pool], health: &Health) -> Self {
        let ids = (0u32..).map(PoolId);
        let plan = |(id, pool)| Arc::new(PoolPlan::new(id, pool, health));
        Self { pools: ids.zip(pools).map(plan).collect(), measured: Arc::default() }
    }

    /// The same with these candidate lists of the load balancers with RTT steering.
    pub fn with_measured(self, measured: Arc<[Rules]>) -> Self {
        Self { measured, ..self }
    }

    /// The candidate lists of the load balancers with RTT steering.
    pub fn measured(&self) -> &Arc<[Rules]> {
        &self.measured
    }

    /// The candidate lists of a load balancer.
    #[inline]
    pub fn rules<'p>(&'p self, balancer: &'p LoadBalancer) -> &'p Rules {
        match balancer.measured {
            None => &balancer.rules,
            Some(number) => self.measured.get(number as usize).unwrap_or(&balancer.rules),
        }
    }

    /// The plan after the health of some pools changed.
    pub fn updated(&self, pools: &[Pool], health: &Health, changed: &[PoolId]) -> Self {
        let mut plan = self.clone();
        for &id in changed {
            let index = id.0 as usize;
            if let (Some(slot), Some(pool)) = (plan.pools.get_mut(index), pools.get(index)) {
                *slot = Arc::new(PoolPlan::new(id, pool, health));
            }
        }
        plan
    }

    /// The plans of all pools, by [`PoolId`].
    pub fn pools(&self) -> &[Arc<PoolPlan>] {
        &self.pools
    }

    /// The plan of a pool.
    pub fn pool(&self, id: PoolId) -> Option<&PoolPlan> {
        self.pools.get(id.0 as usize).map(Arc::as_ref)
    }
}

impl PoolPlan {
    /// Works out the plan of one pool.
    pub fn new(id: PoolId, pool: &Pool, health: &Health) -> Self {
        let assessment = assess(id, pool, health);
        let original = original_eligible(pool, &assessment);
        let builder = SetBuilder { id, pool, health, original: &original };
        let regional = builder.zone_plan(None, 0, None);
        let zones = pool
            .zones()
            .into_iter()
            .zip(1u32..)
            .map(|(zone, number)| (zone, builder.zone_plan(Some(zone), number, Some(&regional))))
            .collect();
        Self {
            available: assessment.is_available(),
            enabled: pool.enabled,
            drained: assessment.availability == Availability::Drained,
            source: original.source,
            regional,
            zones,
            stays: builder.stays(&assessment),
        }
    }

    /// What becomes of a session that was placed on an origin.
    #[inline]
    pub fn stay(&self, origin: OriginIndex, family: Family) -> &Stay {
        let families = self.stays.get(usize::from(origin.0));
        families.and_then(|families| families.get(family.index())).unwrap_or(&Stay::Ends)
    }

    /// The choice for a client of the pool's own region in `zone`, else the regional one.
    #[inline]
    pub fn for_zone(&self, zone: Option<AvailabilityZoneId>) -> &ZonePlan {
        zone.and_then(|zone| {
            let index = self.zones.binary_search_by_key(&zone, |&(zone, _)| zone).ok()?;
            self.zones.get(index)
        })
        .map_or(&self.regional, |(_, plan)| plan)
    }
}

/// Builds the sets of one pool.
struct SetBuilder<'a> {
    id: PoolId,
    pool: &'a Pool,
    health: &'a Health,
    original: &'a Original,
}

impl SetBuilder<'_> {
    /// The choice for a zone (the pool's `number`th, from 1) or for clients without one (0).
    fn zone_plan(
        &self,
        zone: Option<AvailabilityZoneId>,
        number: u32,
        regional: Option<&ZonePlan>,
    ) -> ZonePlan {
        let region = zone.and(self.pool.region);
        let zonal = modify(self.pool, self.original, region, zone);
        let families = Family::WITH_HOST.map(|family| {
            let regional = regional.and_then(|plan| plan.families.get(family.index()));
            self.family_plan(&zonal, (zone, number), family, regional)
        });
        ZonePlan { families }
    }

    /// The choice for one family; `regional` is that for clients without a zone.
    fn family_plan(
        &self,
        zonal: &Zonal,
        (zone, number): (Option<AvailabilityZoneId>, u32),
        family: Family,
        regional: Option<&FamilyPlan>,
    ) -> FamilyPlan {
        let mut any_health = self.original.is_last_resort() || zonal.stays_unhealthy;
        let mut members = self.members(&zonal.modified, family, any_health);
        let may_spill = matches!(self.pool.zonal_affinity, ZonalAffinity::SpillCrossZone { .. });
        if members.is_empty() && may_spill {
            // "If there is none and the mode may spill, among those of A."
            any_health = self.original.is_last_resort();
            members = self.members(&self.original.members, family, any_health);
        }
        let set = Arc::new(FamilySet::new(members));
        let family_slot = u32::try_from(family.index()).unwrap_or(0);
        let slot = |set: u32| set * kinds(self.pool) + family_slot;
        // A zone whose set is the regional one shares its sequence: it is the same eligible set.
        let shared = regional.filter(|plan| plan.set.members == set.members);
        let (set, number_of_set) = match shared {
            Some(plan) => (plan.set.clone(), 0),
            None => (set, if number == 0 { 0 } else { number * 2 - 1 }),
        };
        let in_zone = |member: &&Member| {
            zone.is_some()
                && self.pool.origin(member.origin).is_some_and(|origin| origin.zone == zone)
        };
        let (leading, others): (Vec<Member>, Vec<Member>) =
            set.members.iter().cloned().partition(|member| in_zone(&member));
        let (lead, rest, number_of_lead) = if leading.is_empty() || others.is_empty() {
            (set.clone(), Arc::default(), number_of_set)
        } else {
            (Arc::new(FamilySet::new(leading)), Arc::new(FamilySet::new(others)), number * 2)
        };
        let (slot, lead_slot) = (slot(number_of_set), slot(number_of_lead));
        FamilyPlan { set, lead, rest, slot, lead_slot, any_health }
    }

    /// The members of a set that can be answered in a family: with a healthy address of it, or with
    /// any where health does not count.
    fn members(&self, set: &[OriginIndex], family: Family, any_health: bool) -> Vec<Member> {
        let mut members = Vec::new();
        let mut seen = HashSet::new();
        for &index in set {
            let Some(origin) = self.pool.origin(index) else {
                continue;
            };
            let (rdata, ttl) = self.usable(index, origin, family, any_health, &mut seen);
            if !rdata.is_empty() {
                members.push(Member { origin: index, weight: origin.weight.micros(), rdata, ttl });
            }
        }
        members
    }

    /// The addresses of an origin that can be answered in a family and were not `seen` before, or its
    /// host name; and how long they hold. Two host names may have the same address, and a record stands
    /// in an answer once.
    fn usable(
        &self,
        index: OriginIndex,
        origin: &Origin,
        family: Family,
        any_health: bool,
        seen: &mut HashSet<IpAddr>,
    ) -> (Vec<Rdata>, Option<Ttl>) {
        if family == Family::Host {
            // A CNAME stands for all addresses, so the health of the origin is what counts, and that
            // was heeded.
            let host = origin.host.as_ref().map(|host| Rdata::from(host.as_wire()));
            return (host.into_iter().collect(), None);
        }
        let of_family = || origin.addresses.iter().filter(|a| family.holds(a.ip));
        let state = |address: &OriginAddress| self.health.of_address(self.id, index, address);
        // An origin that is eligible though unknown is answered by its unknown addresses.
        let known_healthy =
            origin.addresses.iter().any(|address| state(address) == HealthState::Healthy);
        let usable = |address: &&OriginAddress| {
            any_health
                || match state(address) {
                    HealthState::Healthy => true,
                    HealthState::Unknown => !known_healthy,
                    HealthState::Unhealthy => false,
                }
        };
        let has_hosts = self.pool.has_hosts();
        let (mut rdata, mut ttl) = (Vec::new(), None);
        for address in of_family().filter(usable) {
            if !has_hosts || seen.insert(address.ip) {
                rdata.push(address_rdata(address.ip));
                ttl = address.ttl.into_iter().chain(ttl).min();
            }
        }
        (rdata, ttl)
    }

    /// What becomes of the sessions on each origin.
    fn stays(&self, assessment: &Assessment) -> Vec<[Stay; 3]> {
        let over =
            matches!(assessment.availability, Availability::Disabled | Availability::ForcedDown);
        if over || !self.pool.keeps_sessions {
            return Vec::new();
        }
        let stay = |(index, origin): (OriginIndex, &Origin)| {
            Family::WITH_HOST.map(|family| {
                let answers = match assessment.state(index) {
                    _ if !origin.enabled => return Stay::Ends,
                    HealthState::Unhealthy => return Stay::Ends,
                    HealthState::Healthy => true,
                    HealthState::Unknown => assessment.is_eligible(index),
                };
                let seen = &mut HashSet::new();
                let (rdata, ttl) = self.usable(index, origin, family, false, seen);
                if !answers || rdata.is_empty() {
                    return Stay::Waits;
                }
                Stay::Answers(Member { origin: index, weight: origin.weight.micros(), rdata, ttl })
            })
        };
        self.pool.indexed().map(stay).collect()
    }
}

/// The RDATA of an A or AAAA record.
fn address_rdata(ip: IpAddr) -> Rdata {
    match ip {
        IpAddr::V4(ip) => Rdata::from(ip.octets().as_slice()),
        IpAddr::V6(ip) => Rdata::from(ip.octets().as_slice()),
    }
}
