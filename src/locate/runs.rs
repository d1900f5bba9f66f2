//! Address space as runs: consecutive addresses with one value, without gaps or overlaps.
//!
//! The database and the subnets each become runs, are laid over one another, and are cut into the
//! fewest blocks for the look-up table. Only loading works with these.

use std::fmt::Debug;

/// Addresses of one family as numbers.
pub trait Bits: Copy + Ord + Debug {
    /// The length of an address in bits.
    const WIDTH: u8;
    /// The first address.
    const FIRST: Self;
    /// The last address.
    const LAST: Self;

    /// The address after this one; none after the last.
    fn successor(self) -> Option<Self>;

    /// The address before this one; the first is its own.
    fn predecessor(self) -> Self;

    /// The first octet, and the others moved to the front.
    fn split_octet(self) -> (u8, Self);

    /// The first two octets, and the others moved to the front.
    fn split_pair(self) -> (u16, Self);

    /// The address with the `bits` bits that follow the first `depth` ones set to `value`; they must
    /// have been zero.
    fn with(self, depth: u8, bits: u8, value: u8) -> Self;

    /// The last address of the block with this first address and prefix length.
    fn block_end(self, prefix_length: u8) -> Self;

    /// The prefix length of the largest block that begins here and does not go beyond `end`.
    fn largest_block(self, end: Self) -> u8;
}

macro_rules! bits {
    ($number:ty) => {
        impl Bits for $number {
            #[allow(clippy::cast_possible_truncation, reason = "32 and 128 fit")]
            const WIDTH: u8 = Self::BITS as u8;
            const FIRST: Self = 0;
            const LAST: Self = Self::MAX;

            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn predecessor(self) -> Self {
                self.saturating_sub(1)
            }

            fn split_octet(self) -> (u8, Self) {
                (self.to_be_bytes()[0], self << 8)
            }

            #[allow(clippy::cast_possible_truncation, reason = "the shift leaves 16 bits")]
            fn split_pair(self) -> (u16, Self) {
                ((self >> (Self::BITS - 16)) as u16, self << 16)
            }

            fn with(self, depth: u8, bits: u8, value: u8) -> Self {
                let shift = u32::from(Self::WIDTH.saturating_sub(depth).saturating_sub(bits));
                self | Self::from(value).checked_shl(shift).unwrap_or(0)
            }

            fn block_end(self, prefix_length: u8) -> Self {
                self | Self::MAX.checked_shr(u32::from(prefix_length)).unwrap_or(0)
            }

            fn largest_block(self, end: Self) -> u8 {
                // The shortest prefix for which this is a block's first address.
                let aligned = Self::BITS - self.trailing_zeros();
                // The shortest prefix for which the block is no longer than what is left.
                let fits = match end.saturating_sub(self).checked_add(1) {
                    Some(addresses) => addresses.leading_zeros() + 1,
                    None => 0,
                };
                u8::try_from(aligned.max(fits)).unwrap_or(Self::WIDTH)
            }
        }
    };
}

bits!(u32);
bits!(u128);

/// The whole address space of a family as runs in ascending order, neighbours with distinct values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs<A> {
    /// Each run's first address and its value; the first is the family's first address.
    starts: Vec<(A, u32)>,
}

/// A block of addresses: all that share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<A> {
    /// Its first address.
    pub first: A,
    /// The length of the prefix.
    pub prefix_length: u8,
    /// The value of all its addresses.
    pub value: u32,
}

impl<A: Bits> Runs<A> {
    /// One value everywhere.
    pub fn uniform(value: u32) -> Self {
        Self { starts: vec![(A::FIRST, value)] }
    }

    /// Nested or disjoint blocks, the longest prefix winning, and `rest` outside them. They must be
    /// in ascending order of first address, and then of prefix length.
    pub fn from_nested(blocks: impl IntoIterator<Item = Block<A>>, rest: u32) -> Self {
        let mut runs = Self::uniform(rest);
        let mut open: Vec<(A, u32)> = Vec::new();
        for block in blocks {
            while let Some(&(end, _)) = open.last()
                && end < block.first
            {
                open.pop();
                runs.resume_after(end, &open, rest);
            }
            runs.push(block.first, block.value);
            open.push((block.first.block_end(block.prefix_length), block.value));
        }
        while let Some((end, _)) = open.pop() {
            runs.resume_after(end, &open, rest);
        }
        runs
    }

    /// Goes back to the block around the one that ends at `end`.
    fn resume_after(&mut self, end: A, open: &[(A, u32)], rest: u32) {
        if let Some(next) = end.successor() {
            self.push(next, open.last().map_or(rest, |&(_, value)| value));
        }
    }

    /// The value from `start` on, up to where the next call begins. Calls come in ascending order;
    /// the last one for an address counts.
    pub fn push(&mut self, start: A, value: u32) {
        if self.starts.last().is_some_and(|last| last.0 == start) {
            self.starts.pop();
        }
        if self.starts.last().is_none_or(|last| last.1 != value) {
            self.starts.push((start, value));
        }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// False: there is always one.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The value of the whole address space, if it has one.
    pub fn only_value(&self) -> Option<u32> {
        match self.starts.as_slice() {
            &[(_, value)] => Some(value),
            _ => None,
        }
    }

    /// The runs: first address, last address, value.
    pub fn iter(&self) -> impl Iterator<Item = (A, A, u32)> {
        // Starts beyond the first address have a predecessor: the run before ends there.
        let ends = self.starts.iter().skip(1).map(|&(start, _)| Some(start));
        let starts = self.starts.iter().copied();
        starts.zip(ends.chain(std::iter::once(None))).map(|((start, value), next)| {
            let end = next.map_or(A::LAST, A::predecessor);
            (start, end, value)
        })
    }

    /// The fewest blocks with one value each that cover the runs, in ascending order.
    ///
    /// For every address the block is the largest one around it in which all addresses have its
    /// value, because neighbouring runs differ.
    pub fn blocks(&self) -> impl Iterator<Item = Block<A>> {
        self.iter().flat_map(|(start, end, value)| {
            let mut next = Some(start);
            std::iter::from_fn(move || {
                let first = next.filter(|&first| first <= end)?;
                let prefix_length = first.largest_block(end);
                next = first.block_end(prefix_length).successor();
                Some(Block { first, prefix_length, value })
            })
        })
    }

    /// Lays `over` on top: each address gets what `merge` makes of its two values, this one's
    /// first.
    pub fn overlaid(&self, over: &Self, mut merge: impl FnMut(u32, u32) -> u32) -> Self {
        let mut merged = Self { starts: Vec::with_capacity(self.starts.len()) };
        let (mut below, mut above) = (self.starts.iter().peekable(), over.starts.iter().peekable());
        let mut values = (0, 0);
        loop {
            let next = match (below.peek(), above.peek()) {
                (Some(a), Some(b)) => a.0.min(b.0),
                (Some(a), None) => a.0,
                (None, Some(b)) => b.0,
                (None, None) => break,
            };
            if let Some(&(_, value)) = below.next_if(|run| run.0 == next) {
                values.0 = value;
            }
            if let Some(&(_, value)) = above.next_if(|run| run.0 == next) {
                values.1 = value;
            }
            merged.push(next, merge(values.0, values.1));
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(first: u32, prefix_length: u8, value: u32) -> Block<u32> {
        Block { first, prefix_length, value }
    }

    #[test]
    fn the_longest_prefix_wins_and_the_wider_one_resumes() {
        let runs = Runs::from_nested(
            [
                block(0x0a00_0000, 8, 1),
                block(0x0a01_0000, 16, 2),
                block(0x0a01_ff00, 24, 3),
                block(0xffff_0000, 16, 4),
            ],
            0,
        );
        let runs: Vec<_> = runs.iter().collect();
        assert_eq!(
            runs,
            [
                (0, 0x09ff_ffff, 0),
                (0x0a00_0000, 0x0a00_ffff, 1),
                (0x0a01_0000, 0x0a01_feff, 2),
                (0x0a01_ff00, 0x0a01_ffff, 3),
                (0x0a02_0000, 0x0aff_ffff, 1),
                (0x0b00_0000, 0xfffe_ffff, 0),
                (0xffff_0000, 0xffff_ffff, 4),
            ]
        );
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let halves = [block(0, 1, 7), block(0x8000_0000, 1, 7)];
        assert_eq!(Runs::from_nested(halves, 0), Runs::uniform(7));
        let mut runs = Runs::<u32>::uniform(1);
        runs.push(5, 2);
        runs.push(5, 1);
        assert_eq!(runs, Runs::uniform(1));
    }

    #[test]
    fn blocks_are_the_fewest() {
        let mut runs = Runs::<u32>::uniform(0);
        runs.push(3, 1);
        runs.push(9, 0);
        let blocks: Vec<_> = runs.blocks().take(6).collect();
        assert_eq!(
            blocks,
            [
                block(0, 31, 0),
                block(2, 32, 0),
                block(3, 32, 1),
                block(4, 30, 1),
                block(8, 32, 1),
                block(9, 32, 0),
            ]
        );
        let whole: Vec<_> = Runs::<u128>::uniform(3).blocks().collect();
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].prefix_length, 0);
    }

    #[test]
    fn what_is_laid_over_is_merged_address_by_address() {
        let below = Runs::from_nested([block(10 << 24, 8, 1)], 0);
        let above = Runs::from_nested([block(0x0a80_0000, 9, 5)], 0);
        let merged = below.overlaid(&above, |below, above| below + above);
        let merged: Vec<_> = merged.iter().map(|(first, _, value)| (first, value)).collect();
        assert_eq!(merged, [(0, 0), (10 << 24, 1), (0x0a80_0000, 6), (11 << 24, 0)]);
    }
}
