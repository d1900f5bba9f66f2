//! A histogram of durations with fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::tally::Writers;

/// The most bounds.
pub const MOST_BOUNDS: usize = 14;

/// Durations, counted by how long they are.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in microseconds, ascending.
    bounds: &'static [u64],
    /// By bound; the last counts what is longer than all.
    counts: [AtomicU64; MOST_BOUNDS + 1],
    nanoseconds: AtomicU64,
}

/// What was counted, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Each upper bound in seconds, and how many were at most as long.
    pub cumulative: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
    /// How long they were together, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// With these bounds, of which there are at most [`MOST_BOUNDS`].
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, counts, nanoseconds: AtomicU64::new(0) }
    }

    /// Counts so many durations of the same length.
    pub fn add<W: Writers>(&self, duration: Duration, times: u64) {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = self.bounds.partition_point(|&bound| bound < microseconds);
        if let Some(count) = self.counts.get(bucket) {
            W::add(count, times);
        }
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        W::add(&self.nanoseconds, nanoseconds.saturating_mul(times));
    }

    /// What was counted by several histograms of the same bounds.
    pub fn sum<'h>(histograms: impl IntoIterator<Item = &'h Self>) -> Buckets {
        let mut sum = Buckets::default();
        for histogram in histograms {
            let bounds = histogram.bounds;
            sum.cumulative.resize(bounds.len(), (0.0, 0));
            let mut below = 0;
            for ((place, &bound), count) in
                sum.cumulative.iter_mut().zip(bounds).zip(&histogram.counts)
            {
                below += count.load(Ordering::Relaxed);
                *place = (Duration::from_micros(bound).as_secs_f64(), place.1 + below);
            }
            let longer = histogram.counts.get(bounds.len());
            sum.count += below + longer.map_or(0, |count| count.load(Ordering::Relaxed));
            let nanoseconds = histogram.nanoseconds.load(Ordering::Relaxed);
            sum.sum += Duration::from_nanos(nanoseconds).as_secs_f64();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::{Alone, Shared};

    #[test]
    fn durations_are_counted_up_to_and_with_their_bound() {
        let (a, b) = (Histogram::new(&[10, 100]), Histogram::new(&[10, 100]));
        a.add::<Alone>(Duration::from_micros(10), 2);
        a.add::<Alone>(Duration::from_micros(11), 1);
        b.add::<Shared>(Duration::from_secs(1), 1);
        let sum = Histogram::sum([&a, &b]);
        assert_eq!(sum.cumulative, [(0.00001, 2), (0.0001, 3)]);
        assert_eq!(sum.count, 4);
        assert!((sum.sum - 1.000_031).abs() < 1e-9, "{}", sum.sum);
    }
}
