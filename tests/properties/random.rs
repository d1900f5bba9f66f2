//! Random steering: the pools' shares over any 1,000 consecutive answers, whoever asks, and the choice
//! within each pool, which must not notice.

use std::collections::BTreeMap;

use meridian::serve::sequences::SharedSequences;
use meridian::state::State;
use meridian::steer::load_balancer::LoadBalancer;
use meridian::steer::plan::Plan;
use meridian::steer::pool::Family;
use meridian::steer::{Outcome, decide, pick};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::choice::check_windows;
use crate::model;
use crate::world::{Mode, PolicySpec, World, client_address, clients, worlds};

/// Worlds whose first load balancer steers at random among all pools.
fn random_worlds() -> impl Strategy<Value = World> {
    let weight = prop_oneof![
        1 => Just(0u64),
        3 => select(&[1_000_000, 500_000, 700_000, 300_000, 250_000][..]),
        2 => 1u64..=1_000_000,
    ];
    (worlds(), vec(weight, 5)).prop_map(|(mut world, mut weights)| {
        weights.truncate(world.pools.len());
        if weights.iter().all(|&weight| weight == 0) {
            weights[0] = 1;
        }
        let balancer = &mut world.balancers[0];
        balancer.pools = (0..world.pools.len()).collect();
        balancer.policy = PolicySpec::Random(weights);
        balancer.answers = Some(1);
        for pool in &mut world.pools {
            // One set a pool and family, so that its answers are one series.
            pool.mode = Mode::Disabled;
        }
        world
    })
}

/// The weights of the pools that can be chosen, as the specification says it.
fn expected(world: &World) -> BTreeMap<usize, u64> {
    let PolicySpec::Random(weights) = &world.balancers[0].policy else { panic!("it is random") };
    let can =
        |&(pool, weight): &(usize, u64)| weight > 0 && model::is_available(&world.pools[pool]);
    weights.iter().copied().enumerate().filter(can).collect()
}

/// The pool of the next answer, and the origin that it begins with.
fn next(
    (state, plan): (&State, &Plan),
    balancer: &LoadBalancer,
    sequences: &SharedSequences,
    (client, family): (usize, Family),
) -> (Outcome, Option<usize>) {
    let place = state.locator.locate(client_address(client)).place;
    let steering = state.steering(plan);
    let outcome = decide(&steering, balancer, &place, family, sequences).outcome;
    let origin = match outcome {
        Outcome::Available(pool) | Outcome::Fallback(pool) => {
            let pick = pick(&steering, balancer, pool, &place, family, sequences);
            pick.and_then(|pick| Some(usize::from(pick.members().next()?.origin.0)))
        }
        Outcome::Nothing(_) => None,
    };
    (outcome, origin)
}

proptest! {
    #![proptest_config(crate::cases(24))]

    /// Over any 1,000 consecutive answers each pool's share is within a percentage point, and so is
    /// each origin's within the answers of its pool and family, however clients and families
    /// alternate. Where no pool can be chosen the fallback pool answers.
    #[test]
    fn any_thousand_answers_keep_the_pools_shares(
        world in random_worlds(),
        pattern in vec((0..clients().len(), any::<bool>()), 1..20),
        order in vec(any::<Index>(), 0..50),
    ) {
        let state = world.state();
        let plan = Plan::new(&state.pools, &world.health(&state));
        let sequences = SharedSequences::new(state.slot_count);
        let balancer = &state.balancers[0];
        let weights = expected(&world);
        let mut pools = Vec::new();
        let mut origins: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for turn in 0..6_000 {
            let (client, six) = match order.get(turn % order.len().max(1)) {
                Some(index) => *index.get(&pattern),
                None => pattern[turn % pattern.len()],
            };
            let family = if six { Family::V6 } else { Family::V4 };
            match next((&state, &plan), balancer, &sequences, (client, family)) {
                (Outcome::Available(pool), origin) => {
                    let pool = usize::try_from(pool.0).unwrap();
                    prop_assert!(weights.contains_key(&pool), "{} cannot be chosen", pool);
                    pools.push(pool);
                    if let Some(origin) = origin {
                        origins.entry((pool, family.index())).or_default().push(origin);
                    }
                }
                _ => prop_assert!(weights.is_empty()),
            }
        }
        check_windows(&pools, &weights)?;
        for ((pool, family), firsts) in &origins {
            let spec = &world.pools[*pool];
            let members = model::members(spec, clients()[0], *family);
            let weights = members.iter().map(|&origin| (origin, spec.origins[origin].weight));
            check_windows(firsts, &weights.collect())?;
        }
    }

    /// Clients that ask A and AAAA in pairs get both from one pool.
    #[test]
    fn pairs_of_families_meet_in_one_pool(world in random_worlds(), client in 0..clients().len()) {
        let state = world.state();
        let plan = Plan::new(&state.pools, &world.health(&state));
        let sequences = SharedSequences::new(state.slot_count);
        for _ in 0..200 {
            let [v4, v6] = Family::ALL.map(|family| {
                next((&state, &plan), &state.balancers[0], &sequences, (client, family)).0
            });
            prop_assert_eq!(v4, v6);
        }
    }
}
