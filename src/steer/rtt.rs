//! The order of pools by round-trip time (steering.md, "RTT tolerance").

use std::collections::HashMap;
use std::time::Duration;

use crate::locate::Regions;
use crate::locate::place::RegionId;
use crate::rtt::Vantage;
use crate::steer::candidates::ancestors;
use crate::steer::load_balancer::{RttTolerance, Rule, Rules};
use crate::steer::pool::PoolId;

/// The published round-trip times, by where the client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RttTable {
    /// By client region.
    pub regions: HashMap<RegionId, Row>,
    /// By the pop of the answering node.
    pub pops: HashMap<String, Row>,
    /// For clients that have none of these: what `explain` was asked to assume.
    pub assumed: Row,
}

/// The round-trip times to each pool that has one, from one place.
pub type Row = HashMap<PoolId, Duration>;

impl RttTable {
    /// The figure of a vantage point for a pool; `pop` is this node's name.
    pub fn get(&self, vantage: Vantage, pop: Option<&str>, pool: PoolId) -> Option<Duration> {
        let row = match vantage {
            Vantage::Pop => self.of_pop(pop),
            Vantage::Region(region) => self.regions.get(&region),
        };
        row?.get(&pool).copied()
    }

    /// Sets a figure, or takes it away; a row without figures goes.
    pub fn set(
        &mut self,
        vantage: Vantage,
        pop: Option<&str>,
        pool: PoolId,
        figure: Option<Duration>,
    ) {
        let pop = pop.unwrap_or_default();
        let row = match vantage {
            Vantage::Pop => self.pops.entry(pop.to_owned()).or_default(),
            Vantage::Region(region) => self.regions.entry(region).or_default(),
        };
        match figure {
            Some(figure) => _ = row.insert(pool, figure),
            None => _ = row.remove(&pool),
        }
        if row.is_empty() {
            match vantage {
                Vantage::Pop => _ = self.pops.remove(pop),
                Vantage::Region(region) => _ = self.regions.remove(&region),
            }
        }
    }

    /// The row of this node's pop. A node without a name has one too: what it measures itself.
    pub fn of_pop(&self, pop: Option<&str>) -> Option<&Row> {
        self.pops.get(pop.unwrap_or_default())
    }

    /// The row for a client: its region's or its nearest ancestor's that has one, else the pop's, else
    /// the assumed one.
    pub fn row_for(
        &self,
        region: Option<RegionId>,
        parents: &[Option<RegionId>],
        pop: Option<&str>,
    ) -> Option<&Row> {
        let of_region =
            |region| ancestors(region, parents).find_map(|region| self.regions.get(&region));
        region
            .and_then(of_region)
            .or_else(|| self.of_pop(pop))
            .or_else(|| Some(&self.assumed).filter(|row| !row.is_empty()))
    }
}

/// The candidate lists by these figures: one for each region that has some, one for this node's pop.
pub fn rules(
    pools: &[PoolId],
    table: &RttTable,
    pop: Option<&str>,
    regions: &Regions,
    tolerance: RttTolerance,
) -> Rules {
    let by_row = |name, row| Rule { name, candidates: order(pools, Some(row), tolerance) };
    let default = match (table.of_pop(pop), pop) {
        (Some(row), Some(pop)) => by_row(format!("rtt.pop:{pop}"), row),
        (Some(row), None) => by_row("rtt.pop".to_owned(), row),
        (None, _) if !table.assumed.is_empty() => {
            by_row("rtt (assumed)".to_owned(), &table.assumed)
        }
        (None, _) => Rule { name: "pools".to_owned(), candidates: pools.to_vec() },
    };
    let mut rules = Rules { lists: vec![default], ..Rules::default() };
    let mut rows: Vec<_> = table.regions.iter().collect();
    rows.sort_unstable_by_key(|&(region, _)| *region);
    for (&region, row) in rows {
        let list = u16::try_from(rules.lists.len()).unwrap_or(u16::MAX);
        rules.lists.push(by_row(format!("rtt.{}", regions.name(region)), row));
        rules.regions.push((region, list));
    }
    rules
}

/// Reorders `pools` by round-trip time, ascending. A pool without a figure keeps its position; the
/// others are placed among the remaining positions: take the lowest time among those still to be
/// placed; of all within the tolerance of it (inclusive), the first in configured order comes next.
pub fn order(pools: &[PoolId], row: Option<&Row>, tolerance: RttTolerance) -> Vec<PoolId> {
    let figure = |pool: &PoolId| row.and_then(|row| row.get(pool)).copied();
    let mut waiting: Vec<(PoolId, Duration)> =
        pools.iter().filter_map(|pool| Some((*pool, figure(pool)?))).collect();
    let mut sorted = Vec::with_capacity(waiting.len());
    while let Some(lowest) = waiting.iter().map(|&(_, time)| time).min() {
        let limit = lowest + margin(lowest, tolerance);
        let Some(next) = waiting.iter().position(|&(_, time)| time <= limit) else {
            break;
        };
        sorted.push(waiting.remove(next).0);
    }
    let mut sorted = sorted.into_iter();
    pools
        .iter()
        .map(|pool| if figure(pool).is_some() { sorted.next().unwrap_or(*pool) } else { *pool })
        .collect()
}

/// The larger of the absolute and the relative tolerance, exactly, in nanoseconds.
pub fn margin(lowest: Duration, tolerance: RttTolerance) -> Duration {
    let relative = lowest.as_nanos() * u128::from(tolerance.relative_micros) / 1_000_000;
    tolerance.absolute.max(Duration::from_nanos(u64::try_from(relative).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ordered(figures: &[Option<u64>]) -> Vec<u32> {
        let pools: Vec<_> = (0u32..).take(figures.len()).map(PoolId).collect();
        let row = pools
            .iter()
            .zip(figures)
            .filter_map(|(&pool, figure)| Some((pool, Duration::from_millis((*figure)?))))
            .collect();
        order(&pools, Some(&row), RttTolerance::default()).iter().map(|pool| pool.0).collect()
    }

    #[test]
    fn lowest_first_and_within_tolerance_the_configured_order() {
        assert_eq!(ordered(&[Some(80), Some(50), Some(20)]), [2, 1, 0]);
        assert_eq!(ordered(&[Some(25), Some(20), Some(90)]), [0, 1, 2]);
        assert_eq!(ordered(&[Some(26), Some(20), Some(90)]), [1, 0, 2]);
        assert_eq!(ordered(&[Some(110), Some(100), Some(111)]), [0, 1, 2]);
    }

    #[test]
    fn tolerance_is_taken_from_the_lowest_left_not_from_neighbours() {
        // 20, 25, 30: 25 is near 20, 30 is not; after 20 is gone 30 is near 25.
        assert_eq!(ordered(&[Some(30), Some(25), Some(20)]), [1, 2, 0]);
    }

    #[test]
    fn pools_without_a_figure_keep_their_position() {
        assert_eq!(ordered(&[Some(80), None, Some(20)]), [2, 1, 0]);
        assert_eq!(ordered(&[None, None, Some(1)]), [0, 1, 2]);
        assert_eq!(ordered(&[None, None, None]), [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn the_order_is_a_permutation_and_depends_on_the_figures_alone(
            figures in proptest::collection::vec(proptest::option::of(1u64..500), 0..12),
        ) {
            let order = ordered(&figures);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..u32::try_from(figures.len()).unwrap()).collect::<Vec<_>>());
            for (position, figure) in figures.iter().enumerate() {
                if figure.is_none() {
                    prop_assert_eq!(order[position] as usize, position);
                }
            }
        }
    }
}
