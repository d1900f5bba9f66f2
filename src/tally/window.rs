//! The last five minutes of traffic, in steps of ten seconds: exact counts by load balancer and pool, and
//! samples of where clients were. Pure: sums, samples and time come in.
//!
//! A step keeps only the counters that grew in it, so its memory goes by what was answered and not by
//! what is configured. Once it is over it is packed ([`Grown`]), and views share it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::locate::place::{Country, RegionId};
use crate::steer::pool::PoolId;
use crate::tally::grown::Grown;

/// How long a step is.
pub const STEP: Duration = Duration::from_secs(10);
/// How many steps there are.
pub const STEPS: usize = 30;

/// Where sampled clients were, and which pool answered them.
pub type Origin = (Option<RegionId>, Option<Country>, PoolId);

/// The steps. The last one goes on.
#[derive(Debug)]
pub struct Window {
    /// Those that are over, oldest first: fewer than [`STEPS`].
    over: VecDeque<Step>,
    /// When the last one began.
    began: Instant,
    /// What the counters were then.
    before: Vec<u64>,
    /// What all replies were then.
    replies_before: u64,
    /// The samples since then.
    places: BTreeMap<Origin, u64>,
}

/// A step that is over.
#[derive(Debug)]
struct Step {
    began: Instant,
    grown: Arc<Grown>,
    replies: u64,
    /// Sorted. Four billion stand for more: these are estimates.
    places: Box<[(Origin, u32)]>,
}

/// What is seen through the window.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// How long all of it is.
    pub length: Duration,
    /// How many replies a second there were, lately.
    pub rate: f64,
    /// By how much each counter grew, by its number.
    pub total: Vec<u64>,
    /// The same for each step, oldest first, with the step's length; there are [`STEPS`], and those before the
    /// start have none.
    pub steps: Vec<(Duration, Arc<Grown>)>,
    /// The samples.
    pub places: BTreeMap<Origin, u64>,
}

impl Window {
    /// Begins with counters at 0.
    pub fn new(counters: usize, now: Instant) -> Self {
        Self {
            over: VecDeque::new(),
            began: now,
            before: vec![0; counters],
            replies_before: 0,
            places: BTreeMap::new(),
        }
    }

    /// True if the last step is over.
    pub fn is_due(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= STEP
    }

    /// Adds a sample that stands for so many answers.
    pub fn add(&mut self, origin: Origin, weight: u64) {
        *self.places.entry(origin).or_default() += weight;
    }

    /// Ends the last step, with what the counters and all replies are now, and begins the next.
    pub fn advance(&mut self, sums: Vec<u64>, replies: u64, now: Instant) {
        self.over.push_back(Step {
            began: self.began,
            grown: Arc::new(Grown::between(&self.before, &sums)),
            replies: replies.saturating_sub(self.replies_before),
            places: packed(std::mem::take(&mut self.places)),
        });
        while self.over.len() >= STEPS {
            self.over.pop_front();
        }
        (self.began, self.before, self.replies_before) = (now, sums, replies);
    }

    /// What is seen, with what the counters and all replies are now.
    pub fn view(&self, sums: &[u64], replies: u64, now: Instant) -> View {
        let last = Arc::new(Grown::between(&self.before, sums));
        let begins = self.over.iter().map(|step| step.began).chain([self.began]);
        let lengths = begins.clone().skip(1).chain([now]).zip(begins);
        let lengths = lengths.map(|(end, began)| end.saturating_duration_since(began));
        let grown = self.over.iter().map(|step| &step.grown).chain([&last]).map(Arc::clone);
        let mut steps = vec![(Duration::ZERO, Arc::default()); STEPS - 1 - self.over.len()];
        steps.extend(lengths.zip(grown));
        let mut total = vec![0; sums.len()];
        for (counter, by) in steps.iter().flat_map(|(_, grown)| grown.iter()) {
            if let Some(sum) = total.get_mut(counter as usize) {
                *sum += by;
            }
        }
        let mut places = self.places.clone();
        for (origin, weight) in self.over.iter().flat_map(|step| unpacked(&step.places)) {
            *places.entry(origin).or_default() += weight;
        }
        // The step that goes on may have just begun: the one before it counts too.
        let lately = replies.saturating_sub(self.replies_before)
            + self.over.back().map_or(0, |step| step.replies);
        let lately_for: Duration = steps.iter().rev().take(2).map(|(length, _)| *length).sum();
        View {
            length: steps.iter().map(|(length, _)| *length).sum(),
            // Less than a second says nothing of a rate.
            rate: lately as f64 / lately_for.as_secs_f64().max(1.0),
            total,
            steps,
            places,
        }
    }

    /// The same by the numbers of another state: where each counter went, and what became of where samples were.
    pub fn renumber(
        &mut self,
        mapping: &[u32],
        counters: usize,
        origin: impl Fn(&Origin) -> Option<Origin>,
    ) {
        let before = std::mem::take(&mut self.before);
        self.before = moved(numbered(before), mapping, counters);
        let renumbered = |samples: BTreeMap<Origin, u64>| {
            let mut places = BTreeMap::new();
            for (old, weight) in samples {
                if let Some(new) = origin(&old) {
                    *places.entry(new).or_default() += weight;
                }
            }
            places
        };
        self.places = renumbered(std::mem::take(&mut self.places));
        for step in &mut self.over {
            let grown = moved(step.grown.iter(), mapping, counters);
            step.grown = Arc::new(numbered(grown).collect());
            step.places = packed(renumbered(unpacked(&step.places).collect()));
        }
    }
}

fn packed(places: BTreeMap<Origin, u64>) -> Box<[(Origin, u32)]> {
    let narrow = |(origin, weight)| (origin, u32::try_from(weight).unwrap_or(u32::MAX));
    places.into_iter().map(narrow).collect()
}

fn unpacked(places: &[(Origin, u32)]) -> impl Iterator<Item = (Origin, u64)> + '_ {
    places.iter().map(|&(origin, weight)| (origin, u64::from(weight)))
}

/// Counters with their numbers.
pub fn numbered(counters: impl IntoIterator<Item = u64>) -> impl Iterator<Item = (u32, u64)> {
    (0u32..).zip(counters)
}

/// Counters by their numbers in another state.
pub fn moved(
    counters: impl Iterator<Item = (u32, u64)>,
    mapping: &[u32],
    length: usize,
) -> Vec<u64> {
    let mut moved = vec![0; length];
    for (counter, count) in counters {
        let to = mapping.get(counter as usize);
        if let Some(place) = to.and_then(|&to| moved.get_mut(to as usize)) {
            *place += count;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::layout::NONE;

    #[test]
    fn what_was_counted_is_seen_for_five_minutes() {
        let start = Instant::now();
        let mut window = Window::new(2, start);
        window.add((None, None, PoolId(1)), 4);
        let view = window.view(&[3, 0], 5, start + Duration::from_secs(2));
        assert_eq!(view.length, Duration::from_secs(2));
        assert_eq!(view.total, [3, 0]);
        assert_eq!(view.steps.len(), STEPS);
        assert!((view.rate - 2.5).abs() < 1e-9);
        let at = |steps: u32| start + STEP * steps;
        assert!(!window.is_due(start) && window.is_due(at(1)));
        for step in 1..30 {
            window.advance(vec![3, u64::from(step)], 5, at(step));
        }
        let view = window.view(&[3, 29], 5, at(30));
        assert_eq!((view.length, &view.total), (STEP * 30, &vec![3, 29]));
        let (length, grown) = &view.steps[0];
        assert_eq!((*length, grown.iter().collect::<Vec<_>>()), (STEP, vec![(0, 3), (1, 1)]));
        assert_eq!(view.places.len(), 1);
        window.advance(vec![3, 30], 5, at(30));
        let view = window.view(&[3, 30], 5, at(30));
        assert_eq!((view.length, view.places.len()), (STEP * 29, 0));
        assert_eq!(view.total, [0, 29]);
    }

    #[test]
    fn counters_go_on_under_other_numbers() {
        let start = Instant::now();
        let mut window = Window::new(3, start);
        window.add((None, None, PoolId(0)), 1);
        window.advance(vec![1, 2, 3], 0, start + STEP);
        // The first is gone, the others have changed places.
        window
            .renumber(&[NONE, 1, 0], 2, |&(region, country, _)| Some((region, country, PoolId(7))));
        let view = window.view(&[4, 2], 0, start + STEP);
        assert_eq!(view.total, [4, 2]);
        assert_eq!(view.places, BTreeMap::from([((None, None, PoolId(7)), 1)]));
        assert_eq!(moved(numbered([1, 2, 3]), &[NONE, 1, 0], 2), [3, 2]);
    }
}
