//! The candidate order of a load balancer for a client (steering.md, "Steering policies").

use crate::locate::place::{Place, RegionId};
use crate::steer::load_balancer::{Rule, Rules};

/// The list that a client matches: the most specific of pop, subdivision, coordinates, country, region (or its
/// nearest ancestor that has a list), else the default. `parents` holds each region's parent.
#[inline]
pub fn matching<'r>(rules: &'r Rules, place: &Place, parents: &[Option<RegionId>]) -> &'r Rule {
    // Every index was made with its list; an empty list only if that were broken.
    static NOTHING: Rule = Rule { name: String::new(), candidates: Vec::new() };
    let index = matching_index(rules, place, parents);
    rules.lists.get(usize::from(index)).unwrap_or(&NOTHING)
}

/// The number of the list that a client matches.
#[inline]
pub fn matching_index(rules: &Rules, place: &Place, parents: &[Option<RegionId>]) -> u16 {
    rules
        .pop
        .or_else(|| find(&rules.subdivisions, place.subdivision?))
        .or_else(|| find(&rules.spots, place.coordinates?))
        .or_else(|| find(&rules.countries, place.country?))
        .or_else(|| {
            if rules.regions.is_empty() {
                return None;
            }
            ancestors(place.region?, parents).find_map(|region| find(&rules.regions, region))
        })
        .unwrap_or(rules.default)
}

/// A region, its parent, and so on to the root of its tree.
pub fn ancestors(
    region: RegionId,
    parents: &[Option<RegionId>],
) -> impl Iterator<Item = RegionId> + '_ {
    std::iter::successors(Some(region), |region| {
        parents.get(usize::from(region.0)).copied().flatten()
    })
    // The loader refuses cycles; the bound keeps a broken table from hanging a query.
    .take(parents.len().max(1))
}

fn find<K: Ord + Copy>(map: &[(K, u16)], key: K) -> Option<u16> {
    let index = map.binary_search_by_key(&key, |&(key, _)| key).ok()?;
    map.get(index).map(|&(_, list)| list)
}
