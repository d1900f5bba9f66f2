//! The choice within a set: shares over any 1,000 consecutive answers, the start of a sequence, and
//! what follows the first origin of an answer.

use std::collections::BTreeMap;

use meridian::serve::sequences::SharedSequences;
use meridian::state::State;
use meridian::steer::availability::Health;
use meridian::steer::load_balancer::LoadBalancer;
use meridian::steer::plan::Plan;
use meridian::steer::pool::{Family, PoolId};
use meridian::steer::{Outcome, decide, pick};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model;
use crate::world::{
    BalancerSpec, Mode, OriginSpec, PolicySpec, PoolSpec, World, client_address, clients, worlds,
};

/// What the specification speaks of.
const WINDOW: usize = 1_000;

/// What a series of answers is from: a pool, the set, with "all" the client's zone, the family.
type SetKey = (PoolId, Vec<usize>, Option<usize>, usize);

/// The origins of one answer, and the set that they are from.
struct Drawn {
    pool: PoolId,
    set: Vec<usize>,
    origins: Vec<usize>,
}

/// One answer to a client; none where there is nothing to answer.
fn draw(
    state: &State,
    plan: &Plan,
    balancer: &LoadBalancer,
    sequences: &SharedSequences,
    (client, family): (usize, Family),
) -> Option<Drawn> {
    let place = state.locator.locate(client_address(client)).place;
    let steering = state.steering(plan);
    let pool = match decide(&steering, balancer, &place, family, sequences).outcome {
        Outcome::Available(pool) | Outcome::Fallback(pool) => pool,
        Outcome::Nothing(_) => return None,
    };
    let pick = pick(&steering, balancer, pool, &place, family, sequences)?;
    let origins = pick.members().map(|member| usize::from(member.origin.0)).collect();
    let region = state.pool(pool)?.region;
    let zone = place.zone.filter(|_| region.is_some() && region == place.region);
    let set = &plan.pool(pool)?.for_zone(zone).families[family.index()].set;
    let set = set.members.iter().map(|member| usize::from(member.origin.0)).collect();
    Some(Drawn { pool, set, origins })
}

/// Checks every window of a series of first origins.
pub(crate) fn check_windows(
    firsts: &[usize],
    weights: &BTreeMap<usize, u64>,
) -> Result<(), TestCaseError> {
    let total: u64 = weights.values().sum();
    for (&origin, &weight) in weights {
        #[allow(clippy::cast_precision_loss, reason = "sums of a few millions")]
        let target = WINDOW as f64 * weight as f64 / total as f64;
        let mut count = 0_i32;
        for (turn, &first) in firsts.iter().enumerate() {
            count += i32::from(first == origin);
            if let Some(gone) = turn.checked_sub(WINDOW) {
                count -= i32::from(firsts[gone] == origin);
            }
            if turn + 1 >= WINDOW {
                let apart = (f64::from(count) - target).abs();
                prop_assert!(apart <= 10.0, "{count} of {WINDOW} for {target}, at {turn}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(24))]

    /// Over any 1,000 consecutive answers from one set each share is within a percentage point,
    /// however clients of several zones, and A and AAAA, alternate.
    #[test]
    fn any_thousand_answers_keep_the_shares(
        world in worlds(),
        askers in vec(0..clients().len(), 1..4),
        pattern in vec((any::<prop::sample::Index>(), any::<bool>()), 1..40),
        seed: u64,
    ) {
        let state = world.state();
        let plan = Plan::new(&state.pools, &world.health(&state));
        let sequences = SharedSequences::new(state.slot_count);
        let balancer = &state.balancers[0];
        let all = world.balancers[0].answers.is_none();
        let mut series: BTreeMap<SetKey, Vec<usize>> = BTreeMap::new();
        // Half of the time the pattern in its order, half of the time at random.
        let mut random = seed | 1;
        for turn in 0..6_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = if turn % 4_000 < 2_000 { turn } else { usize::try_from(random >> 40).unwrap() };
            let (index, six) = &pattern[at % pattern.len()];
            let client = *index.get(&askers);
            let family = if *six { Family::V6 } else { Family::V4 };
            let Some(drawn) = draw(&state, &plan, balancer, &sequences, (client, family)) else {
                continue;
            };
            // With "all" the client's zone is first, so the shares are those within it.
            let spec = &world.pools[usize::try_from(drawn.pool.0).unwrap()];
            let zone = model::zone_in(spec, clients()[client]);
            let leads = |origin: &usize| zone.is_some() && spec.origins[*origin].zone == zone;
            let zone = zone.filter(|_| all && drawn.set.iter().any(leads));
            let key = (drawn.pool, drawn.set, zone, family.index());
            series.entry(key).or_default().push(drawn.origins[0]);
        }
        for ((pool, set, zone, _), firsts) in &series {
            let spec = &world.pools[usize::try_from(pool.0).unwrap()];
            let leads = |&&origin: &&usize| zone.is_none() || spec.origins[origin].zone == *zone;
            let weights =
                set.iter().filter(leads).map(|&origin| (origin, spec.origins[origin].weight));
            check_windows(firsts, &weights.collect())?;
        }
    }

    /// A sequence starts again when its set changes, and goes on when something else does.
    #[test]
    fn a_sequence_starts_again_with_its_set(world in worlds(), client in 0..clients().len()) {
        let state = world.state();
        let plans = [world.health(&state), Health::default()].map(|h| Plan::new(&state.pools, &h));
        for balancer in &state.balancers {
            let sequences = SharedSequences::new(state.slot_count);
            let from = |plan: &Plan, sequences: &SharedSequences, count: usize| -> Vec<Drawn> {
                let asker = (client, Family::V4);
                let draws = (0..count).map(|_| draw(&state, plan, balancer, sequences, asker));
                draws.flatten().collect()
            };
            let before = from(&plans[0], &sequences, 7);
            let after = from(&plans[1], &sequences, 7);
            let fresh = SharedSequences::new(state.slot_count);
            let (Some(old), Some(new)) = (before.first(), after.first()) else { continue };
            let goes_on = (old.pool, &old.set) == (new.pool, &new.set);
            let _skipped = from(&plans[1], &fresh, if goes_on { 7 } else { 0 });
            let expected = from(&plans[1], &fresh, 7);
            let origins =
                |drawn: &[Drawn]| drawn.iter().map(|d| d.origins.clone()).collect::<Vec<_>>();
            // With "all" the zone's own members have a sequence of theirs: the set says too little.
            if world.balancers.iter().all(|spec| spec.answers.is_some()) {
                prop_assert_eq!(origins(&after), origins(&expected), "goes on: {}", goes_on);
            }
        }
    }
}

/// A pool of healthy origins in no zone, behind one load balancer.
fn plain(weights: &[u64], answers: Option<usize>) -> World {
    let origin = |&weight: &u64| OriginSpec {
        families: [true, true],
        zone: None,
        weight,
        is_failover: false,
        enabled: true,
        probed: [meridian::steer::availability::HealthState::Healthy; 2],
        forced: None,
    };
    let pool = PoolSpec {
        location: None,
        enabled: true,
        region: None,
        monitored: false,
        minimum: 1,
        mode: Mode::Disabled,
        failover_ratio: 0,
        drops: false,
        origins: weights.iter().map(origin).collect(),
    };
    let balancer = BalancerSpec {
        pools: vec![0],
        fallback: None,
        policy: PolicySpec::Failover,
        by_resolver: false,
        answers,
    };
    World {
        pools: vec![pool],
        balancers: vec![balancer],
        rtt: Vec::new(),
        at_pop: false,
        hosts: None,
    }
}

/// The answers to one client, from the first on.
fn answers(world: &World, count: usize) -> Vec<Vec<usize>> {
    let state = world.state();
    let plan = Plan::new(&state.pools, &world.health(&state));
    let sequences = SharedSequences::new(state.slot_count);
    let draw = |_| draw(&state, &plan, &state.balancers[0], &sequences, (0, Family::V4));
    (0..count).map(|turn| draw(turn).unwrap().origins).collect()
}

// What follows the first is drawn from what is left, in proportion to the weights.
#[test]
fn the_second_and_third_are_in_proportion_to_what_is_left() {
    let weights = [500_000, 250_000, 125_000, 125_000];
    let answers = answers(&plain(&weights, Some(3)), 80_000);
    let mut after: BTreeMap<Vec<usize>, BTreeMap<usize, u32>> = BTreeMap::new();
    for answer in &answers {
        for taken in 1..answer.len() {
            let before = answer[..taken].to_vec();
            *after.entry(before).or_default().entry(answer[taken]).or_default() += 1;
        }
    }
    for (before, counts) in &after {
        let drawn: u32 = counts.values().sum();
        let left: u64 = (0..4).filter(|origin| !before.contains(origin)).map(|o| weights[o]).sum();
        for (&origin, &count) in counts {
            #[allow(clippy::cast_precision_loss, reason = "below a million")]
            let share = weights[origin] as f64 / left as f64;
            // Four standard deviations of so many independent draws.
            let spread = (share * (1.0 - share) / f64::from(drawn)).sqrt() * 4.0;
            let found = f64::from(count) / f64::from(drawn);
            assert!(
                (found - share).abs() <= spread,
                "{origin} after {before:?}: {found} of {drawn} for {share}"
            );
        }
    }
}

// "all" turns the whole set round, so that each is first by its weight.
#[test]
fn all_is_the_whole_set_turned_round() {
    let answers = answers(&plain(&[400_000, 300_000, 300_000], None), 1_000);
    let mut firsts = [0; 3];
    for answer in &answers {
        firsts[answer[0]] += 1;
        let turned: Vec<usize> = (0..3).map(|step| (answer[0] + step) % 3).collect();
        assert_eq!(*answer, turned);
    }
    assert_eq!(firsts, [400, 300, 300]);
}
