//! The client-subnet scope of answers: whoever is inside it gets the same answer, and where the
//! answer cannot depend on the client it is 0.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use meridian::cookies::Cookies;
use meridian::name::Name;
use meridian::query::{ClientSubnet, Question, Rcode};
use meridian::quick::Quick;
use meridian::respond::{Client, Responder};
use meridian::rr::RecordType;
use meridian::serve::reply::{Arrival, answer};
use meridian::serve::udp;
use meridian::steer::FirstOnly;
use meridian::steer::availability::{Health, HealthState};
use meridian::steer::load_balancer::Answers;
use meridian::steer::plan::Plan;
use meridian::steer::pool::PoolId;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{AREAS, ClientSpec, REGIONS, SPOTS, ZONES, client_address, clients, worlds};

/// An entry of geo/subnets.toml: nested and neighbouring networks of all lengths.
fn subnets() -> impl Strategy<Value = String> {
    let entry = (
        any::<bool>(),
        // Few distinct octets, so that networks fall into one another.
        vec(select(&[0u8, 1, 127, 128, 255][..]), 16),
        0u8..=128,
        proptest::option::of(0..REGIONS.len()),
        proptest::option::of(0..ZONES.len()),
        proptest::option::of(0..AREAS.len()),
        proptest::option::of(0..SPOTS.len()),
    );
    vec(entry, 0..30).prop_map(|entries| {
        let mut seen = Vec::new();
        let mut text = String::new();
        for (six, octets, length, region, zone, area, spot) in entries {
            let network = address(six, &octets);
            let length = if six { length } else { length % 33 };
            let network = ipnet::IpNet::new(network, length).unwrap().trunc();
            let mapped = matches!(network, ipnet::IpNet::V6(v6)
                if v6.addr().to_ipv4_mapped().is_some() && length >= 96);
            if seen.contains(&network) || mapped {
                continue;
            }
            seen.push(network);
            writeln!(text, "[subnets.\"{network}\"]").unwrap();
            ClientSpec { region, zone, area, spot }.write(&mut text);
        }
        text
    })
}

fn address(six: bool, octets: &[u8]) -> IpAddr {
    if six {
        let octets: [u8; 16] = octets.try_into().unwrap();
        IpAddr::V6(Ipv6Addr::from(octets))
    } else {
        let octets: [u8; 4] = octets[..4].try_into().unwrap();
        IpAddr::V4(Ipv4Addr::from(octets))
    }
}

/// The address with the bits beyond a prefix taken from another.
fn spliced(address: IpAddr, prefix: u8, other: u128) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
            let other = other as u32;
            IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask | other & !mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask | other & !mask))
        }
    }
}

/// What a client gets: the response code, the records, and the scope.
fn ask(
    responder: &Responder<'_, FirstOnly>,
    balancer: usize,
    resolver: IpAddr,
    subnet: Option<(IpAddr, u8)>,
) -> (Rcode, Vec<Vec<u8>>, u8) {
    let name = Name::parse_absolute(&format!("lb{balancer}.example.test")).unwrap();
    let subnet = subnet.map(|(address, source_prefix)| ClientSubnet {
        address: Some(spliced(address, source_prefix, 0)),
        source_prefix,
    });
    let client = Client { resolver: Some(resolver), subnet };
    let answer = responder.answer(&Question::of(&name, RecordType::A), client);
    let records = answer
        .whole_sets()
        .iter()
        .flat_map(|set| set.rdata().map(<[u8]>::to_vec))
        .collect::<Vec<_>>();
    (answer.rcode, records, answer.ecs_scope)
}

/// Every client gets the same, wherever it is.
fn is_uniform(balancer: usize, responder: &Responder<'_, FirstOnly>) -> bool {
    let mut answers = (0..clients().len()).map(|number| {
        let (rcode, records, _) = ask(responder, balancer, client_address(number), None);
        (rcode, records)
    });
    let first = answers.next();
    answers.all(|answer| Some(answer) == first)
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// Whoever is inside the scope of an answer gets the same answer.
    #[test]
    fn all_addresses_inside_the_scope_are_answered_alike(
        world in worlds(),
        subnets in subnets(),
        asked in vec((any::<bool>(), vec(select(&[0u8, 1, 127, 128, 255, 77][..]), 16), 1u8..=128), 8),
        others in vec(any::<u128>(), 6),
    ) {
        let state = world.state_with(&subnets);
        let plan = Plan::new(&state.pools, &world.health(&state));
        let responder = Responder { state: &state, plan: &plan, sequences: &FirstOnly };
        let resolver = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
        for balancer in 0..world.balancers.len() {
            for (six, octets, source) in &asked {
                let client = address(*six, octets);
                let (source, longest) = if *six { (*source, 128) } else { (source % 32 + 1, 32) };
                let client = spliced(client, source, 0);
                let (rcode, records, scope) =
                    ask(&responder, balancer, resolver, Some((client, source)));
                prop_assert!(scope <= longest);
                // NODATA is not of the client: its scope is 0 by RFC 7871.
                if rcode == Rcode::NoError && records.is_empty() {
                    prop_assert_eq!(scope, 0);
                    continue;
                }
                let edges = [0, u128::MAX];
                for other in edges.iter().chain(&others) {
                    let neighbour = spliced(client, scope, *other);
                    let found = ask(&responder, balancer, resolver, Some((neighbour, longest)));
                    // Where another client gets NODATA, the configuration is warned of, and its
                    // scope is another matter.
                    if found.0 == Rcode::NoError && found.1.is_empty() {
                        continue;
                    }
                    prop_assert_eq!(&found, &(rcode, records.clone(), scope),
                        "{} in {}/{}", neighbour, client, scope);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::cases(16))]

    /// Where the scope is 0 for every client, nothing depends on the client at any health; and it is
    /// 0 where the resolver steers.
    #[test]
    fn the_scope_is_0_where_the_answer_cannot_depend_on_the_client(
        world in worlds(),
        other_health in worlds(),
    ) {
        let state = world.state();
        let plans = [world.health(&state), other_health.health_for(&world, &state)];
        for health in plans {
            let plan = Plan::new(&state.pools, &health);
            let responder = Responder { state: &state, plan: &plan, sequences: &FirstOnly };
            for (number, balancer) in state.balancers.iter().enumerate() {
                let subnet = Some((client_address(0), 24));
                let (.., scope) = ask(&responder, number, client_address(1), subnet);
                if world.balancers[number].by_resolver {
                    prop_assert_eq!(scope, 0);
                } else if !balancer.depends_on_client {
                    prop_assert_eq!(scope, 0);
                    prop_assert!(is_uniform(number, &responder), "lb{}", number);
                } else {
                    // What depends on the client depends on its region, country or zone.
                    let lists = &balancer.rules.lists;
                    let zonal = state.pools.iter().any(|pool| pool.region.is_some());
                    prop_assert!(lists.len() > 1 || zonal || balancer.answers == Answers::All);
                }
            }
        }
    }
}

/// A query for a load balancer's A or AAAA with a client subnet, as octets.
pub(crate) fn octets_of(
    balancer: usize,
    record_type: RecordType,
    client: IpAddr,
    source: u8,
) -> Vec<u8> {
    let name = Name::parse_absolute(&format!("lb{balancer}.example.test")).unwrap();
    let subnet = ClientSubnet { address: Some(client), source_prefix: source }.reply(0);
    let length = u8::try_from(subnet.len()).unwrap();
    let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend(name.as_wire());
    message.extend(record_type.0.to_be_bytes());
    message.extend([0, 1, 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, length + 4, 0, 8, 0, length]);
    message.extend(subnet);
    message
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// The short way knows the same geography, zones and health as the long way; also where health
    /// came pool by pool.
    #[test]
    fn both_ways_answer_a_place_alike(
        world in worlds(),
        subnets in subnets(),
        asked in vec((any::<bool>(), vec(select(&[0u8, 1, 127, 128, 255, 77][..]), 16), 1u8..=128), 8),
    ) {
        let state = world.state_with(&subnets);
        let health = world.health(&state);
        let plan = Plan::new(&state.pools, &health);
        let unknown = Health::uniform(state.probes.targets().len(), HealthState::Unknown);
        let mut grown = Plan::new(&state.pools, &unknown);
        let mut quick = Quick::compile(&state, &grown);
        for pool in (0u32..).take(state.pools.len()).map(PoolId) {
            grown = grown.updated(&state.pools, &health, &[pool]);
            quick = quick.updated(&state, &grown, &[pool]);
        }
        let responder = Responder { state: &state, plan: &plan, sequences: &FirstOnly };
        let resolver = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
        for balancer in 0..world.balancers.len() {
            for (six, octets, source) in &asked {
                let source = if *six { *source } else { source % 32 + 1 };
                let client = spliced(address(*six, octets), source, 0);
                for record_type in [RecordType::A, RecordType::AAAA] {
                    let message = octets_of(balancer, record_type, client, source);
                    let (mut short, mut long) = ([0; 1280], [0; 1280]);
                    let short_length =
                        udp::answer_one(&message, resolver, &Cookies::OFF, &quick, &responder, &mut short);
                    let long_length = answer(&message, &Arrival::datagram(resolver, &Cookies::OFF), &responder, &mut long);
                    prop_assert!(long_length.is_some());
                    prop_assert_eq!(short_length, long_length);
                    prop_assert_eq!(&short[..], &long[..]);
                }
            }
        }
    }
}
