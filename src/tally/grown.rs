//! By how much counters grew in a step of the window, packed: there are as many of these as steps, and most
//! of them are only kept. Pure.
//!
//! Of each counter that grew there are two numbers: how many counters were passed over since the one before,
//! and by how much it grew. A number takes an octet for each seven of its bits, the lowest first; all but its
//! last octet have the highest bit set. So a counter that grew by less than 128, as most do in ten seconds
//! where there are many, takes two octets beside another that grew.

use crate::tally::window::numbered;

/// The bits of a number that an octet has.
const BITS: u32 = 7;
/// The bit of an octet that says that another one follows.
const MORE: u8 = 1 << BITS;

/// Counters, in ascending order, and by how much each grew: never by 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grown(Box<[u8]>);

impl Grown {
    /// From what counters were, by their numbers, to what they are now.
    pub fn between(before: &[u64], now: &[u64]) -> Self {
        let by = before.iter().zip(now).map(|(before, now)| now.saturating_sub(*before));
        numbered(by).collect()
    }

    /// The counters, and by how much each grew.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (mut octets, mut next) = (self.0.iter().copied(), 0u64);
        std::iter::from_fn(move || {
            let counter = next + read(&mut octets)?;
            let by = read(&mut octets)?;
            next = counter + 1;
            Some((u32::try_from(counter).ok()?, by))
        })
    }

    /// How many octets they take.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// Of counters in ascending order. Those that did not grow are left out.
impl FromIterator<(u32, u64)> for Grown {
    fn from_iter<I: IntoIterator<Item = (u32, u64)>>(counters: I) -> Self {
        let (mut octets, mut next) = (Vec::new(), 0);
        for (counter, by) in counters.into_iter().filter(|&(_, by)| by > 0) {
            write(&mut octets, u64::from(counter).saturating_sub(next));
            write(&mut octets, by);
            next = u64::from(counter) + 1;
        }
        Self(octets.into())
    }
}

fn write(octets: &mut Vec<u8>, mut number: u64) {
    while number >= u64::from(MORE) {
        octets.push(low(number) | MORE);
        number >>= BITS;
    }
    octets.push(low(number));
}

#[allow(clippy::cast_possible_truncation, reason = "the lowest bits are all that is wanted")]
fn low(number: u64) -> u8 {
    number as u8 & !MORE
}

fn read(octets: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let octet = octets.next()?;
        number |= u64::from(octet & !MORE).checked_shl(shift)?;
        if octet & MORE == 0 {
            return Some(number);
        }
        shift += BITS;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_growth_takes_two_octets() {
        let grown = Grown::between(&[5; 1000], &[132; 1000]);
        assert_eq!((grown.size(), grown.iter().count()), (2000, 1000));
        assert_eq!(Grown::between(&[1, 2], &[1, 2]), Grown::default());
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            counters in proptest::collection::btree_map(any::<u32>(), 1u64.., 0..50),
            shift in 0u32..64,
        ) {
            let pairs: Vec<_> = counters.into_iter().map(|(c, by)| (c, (by >> shift).max(1))).collect();
            let grown: Grown = pairs.iter().copied().collect();
            prop_assert_eq!(grown.iter().collect::<Vec<_>>(), pairs);
        }
    }
}
