//! When changes are over: after some time without one, so that what is being written is read once and
//! whole; but where there is no end of changes, not later than a limit. Time is an argument.

use std::time::{Duration, Instant};

/// How long nothing may change before the files are read (config.md).
const QUIET: Duration = Duration::from_millis(500);
/// How long changes can put the reading off.
const LONGEST: Duration = Duration::from_secs(10);

/// The changes since the files were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quiet(Option<Changes>);

#[derive(Clone, Copy, Debug)]
struct Changes {
    first: Instant,
    last: Instant,
}

impl Quiet {
    /// Something changed.
    pub(super) fn note(&mut self, now: Instant) {
        self.0.get_or_insert(Changes { first: now, last: now }).last = now;
    }

    /// When the files are to be read; never if nothing changed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.map(|Changes { first, last }| (last + QUIET).min(first + LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_second_after_the_last_change_the_files_are_read() {
        let start = Instant::now();
        let mut quiet = Quiet::default();
        assert_eq!(quiet.due(), None);
        for milliseconds in [0, 400, 800, 801] {
            let now = start + Duration::from_millis(milliseconds);
            assert!(quiet.due().is_none_or(|due| due > now), "read at {milliseconds} ms");
            quiet.note(now);
        }
        assert_eq!(quiet.due(), Some(start + Duration::from_millis(1301)));
    }

    #[test]
    fn changes_without_end_put_the_reading_off_for_ten_seconds() {
        let start = Instant::now();
        let mut quiet = Quiet::default();
        for step in 0..1000 {
            quiet.note(start + Duration::from_millis(step * 100));
        }
        assert_eq!(quiet.due(), Some(start + Duration::from_secs(10)));
    }
}
