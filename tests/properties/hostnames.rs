//! Origins given by host name against the same origins given by address.

use meridian::name::Name;
use meridian::resolution::{Resolved, ResolvedAddress, apply, changed, wanted};
use meridian::rr::Ttl;
use meridian::steer::plan::{FamilySet, Plan};
use meridian::steer::pool::{Family, OriginIndex, PoolId};
use proptest::prelude::*;

use crate::model;
use crate::world::{Hosts, World, client_address, clients, host_name, origin_address, worlds};

/// What a resolver would find: of each origin the addresses that it has in the other world.
fn resolved(world: &World, ttl: Ttl) -> Resolved {
    let mut resolved = Resolved::default();
    for (pool_number, pool) in world.pools.iter().enumerate() {
        for (index, origin) in pool.origins.iter().enumerate() {
            let name = Name::parse_absolute(&host_name(pool_number, index)).unwrap();
            let families = (0..2).filter(|&family| origin.families[family]);
            let address = |family| {
                let ip = origin_address(pool_number, index, family);
                ResolvedAddress { ip, ttl }
            };
            resolved.insert(&name, families.map(address).collect());
        }
    }
    resolved
}

/// What a set answers, but for TTLs.
fn answers(set: &FamilySet) -> Vec<(OriginIndex, u32, Vec<Vec<u8>>)> {
    let rdata = |rdata: &Vec<meridian::rr::Rdata>| rdata.iter().map(|r| r.to_vec()).collect();
    set.members.iter().map(|m| (m.origin, m.weight, rdata(&m.rdata))).collect()
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// A host name that was resolved is steered as its addresses would be; its TTL caps the answers.
    #[test]
    fn a_resolved_host_name_is_as_its_addresses(world in worlds(), ttl in 0u32..60) {
        let ttl = Ttl::saturating(ttl);
        let plain = world.state();
        let plain = (Plan::new(&plain.pools, &world.health(&plain)), plain);
        let named_world = World { hosts: Some(Hosts::Flattened), ..world.clone() };
        let state = named_world.state();
        let (pools, probes) = apply(&state, &resolved(&world, ttl));
        prop_assert_eq!(probes.targets().len(), plain.1.probes.targets().len());
        let plan = Plan::new(&pools, &named_world.health_of(&pools, &probes));
        for (old, new) in plain.0.pools().iter().zip(plan.pools()) {
            prop_assert_eq!((old.available, old.source), (new.available, new.source));
            let zones = |plan: &meridian::steer::plan::PoolPlan| {
                let families = std::iter::once(&plan.regional)
                    .chain(plan.zones.iter().map(|(_, zone)| zone))
                    .flat_map(|zone| zone.families.iter().take(2));
                let sets = families.flat_map(|family| [&family.set, &family.lead, &family.rest]);
                sets.map(|set| answers(set)).collect::<Vec<_>>()
            };
            prop_assert_eq!(zones(old), zones(new));
            for member in new.regional.families.iter().take(2).flat_map(|family| &family.set.members) {
                prop_assert_eq!(member.ttl, Some(ttl));
            }
        }
    }

    /// A CNAME is that of an origin of the modified eligible set, whatever families it has; and before
    /// anything is resolved, names that need no addresses are answered all the same.
    #[test]
    fn the_host_names_are_those_of_the_modified_set(world in worlds()) {
        let world = World { hosts: Some(Hosts::Aliases), ..world };
        let state = world.state();
        prop_assert!(state.balancers.iter().all(|balancer| balancer.aliases));
        let (pools, probes) = apply(&state, &resolved(&world, Ttl::default()));
        let plan = Plan::new(&pools, &world.health_of(&pools, &probes));
        for (number, spec) in world.pools.iter().enumerate() {
            let id = PoolId(u32::try_from(number).unwrap());
            for (client_number, &client) in clients().iter().enumerate() {
                let place = state.locator.locate(client_address(client_number)).place;
                let zone = meridian::steer::zonal::zone_in(&pools[number], &place);
                let families = &plan.pool(id).unwrap().for_zone(zone).families;
                let hosts = &families[Family::Host.index()].set;
                let found: Vec<usize> =
                    hosts.members.iter().map(|member| usize::from(member.origin.0)).collect();
                let mut expected = model::zonal(spec, client).modified;
                if expected.is_empty() {
                    expected = model::original(spec).0;
                }
                prop_assert_eq!(found, expected, "{:?}", client);
            }
        }
    }

    /// Only names that are probed or answered as addresses are asked for, and addresses change only the
    /// pools that have them.
    #[test]
    fn only_what_needs_addresses_is_resolved(world in worlds()) {
        for hosts in [Hosts::Aliases, Hosts::Flattened] {
            let world = World { hosts: Some(hosts), ..world.clone() };
            let state = world.state();
            let reached = |pool: usize| {
                let id = PoolId(u32::try_from(pool).unwrap());
                state.balancers.iter().any(|balancer| balancer.first_slot(id).is_some())
            };
            let needs = |(number, pool): &(usize, &crate::world::PoolSpec)| {
                pool.monitored || hosts == Hosts::Flattened && reached(*number)
            };
            let mut expected: Vec<_> = world
                .pools
                .iter()
                .enumerate()
                .filter(needs)
                .flat_map(|(number, pool)| {
                    (0..pool.origins.len()).map(move |index| host_name(number, index) + ".")
                })
                .collect();
            expected.sort();
            let mut found: Vec<_> =
                wanted(&state).names.iter().map(ToString::to_string).collect();
            found.sort();
            prop_assert_eq!(found, expected);

            let (before, _) = apply(&state, &Resolved::default());
            prop_assert!(changed(&state.pools, &before).is_empty());
            let mut one = Resolved::default();
            let name = Name::parse_absolute(&host_name(0, 0)).unwrap();
            let ip = origin_address(0, 0, 0);
            one.insert(&name, vec![ResolvedAddress { ip, ttl: Ttl::default() }]);
            let (after, _) = apply(&state, &one);
            prop_assert_eq!(changed(&before, &after), [PoolId(0)]);
        }
    }
}
