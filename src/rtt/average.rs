//! An average that follows what is measured: exponentially weighted by time, so that it smooths alike
//! however often samples come.

use std::time::{Duration, Instant};

/// The age at which a sample's weight has fallen to 1/e (steering.md).
const TIME_CONSTANT: Duration = Duration::from_secs(60);
/// How many samples there must be before the average counts (steering.md).
const FEWEST: u32 = 3;

/// The average of the samples of one vantage point and pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    seconds: f64,
    samples: u32,
    last: Instant,
}

impl Average {
    /// Of one sample.
    pub fn new(sample: Duration, at: Instant) -> Self {
        Self { seconds: sample.as_secs_f64(), samples: 1, last: at }
    }

    /// Takes a sample in.
    pub fn add(&mut self, sample: Duration, at: Instant) {
        self.samples = self.samples.saturating_add(1);
        let sample = sample.as_secs_f64();
        if self.samples <= FEWEST {
            // A mean at first: samples that come at once weigh alike.
            self.seconds += (sample - self.seconds) / f64::from(self.samples);
        } else {
            let since = at.saturating_duration_since(self.last);
            let kept = (-since.as_secs_f64() / TIME_CONSTANT.as_secs_f64()).exp();
            self.seconds = sample + (self.seconds - sample) * kept;
        }
        self.last = self.last.max(at);
    }

    /// The average, if there are enough samples.
    pub fn figure(&self) -> Option<Duration> {
        (self.samples >= FEWEST).then(|| Duration::from_secs_f64(self.seconds.max(0.0)))
    }

    /// When the last sample came.
    pub fn last(&self) -> Instant {
        self.last
    }

    /// How many samples came.
    pub fn samples(&self) -> u32 {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn three_samples_are_needed() {
        let start = Instant::now();
        let mut average = Average::new(millis(10), start);
        assert_eq!(average.figure(), None);
        average.add(millis(20), start);
        assert_eq!(average.figure(), None);
        average.add(millis(30), start);
        assert_eq!(average.figure(), Some(millis(20)));
    }

    #[test]
    fn a_step_is_followed_with_the_time_constant_whatever_the_interval() {
        for interval in [1, 2, 5, 10, 30] {
            let start = Instant::now();
            let mut average = Average::new(millis(100), start);
            average.add(millis(100), start);
            average.add(millis(100), start);
            for step in 1..=60 / interval {
                average.add(millis(200), start + Duration::from_secs(interval * step));
            }
            // After one time constant 1 - 1/e of the step.
            let figure = average.figure().unwrap().as_secs_f64() * 1000.0;
            assert!((figure - 163.2).abs() < 0.1, "every {interval} s: {figure}");
        }
    }

    proptest! {
        #[test]
        fn the_average_is_within_the_samples(
            samples in proptest::collection::vec((0u64..5000, 0u64..100_000), 3..40),
        ) {
            let start = Instant::now();
            let (first, at) = samples[0];
            let mut average = Average::new(millis(first), start + millis(at));
            for &(sample, at) in &samples[1..] {
                average.add(millis(sample), start + millis(at));
            }
            let figure = average.figure().unwrap();
            let values = samples.iter().map(|&(sample, _)| millis(sample));
            let slack = Duration::from_micros(1);
            prop_assert!(figure + slack >= values.clone().min().unwrap());
            prop_assert!(figure <= values.max().unwrap() + slack);
        }
    }
}
