//! What the specification says should come of a configuration, written from its text and apart from
//! the program: slow, in plain sets of numbers.

use meridian::steer::availability::HealthState;

use crate::world::{
    AREAS, BalancerSpec, ClientSpec, Mode, OriginSpec, PolicySpec, PoolSpec, REGIONS, RttRow,
    SPOTS, World,
};

/// What a load balancer answers a client from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// An available candidate.
    Candidate(usize),
    /// The fallback pool.
    Fallback(usize),
    /// SERVFAIL.
    Nothing,
}

/// Where set A came from (zonal-affinity.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum From {
    Primaries,
    Failovers,
    LastResort,
    Nowhere,
}

/// What zonal affinity makes of set A for a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zonal {
    /// Set C; empty without a match.
    pub(crate) matched: Vec<usize>,
    /// The set that is chosen from.
    pub(crate) modified: Vec<usize>,
    /// The client stays in a zone of which nothing is eligible.
    pub(crate) stays_unhealthy: bool,
}

/// The region that a client is in: the one that is given, else its country's.
pub(crate) fn region_of(client: ClientSpec) -> Option<usize> {
    client.region.or(match client.area {
        Some(0) => Some(0),
        Some(1 | 2) => Some(3),
        _ => None,
    })
}

/// A region and those that it lies in.
fn lineage(region: usize) -> Vec<usize> {
    let mut lineage = vec![region];
    while let Some(parent) = REGIONS[*lineage.last().unwrap()].1 {
        lineage.push(parent);
    }
    lineage
}

// --- steering.md, "Availability"

pub(crate) fn state_of_address(pool: &PoolSpec, origin: &OriginSpec, family: usize) -> HealthState {
    match (origin.forced, pool.monitored) {
        (Some(true), _) => HealthState::Healthy,
        (Some(false), _) => HealthState::Unhealthy,
        (None, false) => HealthState::Healthy,
        (None, true) => origin.probed[family],
    }
}

/// "An origin is healthy if any of its addresses is."
pub(crate) fn state_of(pool: &PoolSpec, origin: &OriginSpec) -> HealthState {
    let families = (0..2).filter(|&family| origin.families[family]);
    let states: Vec<_> = families.map(|family| state_of_address(pool, origin, family)).collect();
    for state in [HealthState::Healthy, HealthState::Unknown] {
        if states.contains(&state) {
            return state;
        }
    }
    HealthState::Unhealthy
}

/// "An origin is eligible when it is enabled, has weight > 0 and is healthy"; unknown ones "only
/// where no enabled origin of weight > 0 of the pool is known to be healthy".
pub(crate) fn is_eligible(pool: &PoolSpec, origin: usize) -> bool {
    let takes_traffic = |origin: &OriginSpec| origin.enabled && origin.weight > 0;
    let any_known = pool
        .origins
        .iter()
        .any(|origin| takes_traffic(origin) && state_of(pool, origin) == HealthState::Healthy);
    let origin = &pool.origins[origin];
    takes_traffic(origin)
        && match state_of(pool, origin) {
            HealthState::Healthy => true,
            HealthState::Unknown => !any_known,
            HealthState::Unhealthy => false,
        }
}

/// "A pool is healthy when it is enabled and at least `minimum_origins` of its enabled origins are
/// healthy", unknown ones counting; "available when it is healthy and has at least one eligible
/// origin".
pub(crate) fn is_available(pool: &PoolSpec) -> bool {
    let counts =
        |origin: &&OriginSpec| origin.enabled && state_of(pool, origin) != HealthState::Unhealthy;
    let healthy = pool.enabled && pool.origins.iter().filter(counts).count() >= pool.minimum;
    healthy && (0..pool.origins.len()).any(|origin| is_eligible(pool, origin))
}

// --- zonal-affinity.md

fn configured(pool: &PoolSpec, failovers: bool) -> Vec<usize> {
    let fits = |origin: &OriginSpec| {
        origin.enabled && origin.weight > 0 && origin.is_failover == failovers
    };
    (0..pool.origins.len()).filter(|&origin| fits(&pool.origins[origin])).collect()
}

/// Set A: "Original eligible backends and failover policy", steps 1 to 4.
pub(crate) fn original(pool: &PoolSpec) -> (Vec<usize>, From) {
    let healthy = |set: &[usize]| -> Vec<usize> {
        set.iter().copied().filter(|&origin| is_eligible(pool, origin)).collect()
    };
    let (primaries, failovers) = (configured(pool, false), configured(pool, true));
    let (up, spare) = (healthy(&primaries), healthy(&failovers));
    let below_ratio =
        (up.len() as u64) * 1_000_000 < pool.failover_ratio * (primaries.len() as u64);
    if !up.is_empty() && !below_ratio {
        return (up, From::Primaries);
    }
    if !spare.is_empty() {
        return (spare, From::Failovers);
    }
    if !up.is_empty() {
        return (up, From::Primaries);
    }
    if pool.drops || primaries.is_empty() {
        return (Vec::new(), From::Nowhere);
    }
    (primaries, From::LastResort)
}

/// True for a client whose region is exactly the pool's.
fn is_compatible(pool: &PoolSpec, client: ClientSpec) -> bool {
    pool.region.is_some() && pool.region == region_of(client)
}

/// The client's zone, as far as it counts in the pool.
pub(crate) fn zone_in(pool: &PoolSpec, client: ClientSpec) -> Option<usize> {
    client.zone.filter(|_| is_compatible(pool, client))
}

/// "When there is a zonal match" and "Modes".
pub(crate) fn zonal(pool: &PoolSpec, client: ClientSpec) -> Zonal {
    let (a, from) = original(pool);
    let unmatched = Zonal { matched: Vec::new(), modified: a.clone(), stays_unhealthy: false };
    if a.is_empty() || pool.mode == Mode::Disabled {
        return unmatched;
    }
    let Some(zone) = zone_in(pool, client) else { return unmatched };
    let b = configured(pool, from == From::Failovers);
    let in_zone = |origin: &usize| pool.origins[*origin].zone == Some(zone);
    let c: Vec<_> = b.into_iter().filter(in_zone).collect();
    if c.is_empty() {
        return unmatched;
    }
    let both: Vec<_> = a.iter().copied().filter(|origin| c.contains(origin)).collect();
    let (modified, stays_unhealthy) = match pool.mode {
        Mode::Disabled => unreachable!("returned above"),
        Mode::Stay if both.is_empty() => (c.clone(), true),
        Mode::Stay => (both, false),
        Mode::Spill(0) => (if both.is_empty() { a } else { both }, false),
        Mode::Spill(ratio) => {
            let stays = (both.len() as u64) * 1_000_000 >= ratio * (c.len() as u64);
            (if stays { both } else { a }, false)
        }
    };
    Zonal { matched: c, modified, stays_unhealthy }
}

/// "Address families": the origins that the choice is among, with the families' addresses usable.
pub(crate) fn members(pool: &PoolSpec, client: ClientSpec, family: usize) -> Vec<usize> {
    let (a, from) = original(pool);
    let Zonal { modified, stays_unhealthy, .. } = zonal(pool, client);
    let last_resort = from == From::LastResort;
    let usable = |set: &[usize], any: bool| -> Vec<usize> {
        let usable = |&origin: &usize| {
            let origin = &pool.origins[origin];
            let state = state_of_address(pool, origin, family);
            // One that is eligible without being known to be healthy has unknown addresses only.
            let fits = state == HealthState::Healthy
                || (state == HealthState::Unknown
                    && state_of(pool, origin) == HealthState::Unknown);
            origin.families[family] && (any || fits)
        };
        set.iter().copied().filter(usable).collect()
    };
    let first = usable(&modified, last_resort || stays_unhealthy);
    if first.is_empty() && matches!(pool.mode, Mode::Spill(_)) {
        return usable(&a, last_resort);
    }
    first
}

// --- steering.md, "Steering policies"

/// The candidate pools of a client, in order.
pub(crate) fn candidates(world: &World, balancer: &BalancerSpec, client: ClientSpec) -> Vec<usize> {
    match &balancer.policy {
        PolicySpec::Failover | PolicySpec::Random(_) => balancer.pools.clone(),
        PolicySpec::Geo { pops: None, areas: None, regions: None } => {
            implied(world, balancer, client)
        }
        PolicySpec::Geo { pops, areas, regions } => {
            let find = |map: &Option<Vec<(usize, Vec<usize>)>>, key: usize| {
                let entry = map.iter().flatten().find(|(k, _)| *k == key);
                entry.map(|(_, pools)| pools.clone())
            };
            let of_pop = || if world.at_pop { find(pops, 0) } else { None };
            // A client of a subdivision is also one of its country.
            let of_area = || {
                let area = client.area?;
                find(areas, area).or_else(|| if area == 2 { find(areas, 1) } else { None })
            };
            let of_region =
                || lineage(region_of(client)?).into_iter().find_map(|region| find(regions, region));
            of_pop().or_else(of_area).or_else(of_region).unwrap_or_else(|| balancer.pools.clone())
        }
        PolicySpec::Proximity => by_distance(world, &balancer.pools, client),
        PolicySpec::Rtt(absolute, percent) => {
            let row = |wanted| world.rtt.iter().find(|(row, _)| *row == wanted);
            let of_region = region_of(client).and_then(|region| {
                lineage(region).into_iter().find_map(|r| row(RttRow::Region(r)))
            });
            let of_pop = || if world.at_pop { row(RttRow::Pop) } else { None };
            let figures = of_region.or_else(of_pop).map_or(&[][..], |(_, figures)| figures);
            by_rtt(&balancer.pools, figures, absolute * 1000, *percent)
        }
    }
}

/// "Where a geo load balancer gives none of the three maps, region_pools follows from the pools."
fn implied(world: &World, balancer: &BalancerSpec, client: ClientSpec) -> Vec<usize> {
    let lies_in = |pool: usize, region: usize| {
        world.pools[pool].region.is_some_and(|own| lineage(own).contains(&region))
    };
    let Some(own) = region_of(client) else { return balancer.pools.clone() };
    let nearest = lineage(own)
        .into_iter()
        .find(|&region| balancer.pools.iter().any(|&pool| lies_in(pool, region)));
    let Some(region) = nearest else { return balancer.pools.clone() };
    let (inside, outside): (Vec<_>, Vec<_>) =
        balancer.pools.iter().partition(|&&pool| lies_in(pool, region));
    [inside, outside].concat()
}

/// "RTT tolerance"; a pool without a figure keeps its position.
fn by_rtt(pools: &[usize], figures: &[(usize, u64)], absolute: u64, percent: u64) -> Vec<usize> {
    let figure = |pool: usize| figures.iter().find(|&&(p, _)| p == pool).map(|&(_, time)| time);
    let mut left: Vec<usize> =
        pools.iter().copied().filter(|&pool| figure(pool).is_some()).collect();
    let mut placed = Vec::new();
    while let Some(lowest) = left.iter().filter_map(|&pool| figure(pool)).min() {
        let near = |&&pool: &&usize| {
            let above = figure(pool).unwrap() - lowest;
            above <= absolute || above * 100 <= lowest * percent
        };
        let next = *left.iter().find(near).unwrap();
        left.retain(|&pool| pool != next);
        placed.push(next);
    }
    let mut placed = placed.into_iter();
    let place = |&pool: &usize| figure(pool).map_or(pool, |_| placed.next().unwrap());
    pools.iter().map(place).collect()
}

/// "`pools` by great-circle distance from the client"; one without coordinates "keeps the configured
/// position". A client without any is in the middle of its country.
fn by_distance(world: &World, pools: &[usize], client: ClientSpec) -> Vec<usize> {
    let thousandths =
        |(latitude, longitude): (i32, i32)| (f64::from(latitude) / 1e3, f64::from(longitude) / 1e3);
    let middle = |area: usize| {
        let country = meridian::locate::place::Country::parse(&AREAS[area][..2])?;
        let [latitude, longitude] = meridian::locate::centroids::of(country)?.to_degrees();
        Some((latitude, longitude))
    };
    let spot = client.spot.map(|spot| thousandths(SPOTS[spot]));
    let Some(from) = spot.or_else(|| middle(client.area?)) else { return pools.to_vec() };
    let distance = |pool: usize| {
        let (latitude, longitude) = thousandths(world.pools[pool].location?);
        let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
        let along = from.0.to_radians().cos() * latitude.to_radians().cos();
        Some(half(from.0, latitude) + along * half(from.1, longitude))
    };
    let mut near: Vec<(f64, usize)> =
        pools.iter().filter_map(|&pool| Some((distance(pool)?, pool))).collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut near = near.into_iter().map(|(_, pool)| pool);
    pools.iter().map(|&pool| distance(pool).map_or(pool, |_| near.next().unwrap())).collect()
}

/// "The first available candidate is answered. If there is none, the fallback pool is", unless it
/// is disabled or its set A is empty.
pub(crate) fn decide(world: &World, balancer: &BalancerSpec, client: ClientSpec) -> Decision {
    let candidates = candidates(world, balancer, client);
    if let Some(&pool) = candidates.iter().find(|&&pool| is_available(&world.pools[pool])) {
        return Decision::Candidate(pool);
    }
    let fallback = balancer.fallback.unwrap_or_else(|| *balancer.pools.last().unwrap());
    let pool = &world.pools[fallback];
    if !pool.enabled || original(pool).0.is_empty() {
        return Decision::Nothing;
    }
    Decision::Fallback(fallback)
}
