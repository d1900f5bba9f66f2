//! Whether a client takes a zone transfer as fast as a secondary must. A transfer holds its moment, whole, and
//! room in the system's buffers: who takes an octet now and then must not have them for as long as that takes.

use std::time::Duration;

/// How many octets a client must take in a second: a message of a transfer.
pub const SLOWEST: u32 = 16 << 10;

/// How far a client is behind that pace. What it takes faster makes good for what was slower before, and is no
/// credit for later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    behind: Duration,
}

impl Pace {
    /// Notes that a client took so many octets in this time. True if it is no further behind than `patience`.
    pub fn keeps(&mut self, octets: usize, took: Duration, patience: Duration) -> bool {
        let octets = u32::try_from(octets).unwrap_or(u32::MAX);
        let allowed = Duration::from_secs(octets.into()) / SLOWEST;
        self.behind = (self.behind + took).saturating_sub(allowed);
        self.behind <= patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_client_may_be_slow_for_a_while_and_not_for_ever() {
        let message = SLOWEST as usize;
        let mut pace = Pace::default();
        let mut keeps = |seconds| pace.keeps(message, Duration::from_secs(seconds), PATIENCE);
        assert!((0..1000).all(|_| keeps(1)), "the pace itself");
        assert!((0..1000).all(|_| keeps(0)), "no credit");
        assert!(keeps(11), "a stall");
        assert!(!keeps(2), "and not another soon after");
        assert!(keeps(0) && (0..11).all(|_| keeps(0)), "made good for");
        assert!(keeps(11));
        let mut pace = Pace::default();
        let slow =
            (0..1000).take_while(|_| pace.keeps(message / 2, Duration::from_secs(1), PATIENCE));
        assert_eq!(slow.count(), 20, "half of the pace");
    }

    // However it is taken, that bounds the time by the size.
    #[test]
    fn no_size_takes_longer_than_its_pace_and_the_patience() {
        let mut pace = Pace::default();
        let (mut octets, mut took) = (0, Duration::ZERO);
        for (of, milliseconds) in [(1, 200), (16 << 10, 1500), (5000, 900)].into_iter().cycle() {
            let time = Duration::from_millis(milliseconds);
            if !pace.keeps(of, time, PATIENCE) {
                break;
            }
            (octets, took) = (octets + of as u64, took + time);
        }
        assert!(took <= PATIENCE + Duration::from_secs(octets) / SLOWEST, "{octets} in {took:?}");
    }
}
