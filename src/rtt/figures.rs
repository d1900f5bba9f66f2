//! The figures that are published to the decision: static ones as written, measured ones when they
//! differ from the published one by more than the tolerance, so that noise does not change an order.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::rtt::Vantage;
use crate::rtt::book::Book;
use crate::state::State;
use crate::steer::load_balancer::{Policy, RttTolerance, Rules};
use crate::steer::pool::PoolId;
use crate::steer::rtt::{self, RttTable};

/// What is published with one tolerance.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The tolerance.
    pub tolerance: RttTolerance,
    /// The figures.
    pub table: RttTable,
    /// Which of them are measured; the others are static.
    pub measured: HashSet<(Vantage, PoolId)>,
}

/// A figure that was published in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// From where.
    pub vantage: Vantage,
    /// To which pool.
    pub pool: PoolId,
    /// What was published before; none if nothing was.
    pub from: Option<Duration>,
    /// What is published now; none if it is known no more.
    pub to: Option<Duration>,
}

/// The figures of a state: one set for each tolerance that its load balancers have.
#[derive(Clone, Debug, Default)]
pub struct Published {
    sets: Vec<Figures>,
}

impl Published {
    /// The static figures alone.
    pub fn of_state(state: &State) -> Self {
        let mut sets: Vec<Figures> = Vec::new();
        for (balancer, source) in state.balancers.iter().zip(&state.balancer_sources) {
            let tolerance = source.rtt_tolerance;
            if balancer.policy == Policy::Rtt && sets.iter().all(|set| set.tolerance != tolerance) {
                let table = state.rtt.clone();
                sets.push(Figures { tolerance, table, measured: HashSet::new() });
            }
        }
        Self { sets }
    }

    /// The figures that load balancers of this tolerance go by.
    pub fn with_tolerance(&self, tolerance: RttTolerance) -> Option<&Figures> {
        self.sets.iter().find(|set| set.tolerance == tolerance)
    }

    /// Publishes what is to be published of the averages. Gives the figures that moved, by where they
    /// are from and to; of one that moved with several tolerances the first.
    pub fn update(&mut self, state: &State, book: &Book) -> Vec<Moved> {
        let pop = state.pop.as_deref();
        let mut moved: Vec<_> =
            self.sets.iter_mut().flat_map(|set| set.update(&state.rtt, pop, book)).collect();
        moved.sort_by_key(|moved| (moved.vantage, moved.pool));
        moved.dedup_by_key(|moved| (moved.vantage, moved.pool));
        moved
    }

    /// The candidate lists of all load balancers with RTT steering, in their order.
    pub fn rules(&self, state: &State) -> Arc<[Rules]> {
        let balancers = state.balancers.iter().zip(&state.balancer_sources);
        let measured = balancers.filter(|(balancer, _)| balancer.policy == Policy::Rtt);
        let rules =
            measured.map(|(balancer, source)| match self.with_tolerance(source.rtt_tolerance) {
                None => balancer.rules.clone(),
                Some(set) => rtt::rules(
                    &source.pools,
                    &set.table,
                    state.pop.as_deref(),
                    state.locator.regions(),
                    set.tolerance,
                ),
            });
        rules.collect()
    }
}

impl Figures {
    fn update(&mut self, fixed: &RttTable, pop: Option<&str>, book: &Book) -> Vec<Moved> {
        let mut moved = Vec::new();
        // What is measured no more gives way to what is written.
        let gone: Vec<_> = self
            .measured
            .iter()
            .copied()
            .filter(|&(vantage, pool)| book.get(vantage, pool).is_none())
            .collect();
        for (vantage, pool) in gone {
            self.measured.remove(&(vantage, pool));
            let (from, to) = (self.table.get(vantage, pop, pool), fixed.get(vantage, pop, pool));
            self.table.set(vantage, pop, pool, to);
            moved.push(Moved { vantage, pool, from, to });
        }
        for ((vantage, pool), average) in book.iter() {
            let Some(figure) = average.figure() else { continue };
            let published = self.table.get(vantage, pop, pool);
            if published.is_none_or(|published| self.differs(published, figure)) {
                self.table.set(vantage, pop, pool, Some(figure));
                self.measured.insert((vantage, pool));
                moved.push(Moved { vantage, pool, from: published, to: Some(figure) });
            }
        }
        moved
    }

    /// True if two figures are further apart than the tolerance.
    fn differs(&self, a: Duration, b: Duration) -> bool {
        a.abs_diff(b) > rtt::margin(a.min(b), self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::load_balancer::RttTolerance;
    use proptest::prelude::*;
    use std::time::Instant;

    const POOL: PoolId = PoolId(0);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn figures(fixed: &RttTable) -> Figures {
        let tolerance = RttTolerance::default();
        Figures { tolerance, table: fixed.clone(), measured: HashSet::new() }
    }

    /// A book in which the pool's average is this.
    fn book(average: u64, at: Instant) -> Book {
        let mut book = Book::default();
        for _ in 0..3 {
            book.add(Vantage::Pop, POOL, millis(average), at);
        }
        book
    }

    fn published(figures: &Figures) -> Option<Duration> {
        figures.table.get(Vantage::Pop, None, POOL)
    }

    #[test]
    fn a_figure_is_published_when_it_is_further_away_than_the_tolerance() {
        let (fixed, now) = (RttTable::default(), Instant::now());
        let mut figures = figures(&fixed);
        assert!(!figures.update(&fixed, None, &book(100, now)).is_empty());
        assert_eq!(published(&figures), Some(millis(100)));
        // 10 % of the lower one is more than 5 ms.
        assert_eq!(figures.update(&fixed, None, &book(110, now)), []);
        assert_eq!(figures.update(&fixed, None, &book(91, now)), []);
        assert_eq!(published(&figures), Some(millis(100)), "noise is not published");
        assert!(!figures.update(&fixed, None, &book(111, now)).is_empty());
        assert_eq!(published(&figures), Some(millis(111)));
    }

    #[test]
    fn the_written_figure_shows_through_when_nothing_is_measured() {
        let now = Instant::now();
        let mut fixed = RttTable::default();
        fixed.set(Vantage::Pop, None, POOL, Some(millis(20)));
        let mut figures = figures(&fixed);
        assert_eq!(figures.update(&fixed, None, &book(22, now)), [], "within the tolerance of it");
        assert!(!figures.update(&fixed, None, &book(80, now)).is_empty());
        assert_eq!(published(&figures), Some(millis(80)));
        let mut old = book(80, now);
        old.drop_older(millis(1000), now + millis(1000));
        assert_eq!(figures.update(&fixed, None, &old), [], "just young enough");
        old.drop_older(millis(1000), now + millis(1001));
        assert!(!figures.update(&fixed, None, &old).is_empty());
        assert_eq!(published(&figures), Some(millis(20)));
        // And where nothing is written there is no figure then.
        let nothing = RttTable::default();
        let mut figures = Figures { table: nothing.clone(), ..figures };
        figures.update(&nothing, None, &book(80, now));
        assert!(!figures.update(&nothing, None, &Book::default()).is_empty());
        assert_eq!(published(&figures), None);
        assert!(figures.table.pops.is_empty());
    }

    #[test]
    fn two_samples_are_not_enough() {
        let (fixed, now) = (RttTable::default(), Instant::now());
        let mut book = Book::default();
        book.add(Vantage::Pop, POOL, millis(10), now);
        book.add(Vantage::Pop, POOL, millis(10), now);
        assert_eq!(figures(&fixed).update(&fixed, None, &book), []);
    }

    proptest! {
        /// Noise around a published figure, smaller than the tolerance, changes no order.
        #[test]
        fn noise_within_the_tolerance_changes_no_order(
            figures_of in proptest::collection::vec(20u64..400, 2..6),
            noise in proptest::collection::vec(-100i64..=100, 2..6),
        ) {
            let (fixed, now) = (RttTable::default(), Instant::now());
            let pools: Vec<_> = (0u32..).take(figures_of.len()).map(PoolId).collect();
            let mut figures = figures(&fixed);
            let fill = |times: &[u64]| {
                let mut book = Book::default();
                for (&pool, &time) in pools.iter().zip(times) {
                    for _ in 0..3 {
                        book.add(Vantage::Pop, pool, Duration::from_micros(time), now);
                    }
                }
                book
            };
            let micros: Vec<u64> = figures_of.iter().map(|figure| figure * 1000).collect();
            figures.update(&fixed, None, &fill(&micros));
            let order = |figures: &Figures| {
                rtt::order(&pools, figures.table.of_pop(None), figures.tolerance)
            };
            let before = order(&figures);
            // Up to 5 ms, which is the least of the tolerance.
            let noisy: Vec<u64> = micros
                .iter()
                .zip(noise.iter().cycle())
                .map(|(&figure, &noise)| figure.saturating_add_signed(noise * 49))
                .collect();
            prop_assert_eq!(figures.update(&fixed, None, &fill(&noisy)), []);
            prop_assert_eq!(order(&figures), before);
        }
    }
}
