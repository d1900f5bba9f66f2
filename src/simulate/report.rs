//! What a simulation found, as data: what `--json` prints. Shares are from 0 to 1.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::simulate::Simulation;
use crate::simulate::moves::as_f64;
use crate::simulate::tally::{BalancerTally, PoolTally};
use crate::state::State;
use crate::steer::load_balancer::{LoadBalancer, LoadBalancerId};

/// The whole of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The queries that could be read.
    pub queries: u64,
    /// The lines that could not.
    pub unreadable: Unreadable,
    /// What the configuration answered; with a new one, what the old one did.
    pub before: Answered,
    /// What the new configuration answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Answered>,
    /// What moved between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// Lines that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<UnreadableLine>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

/// What one configuration answered.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Answered {
    /// Queries for names and types that are not steered.
    pub not_steered: u64,
    /// The load balancers that were asked, by their names.
    pub load_balancers: Vec<BalancerShares>,
}

/// What a load balancer answered.
#[derive(Clone, Debug, Serialize)]
pub struct BalancerShares {
    /// Its name.
    pub load_balancer: String,
    /// The queries for it.
    pub queries: u64,
    /// Those that were answered with an origin. The shares below are of these.
    pub answers: u64,
    /// Those without data of their type.
    pub no_data: u64,
    /// Those that got SERVFAIL.
    pub no_answer: u64,
    /// Answers of the fallback pool, for want of an available candidate.
    pub fallback: u64,
    /// The pools that answered.
    pub pools: Vec<PoolShare>,
    /// By the zone of the first origin; `null` for origins in none.
    pub zones: Vec<ZoneShare>,
    /// How many answers leave the client's zone; none if no client was in a zone.
    pub cross_zone: Option<CrossZone>,
}

/// A pool's share.
#[derive(Clone, Debug, Serialize)]
pub struct PoolShare {
    /// The pool.
    pub pool: String,
    /// Its answers.
    pub answers: u64,
    /// Of all of the load balancer's.
    pub share: f64,
    /// The origins that were first in an answer.
    pub origins: Vec<OriginShare>,
}

/// An origin's share.
#[derive(Clone, Debug, Serialize)]
pub struct OriginShare {
    /// The origin.
    pub origin: String,
    /// Its zone.
    pub zone: Option<String>,
    /// The answers that it was first in.
    pub answers: u64,
    /// Of all of the load balancer's.
    pub share: f64,
}

/// A zone's share.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneShare {
    /// The zone.
    pub zone: Option<String>,
    /// The answers with an origin in it.
    pub answers: u64,
    /// Of all of the load balancer's.
    pub share: f64,
}

/// Answers that leave the client's zone.
#[derive(Clone, Debug, Serialize)]
pub struct CrossZone {
    /// Answers to clients that are in a zone.
    pub answers: u64,
    /// The share of those whose origin is in another zone or in none.
    pub share: f64,
}

/// What moves from one configuration to another.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Queries that one of them steers.
    pub answers: u64,
    /// The share of them that moves.
    pub moved: f64,
    /// By load balancer, the largest part first.
    pub load_balancers: Vec<BalancerMoves>,
}

/// What moves of a load balancer's answers.
#[derive(Clone, Debug, Serialize)]
pub struct BalancerMoves {
    /// Its name.
    pub load_balancer: String,
    /// The queries for it.
    pub answers: u64,
    /// The share of them that moves.
    pub moved: f64,
    /// From where to where, the largest first.
    pub moves: Vec<Move>,
}

/// Answers that move in one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    /// The region of the clients, in the old configuration.
    pub region: Option<String>,
    /// The pool before.
    pub from: String,
    /// The pool after; the same where the answers move to other origins of it.
    pub to: String,
    /// Of all of the load balancer's answers.
    pub share: f64,
}

impl Simulation<'_> {
    /// What was answered so far, by load balancer.
    pub fn answered(&self) -> Answered {
        let state = self.state;
        let ids = (0u32..).map(LoadBalancerId);
        let mut load_balancers: Vec<_> = ids
            .zip(&state.balancers)
            .filter_map(|(id, balancer)| Some((balancer, self.tally().balancer(id)?)))
            .filter(|(_, tally)| tally.queries() > 0)
            .map(|(balancer, tally)| balancer_shares(state, balancer, tally))
            .collect();
        load_balancers.sort_by(|a, b| a.load_balancer.cmp(&b.load_balancer));
        Answered { not_steered: self.tally().others, load_balancers }
    }
}

fn balancer_shares(
    state: &State,
    balancer: &LoadBalancer,
    tally: &BalancerTally,
) -> BalancerShares {
    let all = tally.answers();
    let share = |answers: u64| as_f64(answers) / as_f64(all.max(1));
    let mut zones: BTreeMap<Option<String>, u64> = BTreeMap::new();
    let mut pools = Vec::new();
    for pool_tally in tally.pools.iter().filter(|pool| pool.answers() > 0) {
        let origins = origin_shares(state, pool_tally, share);
        for origin in &origins {
            *zones.entry(origin.zone.clone()).or_default() += origin.answers;
        }
        pools.push(PoolShare {
            pool: state.pool_name(pool_tally.pool).to_owned(),
            answers: pool_tally.answers(),
            share: share(pool_tally.answers()),
            origins,
        });
    }
    let zone_share =
        |(zone, answers): (Option<String>, u64)| ZoneShare { zone, answers, share: share(answers) };
    BalancerShares {
        load_balancer: balancer.name.to_string(),
        queries: tally.queries(),
        answers: all,
        no_data: tally.no_data(),
        no_answer: tally.no_answer,
        fallback: tally.fallback,
        pools,
        zones: zones.into_iter().map(zone_share).collect(),
        cross_zone: (tally.zoned > 0).then(|| CrossZone {
            answers: tally.zoned,
            share: as_f64(tally.cross_zone) / as_f64(tally.zoned),
        }),
    }
}

fn origin_shares(state: &State, tally: &PoolTally, share: impl Fn(u64) -> f64) -> Vec<OriginShare> {
    let origins = state.pool(tally.pool).map_or(&[][..], |pool| &pool.origins);
    let counted = origins.iter().zip(&tally.origins).filter(|&(_, &answers)| answers > 0);
    let part = |(origin, &answers): (&crate::steer::pool::Origin, &u64)| OriginShare {
        origin: origin.name.clone(),
        zone: origin.zone.map(|zone| state.availability_zones.name(zone).to_owned()),
        answers,
        share: share(answers),
    };
    counted.map(part).collect()
}
