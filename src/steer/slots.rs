//! The numbers of consecutive answers of one thread: what a UDP worker counts by, and `simulate`.

use std::cell::Cell;

use crate::steer::Sequences;
use crate::steer::session::Sessions;

/// Sequence slots that one thread alone draws from: each set's fingerprint, and the next number.
#[derive(Debug, Default)]
pub struct Slots(Box<[Cell<(u32, u32)>]>);

impl Slots {
    /// So many slots, all at 0.
    pub fn new(count: u32) -> Self {
        Self(vec![Cell::default(); usize::try_from(count).unwrap_or(0)].into())
    }

    /// Starts the memory of a slot on its way.
    #[inline]
    pub fn approach(&self, slot: u32) -> u32 {
        self.0.get(slot as usize).map_or(0, |slot| slot.get().1)
    }
}

/// It keeps no sessions.
impl Sessions for Slots {}

impl Sequences for Slots {
    #[inline]
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        let Some(slot) = self.0.get(slot as usize) else { return 0 };
        let (set, next) = slot.get();
        let number = if set == fingerprint { next } else { 0 };
        slot.set((fingerprint, number.wrapping_add(1)));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_one_another_and_start_again_with_a_new_set() {
        let slots = Slots::new(2);
        assert_eq!([0; 3].map(|_| slots.next(0, 7)), [0, 1, 2]);
        assert_eq!(slots.next(1, 7), 0, "slots are apart");
        assert_eq!([0; 2].map(|_| slots.next(0, 8)), [0, 1]);
        assert_eq!(slots.next(9, 7), 0, "no slot, no number");
    }
}
