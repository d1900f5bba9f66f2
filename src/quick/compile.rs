//! Makes the short way's tables from the state and the plan.

use std::collections::HashMap;

use crate::locate::place::{Country, RegionId, Subdivision};
use crate::quick::pools::{Pools, Target};
use crate::quick::query::{KEY, key_and_hash};
use crate::quick::{Entry, INLINE_TARGETS, Quick, Slot, tag_of};
use crate::rr::RecordType;
use crate::state::State;
use crate::steer::load_balancer::{Answers, LoadBalancer, LoadBalancerId, Rules};
use crate::steer::plan::Plan;
use crate::steer::{Outcome, Steering, candidates, outcome};

/// The most memory that profiles may take, in octets; load balancers beyond take the long way.
const MAX_PROFILES: usize = 256 << 20;
/// The most rules of a load balancer: their numbers are octets.
const MAX_RULES: usize = 255;

/// What a profile follows from: who matches which rule, whatever the rules lead to.
type ProfileKey<'s> =
    (Option<u16>, &'s [(Subdivision, u16)], &'s [(Country, u16)], &'s [(RegionId, u16)], u16);

impl Quick {
    /// Makes the tables.
    pub fn compile(state: &State, plan: &Plan) -> Self {
        let mut quick = Self::default();
        let mut pools = Pools::default();
        for (pool, plan) in state.pools.iter().zip(plan.pools()) {
            pools.add(pool, plan);
        }
        quick.pools = pools;
        let steering = state.steering(plan);
        let mut profiles: HashMap<ProfileKey<'_>, u32> = HashMap::new();
        let mut entries = Vec::new();
        let mut hashes = Vec::new();
        for (id, balancer) in (0u32..).map(LoadBalancerId).zip(&state.balancers) {
            if !is_quick(state, id, balancer) {
                continue;
            }
            let Some((key, hash)) = key_and_hash(balancer.name.as_wire()) else { continue };
            let Some(profile) = quick.profile(state, balancer, &mut profiles) else { continue };
            let first_target = u32::try_from(quick.targets.len()).unwrap_or(u32::MAX);
            let mut own = [Target::NONE; INLINE_TARGETS];
            if balancer.rules.lists.len() <= INLINE_TARGETS {
                own.iter_mut().zip(targets(&steering, balancer)).for_each(|(to, t)| *to = t);
            } else {
                quick.targets.extend(targets(&steering, balancer));
            }
            hashes.push(hash);
            entries.push(Entry {
                key,
                key_length: u8::try_from(balancer.name.as_wire().len()).unwrap_or(0),
                client: balancer.client,
                depends_on_client: balancer.depends_on_client,
                ttl: balancer.ttl,
                profile,
                first_target,
                targets: own,
                rules: u32::try_from(balancer.rules.lists.len()).unwrap_or(0),
            });
        }
        quick.slots = slots(&hashes);
        quick.entries = entries.into();
        quick
    }

    /// The profile of a load balancer, shared by all that have the same maps.
    fn profile<'s>(
        &mut self,
        state: &State,
        balancer: &'s LoadBalancer,
        known: &mut HashMap<ProfileKey<'s>, u32>,
    ) -> Option<u32> {
        let Rules { pop, subdivisions, countries, regions, default, .. } = &balancer.rules;
        let key: ProfileKey<'s> = (*pop, subdivisions, countries, regions, *default);
        if let Some(&profile) = known.get(&key) {
            return Some(profile);
        }
        let places = state.locator.table().places();
        if (self.profiles.len() + 1) * places.len() > MAX_PROFILES {
            return None;
        }
        let rule = |place| {
            u8::try_from(candidates::matching_index(&balancer.rules, place, &state.parents))
                .unwrap_or(u8::MAX)
        };
        let number = u32::try_from(self.profiles.len()).ok()?;
        self.profiles.push(places.iter().map(rule).collect());
        known.insert(key, number);
        Some(number)
    }
}

/// True where a load balancer's answers are of the short way's form: one address, under a name that
/// is not too long, not a wildcard, and answered from no other zone.
fn is_quick(state: &State, id: LoadBalancerId, balancer: &LoadBalancer) -> bool {
    let key = balancer.name.to_key();
    let node = state.zones.find(&key, RecordType::A).and_then(|zone| zone.node_at(&key));
    balancer.answers == Answers::Count(1)
        && key.len() <= KEY
        && balancer.rules.lists.len() <= MAX_RULES
        && node.is_some_and(|node| node.steered == Some(id))
}

/// What each rule of a load balancer leads to.
fn targets<'s>(
    steering: &'s Steering<'s>,
    balancer: &'s LoadBalancer,
) -> impl Iterator<Item = Target> + 's {
    balancer.rules.lists.iter().map(|rule| match outcome(steering, balancer, rule) {
        Outcome::Available(pool) | Outcome::Fallback(pool) => {
            balancer.first_slot(pool).map_or(Target::NONE, |slot| Target::new(pool.0, slot))
        }
        Outcome::Nothing(_) => Target::NONE,
    })
}

/// The table of names, half of it empty.
fn slots(hashes: &[u64]) -> Box<[Slot]> {
    if hashes.is_empty() {
        return Box::default();
    }
    let size = (hashes.len() * 2).next_power_of_two();
    let mut slots = vec![Slot::default(); size];
    for (number, &hash) in (1u32..).zip(hashes) {
        #[allow(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
        let mut index = hash as usize & (size - 1);
        while slots[index].entry != 0 {
            index = (index + 1) & (size - 1);
        }
        slots[index] = Slot { tag: tag_of(hash), entry: number };
    }
    slots.into()
}
