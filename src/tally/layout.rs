//! Which counter is whose: the counters of a state's load balancers and zones, numbered one after the
//! other. A load balancer has one for each of its pools, and one for each other thing that can become of a
//! query ([`Choice`]); a zone has one for each class of response code.

use std::collections::HashMap;
use std::ops::Range;

use crate::name::Name;
use crate::query::Rcode;
use crate::rr::RecordType;
use crate::served::Choice;
use crate::state::State;
use crate::steer::load_balancer::{LoadBalancer, LoadBalancerId};
use crate::steer::pool::PoolId;
use crate::zone::ZoneSet;

/// No counter: what it counted is not there any more.
pub const NONE: u32 = u32::MAX;

/// The response codes that zones count by; others count as the last.
pub const CLASSES: [&str; 4] = ["NOERROR", "NXDOMAIN", "SERVFAIL", "other"];

/// The numbers of a state's counters.
#[derive(Debug, Default)]
pub struct Layout {
    /// The first counter of each load balancer, and after them that of the zones.
    first: Box<[u32]>,
    /// The zone of each load balancer.
    zones_of: Box<[u32]>,
    zones: u32,
}

impl Layout {
    /// Numbers the counters of these load balancers, whose pools are known, and of these zones.
    pub fn new(balancers: &[LoadBalancer], zones: &ZoneSet) -> Self {
        let mut next = 0;
        let first = balancers.iter().map(|balancer| {
            let pools = u32::try_from(balancer.slots.len()).unwrap_or(0);
            let first = next;
            next += pools + 3;
            first
        });
        let mut first: Vec<u32> = first.collect();
        first.push(next);
        let zone_of = |balancer: &LoadBalancer| {
            zones
                .find_numbered(&balancer.name.to_key(), RecordType::A)
                .map_or(NONE, |(zone, _)| zone)
        };
        Self {
            first: first.into(),
            zones_of: balancers.iter().map(zone_of).collect(),
            zones: u32::try_from(zones.len()).unwrap_or(0),
        }
    }

    /// The first counter of a load balancer.
    #[inline]
    pub fn first(&self, balancer: LoadBalancerId) -> u32 {
        self.first.get(balancer.0 as usize).copied().unwrap_or(NONE)
    }

    /// The counters of a load balancer: its pools in the order of its slots, then [`Choice::AFTER`].
    pub fn of_balancer(&self, balancer: LoadBalancerId) -> Range<usize> {
        let index = balancer.0 as usize;
        match (self.first.get(index), self.first.get(index + 1)) {
            (Some(&first), Some(&end)) => first as usize..end as usize,
            _ => 0..0,
        }
    }

    /// Whose counter this is, and of which choice; none for a zone's.
    pub fn owner(&self, counter: u32) -> Option<(LoadBalancerId, Choice)> {
        let after = self.first.partition_point(|&first| first <= counter);
        let index = after.checked_sub(1).filter(|_| after < self.first.len())?;
        let balancer = LoadBalancerId(u32::try_from(index).ok()?);
        let range = self.of_balancer(balancer);
        let (position, pools) = (counter as usize - range.start, range.len() - Choice::AFTER.len());
        let after = position.checked_sub(pools).and_then(|after| Choice::AFTER.get(after));
        Some((balancer, after.copied().unwrap_or(Choice::Candidate(position))))
    }

    /// The zone of a load balancer.
    pub fn zone_of(&self, balancer: LoadBalancerId) -> Option<u32> {
        self.zones_of.get(balancer.0 as usize).copied().filter(|&zone| zone != NONE)
    }

    /// A zone's counter for a response code.
    #[inline]
    pub fn of_zone(&self, zone: u32, rcode: Rcode) -> usize {
        self.class_of_zone(zone, class(rcode))
    }

    /// A zone's counter for one of [`CLASSES`].
    pub fn class_of_zone(&self, zone: u32, class: usize) -> usize {
        let first = self.first.last().map_or(0, |&first| first as usize);
        first + zone as usize * CLASSES.len() + class
    }

    /// How many counters there are.
    pub fn len(&self) -> usize {
        self.class_of_zone(self.zones, 0)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn class(rcode: Rcode) -> usize {
    match rcode {
        Rcode::NoError => 0,
        Rcode::NxDomain => 1,
        Rcode::ServFail => 2,
        _ => 3,
    }
}

/// For each counter of a state the one of another state that goes on counting the same, by names; [`NONE`]
/// where there is none.
pub fn mapping(old: &State, new: &State) -> Vec<u32> {
    let mut mapping = vec![NONE; old.layout.len()];
    let mut set = |from: usize, to: usize| {
        if let (Some(place), Ok(to)) = (mapping.get_mut(from), u32::try_from(to)) {
            *place = to;
        }
    };
    let by_name: HashMap<_, _> = (0u32..)
        .map(LoadBalancerId)
        .zip(&new.balancers)
        .map(|(id, balancer)| (balancer.name.to_key(), id))
        .collect();
    for (id, balancer) in (0u32..).map(LoadBalancerId).zip(&old.balancers) {
        let Some(&new_id) = by_name.get(&balancer.name.to_key()) else { continue };
        let Some(now) = new.balancer(new_id) else { continue };
        let (from, to) = (old.layout.of_balancer(id), new.layout.of_balancer(new_id));
        for (position, &(pool, _)) in balancer.slots.iter().enumerate() {
            let is_same =
                |&&(other, _): &&(PoolId, u32)| identity(new, other) == identity(old, pool);
            if let Some(found) = now.slots.iter().position(|slot| is_same(&slot)) {
                set(from.start + position, to.start + found);
            }
        }
        for choice in Choice::AFTER {
            let number = |balancer: &LoadBalancer| choice.number(balancer.slots.len());
            set(from.start + number(balancer), to.start + number(now));
        }
    }
    let by_apex: HashMap<_, u32> = new.zones.iter().map(|zone| &zone.apex).zip(0..).collect();
    for (number, zone) in (0u32..).zip(old.zones.iter()) {
        let Some(&found) = by_apex.get(&zone.apex) else { continue };
        for class in 0..CLASSES.len() {
            set(old.layout.class_of_zone(number, class), new.layout.class_of_zone(found, class));
        }
    }
    mapping
}

/// What a pool is from one state to the next: its zone (none for a shared one) and its name.
pub fn identity(state: &State, pool: PoolId) -> (Option<&Name>, &str) {
    let zone = state.pool_zones.get(pool.0 as usize).and_then(Option::as_ref);
    (zone, state.pool_name(pool))
}
