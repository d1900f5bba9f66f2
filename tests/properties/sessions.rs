//! Session affinity in the core: who keeps an origin when health changes, where new sessions are placed,
//! and that the short way, the long way and all nodes agree.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

use meridian::config::load_balancers::reachable_pools;
use meridian::cookies::Cookies;
use meridian::name::Name;
use meridian::query::{ClientSubnet, Question, Rcode};
use meridian::quick::{self, Quick};
use meridian::respond::{Client, Responder};
use meridian::rr::RecordType;
use meridian::serve::reply::{self, Arrival};
use meridian::serve::udp;
use meridian::served::Served;
use meridian::state::State;
use meridian::steer::Sequences;
use meridian::steer::availability::{Health, HealthState, PoolOverride};
use meridian::steer::plan::{Plan, Stay};
use meridian::steer::pool::{Family, OriginIndex, PoolId};
use meridian::steer::session::{
    Failback, OriginTag, SessionAffinity, SessionKey, SessionSettings, Sessions,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::model::{self, Decision, From};
use crate::scope::octets_of;
use crate::world::{PolicySpec, World, client_address, clients, owner_of, worlds};

/// Sessions that never end by themselves, and sequences that stand still.
#[derive(Clone, Debug, Default)]
struct Kept(RefCell<HashMap<SessionKey, OriginTag>>);

impl Sequences for Kept {
    fn next(&self, _slot: u32, _fingerprint: u32) -> u32 {
        0
    }
}

impl Sessions for Kept {
    fn find(&self, key: SessionKey, _ttl: u32) -> Option<OriginTag> {
        self.0.borrow().get(&key).copied()
    }

    fn begin(&self, key: SessionKey, origin: OriginTag) {
        self.0.borrow_mut().insert(key, origin);
    }
}

const SETTINGS: SessionSettings =
    SessionSettings { ttl: 60, ipv4_prefix: 24, ipv6_prefix: 56, failback: Failback::Keep };

/// The state of a world whose load balancers have sessions.
fn state_of(world: &World, failback: Failback) -> State {
    let mut state = world.state();
    let mut pools = state.pools.to_vec();
    for balancer in &mut state.balancers {
        let reachable = reachable_pools(balancer);
        let pool = |id: &PoolId| (*id, &state.pools[usize::try_from(id.0).unwrap()]);
        let named: Vec<_> = reachable.iter().map(pool).collect();
        let settings = SessionSettings { failback, ..SETTINGS };
        balancer.sessions = Some(SessionAffinity::new(settings, &balancer.name, &named));
    }
    pools.iter_mut().for_each(|pool| pool.keeps_sessions = true);
    state.pools = pools.into();
    state.has_sessions = true;
    state
}

/// What one query of a client gets: the response code, its origins by pool and origin, the scope.
fn ask(
    responder: &Responder<'_, Kept>,
    balancer: usize,
    record_type: RecordType,
    client: usize,
) -> (Rcode, Vec<(usize, usize)>, u8) {
    let name = Name::parse_absolute(&format!("lb{balancer}.example.test")).unwrap();
    let subnet = ClientSubnet { address: Some(client_address(client)), source_prefix: 32 };
    // The resolver is the client where it steers.
    let asker = Client { resolver: Some(client_address(client)), subnet: Some(subnet) };
    let answer = responder.answer(&Question::of(&name, record_type), asker);
    let origins =
        answer.answer.iter().flat_map(|set| set.rdata().map(owner_of).collect::<Vec<_>>());
    let mut origins: Vec<_> = origins.collect();
    origins.dedup();
    (answer.rcode, origins, answer.ecs_scope)
}

const TYPES: [RecordType; 2] = [RecordType::A, RecordType::AAAA];

/// The pool that new sessions are placed in; none where hashing says which.
fn pool_of(world: &World, balancer: usize, client: usize) -> Option<Decision> {
    let spec = &world.balancers[balancer];
    let is_random = matches!(spec.policy, PolicySpec::Random(_));
    (!is_random).then(|| model::decide(world, spec, clients()[client]))
}

/// Where a client's session was placed.
fn placed(state: &State, kept: &Kept, balancer: usize, client: usize) -> Option<(usize, usize)> {
    let affinity = state.balancers[balancer].sessions.as_ref().unwrap();
    let subnet = affinity.keys.subnet(client_address(client), 32).unwrap();
    let tag = kept.0.borrow().get(&affinity.keys.key(subnet)).copied()?;
    let (pool, origin) = affinity.origin(tag).unwrap();
    Some((usize::try_from(pool.0).unwrap(), usize::from(origin.0)))
}

proptest! {
    #![proptest_config(crate::cases(32))]

    /// A new session is placed in the set that would be chosen from, alike on every node; it is kept;
    /// and nobody is bound to an origin that is answered whatever its health.
    #[test]
    fn new_sessions_are_placed_in_the_set_that_would_be_chosen_from(world in worlds()) {
        let state = state_of(&world, Failback::Keep);
        let plan = Plan::new(&state.pools, &world.health(&state));
        let nodes = [Kept::default(), Kept::default()];
        let responders =
            nodes.each_ref().map(|kept| Responder { state: &state, plan: &plan, sequences: kept });
        for (number, spec) in world.balancers.iter().enumerate() {
            for (client, client_spec) in clients().into_iter().enumerate() {
                let (rcode, first, scope) = ask(&responders[0], number, TYPES[0], client);
                let again = ask(&responders[0], number, TYPES[0], client);
                let there = ask(&responders[1], number, TYPES[0], client);
                let lead = first.first().copied();
                prop_assert_eq!(again.1.first().copied(), lead);
                prop_assert_eq!(there.1.first().copied(), lead);
                if lead.is_some() || rcode == Rcode::ServFail {
                    prop_assert!(spec.by_resolver == (scope == 0), "scope {}", scope);
                    prop_assert!(spec.by_resolver || scope >= 24, "scope {}", scope);
                } else {
                    prop_assert_eq!(scope, 0);
                }
                let Some((pool, origin)) = lead else { continue };
                let pool_spec = &world.pools[pool];
                prop_assert!(model::members(pool_spec, client_spec, 0).contains(&origin));
                match pool_of(&world, number, client) {
                    Some(Decision::Candidate(chosen) | Decision::Fallback(chosen)) => {
                        prop_assert_eq!(pool, chosen);
                    }
                    Some(Decision::Nothing) => prop_assert!(false, "nothing can answer"),
                    None => {}
                }
                let any_health = model::original(pool_spec).1 == From::LastResort
                    || model::zonal(pool_spec, client_spec).stays_unhealthy
                        && !model::is_eligible(pool_spec, origin);
                let bound = placed(&state, &nodes[0], number, client);
                prop_assert_eq!(bound, (!any_health).then_some((pool, origin)));
                let wanted = spec.answers.unwrap_or(usize::MAX);
                let members = model::members(pool_spec, client_spec, 0).len();
                prop_assert_eq!(first.len(), wanted.min(members));
            }
        }
    }

    /// When health changes a client keeps its origin if that is enabled and healthy in an enabled pool,
    /// whatever pool is chosen now; otherwise it is placed anew. With failback = "move" it keeps it
    /// in the pool that is chosen now only.
    #[test]
    fn a_client_stays_where_it_can(world in worlds(), other in worlds(), moves: bool) {
        let failback = if moves { Failback::Move } else { Failback::Keep };
        let state = state_of(&world, failback);
        let plan = Plan::new(&state.pools, &world.health(&state));
        let kept = Kept::default();
        let before = Responder { state: &state, plan: &plan, sequences: &kept };
        for number in 0..world.balancers.len() {
            for client in 0..clients().len() {
                ask(&before, number, TYPES[0], client);
            }
        }
        let changed = other.lent_to(&world);
        let plan = Plan::new(&state.pools, &changed.health(&state));
        for number in 0..world.balancers.len() {
            for (client, client_spec) in clients().into_iter().enumerate() {
                let Some((pool, origin)) = placed(&state, &kept, number, client) else { continue };
                let (pool_spec, spec) = (&changed.pools[pool], &changed.pools[pool].origins[origin]);
                let chosen = match pool_of(&changed, number, client) {
                    Some(Decision::Candidate(pool) | Decision::Fallback(pool)) => Some(pool),
                    Some(Decision::Nothing) => None,
                    None => continue,
                };
                let may_stay = !moves || chosen.is_none_or(|chosen| chosen == pool);
                let enabled = pool_spec.enabled && spec.enabled && may_stay;
                let whole = model::state_of(pool_spec, spec);
                for family in Family::ALL {
                    let own = Kept(RefCell::new(kept.0.borrow().clone()));
                    let after = Responder { state: &state, plan: &plan, sequences: &own };
                    let (rcode, found, _) = ask(&after, number, TYPES[family.index()], client);
                    let of_family = model::state_of_address(pool_spec, spec, family.index());
                    let has = spec.families[family.index()];
                    let healthy = has && of_family == HealthState::Healthy;
                    let stands_unknown = whole == HealthState::Unknown
                        && model::is_eligible(pool_spec, origin)
                        && has
                        && of_family == HealthState::Unknown;
                    let bound = placed(&state, &own, number, client);
                    if enabled && (healthy || stands_unknown) {
                        prop_assert_eq!(found.first(), Some(&(pool, origin)));
                        prop_assert_eq!(bound, Some((pool, origin)));
                        continue;
                    }
                    if let Some(&(now, first)) = found.first() {
                        let members =
                            model::members(&changed.pools[now], client_spec, family.index());
                        prop_assert!(members.contains(&first));
                    } else {
                        prop_assert!(rcode == Rcode::ServFail || chosen.is_some());
                    }
                    if enabled && whole != HealthState::Unhealthy {
                        prop_assert_eq!(bound, Some((pool, origin)), "the session waits");
                    } else if let Some(&(now, _)) = found.first() {
                        prop_assert_eq!(Some(now), chosen, "placed anew");
                    }
                }
            }
        }
    }

    /// The short way knows the same sessions as the long way, also where health came pool by pool.
    #[test]
    fn both_ways_know_the_same_sessions(world in worlds(), other in worlds(), moves: bool) {
        let failback = if moves { Failback::Move } else { Failback::Keep };
        let state = state_of(&world, failback);
        let first = Plan::new(&state.pools, &world.health(&state));
        let health = other.health_for(&world, &state);
        let plan = Plan::new(&state.pools, &health);
        let kept = Kept::default();
        let mut grown = first;
        let mut quick = Quick::compile(&state, &grown);
        for changed in (0u32..).take(state.pools.len()).map(PoolId).map(Some).chain([None]) {
            for number in 0..world.balancers.len() {
                for client in (0..clients().len()).step_by(7) {
                    for record_type in TYPES {
                        check_ways((&state, &grown, &quick), &kept, (number, record_type), client)?;
                        let spec = &world.balancers[number];
                        let is_quick = spec.answers == Some(1)
                            && !matches!(spec.policy, PolicySpec::Random(_))
                            && !spec.by_resolver
                            && !moves;
                        let found = {
                            let long = Responder { state: &state, plan: &grown, sequences: &kept };
                            ask(&long, number, record_type, client).1
                        };
                        let own = placed(&state, &kept, number, client);
                        // One that is over may be chosen anew, as a last resort: that is the long way's.
                        let stays = own.is_some_and(|(pool, origin)| {
                            let origin = OriginIndex(u16::try_from(origin).unwrap());
                            let family = if record_type == TYPES[0] { Family::V4 } else { Family::V6 };
                            let stay = grown.pools()[pool].stay(origin, family);
                            matches!(stay, Stay::Answers(_))
                        });
                        if is_quick && stays && found.first().copied() == own {
                            let message = octets_of(number, record_type, client_address(client), 32);
                            prop_assert!(is_answered_short(&message, &state, &quick, &kept));
                        }
                    }
                }
            }
            if let Some(changed) = changed {
                grown = grown.updated(&state.pools, &health, &[changed]);
                quick = quick.updated(&state, &grown, &[changed]);
            }
        }
        prop_assert_eq!(grown.pools().len(), plan.pools().len());
    }
}

/// Whether a query takes the short way.
fn is_answered_short(message: &[u8], state: &State, quick: &Quick, kept: &Kept) -> bool {
    let answered = || {
        let query = quick::parse(message)?;
        let resolver = IpAddr::from([198, 51, 100, 1]);
        let located =
            quick.locate(&query, quick.find(&query)?, || Some(resolver), &state.locator)?;
        quick.answer(message, &query, (&located, None), &state.locator, kept, &mut [0; 1280])
    };
    answered().is_some()
}

/// Both ways give the same reply, and leave the same sessions.
fn check_ways(
    (state, plan, quick): (&State, &Plan, &Quick),
    kept: &Kept,
    (balancer, record_type): (usize, RecordType),
    client: usize,
) -> Result<(), TestCaseError> {
    let address = client_address(client);
    let message = octets_of(balancer, record_type, address, 32);
    let resolver = IpAddr::from([198, 51, 100, 1]);
    let twin = Kept(RefCell::new(kept.0.borrow().clone()));
    let worker = Responder { state, plan, sequences: kept };
    let long = Responder { state, plan, sequences: &twin };
    for _ in 0..2 {
        let (mut short_out, mut long_out) = ([0; 1280], [0; 1280]);
        let short =
            udp::answer_and_tell(&message, resolver, &Cookies::OFF, quick, &worker, &mut short_out);
        let arrival = Arrival::datagram(resolver, &Cookies::OFF);
        let long = reply::make(&message, &arrival, &long, &mut long_out);
        prop_assert!(long.is_some());
        // What is counted is the same too, but that the short way leaves the zone to the load balancer.
        let counted = |served: Served| Served { zone: None, ..served };
        let short = short.map(|(length, served)| (length, counted(served)));
        prop_assert_eq!(short, long.map(|made| (made.length, counted(made.served))));
        prop_assert_eq!(&short_out[..], &long_out[..]);
        prop_assert_eq!(&kept.0, &twin.0);
    }
    Ok(())
}

/// What an operator says of a pool: drained it keeps its clients, forced down it loses them.
#[test]
fn a_drained_pool_keeps_its_clients_and_a_forced_down_one_does_not() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = worlds().prop_filter("two pools that can answer", |world| {
        world.balancers[0].pools.len() > 1
            && matches!(world.balancers[0].policy, PolicySpec::Failover)
            && world.pools.iter().all(|pool| pool.enabled)
    });
    let world = strategy.new_tree(&mut runner).unwrap().current();
    let state = state_of(&world, Failback::Keep);
    let mut health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let kept = Kept::default();
    let mut seen = [0; 2];
    for client in 0..clients().len() {
        health.lift_all();
        let plan = Plan::new(&state.pools, &health);
        let up = Responder { state: &state, plan: &plan, sequences: &kept };
        let Some(&first) = ask(&up, 0, TYPES[0], client).1.first() else { continue };
        let own = placed(&state, &kept, 0, client);
        if own.is_none() {
            continue;
        }
        let pool = PoolId(u32::try_from(first.0).unwrap());
        for (index, word) in
            [PoolOverride::Drained, PoolOverride::ForcedDown].into_iter().enumerate()
        {
            health.override_pool(pool, word);
            let plan = Plan::new(&state.pools, &health);
            let after = Responder { state: &state, plan: &plan, sequences: &kept };
            let found = ask(&after, 0, TYPES[0], client).1;
            match word {
                PoolOverride::Drained => assert_eq!(found, [first], "alone: no others from there"),
                _ => assert_ne!(found.first().map(|(pool, _)| *pool), Some(first.0)),
            }
            seen[index] += 1;
        }
    }
    assert!(seen.iter().all(|&seen| seen > 0));
}
