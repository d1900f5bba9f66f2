//! The sessions of the load balancers on the short way: which origin a tag means, and its address.
//! What is not answered from here, new sessions above all, takes the long way.

use std::net::IpAddr;

use crate::steer::load_balancer::LoadBalancer;
use crate::steer::plan::{Plan, Stay};
use crate::steer::pool::{Family, OriginIndex, PoolId};
use crate::steer::session::{
    Failback, SessionKey, SessionKeys, Sessions as KeptSessions, scope_of,
};

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    heads: Vec<Head>,
    /// The tags of each load balancer's origins, sorted.
    tags: Vec<u32>,
    /// What each tag means.
    origins: Vec<Origin>,
}

/// A load balancer.
#[derive(Clone, Debug)]
struct Head {
    keys: SessionKeys,
    /// Where its tags begin, and how many they are.
    first: u32,
    count: u32,
}

/// An origin: within one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(32))]
struct Origin {
    v6: [u8; 16],
    v4: [u8; 4],
    pool: u32,
    index: u16,
    /// The position of the pool among its load balancer's.
    choice: u16,
    /// Which families are answered on the short way, by [`Family::index`].
    answers: [bool; 2],
}

/// The session that a query is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    number: u32,
    /// Its key.
    pub(super) key: SessionKey,
}

/// What a session answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'q> {
    pub(super) address: &'q [u8],
    /// Its pool, and that pool's position among its load balancer's.
    pub(super) pool: u32,
    pub(super) choice: u16,
}

impl Sessions {
    /// Adds a load balancer; gives its number, from 1, or 0 if it has no sessions.
    pub(super) fn add(&mut self, balancer: &LoadBalancer, plan: &Plan) -> u32 {
        let Some(affinity) = &balancer.sessions else { return 0 };
        let first = u32::try_from(self.tags.len()).unwrap_or(u32::MAX);
        for (tag, pool, index) in affinity.origins() {
            self.tags.push(tag.0);
            let choice = balancer.position(pool).and_then(|position| u16::try_from(position).ok());
            self.origins.push(Origin::new(pool, index, choice.unwrap_or(0), plan));
        }
        let count = u32::try_from(self.tags.len()).unwrap_or(u32::MAX).saturating_sub(first);
        self.heads.push(Head { keys: affinity.keys, first, count });
        u32::try_from(self.heads.len()).unwrap_or(0)
    }

    /// The same after the plan of some pools changed.
    pub(super) fn updated(&self, plan: &Plan, changed: &[PoolId]) -> Self {
        let mut updated = self.clone();
        if updated.origins.is_empty() {
            return updated;
        }
        let mut has_changed = vec![false; plan.pools().len()];
        for pool in changed {
            if let Some(has_changed) = has_changed.get_mut(pool.0 as usize) {
                *has_changed = true;
            }
        }
        for origin in &mut updated.origins {
            let pool = PoolId(origin.pool);
            if has_changed.get(pool.0 as usize).copied().unwrap_or(false) {
                *origin = Origin::new(pool, OriginIndex(origin.index), origin.choice, plan);
            }
        }
        updated
    }

    /// The session of a client of a load balancer, and the scope that it asks for.
    #[inline]
    pub(super) fn ask(&self, number: u32, address: IpAddr, known: u8) -> Option<(Asked, u8)> {
        let keys = &self.head(number)?.keys;
        let subnet = keys.subnet(address, known)?;
        Some((Asked { number, key: keys.key(subnet) }, scope_of(subnet, address)))
    }

    fn head(&self, number: u32) -> Option<&Head> {
        self.heads.get((number as usize).checked_sub(1)?)
    }

    /// Starts the memory of a load balancer's tags on its way.
    #[inline]
    pub(super) fn approach(&self, asked: Asked) -> u32 {
        let first = self.head(asked.number).map_or(0, |head| head.first);
        self.tags.get(first as usize).copied().unwrap_or(0)
    }

    /// The address that a session answers; `chosen` is the pool that a new one would be in. None where
    /// the query takes the long way.
    #[inline]
    pub(super) fn address(
        &self,
        asked: &Asked,
        chosen: u32,
        family: Family,
        kept: &impl KeptSessions,
    ) -> Option<Kept<'_>> {
        let head = self.head(asked.number)?;
        let tag = kept.find(asked.key, head.keys.settings.ttl)?;
        let (first, count) = (head.first as usize, head.count as usize);
        let found = self.tags.get(first..first + count)?.binary_search(&tag.0).ok()?;
        let origin = self.origins.get(first + found)?;
        let moves = head.keys.settings.failback == Failback::Move && origin.pool != chosen;
        if moves || !origin.answers.get(family.index()).copied()? {
            return None;
        }
        let address: &[u8] = match family {
            Family::V4 => &origin.v4,
            Family::V6 => &origin.v6,
            Family::Host => return None,
        };
        Some(Kept { address, pool: origin.pool, choice: origin.choice })
    }
}

impl Origin {
    fn new(pool: PoolId, index: OriginIndex, choice: u16, plan: &Plan) -> Self {
        let (v6, v4, answers) = ([0; 16], [0; 4], [false; 2]);
        let mut origin = Self { v6, v4, pool: pool.0, index: index.0, choice, answers };
        for family in Family::ALL {
            let place: &mut [u8] = match family {
                Family::V4 => &mut origin.v4,
                Family::V6 => &mut origin.v6,
                Family::Host => continue,
            };
            let stay = plan.pool(pool).map(|plan| plan.stay(index, family));
            let Some(Stay::Answers(member)) = stay else { continue };
            // What a resolver said holds for a time of its own.
            if let [address] = member.rdata.as_slice()
                && member.ttl.is_none()
                && address.len() == place.len()
            {
                place.copy_from_slice(address);
                origin.answers[family.index()] = true;
            }
        }
        origin
    }
}
