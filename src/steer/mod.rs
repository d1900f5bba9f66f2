//! Steering: from a load balancer and a client's place to the origins of an answer, in the order of
//! the specification.
//!
//! ```text
//! load balancer, place ─► candidates::matching ─► first available pool, or the fallback pool
//!     (random steering: random, the n-th answer's pool)
//!     ─► plan (availability ─► eligible ─► zonal, worked out when health changes)
//!     ─► choose (the n-th answer) ─► Pick
//! ```
//!
//! With session affinity `session` comes before and after: a session that stands is answered, and a
//! new one is placed by `rendezvous`, not by the n-th answer.
//!
//! Everything here is a pure function: no clock, no I/O, no lock, and on the query path no
//! allocation. The sequence number is the caller's ([`Sequences`]).

pub mod availability;
pub mod candidates;
pub mod choose;
pub mod eligible;
pub mod load_balancer;
pub mod plan;
pub mod pool;
pub mod proximity;
pub mod random;
pub mod rendezvous;
pub mod rtt;
pub mod session;
pub mod slots;
pub mod zonal;

use arrayvec::ArrayVec;

use crate::locate::place::{Place, RegionId};
use crate::rr::{Rdata, Ttl};
use crate::steer::choose::{mix, scale};
use crate::steer::eligible::Source;
use crate::steer::load_balancer::{Answers, LoadBalancer, MAX_ANSWERS, Rule};
use crate::steer::plan::{FamilyPlan, FamilySet, Member, Plan};
use crate::steer::pool::{Family, Pool, PoolId};
use crate::steer::session::{OriginTag, SessionKey, Sessions};

/// Where the numbers of consecutive answers come from.
pub trait Sequences {
    /// The number of this answer among those from the set with this `fingerprint` in this `slot`,
    /// from 0; it starts again when the fingerprint changes.
    fn next(&self, slot: u32, fingerprint: u32) -> u32;
}

/// What an answer leaves for those after it: its number, and the session that it began.
pub trait Memory: Sequences + Sessions {}

impl<M: Sequences + Sessions> Memory for M {}

/// Every answer is the first, and every client new: what `explain` shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstOnly;

impl Sessions for FirstOnly {}

impl Sequences for FirstOnly {
    fn next(&self, _slot: u32, _fingerprint: u32) -> u32 {
        0
    }
}

/// The same memory, with numbers counted in slots that are so far from those that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Apart<'a, M> {
    /// Where the numbers and sessions are.
    pub memory: &'a M,
    /// How far.
    pub by: u32,
}

impl<M: Sequences> Sequences for Apart<'_, M> {
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        self.memory.next(slot.saturating_add(self.by), fingerprint)
    }
}

impl<M: Sessions> Sessions for Apart<'_, M> {
    fn find(&self, key: SessionKey, ttl: u32) -> Option<OriginTag> {
        self.memory.find(key, ttl)
    }

    fn begin(&self, key: SessionKey, origin: OriginTag) {
        self.memory.begin(key, origin);
    }
}

/// What a decision reads besides the load balancer and the client.
#[derive(Clone, Copy, Debug)]
pub struct Steering<'s> {
    /// All pools, by [`PoolId`].
    pub pools: &'s [Pool],
    /// What their health means at the moment.
    pub plan: &'s Plan,
    /// Each region's parent.
    pub parents: &'s [Option<RegionId>],
}

/// The pool that answers a client, and why.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'s> {
    /// The candidate list that the client matched.
    pub rule: &'s Rule,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The first available candidate.
    Available(PoolId),
    /// No candidate is available: the fallback pool, whatever its health.
    Fallback(PoolId),
    /// No candidate is available, and the fallback pool has nothing to answer.
    Nothing(NoAnswer),
}

/// Why a steered name has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoAnswer {
    /// The fallback pool is disabled.
    FallbackDisabled,
    /// Everything in the fallback pool is unhealthy, and it drops its traffic then.
    FallbackDropped,
    /// The fallback pool has no configured primary and no healthy failover.
    FallbackEmpty,
}

/// The origins of one answer, in order.
#[derive(Clone, Debug)]
pub struct Pick<'s> {
    /// The pool that it is from.
    pub pool: PoolId,
    /// True if health did not count: as a last resort, or in an unhealthy zone that is stayed in.
    pub is_last_resort: bool,
    /// The origin of the client's session.
    leader: Option<&'s Member>,
    /// The origins after it, itself left out; or all of them.
    order: Order<'s>,
}

/// How the members of a pick follow one another.
#[derive(Clone, Debug)]
enum Order<'s> {
    /// At most one member.
    One(Option<&'s Member>),
    /// So many of a set, the chosen one first, the others drawn by the sequence number.
    Drawn { set: &'s FamilySet, n: u32, count: u8 },
    /// All of `lead` from `start` on and round, then the rest of the set likewise.
    Rotated { lead: &'s FamilySet, rest: &'s FamilySet, start: u16 },
}

/// Chooses the pool for a client: the first available candidate, or with random steering that of the
/// next number; else the fallback pool. The family says only which numbers count; pools are chosen
/// without regard to it.
#[inline]
pub fn decide<'s>(
    steering: &Steering<'s>,
    balancer: &'s LoadBalancer,
    place: &Place,
    family: Family,
    sequences: &impl Sequences,
) -> Decision<'s> {
    let rules = steering.plan.rules(balancer);
    let rule = candidates::matching(rules, place, steering.parents);
    let outcome = match &balancer.random {
        None => outcome(steering, balancer, rule),
        Some(random) => match random.choose(steering.plan, family, sequences) {
            Some(pool) => Outcome::Available(pool),
            None => fallback(steering, balancer),
        },
    };
    Decision { rule, outcome }
}

/// What comes of a candidate list: its first available pool, else the fallback pool.
#[inline]
pub fn outcome(steering: &Steering<'_>, balancer: &LoadBalancer, rule: &Rule) -> Outcome {
    let available = |&&pool: &&PoolId| steering.plan.pool(pool).is_some_and(|plan| plan.available);
    match rule.candidates.iter().find(available) {
        Some(&pool) => Outcome::Available(pool),
        None => fallback(steering, balancer),
    }
}

/// The fallback pool, unless it is disabled or its original eligible set is empty.
fn fallback(steering: &Steering<'_>, balancer: &LoadBalancer) -> Outcome {
    let pool = balancer.fallback_pool;
    let Some(plan) = steering.plan.pool(pool).filter(|plan| plan.enabled) else {
        return Outcome::Nothing(NoAnswer::FallbackDisabled);
    };
    match plan.source {
        Source::Dropped => Outcome::Nothing(NoAnswer::FallbackDropped),
        Source::None => Outcome::Nothing(NoAnswer::FallbackEmpty),
        Source::HealthyPrimaries | Source::HealthyFailovers | Source::LastResort => {
            Outcome::Fallback(pool)
        }
    }
}

/// Chooses the origins of an answer from a pool; none if no usable origin has an address of the
/// family.
#[inline]
pub fn pick<'s>(
    steering: &Steering<'s>,
    balancer: &LoadBalancer,
    pool: PoolId,
    place: &Place,
    family: Family,
    sequences: &impl Sequences,
) -> Option<Pick<'s>> {
    let plan = family_plan(steering, pool, place, family)?;
    let set: &'s FamilySet = &plan.set;
    if set.is_empty() {
        return None;
    }
    let order = if is_single(balancer, family) {
        let n = sequences.next(balancer.first_slot(pool)? + plan.slot, set.fingerprint);
        Order::One(Some(set.members.get(usize::from(set.chooser.choose(n)?))?))
    } else {
        several(plan, balancer, pool, sequences)?
    };
    Some(Pick { pool, is_last_resort: plan.any_health, leader: None, order })
}

/// The choice that a pool has for a client.
#[inline]
fn family_plan<'s>(
    steering: &Steering<'s>,
    pool: PoolId,
    place: &Place,
    family: Family,
) -> Option<&'s FamilyPlan> {
    let plan = steering.plan.pool(pool)?;
    let zone = zonal::zone_in(steering.pools.get(pool.0 as usize)?, place);
    plan.for_zone(zone).families.get(family.index())
}

/// True if an answer has one origin; a CNAME is always one.
fn is_single(balancer: &LoadBalancer, family: Family) -> bool {
    family == Family::Host || matches!(balancer.answers, Answers::Count(0 | 1))
}

/// The order of an answer with several origins.
fn several<'s>(
    plan: &'s FamilyPlan,
    balancer: &LoadBalancer,
    pool: PoolId,
    sequences: &impl Sequences,
) -> Option<Order<'s>> {
    let first_slot = balancer.first_slot(pool)?;
    Some(match balancer.answers {
        Answers::Count(count) => {
            let set: &FamilySet = &plan.set;
            let n = sequences.next(first_slot + plan.slot, set.fingerprint);
            Order::Drawn { set, n, count }
        }
        Answers::All => {
            let lead: &FamilySet = &plan.lead;
            let n = sequences.next(first_slot + plan.lead_slot, lead.fingerprint);
            Order::Rotated { lead, rest: &plan.rest, start: lead.chooser.choose(n)? }
        }
    })
}

/// The chosen member, then others weighted without replacement.
#[inline]
fn draw(set: &FamilySet, n: u32, count: u8) -> ArrayVec<u16, { MAX_ANSWERS as usize }> {
    let mut drawn = ArrayVec::new();
    let Some(first) = set.chooser.choose(n) else {
        return drawn;
    };
    drawn.push(first);
    let weight_of = |position: u16| {
        set.members.get(usize::from(position)).map_or(0, |member| u64::from(member.weight))
    };
    let mut left = set.total_weight - weight_of(first);
    let wanted = usize::from(count).min(set.members.len()).min(drawn.capacity());
    while drawn.len() < wanted && left > 0 {
        let mut point = scale(mix(n, drawn.len() as u64), left);
        let next = (0u16..).zip(&set.members).find(|(position, member)| {
            if drawn.contains(position) {
                return false;
            }
            let weight = u64::from(member.weight);
            if point < weight {
                return true;
            }
            point -= weight;
            false
        });
        let Some((position, member)) = next else {
            break;
        };
        left -= u64::from(member.weight);
        drawn.push(position);
    }
    drawn
}

impl<'s> Pick<'s> {
    /// The origin of a session, and after it what the load balancer answers of these others.
    fn led(
        leader: &'s Member,
        others: Option<&'s FamilyPlan>,
        balancer: &LoadBalancer,
        (pool, family): (PoolId, Family),
        sequences: &impl Sequences,
    ) -> Self {
        let others = others.filter(|_| !is_single(balancer, family));
        let order = others.and_then(|plan| several(plan, balancer, pool, sequences));
        let order = order.unwrap_or(Order::One(None));
        Self { pool, is_last_resort: false, leader: Some(leader), order }
    }

    /// The RDATA of the answer's records, in order.
    pub fn rdata(&self) -> impl Iterator<Item = &'s Rdata> + use<'s> {
        self.members().flat_map(|member| member.rdata.iter())
    }

    /// The TTL of the answer's records: this one, or less where addresses come from a resolver.
    #[inline]
    pub fn ttl(&self, ttl: Ttl) -> Ttl {
        let is_capped = |member: &Member| member.ttl.is_some();
        let others = match self.order {
            Order::One(member) => member.is_some_and(is_capped),
            Order::Drawn { set, .. } => set.is_capped,
            Order::Rotated { lead, rest, .. } => lead.is_capped || rest.is_capped,
        };
        if !others && !self.leader.is_some_and(is_capped) {
            return ttl;
        }
        self.members().filter_map(|member| member.ttl).fold(ttl, Ttl::min)
    }

    /// The members of the answer, in order.
    pub fn members(&self) -> impl Iterator<Item = &'s Member> + use<'s> {
        let leader = self.leader;
        // Drawing without replacement and leaving one out is drawing from the others.
        let mut others = usize::MAX;
        let (one, drawn, all) = match self.order {
            Order::One(member) => (member, None, None),
            Order::Drawn { set, n, count } => {
                others = usize::from(count).saturating_sub(usize::from(leader.is_some()));
                (None, Some((set, draw(set, n, count))), None)
            }
            Order::Rotated { lead, rest, start } => {
                (None, None, Some((lead, rest, usize::from(start))))
            }
        };
        let drawn = drawn.into_iter().flat_map(|(set, positions)| {
            positions.into_iter().filter_map(|position| set.members.get(usize::from(position)))
        });
        let all = all.into_iter().flat_map(|(lead, rest, start)| {
            rotated(&lead.members, start).chain(rotated(&rest.members, start))
        });
        // Two host names may have the same address, and a record stands in an answer once.
        let is_other = move |member: &&Member| {
            leader.is_none_or(|leader| {
                leader.origin != member.origin
                    && !member.rdata.iter().any(|rdata| leader.rdata.contains(rdata))
            })
        };
        let followers = one.into_iter().chain(drawn).chain(all).filter(is_other).take(others);
        leader.into_iter().chain(followers)
    }
}

/// The members from `start` on, and round.
fn rotated(members: &[Member], start: usize) -> impl Iterator<Item = &Member> {
    let start = if members.is_empty() { 0 } else { start % members.len() };
    let (before, from) = members.split_at(start);
    from.iter().chain(before)
}
