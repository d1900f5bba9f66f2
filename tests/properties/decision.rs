//! The decision, from the client's place to the set that is chosen from, against the model.

use meridian::explain::{Asker, Scene, explain};
use meridian::name::Name;
use meridian::query::{Question, Rcode};
use meridian::respond::{Client, Responder};
use meridian::rr::RecordType;
use meridian::serve::sequences::SharedSequences;
use meridian::state::State;
use meridian::steer::availability::assess;
use meridian::steer::eligible::{Source, original_eligible};
use meridian::steer::plan::{FamilySet, Plan};
use meridian::steer::pool::{Family, OriginIndex, Pool, PoolId};
use meridian::steer::zonal::{Verdict, modify};
use meridian::steer::{FirstOnly, Outcome, decide};
use proptest::prelude::*;

use crate::model::{self, Decision, From};
use crate::world::{ClientSpec, World, client_address, clients, owner_of, worlds};

/// The pools of a state with their numbers.
fn pools(state: &State) -> impl Iterator<Item = (usize, PoolId, &Pool)> {
    let ids = (0u32..).map(PoolId);
    ids.zip(state.pools.iter()).enumerate().map(|(number, (id, pool))| (number, id, pool))
}

/// The client with a number, as the program locates it.
fn place_of(state: &State, client: usize) -> meridian::locate::place::Place {
    state.locator.locate(client_address(client)).place
}

fn numbers(origins: &[OriginIndex]) -> Vec<usize> {
    origins.iter().map(|index| usize::from(index.0)).collect()
}

fn members(set: &FamilySet) -> Vec<usize> {
    set.members.iter().map(|member| usize::from(member.origin.0)).collect()
}

fn number_of(pool: PoolId) -> usize {
    usize::try_from(pool.0).unwrap()
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// Availability, set A, zonal match and modified set obey the tables of the specification, and
    /// the plan holds what the steps give when they are taken one by one.
    #[test]
    fn the_sets_are_those_of_the_specification(world in worlds()) {
        let state = world.state();
        let health = world.health(&state);
        let plan = Plan::new(&state.pools, &health);
        for (number, id, pool) in pools(&state) {
            let spec = &world.pools[number];
            let assessment = assess(id, pool, &health);
            for (index, _) in pool.indexed() {
                let expected = model::is_eligible(spec, usize::from(index.0));
                prop_assert_eq!(assessment.is_eligible(index), expected, "{:?}", index);
            }
            prop_assert_eq!(assessment.is_available(), model::is_available(spec));
            let planned = plan.pool(id).unwrap();
            prop_assert_eq!(planned.available, model::is_available(spec));

            let original = original_eligible(pool, &assessment);
            let (a, from) = model::original(spec);
            prop_assert_eq!(numbers(&original.members), a);
            let source = match original.source {
                Source::HealthyPrimaries => From::Primaries,
                Source::HealthyFailovers => From::Failovers,
                Source::LastResort => From::LastResort,
                Source::Dropped | Source::None => From::Nowhere,
            };
            prop_assert_eq!(source, from);

            for (client_number, &client) in clients().iter().enumerate() {
                let place = place_of(&state, client_number);
                let zonal = modify(pool, &original, place.region, place.zone);
                let expected = model::zonal(spec, client);
                prop_assert_eq!(numbers(&zonal.matched), expected.matched.clone(), "{:?}", client);
                prop_assert_eq!(numbers(&zonal.modified), expected.modified, "{:?}", client);
                prop_assert_eq!(zonal.stays_unhealthy, expected.stays_unhealthy);
                prop_assert_eq!(zonal.verdict == Verdict::Match, !expected.matched.is_empty());

                let compatible = pool.region.is_some() && pool.region == place.region;
                let zone_plan = planned.for_zone(place.zone.filter(|_| compatible));
                for family in Family::ALL {
                    let planned = &zone_plan.families[family.index()];
                    let expected = model::members(spec, client, family.index());
                    prop_assert_eq!(members(&planned.set), expected.clone(), "{:?}", client);
                    // "all" begins with the client's zone and leaves nobody out.
                    let zone = model::zone_in(spec, client);
                    let in_zone = |&&origin: &&usize| {
                        zone.is_some() && spec.origins[origin].zone == zone
                    };
                    let inside: Vec<usize> = expected.iter().filter(in_zone).copied().collect();
                    let lead = if inside.is_empty() { expected.clone() } else { inside };
                    prop_assert_eq!(members(&planned.lead), lead.clone());
                    let mut whole = [lead, members(&planned.rest)].concat();
                    whole.sort_unstable();
                    prop_assert_eq!(whole, expected);
                }
            }
        }
    }

    /// The candidates and the pool that is answered are those of the specification; a disabled pool
    /// never is, and a pool is the fallback only where no candidate is available.
    #[test]
    fn the_pool_is_that_of_the_specification(world in worlds()) {
        let state = world.state();
        let plan = Plan::new(&state.pools, &world.health(&state));
        for (balancer, spec) in state.balancers.iter().zip(&world.balancers) {
            for (number, &client) in clients().iter().enumerate() {
                let place = place_of(&state, number);
                let decision = decide(&state.steering(&plan), balancer, &place, Family::V4, &FirstOnly);
                let candidates: Vec<usize> =
                    decision.rule.candidates.iter().map(|&pool| number_of(pool)).collect();
                let expected = model::candidates(&world, spec, client);
                prop_assert_eq!(&candidates, &expected, "{:?} {:?}", client, decision.rule.name);
                let outcome = match decision.outcome {
                    Outcome::Available(pool) => Decision::Candidate(number_of(pool)),
                    Outcome::Fallback(pool) => Decision::Fallback(number_of(pool)),
                    Outcome::Nothing(_) => Decision::Nothing,
                };
                prop_assert_eq!(outcome, model::decide(&world, spec, client), "{:?}", client);
                match outcome {
                    Decision::Candidate(pool) => {
                        prop_assert!(model::is_available(&world.pools[pool]));
                    }
                    Decision::Fallback(pool) => {
                        prop_assert!(world.pools[pool].enabled);
                        let available = |&pool: &usize| model::is_available(&world.pools[pool]);
                        prop_assert!(!candidates.iter().any(available));
                    }
                    Decision::Nothing => {}
                }
            }
        }
    }
}

/// What an answer's addresses say of it: the pool, and the origins in order, each once.
fn origins_of<'a>(rdata: impl Iterator<Item = &'a [u8]>) -> (Option<usize>, Vec<usize>) {
    let mut pool = None;
    let mut origins = Vec::new();
    for (of_pool, origin) in rdata.map(owner_of) {
        assert_eq!(*pool.get_or_insert(of_pool), of_pool, "an answer is from one pool");
        if origins.last() != Some(&origin) {
            origins.push(origin);
        }
    }
    (pool, origins)
}

/// Checks the answers of one client to A and AAAA.
fn check_answers(
    world: &World,
    responder: &Responder<'_, SharedSequences>,
    number: usize,
    (client_number, client): (usize, ClientSpec),
) -> Result<(), TestCaseError> {
    let spec = &world.balancers[number];
    let name = Name::parse_absolute(&format!("lb{number}.example.test")).unwrap();
    let decision = model::decide(world, spec, client);
    let asker = Client { resolver: Some(client_address(client_number)), subnet: None };
    let mut met = Vec::new();
    for family in Family::ALL {
        let record_type = [RecordType::A, RecordType::AAAA][family.index()];
        let answer = responder.answer(&Question::of(&name, record_type), asker);
        let (Decision::Candidate(pool) | Decision::Fallback(pool)) = decision else {
            prop_assert_eq!(answer.rcode, Rcode::ServFail);
            prop_assert!(answer.answer.is_empty() && answer.authority.is_none());
            prop_assert!(!answer.authoritative && answer.extended_error.is_some());
            continue;
        };
        prop_assert_eq!(answer.rcode, Rcode::NoError);
        let expected = model::members(&world.pools[pool], client, family.index());
        let Some(set) = answer.answer.first() else {
            prop_assert!(expected.is_empty(), "NODATA, but {:?} could be answered", expected);
            prop_assert!(answer.authority.is_some() && answer.ecs_scope == 0);
            continue;
        };
        let (from, origins) = origins_of(set.rdata());
        met.extend(from);
        let wanted = spec.answers.unwrap_or(usize::MAX).min(expected.len());
        prop_assert_eq!(origins.len(), wanted, "{:?} of {:?}", origins, expected);
        let mut distinct = origins.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), origins.len(), "each origin once: {:?}", origins);
        prop_assert!(origins.iter().all(|origin| expected.contains(origin)));
        check_ineligible(
            world,
            responder.state,
            (pool, &origins),
            (client_number, client),
            (number, record_type),
        )?;
    }
    prop_assert!(met.iter().all(|pool| Some(pool) == met.first()), "A and AAAA meet in one pool");
    prop_assert!(met.iter().all(|&pool| world.pools[pool].enabled));
    Ok(())
}

/// An ineligible origin is answered as a last resort, or to a client that stays in its zone; and
/// that is what `explain` says of it.
fn check_ineligible(
    world: &World,
    state: &State,
    (pool, origins): (usize, &[usize]),
    (client_number, client): (usize, ClientSpec),
    (balancer, record_type): (usize, RecordType),
) -> Result<(), TestCaseError> {
    let spec = &world.pools[pool];
    let ineligible: Vec<usize> =
        origins.iter().copied().filter(|&origin| !model::is_eligible(spec, origin)).collect();
    if ineligible.is_empty() {
        return Ok(());
    }
    let last_resort = model::original(spec).1 == From::LastResort;
    let stays = model::zonal(spec, client).stays_unhealthy;
    prop_assert!(last_resort || stays, "{:?} is not eligible", ineligible);
    let name = Name::parse_absolute(&format!("lb{balancer}.example.test")).unwrap();
    let asker = Asker::Address(client_address(client_number));
    let health = world.health(state);
    let plan = Plan::new(&state.pools, &health);
    let told = explain(&Scene::assumed(state, &health, &plan), &name, record_type, asker);
    for origin in ineligible {
        let part = &told.origins.as_ref().unwrap()[origin];
        prop_assert!(!part.eligible && part.reason.contains("answered"), "{:?}", part);
    }
    if last_resort {
        prop_assert_eq!(told.failover.unwrap().from, "last_resort");
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// What is answered: the wanted number of distinct origins of the pool's set, none of them
    /// ineligible without a reason, A and AAAA from one pool.
    #[test]
    fn answers_hold_what_the_decision_says(world in worlds()) {
        let state = world.state();
        let plan = Plan::new(&state.pools, &world.health(&state));
        let sequences = SharedSequences::new(state.slot_count);
        let responder = Responder { state: &state, plan: &plan, sequences: &sequences };
        for number in 0..world.balancers.len() {
            for client in clients().into_iter().enumerate() {
                check_answers(&world, &responder, number, client)?;
            }
        }
    }
}
