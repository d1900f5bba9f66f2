//! What was answered in the last five minutes: by load balancer and pool exactly, by region and country
//! from samples.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};

use crate::admin::error::{Document, Refusal};
use crate::admin::{Service, blocking};
use crate::locate::centroids;
use crate::locate::place::{Country, RegionId};
use crate::served::Choice;
use crate::state::State as Configuration;
use crate::steer::load_balancer::LoadBalancerId;
use crate::steer::pool::PoolId;
use crate::tally::layout::Layout;
use crate::tally::window::{Origin, View, numbered};
use crate::timestamp::show_time;

/// How many entries a list has at most by default.
const LIMIT: usize = 1000;

/// What can be asked for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    limit: Option<usize>,
}

/// The traffic of a server. New keys may be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// When this was.
    pub at: String,
    /// How many seconds it covers.
    pub window: f64,
    /// How many replies there were in a second, in the last ten to twenty seconds.
    pub queries_per_second: f64,
    /// The load balancers, those with the most answers first.
    pub load_balancers: Vec<OfBalancer>,
    /// The pools, likewise.
    pub pools: Vec<OfPool>,
    /// The regions of clients, likewise.
    pub regions: Vec<OfRegion>,
    /// The countries of clients, likewise.
    pub countries: Vec<OfCountry>,
}

/// A load balancer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfBalancer {
    /// Its zone.
    pub zone: Option<String>,
    /// Its name.
    pub name: String,
    /// How many answers came from one of its pools.
    pub answers: u64,
    /// Its share of the answers of all.
    pub share: f64,
}

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfPool {
    /// The zone that it belongs to; none for a shared one.
    pub zone: Option<String>,
    /// Its name.
    pub pool: String,
    /// How many answers came from it.
    pub answers: u64,
    /// Its share of the answers of all.
    pub share: f64,
    /// Answers a second in each ten seconds, oldest first.
    pub series: Vec<f64>,
}

/// A region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfRegion {
    /// Its name; none for clients without a location.
    pub region: Option<String>,
    /// How many answers its clients got, about.
    pub answers: u64,
    /// From which pools.
    pub pools: Vec<Share>,
}

/// A country.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfCountry {
    /// Its ISO 3166 code; none where it is not known.
    pub country: Option<String>,
    /// Its middle: latitude and longitude.
    pub location: Option<[f64; 2]>,
    /// How many answers its clients got, about.
    pub answers: u64,
    /// From which pools.
    pub pools: Vec<Share>,
}

/// A pool's share of the answers to some clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The zone that the pool belongs to; none for a shared one.
    pub zone: Option<String>,
    /// Its name.
    pub pool: String,
    /// Its share.
    pub share: f64,
}

/// Shows the traffic.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Document<Traffic>, Refusal> {
    let Query(asked) = asked.map_err(|rejection| {
        Refusal::bad(rejection.body_text(), "limit=N is how many entries a list has at most")
    })?;
    let limit = asked.limit.unwrap_or(LIMIT);
    blocking(move || {
        let (state, view) = service.control.live().traffic().view();
        Document(Traffic::new(&state, &view, limit))
    })
    .await
}

impl Traffic {
    fn new(state: &Configuration, view: &View, limit: usize) -> Self {
        let seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let counters = (0u32..).take(state.layout.len());
        let pools_of: Vec<_> = counters.map(|counter| pool_of(state, counter)).collect();
        let answers = by_pool(state, &pools_of, numbered(view.total.iter().copied()));
        let all: u64 = answers.iter().sum();
        Self {
            at: show_time(seconds),
            window: rounded(view.length.as_secs_f64()),
            queries_per_second: rounded(view.rate),
            load_balancers: balancers(state, view, all, limit),
            pools: pools(state, view, (&answers, &pools_of), all, limit),
            regions: regions(state, view, limit),
            countries: countries(state, view, limit),
        }
    }
}

/// The pool that answers of a counter came from; none where it counts no answers of a pool.
fn pool_of(state: &Configuration, counter: u32) -> Option<PoolId> {
    let layout: &Layout = &state.layout;
    let (id, choice) = layout.owner(counter)?;
    let balancer = state.balancer(id)?;
    match choice {
        Choice::Candidate(position) => balancer.slots.get(position).map(|&(pool, _)| pool),
        Choice::Fallback => Some(balancer.fallback_pool),
        Choice::NoData | Choice::Failure => None,
    }
}

/// Answers by pool. `pools_of` has [`pool_of`] each counter: it is asked for all steps of the window.
fn by_pool(
    state: &Configuration,
    pools_of: &[Option<PoolId>],
    counts: impl Iterator<Item = (u32, u64)>,
) -> Vec<u64> {
    let mut pools = vec![0; state.pools.len()];
    for (counter, count) in counts {
        let pool = pools_of.get(counter as usize).copied().flatten();
        if let Some(pool) = pool.and_then(|PoolId(id)| pools.get_mut(id as usize)) {
            *pool += count;
        }
    }
    pools
}

fn balancers(state: &Configuration, view: &View, all: u64, limit: usize) -> Vec<OfBalancer> {
    let mut answers = vec![0; state.balancers.len()];
    for (counter, by) in numbered(view.total.iter().copied()).filter(|&(_, by)| by > 0) {
        let owner = state.layout.owner(counter).filter(|_| pool_of(state, counter).is_some());
        if let Some(place) = owner.and_then(|(id, _)| answers.get_mut(id.0 as usize)) {
            *place += by;
        }
    }
    let zones: Vec<_> = state.zones.iter().map(|zone| &zone.apex).collect();
    let entry = |id: usize| {
        let balancer = state.balancers.get(id)?;
        let id = LoadBalancerId(u32::try_from(id).ok()?);
        let zone = state.layout.zone_of(id).and_then(|zone| zones.get(zone as usize));
        let answers = answers.get(id.0 as usize).copied()?;
        let zone = zone.map(ToString::to_string);
        Some(OfBalancer {
            zone,
            name: balancer.name.to_string(),
            answers,
            share: share(answers, all),
        })
    };
    most(&answers, limit).filter_map(entry).collect()
}

fn pools(
    state: &Configuration,
    view: &View,
    (answers, pools_of): (&[u64], &[Option<PoolId>]),
    all: u64,
    limit: usize,
) -> Vec<OfPool> {
    let shown: Vec<usize> = most(answers, limit).collect();
    let mut series = vec![Vec::with_capacity(view.steps.len()); shown.len()];
    for (length, grown) in &view.steps {
        let of_step = by_pool(state, pools_of, grown.iter());
        for (series, &pool) in series.iter_mut().zip(&shown) {
            let count = of_step.get(pool).copied().unwrap_or(0);
            // A step that has just begun is no shorter than a second for this.
            series.push(rounded(count as f64 / length.as_secs_f64().max(1.0)));
        }
    }
    let entry = |(pool, series): (usize, Vec<f64>)| {
        let (zone, name) = named(state, PoolId(u32::try_from(pool).ok()?));
        let answers = answers.get(pool).copied()?;
        Some(OfPool { zone, pool: name, answers, share: share(answers, all), series })
    };
    shown.into_iter().zip(series).filter_map(entry).collect()
}

fn regions(state: &Configuration, view: &View, limit: usize) -> Vec<OfRegion> {
    let by_region = grouped(view, |&(region, _, pool)| (region, pool));
    let entry = |(region, answers, pools): (Option<RegionId>, u64, ByPool)| OfRegion {
        region: region.map(|region| state.locator.regions().name(region).to_owned()),
        answers,
        pools: shares(state, answers, pools),
    };
    by_region.into_iter().take(limit).map(entry).collect()
}

fn countries(state: &Configuration, view: &View, limit: usize) -> Vec<OfCountry> {
    let by_country = grouped(view, |&(_, country, pool)| (country, pool));
    let entry = |(country, answers, pools): (Option<Country>, u64, ByPool)| OfCountry {
        country: country.map(|country| country.to_string()),
        location: country.and_then(centroids::of).map(|middle| middle.to_degrees()),
        answers,
        pools: shares(state, answers, pools),
    };
    by_country.into_iter().take(limit).map(entry).collect()
}

/// Answers by pool.
type ByPool = BTreeMap<PoolId, u64>;

/// Samples by a part of where clients were, those with the most first, with those of each pool.
fn grouped<K: Ord + Copy>(
    view: &View,
    key: impl Fn(&Origin) -> (K, PoolId),
) -> Vec<(K, u64, ByPool)> {
    let mut groups: BTreeMap<K, ByPool> = BTreeMap::new();
    for (origin, weight) in &view.places {
        let (key, pool) = key(origin);
        *groups.entry(key).or_default().entry(pool).or_default() += weight;
    }
    let sum = |(key, pools): (K, ByPool)| (key, pools.values().sum(), pools);
    let mut groups: Vec<_> = groups.into_iter().map(sum).collect();
    groups.sort_by_key(|&(key, answers, _)| (Reverse(answers), key));
    groups
}

fn shares(state: &Configuration, all: u64, pools: ByPool) -> Vec<Share> {
    let entry = |(pool, answers)| {
        let (zone, pool) = named(state, pool);
        Share { zone, pool, share: share(answers, all) }
    };
    let mut pools: Vec<_> = pools.into_iter().collect();
    pools.sort_by_key(|&(pool, answers)| (Reverse(answers), pool));
    pools.into_iter().map(entry).collect()
}

fn named(state: &Configuration, pool: PoolId) -> (Option<String>, String) {
    let zone = state.pool_zones.get(pool.0 as usize).and_then(Option::as_ref);
    (zone.map(ToString::to_string), state.pool_name(pool).to_owned())
}

/// The places of the largest numbers, in descending order.
fn most(numbers: &[u64], limit: usize) -> impl Iterator<Item = usize> + use<> {
    let mut places: Vec<(Reverse<u64>, usize)> =
        numbers.iter().copied().map(Reverse).zip(0..).collect();
    places.sort_unstable();
    places.into_iter().take(limit).map(|(_, place)| place)
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (part as f64 / all as f64 * 1e4).round() / 1e4 }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
