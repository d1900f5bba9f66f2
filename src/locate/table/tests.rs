//! The compiled table against a naive longest-prefix search, and its scopes against every address.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::locate::place::Coordinates;

/// Networks with a value each, as an operator would think of them.
type Networks<A> = BTreeMap<(A, u8), u32>;

const VALUES: u32 = 4;
/// The value of IPv4-mapped addresses where the IPv6 table is asked.
const OTHER: u32 = u32::MAX;

fn places() -> Vec<Place> {
    let place = |number: u32| Place {
        // The first place is the one without a location.
        coordinates: Coordinates::from_degrees(f64::from(number), 0.0).filter(|_| number > 0),
        ..Place::default()
    };
    (0..VALUES).map(place).collect()
}

fn runs<A: Bits>(networks: &Networks<A>) -> Runs<A> {
    let block = |(&(first, prefix_length), &value)| Block { first, prefix_length, value };
    Runs::from_nested(networks.iter().map(block), 0)
}

fn contains<A: Bits>(first: A, prefix_length: u8, address: A) -> bool {
    first <= address && address <= first.block_end(prefix_length)
}

/// The longest match, found by trying all.
fn oracle<A: Bits>(networks: &Networks<A>, address: A) -> u32 {
    networks
        .iter()
        .filter(|&(&(first, length), _)| contains(first, length, address))
        .max_by_key(|&(&(_, length), _)| length)
        .map_or(0, |(_, &value)| value)
}

/// Where the value can change: the first address of each network, and the one after its last.
fn borders<A: Bits>(networks: &Networks<A>) -> Vec<A> {
    let ends = |&(first, length): &(A, u8)| [Some(first), first.block_end(length).successor()];
    networks.keys().flat_map(ends).flatten().collect()
}

/// True if all addresses that share a prefix with `address` have its value.
fn uniform<A: Bits>(networks: &Networks<A>, address: A, prefix_length: u8) -> bool {
    let first = truncated(address, prefix_length);
    let value = oracle(networks, address);
    let inside =
        borders(networks).into_iter().filter(|&border| contains(first, prefix_length, border));
    inside.chain([first]).all(|border| oracle(networks, border) == value)
}

fn truncated<A: Bits>(address: A, prefix_length: u8) -> A {
    let mut first = A::FIRST;
    for depth in 0..prefix_length {
        let one = first.with(depth, 1, 1);
        if one <= address {
            first = one;
        }
    }
    first
}

/// The corners of all networks and their neighbours, and some addresses more.
fn probes<A: Bits>(networks: &Networks<A>, more: &[A]) -> Vec<A> {
    let borders = borders(networks);
    let before = borders.iter().map(|border| border.predecessor());
    before
        .chain(borders.iter().copied())
        .chain([A::FIRST, A::LAST])
        .chain(more.iter().copied())
        .collect()
}

fn check<A: Bits>(
    networks: &Networks<A>,
    more: &[A],
    locate: impl Fn(A) -> Located,
) -> Result<(), TestCaseError> {
    for address in probes(networks, more) {
        let located = locate(address);
        let expected = oracle(networks, address);
        prop_assert_eq!(located.place_index, expected, "{:?}", address);
        prop_assert_eq!(located.place, places()[expected as usize]);
        let scope = located.scope;
        prop_assert!(uniform(networks, address, scope), "{:?}/{}", address, scope);
        let shortest = scope == 0 || !uniform(networks, address, scope - 1);
        prop_assert!(shortest, "{:?}/{} is too long", address, scope);
    }
    Ok(())
}

/// Networks that nest: few distinct addresses, any length.
fn v4_networks() -> impl Strategy<Value = Networks<u32>> {
    let near = prop_oneof![Just(0x0a00_0000), Just(0xc0a8_0100), Just(u32::MAX), Just(0)];
    let address = (near, 0_u32..1024, 0..32_u32)
        .prop_map(|(near, noise, shift)| near ^ noise.wrapping_shl(shift));
    let network = (address, 0..=32_u8, 0..VALUES);
    prop::collection::vec(network, 0..24).prop_map(|networks| {
        let network = |(address, length, value)| ((truncated(address, length), length), value);
        networks.into_iter().map(network).collect()
    })
}

fn v6_networks() -> impl Strategy<Value = Networks<u128>> {
    let near = prop_oneof![
        Just(0x2001_0db8_u128 << 96),
        Just(0xffff_u128 << 32),
        Just(u128::MAX),
        Just(0)
    ];
    let address = (near, 0_u128..1024, 0..128_u32)
        .prop_map(|(near, noise, shift)| near ^ noise.wrapping_shl(shift));
    let network = (address, 0..=128_u8, 0..VALUES);
    prop::collection::vec(network, 0..24).prop_map(|networks| {
        let network = |(address, length, value)| ((truncated(address, length), length), value);
        networks.into_iter().map(network).collect()
    })
}

proptest! {
    #[test]
    fn v4_is_the_longest_match_with_the_shortest_sound_scope(
        networks in v4_networks(),
        more in prop::collection::vec(any::<u32>(), 8),
    ) {
        let table = Table::build(places(), &runs(&networks), &Runs::uniform(1)).unwrap();
        check(&networks, &more, |address| table.locate(IpAddr::from(address.to_be_bytes())))?;
        for address in probes(&networks, &more) {
            let v4 = table.locate(IpAddr::from(address.to_be_bytes()));
            let mapped = IpAddr::from((MAPPED_FIRST | u128::from(address)).to_be_bytes());
            let expected = Located { scope: v4.scope + 96, ..v4 };
            prop_assert_eq!(table.locate(mapped), expected);
        }
    }

    #[test]
    fn v6_is_the_longest_match_with_the_shortest_sound_scope(
        mut networks in v6_networks(),
        more in prop::collection::vec(any::<u128>(), 8),
        v4 in v4_networks(),
    ) {
        let v4 = runs(&v4);
        let table = Table::build(places(), &v4, &runs(&networks)).unwrap();
        // What the IPv6 table is to know of IPv4-mapped addresses, in place of all that is there.
        networks.retain(|&(first, length), _| {
            length < 96 || !contains(MAPPED_FIRST, 96, first)
        });
        networks.insert((MAPPED_FIRST, 96), v4.only_value().unwrap_or(OTHER));
        let probes: Vec<_> = probes(&networks, &more)
            .into_iter()
            .filter(|&address| !contains(MAPPED_FIRST, 96, address))
            .collect();
        for address in probes {
            let located = table.locate(IpAddr::from(address.to_be_bytes()));
            prop_assert_eq!(located.place_index, oracle(&networks, address), "{:x}", address);
            let scope = located.scope;
            prop_assert!(uniform(&networks, address, scope), "{:x}/{}", address, scope);
            let shortest = scope == 0 || !uniform(&networks, address, scope - 1);
            prop_assert!(shortest, "{:x}/{} is too long", address, scope);
        }
    }
}

#[test]
fn without_locations_the_scope_is_zero() {
    let empty = Table::build(places(), &Runs::uniform(0), &Runs::uniform(0)).unwrap();
    for table in [empty, Table::default()] {
        for address in ["192.0.2.1", "2001:db8::1", "::", "::1"] {
            assert_eq!(table.locate(address.parse().unwrap()), Located::default());
        }
        let mapped = table.locate("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped.scope, 96);
    }
}

#[test]
fn too_many_places_are_refused() {
    let places = vec![Place::default(); MAX_PLACES + 1];
    let error = Table::build(places, &Runs::uniform(0), &Runs::uniform(0)).unwrap_err();
    assert_eq!(error, TableError::Places);
}

#[test]
fn a_single_address_costs_little() {
    let networks = BTreeMap::from([((0x2001_0db8_u128 << 96, 128), 1)]);
    let table = Table::build(places(), &Runs::uniform(0), &runs(&networks)).unwrap();
    assert!(table.memory() < (2 << 18) + 2048, "{}", table.memory());
}
