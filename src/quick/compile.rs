//! Makes the short way's tables from the state and the plan.

use std::collections::HashMap;
use std::sync::Arc;

use crate::locate::place::{Coordinates, Country, RegionId, Subdivision};
use crate::quick::pools::{Pools, Target};
use crate::quick::query::{KEY, key_and_hash};
use crate::quick::sessions::Sessions;
use crate::quick::{Entry, INLINE_TARGETS, Quick, Slot, tag_of};
use crate::rr::RecordType;
use crate::served::Choice;
use crate::state::State;
use crate::steer::load_balancer::{Answers, LoadBalancer, LoadBalancerId, Rules};
use crate::steer::plan::Plan;
use crate::steer::pool::PoolId;
use crate::steer::{Outcome, Steering, candidates, outcome};

/// The most memory that profiles may take, in octets; load balancers beyond take the long way.
const MAX_PROFILES: usize = 256 << 20;
/// The most rules of a load balancer: their numbers are octets.
const MAX_RULES: usize = 255;

/// What a profile follows from: who matches which rule, whatever the rules lead to.
/// Lists by coordinates are very long, and shared where they are the same: their address tells them
/// apart.
type ProfileKey<'s> = (
    Option<u16>,
    &'s [(Subdivision, u16)],
    Option<*const (Coordinates, u16)>,
    &'s [(Country, u16)],
    &'s [(RegionId, u16)],
    u16,
);

impl Quick {
    /// Makes the tables.
    pub fn compile(state: &State, plan: &Plan) -> Self {
        let mut profiles = Profiles::default();
        let mut sessions = Sessions::default();
        let (mut entries, mut balancers, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for (id, balancer) in (0u32..).map(LoadBalancerId).zip(&state.balancers) {
            if !is_quick(state, id, balancer) {
                continue;
            }
            let name = balancer.name.as_wire();
            let mut key = [0; KEY];
            let hash = key_and_hash(name, &mut key);
            let rules = plan.rules(balancer);
            if rules.lists.len() > MAX_RULES {
                continue;
            }
            let Some(profile) = profiles.number(state, rules) else { continue };
            hashes.push(hash);
            balancers.push(id);
            entries.push(Entry {
                key,
                client: balancer.client,
                depends_on_client: balancer.depends_on_client,
                ttl: balancer.ttl,
                profile,
                first_target: 0,
                first_counter: state.layout.first(id),
                targets: [Target::NONE; INLINE_TARGETS],
                choices: [0; INLINE_TARGETS],
                rules: u8::try_from(rules.lists.len()).unwrap_or(0),
                session: sessions.add(balancer, plan),
            });
        }
        let mut quick = Self {
            slots: slots(&hashes),
            entries: entries.into(),
            balancers: balancers.into(),
            profiles: profiles.rules.into(),
            targets: Vec::new(),
            choices: Vec::new(),
            pools: Pools::new(&state.pools, plan),
            sessions,
        };
        quick.aim(state, plan);
        quick
    }

    /// The tables after the plan of some pools changed: names and clients are as they were.
    pub fn updated(&self, state: &State, plan: &Plan, changed: &[PoolId]) -> Self {
        let mut quick = Self {
            slots: Arc::clone(&self.slots),
            entries: self.entries.clone(),
            balancers: Arc::clone(&self.balancers),
            profiles: Arc::clone(&self.profiles),
            targets: Vec::with_capacity(self.targets.len()),
            choices: Vec::with_capacity(self.choices.len()),
            pools: self.pools.updated(&state.pools, plan, changed),
            sessions: self.sessions.updated(plan, changed),
        };
        quick.aim(state, plan);
        quick
    }

    /// Fills in what each rule leads to.
    fn aim(&mut self, state: &State, plan: &Plan) {
        let steering = state.steering(plan);
        for (entry, &id) in self.entries.iter_mut().zip(self.balancers.iter()) {
            let Some(balancer) = state.balancer(id) else { continue };
            entry.first_target = u32::try_from(self.targets.len()).unwrap_or(u32::MAX);
            if plan.rules(balancer).lists.len() <= INLINE_TARGETS {
                let places = entry.targets.iter_mut().zip(&mut entry.choices);
                let targets = places.zip(targets(&steering, balancer));
                targets.for_each(|((target, choice), of_rule)| (*target, *choice) = of_rule);
            } else {
                let targets = targets(&steering, balancer);
                targets.for_each(|(target, choice)| {
                    self.targets.push(target);
                    self.choices.push(choice);
                });
            }
        }
    }
}

/// The profiles made so far, each shared by all load balancers that have the same maps.
#[derive(Default)]
struct Profiles<'s> {
    known: HashMap<ProfileKey<'s>, u32>,
    rules: Vec<Box<[u8]>>,
}

impl<'s> Profiles<'s> {
    /// The number of the profile of a load balancer's lists; none if there is no room for it.
    fn number(&mut self, state: &State, rules: &'s Rules) -> Option<u32> {
        let Rules { pop, subdivisions, spots, countries, regions, default, .. } = rules;
        // Empty ones are alike, wherever they are.
        let spots = (!spots.is_empty()).then_some(spots.as_ptr());
        let key: ProfileKey<'s> = (*pop, subdivisions, spots, countries, regions, *default);
        if let Some(&profile) = self.known.get(&key) {
            return Some(profile);
        }
        let places = state.locator.table().places();
        if (self.rules.len() + 1) * places.len() > MAX_PROFILES {
            return None;
        }
        let rule = |place| {
            u8::try_from(candidates::matching_index(rules, place, &state.parents))
                .unwrap_or(u8::MAX)
        };
        let number = u32::try_from(self.rules.len()).ok()?;
        self.rules.push(places.iter().map(rule).collect());
        self.known.insert(key, number);
        Some(number)
    }
}

/// True where a load balancer's answers are of the short way's form: one address, under a name that
/// is not too long, not a wildcard, and answered from no other zone.
fn is_quick(state: &State, id: LoadBalancerId, balancer: &LoadBalancer) -> bool {
    let key = balancer.name.to_key();
    let node = state.zones.find(&key, RecordType::A).and_then(|zone| zone.node_at(&key));
    // Random steering draws a number before the pool's, and a CNAME is no address: the long way does
    // both.
    balancer.random.is_none()
        && !balancer.aliases
        && balancer.answers == Answers::Count(1)
        && key.len() <= KEY
        && node.is_some_and(|node| node.steered == Some(id))
}

/// What each rule of a load balancer leads to, and what that is counted as.
fn targets<'s>(
    steering: &'s Steering<'s>,
    balancer: &'s LoadBalancer,
) -> impl Iterator<Item = (Target, u16)> + 's {
    let target = |pool: PoolId, choice: fn(usize) -> Choice| {
        let position = balancer.position(pool)?;
        let &(_, slot) = balancer.slots.get(position)?;
        let choice = choice(position).number(balancer.slots.len());
        Some((Target::new(pool.0, slot), u16::try_from(choice).ok()?))
    };
    let rules = steering.plan.rules(balancer).lists.iter();
    rules.map(move |rule| {
        let target = match outcome(steering, balancer, rule) {
            Outcome::Available(pool) => target(pool, Choice::Candidate),
            Outcome::Fallback(pool) => target(pool, |_| Choice::Fallback),
            Outcome::Nothing(_) => None,
        };
        target.unwrap_or((Target::NONE, 0))
    })
}

/// The table of names, half of it empty.
fn slots(hashes: &[u64]) -> Arc<[Slot]> {
    if hashes.is_empty() {
        return Arc::default();
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
