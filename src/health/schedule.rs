//! When an address is probed: at once when it is new, and then on a grid of its own, so that probes
//! are spread over the interval and an address is never probed less often than its interval says.

use std::time::{Duration, Instant};

/// The pause between two first probes: those of 10,000 addresses are begun within the usual
/// `startup_wait`, and not so fast that the machine is too busy to see their replies in time.
const FIRST_PAUSE: Duration = Duration::from_micros(400);
/// The fractional part of the golden ratio, in 2^-64: its multiples fall evenly between 0 and 1,
/// however many of them there are.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// When the first probe of the `number`th new address begins, from now: at once, but within its
/// interval for any number of them.
pub fn first(number: usize, interval: Duration) -> Duration {
    let nanos = FIRST_PAUSE.as_nanos() * (number as u128) % interval.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// How far into its interval the `number`th address is probed.
pub fn phase(number: usize, interval: Duration) -> Duration {
    let part = u128::from((number as u64).wrapping_mul(GOLDEN));
    let nanos = (interval.as_nanos() * part) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// When the next probe begins after one that began at `last`: the first point of the grid (`grid` +
/// `phase` + any number of intervals) after that. If it is past already, one probe makes up for all
/// that were missed.
pub fn next(grid: Instant, phase: Duration, interval: Duration, last: Instant) -> Instant {
    let start = grid + phase;
    let Some(since) = last.checked_duration_since(start) else { return start };
    let into = since.as_nanos() % interval.as_nanos().max(1);
    last + interval - Duration::from_nanos(u64::try_from(into).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_probes_are_at_once_and_not_all_at_the_same_time() {
        let second = Duration::from_secs(1);
        assert_eq!(first(0, second), Duration::ZERO);
        assert_eq!(first(5, second), Duration::from_millis(2));
        assert!(first(9_999, 10 * second) < 5 * second);
        assert!((0..10_000).all(|number| first(number, second) < second));
    }

    #[test]
    fn phases_are_spread_whatever_their_number() {
        let interval = Duration::from_secs(10);
        for count in [10, 50, 333, 10_000] {
            let mut tenths = [0; 10];
            for number in 0..count {
                tenths[usize::try_from(phase(number, interval).as_secs()).unwrap()] += 1;
            }
            let most = tenths.into_iter().max().unwrap();
            assert!(most <= count / 10 + 2, "{count}: {tenths:?}");
        }
    }

    proptest! {
        /// The next probe begins later than the last, and at most an interval later.
        #[test]
        fn the_next_probe_is_within_an_interval(
            interval in 1u64..5000, number in 0usize..1000, last in 0u64..100_000,
        ) {
            let grid = Instant::now();
            let interval = Duration::from_millis(interval);
            let last = grid + Duration::from_micros(last * 977);
            let next = next(grid, phase(number, interval), interval, last);
            prop_assert!(next > last);
            prop_assert!(next <= last + interval);
        }
    }
}
