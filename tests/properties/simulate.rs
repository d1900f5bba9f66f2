//! Simulations: every query is counted once, shares sum to 1, and what moves from one configuration to
//! another is what the model says of each query.

use std::fmt::Write as _;

use meridian::simulate::Simulation;
use meridian::simulate::replay::Replay;
use meridian::simulate::report::{Answered, Report};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::{self, Decision};
use crate::world::{BalancerSpec, PolicySpec, World, client_address, clients, worlds};

/// A query: the load balancer's number, the client's, and whether it asks AAAA.
type Query = (usize, usize, bool);

fn queries() -> impl Strategy<Value = Vec<Query>> {
    vec((0usize..6, 0..clients().len(), any::<bool>()), 1..200)
}

fn log(queries: &[Query]) -> String {
    let mut text = String::from("# a comment\n\n");
    for &(balancer, client, six) in queries {
        let (client, record_type) = (client_address(client), if six { "AAAA" } else { "A" });
        writeln!(text, "{client} lb{balancer}.example.test {record_type}").unwrap();
    }
    text
}

/// Replays queries through a configuration, and perhaps a new one at the same health.
fn replayed(before: &World, after: Option<&World>, queries: &[Query]) -> Report {
    let state = before.state();
    let new_state = after.map(World::state);
    let new = new_state.as_ref().zip(after);
    let new = new.map(|(state, world)| Simulation::new(state, &world.health(state)));
    let mut replay = Replay::new(Simulation::new(&state, &before.health(&state)), new);
    log(queries).lines().for_each(|line| replay.line(line.as_bytes()));
    replay.report()
}

fn is_one(sum: f64) -> bool {
    (sum - 1.0).abs() < 1e-9
}

fn check_shares(answered: &Answered, queries: usize) -> Result<(), TestCaseError> {
    let mut all = answered.not_steered;
    for balancer in &answered.load_balancers {
        let counted = balancer.answers + balancer.no_data + balancer.no_answer;
        prop_assert_eq!(counted, balancer.queries);
        all += balancer.queries;
        let pools: f64 = balancer.pools.iter().map(|pool| pool.share).sum();
        let zones: f64 = balancer.zones.iter().map(|zone| zone.share).sum();
        prop_assert!(balancer.answers == 0 || is_one(pools) && is_one(zones), "{:?}", balancer);
        for pool in &balancer.pools {
            let origins: f64 = pool.origins.iter().map(|origin| origin.share).sum();
            prop_assert!((origins - pool.share).abs() < 1e-9, "{:?}", pool);
        }
        if let Some(cross) = &balancer.cross_zone {
            prop_assert!(cross.answers <= balancer.answers && (0.0..=1.0).contains(&cross.share));
        }
    }
    prop_assert_eq!(all, u64::try_from(queries).unwrap());
    Ok(())
}

/// Where an answer comes from, as the specification says it, in the words of a report.
fn side(world: &World, (balancer, client, six): Query) -> Option<String> {
    let spec: &BalancerSpec = world.balancers.get(balancer)?;
    let client = clients()[client];
    Some(match model::decide(world, spec, client) {
        Decision::Nothing => "no answer".to_owned(),
        Decision::Candidate(pool) | Decision::Fallback(pool) => {
            match model::members(&world.pools[pool], client, usize::from(six)).as_slice() {
                [] => "no data".to_owned(),
                _ => format!("p{pool}"),
            }
        }
    })
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// Every query is counted once, and shares sum to 1.
    #[test]
    fn shares_sum_to_1(world in worlds(), queries in queries()) {
        let report = replayed(&world, None, &queries);
        prop_assert_eq!(report.unreadable.count, 0);
        prop_assert_eq!(report.queries, u64::try_from(queries.len()).unwrap());
        check_shares(&report.before, queries.len())?;
    }

    /// A configuration does not differ from itself.
    #[test]
    fn nothing_moves_to_the_same_configuration(mut world in worlds(), queries in queries()) {
        let weights = vec![1_000_000; world.balancers[0].pools.len()];
        world.balancers[0].policy = PolicySpec::Random(weights);
        let difference = replayed(&world, Some(&world), &queries).difference.unwrap();
        prop_assert_eq!(difference.moved, 0.0, "{:?}", difference);
        prop_assert!(difference.load_balancers.iter().all(|balancer| balancer.moves.is_empty()));
    }

    /// Between other orders of the same pools, the answers that move are those whose pool is another.
    #[test]
    fn what_moves_is_what_comes_from_another_pool(
        before in worlds(),
        turned in vec((0usize..4, any::<bool>()), 5),
        queries in queries(),
    ) {
        let mut after = before.clone();
        for (balancer, (by, failover)) in after.balancers.iter_mut().zip(turned) {
            let count = balancer.pools.len();
            balancer.pools.rotate_left(by % count);
            if failover {
                balancer.policy = PolicySpec::Failover;
            }
        }
        let report = replayed(&before, Some(&after), &queries);
        check_shares(report.after.as_ref().unwrap(), queries.len())?;
        let difference = report.difference.unwrap();
        let steered: Vec<_> = queries
            .iter()
            .filter_map(|&query| Some((side(&before, query)?, side(&after, query)?)))
            .collect();
        let moved = steered.iter().filter(|(from, to)| from != to).count();
        prop_assert_eq!(difference.answers, u64::try_from(steered.len()).unwrap());
        let expected = moved as f64 / steered.len().max(1) as f64;
        prop_assert!((difference.moved - expected).abs() < 1e-9, "{:?} {}", difference, expected);
        for balancer in &difference.load_balancers {
            let sum: f64 = balancer.moves.iter().map(|one| one.share).sum();
            prop_assert!((sum - balancer.moved).abs() < 1e-9);
            prop_assert!(balancer.moves.iter().all(|one| one.from != one.to));
        }
    }
}
