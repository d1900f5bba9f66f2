//! Weighted rendezvous hashing: which of several candidates a key belongs to, by their weights alone.
//!
//! Each candidate gets a score from a hash of the key and the candidate, and the best score wins. So
//! every node that has the same candidates finds the same winner, and a candidate that goes away takes
//! its own keys only with it. The score is -ln(h) / weight, the smallest of which wins with the
//! probability weight / sum of weights; all of it in integers, so that machines cannot disagree.

/// FNV-1a's offset basis.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// FNV-1a's prime.
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
/// How many binary digits of a logarithm stand behind the point.
const FRACTION: u32 = 32;

/// A hash of octets that never changes, on whatever machine (FNV-1a, stirred).
pub fn hash(octets: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, octet: u8| (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME);
    stir(octets.into_iter().fold(FNV_BASIS, step))
}

/// Spreads what distinguishes numbers over all of their bits (splitmix64's finaliser); no two numbers
/// become one.
#[inline]
pub fn stir(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The position of the candidate that a key belongs to; none among none. A candidate has a number of
/// its own and a weight in millionths, above 0.
pub fn winner(key: u64, candidates: impl IntoIterator<Item = (u32, u32)>) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    for (position, (number, weight)) in candidates.into_iter().enumerate() {
        let length = negative_log2(stir(key ^ stir(u64::from(number))));
        let weight = u64::from(weight);
        // Of length / weight the smallest: below 2^39 times below 2^20.
        if best.is_none_or(|(_, shortest, of)| length * of < shortest * weight) {
            best = Some((position, length, weight));
        }
    }
    best.map(|(position, ..)| position)
}

/// -log2(hash / 2^64), above 0, in units of 2^-32: digit by digit, by squaring.
fn negative_log2(hash: u64) -> u64 {
    let hash = hash | 1;
    let zeros = hash.leading_zeros();
    // From 1 to below 2, with 63 digits behind the point.
    let mut mantissa = hash << zeros;
    let mut digits = u64::from(63 - zeros);
    for _ in 0..FRACTION {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let carry = square >> 64 != 0;
        #[allow(clippy::cast_possible_truncation, reason = "shifted to 64 bits")]
        let shifted = (square >> u32::from(carry)) as u64;
        mantissa = shifted;
        digits = digits << 1 | u64::from(carry);
    }
    (64 << FRACTION) - digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithms_are_exact_to_the_last_digit_but_one() {
        assert_eq!(negative_log2(1 << 63 | 1), 1 << FRACTION);
        assert_eq!(negative_log2(0), 64 << FRACTION);
        assert!(negative_log2(u64::MAX) > 0);
        for hash in (0..64).flat_map(|shift| [3 << shift, u64::MAX >> shift, 0xdead_beef << shift])
        {
            #[allow(clippy::cast_precision_loss, reason = "53 bits are enough")]
            let expected = 64.0 - ((hash | 1) as f64).log2();
            #[allow(clippy::cast_precision_loss, reason = "39 bits")]
            let found = negative_log2(hash) as f64 / f64::from(1 << 16) / f64::from(1 << 16);
            assert!((found - expected).abs() < 1e-9, "{hash:x}: {found} {expected}");
        }
    }

    // The same on every machine and in every version: nodes of a cluster must agree, also while one
    // of them is being upgraded.
    #[test]
    fn placements_never_change() {
        assert_eq!(hash(*b"www"), 14300013028222525344);
        let candidates = [(11, 400_000), (22, 300_000), (33, 300_000)];
        let won: Vec<_> = (0..24).map(|key| winner(stir(key), candidates).unwrap()).collect();
        assert_eq!(won, [2, 2, 1, 2, 0, 0, 1, 2, 0, 2, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1, 0, 2, 1, 2]);
    }

    #[test]
    fn shares_are_the_weights() {
        for weights in [&[400_000, 300_000, 300_000][..], &[1_000_000; 7], &[1_000_000, 10_000]] {
            let candidates = || (1u32..).map(|number| number * 77).zip(weights.iter().copied());
            let keys = 200_000;
            let mut won = vec![0u32; weights.len()];
            for key in 0..keys {
                won[winner(stir(key), candidates()).unwrap()] += 1;
            }
            let total: u32 = weights.iter().sum();
            for (won, &weight) in won.iter().zip(weights) {
                #[allow(clippy::cast_precision_loss, reason = "small numbers")]
                let share = f64::from(*won) / keys as f64;
                let target = f64::from(weight) / f64::from(total);
                assert!((share - target).abs() < 0.005, "{share} instead of {target}");
            }
        }
    }

    proptest! {
        /// Who goes takes its own keys only, and who comes takes keys only for itself.
        #[test]
        fn only_the_keys_of_who_goes_move(
            mut candidates in proptest::collection::vec((any::<u32>(), 1u32..=1_000_000), 2..20),
            keys in proptest::collection::vec(any::<u64>(), 50),
            gone: proptest::sample::Index,
        ) {
            candidates.sort_unstable();
            candidates.dedup_by_key(|(number, _)| *number);
            prop_assume!(candidates.len() > 1);
            let gone = candidates[gone.index(candidates.len())];
            let left: Vec<_> = candidates.iter().copied().filter(|other| *other != gone).collect();
            for key in keys {
                let before = candidates[winner(key, candidates.iter().copied()).unwrap()];
                let after = left[winner(key, left.iter().copied()).unwrap()];
                prop_assert!(before == after || before == gone);
            }
        }

        /// The order of the candidates does not matter.
        #[test]
        fn the_order_does_not_matter(
            mut candidates in proptest::collection::vec((any::<u32>(), 1u32..=1_000_000), 1..20),
            key: u64,
        ) {
            candidates.sort_unstable();
            candidates.dedup_by_key(|(number, _)| *number);
            let forwards = candidates[winner(key, candidates.iter().copied()).unwrap()];
            candidates.reverse();
            prop_assert_eq!(candidates[winner(key, candidates.iter().copied()).unwrap()], forwards);
        }
    }
}
