//! The numbers of consecutive answers, shared by the tasks of the general path: one slot for each
//! load balancer, pool, eligible set and family, so their memory is bounded by the configuration.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::steer::Sequences;
use crate::steer::session::Sessions;

/// Sequence slots that any number of threads draw from without a lock. A slot holds the
/// fingerprint of its set in the upper half and the next number in the lower.
#[derive(Debug, Default)]
pub struct SharedSequences {
    slots: Box<[AtomicU64]>,
}

impl SharedSequences {
    /// So many slots, all at 0.
    pub fn new(slots: u32) -> Self {
        Self { slots: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Sequences for SharedSequences {
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        let Some(slot) = self.slots.get(slot as usize) else { return 0 };
        let restart = u64::from(fingerprint) << 32;
        let advance = |current: u64| {
            let current = if current >> 32 == u64::from(fingerprint) { current } else { restart };
            let number = (current & 0xffff_ffff).wrapping_add(1) & 0xffff_ffff;
            Some(restart | number)
        };
        // The update always succeeds in the end: `advance` never gives none.
        let previous = slot
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance)
            .unwrap_or_else(|current| current);
        if previous >> 32 == u64::from(fingerprint) {
            u32::try_from(previous & 0xffff_ffff).unwrap_or(0)
        } else {
            0
        }
    }
}

/// They keep no sessions.
impl Sessions for SharedSequences {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_one_another_and_start_again_with_a_new_set() {
        let sequences = SharedSequences::new(2);
        assert_eq!([0; 3].map(|_| sequences.next(0, 7)), [0, 1, 2]);
        assert_eq!(sequences.next(1, 7), 0, "slots are apart");
        assert_eq!([0; 2].map(|_| sequences.next(0, 8)), [0, 1]);
        assert_eq!(sequences.next(9, 7), 0, "no slot, no number");
    }
}
