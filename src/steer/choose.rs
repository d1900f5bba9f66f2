//! The weighted low-variance choice (steering.md, "Choice within a pool"): which member of a set
//! the n-th answer carries, as a function of the weights and n alone.
//!
//! Small totals get a schedule that is worked out at load and gone round: each prefix of it is
//! within one of every member's quota (earliest deadline first among those that are due), and equal
//! weights are plain round robin. Totals that would make it too long are spread by the golden ratio
//! instead: n times an irrational, modulo 1, cut at the cumulative weights. Both keep 1,000
//! consecutive answers within one percentage point of every share.

/// The longest schedule that is worked out.
const LONGEST_SCHEDULE: u64 = 1024;
/// 2^64 divided by the golden ratio, odd: n times this visits the circle most evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Chooses members of a set by weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Chooser {
    /// Nothing to choose from.
    #[default]
    Empty,
    /// The member for each n modulo the length.
    Schedule(Box<[u16]>),
    /// The ends of the members' intervals, the last being the total.
    Spread(Box<[u64]>),
}

impl Chooser {
    /// Prepares a choice among members of these weights, each above 0.
    pub fn new(weights: &[u32]) -> Self {
        let divisor = weights.iter().fold(0, |divisor, &weight| gcd(divisor, u64::from(weight)));
        if divisor == 0 {
            return Self::Empty;
        }
        let weights: Vec<u64> = weights.iter().map(|&weight| u64::from(weight) / divisor).collect();
        let total: u64 = weights.iter().sum();
        if total <= LONGEST_SCHEDULE {
            return Self::Schedule(schedule(&weights, total));
        }
        let ends = weights.iter().scan(0, |end, weight| {
            *end += weight;
            Some(*end)
        });
        Self::Spread(ends.collect())
    }

    /// The position of the member that the n-th answer carries; none from an empty set.
    #[inline]
    pub fn choose(&self, n: u32) -> Option<u16> {
        match self {
            Self::Empty => None,
            Self::Schedule(schedule) => schedule.get(n as usize % schedule.len().max(1)).copied(),
            Self::Spread(ends) => {
                let point = spread(n, *ends.last()?);
                u16::try_from(ends.partition_point(|&end| end <= point)).ok()
            }
        }
    }
}

/// The n-th point on 0..total by the golden ratio: however many are taken in a row, they lie most
/// evenly.
#[inline]
pub fn spread(n: u32, total: u64) -> u64 {
    scale(u64::from(n).wrapping_add(1).wrapping_mul(GOLDEN), total)
}

/// Maps the whole range of `u64` to 0..total.
#[inline]
pub fn scale(value: u64, total: u64) -> u64 {
    // The high half of the product is below `total`.
    #[allow(clippy::cast_possible_truncation, reason = "the high half of a 64x64 bit product")]
    let scaled = ((u128::from(value) * u128::from(total)) >> 64) as u64;
    scaled
}

/// A well-mixed function of a sequence number and a salt (splitmix64's finaliser): what the members
/// after the first of an answer are drawn by.
#[inline]
pub fn mix(n: u32, salt: u64) -> u64 {
    let mut z = u64::from(n).wrapping_add(1).wrapping_mul(GOLDEN) ^ salt.wrapping_mul(!GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Works out one round: at each turn, of the members that are due (their share of the turns so far,
/// this one included, exceeds what they had), the one whose turn must come soonest. This keeps
/// every member strictly within one of its quota at every turn (Tijdeman's condition).
fn schedule(weights: &[u64], total: u64) -> Box<[u16]> {
    let mut taken = vec![0u64; weights.len()];
    let mut round = Vec::new();
    for turn in 0..total {
        // Deadline of the next visit: the last turn t with taken + 1 <= quota at t, that is
        // ceil((taken + 1) * total / weight); compared as fractions.
        let due = |&i: &usize| weights[i] * (turn + 1) > taken[i] * total;
        let next = (0..weights.len()).filter(due).min_by(|&a, &b| {
            let (deadline_a, deadline_b) =
                ((taken[a] + 1) * weights[b], (taken[b] + 1) * weights[a]);
            deadline_a.cmp(&deadline_b).then(a.cmp(&b))
        });
        if let Some(next) = next {
            taken[next] += 1;
            round.push(u16::try_from(next).unwrap_or(u16::MAX));
        }
    }
    round.into()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(chooser: &Chooser, members: usize, turns: std::ops::Range<u32>) -> Vec<u32> {
        let mut counts = vec![0; members];
        for n in turns {
            counts[usize::from(chooser.choose(n).unwrap())] += 1;
        }
        counts
    }

    #[test]
    fn equal_weights_are_round_robin() {
        let chooser = Chooser::new(&[1_000_000; 3]);
        let order: Vec<_> = (0..7).map(|n| chooser.choose(n).unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_documented_shares_are_exact_over_a_round() {
        let chooser = Chooser::new(&[400_000, 300_000, 300_000]);
        assert_eq!(counts(&chooser, 3, 0..10), [4, 3, 3]);
    }

    #[test]
    fn a_tiny_weight_gets_its_turn() {
        let chooser = Chooser::new(&[1, 999_999]);
        assert!(matches!(chooser, Chooser::Spread(_)));
        let taken = counts(&chooser, 2, 0..10_000_000)[0];
        assert!((9..=11).contains(&taken), "{taken}");
    }

    #[test]
    fn nothing_is_chosen_from_nothing() {
        assert_eq!(Chooser::new(&[]).choose(0), None);
    }

    proptest! {
        /// Over any 1,000 consecutive answers each share is within one percentage point.
        #[test]
        fn any_thousand_answers_are_within_a_point(
            weights in proptest::collection::vec(1u32..=1_000_000, 1..40),
            coarse: bool,
            start in 0u32..3_000_000,
        ) {
            let weights: Vec<u32> = weights.iter()
                .map(|&weight| if coarse { (weight / 100_000 + 1) * 100_000 } else { weight })
                .collect();
            let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            let counts = counts(&Chooser::new(&weights), weights.len(), start..start + 1000);
            for (count, weight) in counts.iter().zip(&weights) {
                let target = 1000.0 * f64::from(*weight) / total as f64;
                prop_assert!((f64::from(*count) - target).abs() <= 10.0, "{count} for {target}");
            }
        }

        /// Every prefix of a schedule is within one of every member's quota.
        #[test]
        fn schedules_keep_the_quota(weights in proptest::collection::vec(1u64..30, 1..20)) {
            let total: u64 = weights.iter().sum();
            let round = schedule(&weights, total);
            prop_assert_eq!(round.len() as u64, total);
            let mut taken = vec![0u64; weights.len()];
            for (turn, &member) in round.iter().enumerate() {
                taken[usize::from(member)] += 1;
                for (taken, weight) in taken.iter().zip(&weights) {
                    let quota = (turn as u64 + 1) as f64 * *weight as f64 / total as f64;
                    prop_assert!((*taken as f64 - quota).abs() < 1.0);
                }
            }
        }
    }
}
