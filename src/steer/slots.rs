//! The numbers of consecutive answers of one thread: what a UDP worker counts by, and `simulate`.

use std::cell::RefCell;

use crate::steer::Sequences;
use crate::steer::session::Sessions;

/// Sequence slots that one thread alone draws from: each set's fingerprint, and the next number.
#[derive(Debug, Default)]
pub struct Slots(RefCell<Vec<(u32, u32)>>);

impl Slots {
    /// So many slots, all at 0.
    pub fn new(count: u32) -> Self {
        Self(RefCell::new(vec![(0, 0); usize::try_from(count).unwrap_or(0)]))
    }

    /// Starts the memory of a slot on its way.
    #[inline]
    pub fn approach(&self, slot: u32) -> u32 {
        self.0.borrow().get(slot as usize).map_or(0, |&(_, next)| next)
    }
}

/// It keeps no sessions.
impl Sessions for Slots {}

impl Sequences for Slots {
    #[inline]
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        let mut slots = self.0.borrow_mut();
        let Some((set, next)) = slots.get_mut(slot as usize) else { return 0 };
        if *set != fingerprint {
            (*set, *next) = (fingerprint, 0);
        }
        let number = *next;
        *next = number.wrapping_add(1);
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
