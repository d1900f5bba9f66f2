//! Compares what two configurations answer to the same queries: which part of the answers moves, and
//! from where to where.
//!
//! An answer that comes from another pool has moved. Where the pool stays, what moves is the change of
//! its origins' shares for that client; which of them the one answer had is chance. So a change of
//! weights counts, and a sequence that begins at another number does not.

use std::collections::{BTreeMap, HashMap};

use crate::locate::place::{AvailabilityZoneId, RegionId};
use crate::rr::Rdata;
use crate::simulate::report::{BalancerMoves, Difference, Move};
use crate::simulate::{Outcome, Simulation};
use crate::state::State;
use crate::steer::load_balancer::{Answers, LoadBalancerId};
use crate::steer::plan::FamilySet;
use crate::steer::pool::{Family, PoolId};

/// What a query that is not steered moves from or to, in words.
const NOT_STEERED: &str = "not steered";
const NO_ANSWER: &str = "no answer";
const NO_DATA: &str = "no data";

/// Pairs of answers, counted by all that the comparison depends on.
#[derive(Debug, Default)]
pub struct Pairs {
    counts: HashMap<Pair, u64, foldhash::fast::FixedState>,
}

/// Where an answer came from before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair {
    before: Option<End>,
    after: Option<End>,
    region: Option<RegionId>,
    family: Family,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    balancer: LoadBalancerId,
    pool: Option<PoolId>,
    zone: Option<AvailabilityZoneId>,
    has_data: bool,
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        let Outcome { balancer, pool, zone, origin, .. } = outcome;
        Self { balancer, pool, zone, has_data: origin.is_some() }
    }
}

impl Pairs {
    /// Counts the answers to one query, before and after; none where it is not steered.
    pub fn add(&mut self, before: Option<Outcome>, after: Option<Outcome>) {
        let Some(either) = before.or(after) else { return };
        let pair = Pair {
            before: before.map(End::from),
            after: after.map(End::from),
            // Numbers of regions are those of the old configuration.
            region: before.and_then(|outcome| outcome.region),
            family: either.family,
        };
        *self.counts.entry(pair).or_default() += 1;
    }

    /// What moved.
    pub fn difference(&self, before: &Simulation<'_>, after: &Simulation<'_>) -> Difference {
        let mut balancers: BTreeMap<String, (u64, Moved)> = BTreeMap::new();
        for (pair, &count) in self.sorted() {
            let name = match (pair.before, pair.after) {
                (Some(end), _) => balancer_name(before.state, end.balancer),
                (None, Some(end)) => balancer_name(after.state, end.balancer),
                (None, None) => continue,
            };
            let (answers, moves) = balancers.entry(name).or_default();
            *answers += count;
            let (from, to) = (side(before, pair.before), side(after, pair.after));
            let part = if same_pool(before, pair.before, after, pair.after) {
                moved_within(before, after, pair)
            } else {
                f64::from(from != to)
            };
            if part > 0.0 {
                let region =
                    pair.region.map(|id| before.state.locator.regions().name(id).to_owned());
                *moves.entry((region, from, to)).or_default() += part * as_f64(count);
            }
        }
        difference(balancers)
    }

    /// The pairs in a fixed order, so that sums of their parts are the same in every run.
    fn sorted(&self) -> Vec<(Pair, &u64)> {
        #[allow(clippy::iter_over_hash_type, reason = "sorted just below")]
        let mut pairs: Vec<_> = self.counts.iter().map(|(&pair, count)| (pair, count)).collect();
        let end = |end: Option<End>| end.map(|e| (e.balancer, e.pool, e.zone, e.has_data));
        pairs.sort_by_key(|(pair, _)| {
            (end(pair.before), end(pair.after), pair.region, pair.family.index())
        });
        pairs
    }
}

/// Moved answers by region, from and to.
type Moved = BTreeMap<(Option<String>, String, String), f64>;

fn difference(balancers: BTreeMap<String, (u64, Moved)>) -> Difference {
    let mut load_balancers = Vec::new();
    let (mut all, mut all_moved) = (0, 0.0);
    for (name, (answers, moves)) in balancers {
        let of_all = |moved: f64| moved / as_f64(answers.max(1));
        let moved: f64 = moves.values().sum();
        all += answers;
        all_moved += moved;
        let mut moves: Vec<Move> = moves
            .into_iter()
            .map(|((region, from, to), count)| Move { region, from, to, share: of_all(count) })
            .collect();
        moves.sort_by(|a, b| b.share.total_cmp(&a.share));
        load_balancers.push(BalancerMoves {
            load_balancer: name,
            answers,
            moved: of_all(moved),
            moves,
        });
    }
    load_balancers.sort_by(|a, b| b.moved.total_cmp(&a.moved));
    let moved = all_moved / as_f64(all.max(1));
    Difference { answers: all, moved, load_balancers }
}

fn balancer_name(state: &State, id: LoadBalancerId) -> String {
    state.balancer(id).map(|balancer| balancer.name.to_string()).unwrap_or_default()
}

/// Where an answer comes from, in words.
fn side(simulation: &Simulation<'_>, end: Option<End>) -> String {
    match end {
        None => NOT_STEERED.to_owned(),
        Some(End { pool: None, .. }) => NO_ANSWER.to_owned(),
        Some(End { has_data: false, .. }) => NO_DATA.to_owned(),
        Some(End { pool: Some(pool), .. }) => simulation.state.pool_name(pool).to_owned(),
    }
}

/// True if both are answers of one pool: for one load balancer a name means one pool.
fn same_pool(
    before: &Simulation<'_>,
    old: Option<End>,
    after: &Simulation<'_>,
    new: Option<End>,
) -> bool {
    let name = |state: &'_ State, end: Option<End>| -> Option<String> {
        Some(state.pool_name(end.filter(|end| end.has_data)?.pool?).to_owned())
    };
    let (old, new) = (name(before.state, old), name(after.state, new));
    old.is_some() && old == new
}

/// Which part of the answers of a pool that stays comes from other origins: what some lose of their
/// shares is what others gain.
fn moved_within(before: &Simulation<'_>, after: &Simulation<'_>, pair: Pair) -> f64 {
    let (Some(old), Some(new)) =
        (set(before, pair.before, pair.family), set(after, pair.after, pair.family))
    else {
        return 0.0;
    };
    let gained = |(rdata, share): (&[Rdata], f64)| {
        let had: f64 =
            shares(old).filter(|&(other, _)| other == rdata).map(|(_, share)| share).sum();
        (share - had).max(0.0)
    };
    let gained: f64 = shares(new).map(gained).sum();
    // Shares are quotients: what is left of equal ones is no move.
    if gained < 1e-9 { 0.0 } else { gained }
}

/// The set that an answer is chosen from.
fn set<'a>(
    simulation: &'a Simulation<'_>,
    end: Option<End>,
    family: Family,
) -> Option<&'a FamilySet> {
    let end = end?;
    let plan = simulation.plan.pool(end.pool?)?.for_zone(end.zone).families.get(family.index())?;
    let all = simulation.state.balancer(end.balancer)?.answers == Answers::All;
    Some(if all { &plan.lead } else { &plan.set })
}

/// The origins of a set, by what they are answered with, and their shares.
fn shares(set: &FamilySet) -> impl Iterator<Item = (&[Rdata], f64)> {
    let total = as_f64(set.total_weight);
    set.members.iter().map(move |member| (&*member.rdata, f64::from(member.weight) / total))
}

#[allow(clippy::cast_precision_loss, reason = "counts of queries are far below 2^53")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
