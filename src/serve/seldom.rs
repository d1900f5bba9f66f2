//! Lines of the log that could be due many times a second, at the will of others: each is written once in a
//! while, and says how often it was due.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long such a line is not written again.
pub const QUIET: Duration = Duration::from_secs(60);

/// Says when a line is to be written. Not for the path of datagrams: it has a lock.
#[derive(Debug, Default)]
pub struct Seldom {
    state: Mutex<Counted>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    written: Option<Instant>,
    /// How often it was due since.
    since: u64,
}

impl Seldom {
    /// Notes that the line is due. If it is to be written, how often it was due since it last was, this time
    /// included.
    pub fn due(&self, now: Instant) -> Option<u64> {
        // Held for a few instructions.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.since += 1;
        if state.written.is_some_and(|written| now.saturating_duration_since(written) < QUIET) {
            return None;
        }
        let Counted { since, .. } = *state;
        *state = Counted { written: Some(now), since: 0 };
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_at_once_and_then_seldom() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        let at = |seconds| seldom.due(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(1));
        assert_eq!([at(1), at(30), at(59)], [None; 3]);
        assert_eq!(at(60), Some(4));
        assert_eq!([at(61), at(0)], [None; 2], "a clock that was read earlier too");
        assert_eq!(at(200), Some(3));
    }
}
