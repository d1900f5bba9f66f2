//! The last five minutes of traffic, in steps of ten seconds: exact counts by load balancer and pool, and
//! samples of where clients were. Pure: sums, samples and time come in.
//!
//! A step keeps only the counters that grew in it, so its memory goes by what was answered and not by
//! what is configured.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::locate::place::{Country, RegionId};
use crate::steer::pool::PoolId;
use crate::tally::layout::NONE;

/// How long a step is.
pub const STEP: Duration = Duration::from_secs(10);
/// How many steps there are.
pub const STEPS: usize = 30;

/// Where sampled clients were, and which pool answered them.
pub type Origin = (Option<RegionId>, Option<Country>, PoolId);

/// The steps. The last one goes on.
#[derive(Debug)]
pub struct Window {
    /// What the counters were when the last step began.
    before: Vec<u64>,
    /// What all replies were then.
    replies_before: u64,
    steps: VecDeque<Step>,
}

/// A step.
#[derive(Clone, Debug)]
struct Step {
    began: Instant,
    /// By how much each counter grew, as far as it did; empty while the step goes on.
    grown: Vec<(u32, u64)>,
    replies: u64,
    places: BTreeMap<Origin, u64>,
}

/// What is seen through the window.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// How long all of it is.
    pub length: Duration,
    /// How many replies a second there were, lately.
    pub rate: f64,
    /// By how much each counter grew.
    pub total: BTreeMap<u32, u64>,
    /// The same for each step, oldest first, with the step's length; there are [`STEPS`], and those before the
    /// start have none.
    pub steps: Vec<(Duration, Vec<(u32, u64)>)>,
    /// The samples.
    pub places: BTreeMap<Origin, u64>,
}

impl Step {
    fn new(began: Instant) -> Self {
        Self { began, grown: Vec::new(), replies: 0, places: BTreeMap::new() }
    }
}

impl Window {
    /// Begins with counters at 0.
    pub fn new(counters: usize, now: Instant) -> Self {
        Self {
            before: vec![0; counters],
            replies_before: 0,
            steps: VecDeque::from([Step::new(now)]),
        }
    }

    /// True if the last step is over.
    pub fn is_due(&self, now: Instant) -> bool {
        self.steps.back().is_none_or(|step| now.duration_since(step.began) >= STEP)
    }

    /// Adds a sample that stands for so many answers.
    pub fn add(&mut self, origin: Origin, weight: u64) {
        if let Some(step) = self.steps.back_mut() {
            *step.places.entry(origin).or_default() += weight;
        }
    }

    /// Ends the last step, with what the counters and all replies are now, and begins the next.
    pub fn advance(&mut self, sums: Vec<u64>, replies: u64, now: Instant) {
        let grown = grown(&self.before, &sums);
        if let Some(step) = self.steps.back_mut() {
            step.grown = grown;
            step.replies = replies.saturating_sub(self.replies_before);
        }
        (self.before, self.replies_before) = (sums, replies);
        self.steps.push_back(Step::new(now));
        while self.steps.len() > STEPS {
            self.steps.pop_front();
        }
    }

    /// What is seen, with what the counters and all replies are now.
    pub fn view(&self, sums: &[u64], replies: u64, now: Instant) -> View {
        let mut view = View::default();
        let began = self.steps.iter().map(|step| step.began);
        let ends = began.skip(1).chain([now]);
        let (mut lately, mut lately_for) = (0, Duration::ZERO);
        view.steps = vec![(Duration::ZERO, Vec::new()); STEPS - self.steps.len().min(STEPS)];
        for (number, (step, end)) in self.steps.iter().zip(ends).enumerate() {
            let is_last = number + 1 == self.steps.len();
            let length = end.saturating_duration_since(step.began);
            let grown = if is_last { grown(&self.before, sums) } else { step.grown.clone() };
            for &(counter, by) in &grown {
                *view.total.entry(counter).or_default() += by;
            }
            for (&origin, &weight) in &step.places {
                *view.places.entry(origin).or_default() += weight;
            }
            // The step that goes on may have just begun: the one before it counts too.
            if number + 2 >= self.steps.len() {
                let own = replies.saturating_sub(self.replies_before);
                lately += if is_last { own } else { step.replies };
                lately_for += length;
            }
            view.length += length;
            view.steps.push((length, grown));
        }
        // Less than a second says nothing of a rate.
        view.rate = lately as f64 / lately_for.as_secs_f64().max(1.0);
        view
    }

    /// The same by the numbers of another state: where each counter went, and what became of where samples were.
    pub fn renumber(
        &mut self,
        mapping: &[u32],
        counters: usize,
        origin: impl Fn(&Origin) -> Option<Origin>,
    ) {
        self.before = moved(&self.before, mapping, counters);
        let moved = |counter: u32| mapping.get(counter as usize).copied().filter(|&to| to != NONE);
        for step in &mut self.steps {
            step.grown.retain_mut(|(counter, _)| {
                let to = moved(*counter);
                *counter = to.unwrap_or(NONE);
                to.is_some()
            });
            let mut places = BTreeMap::new();
            for (old, weight) in std::mem::take(&mut step.places) {
                if let Some(new) = origin(&old) {
                    *places.entry(new).or_default() += weight;
                }
            }
            step.places = places;
        }
    }
}

/// Counters by their numbers in another state.
pub fn moved(counters: &[u64], mapping: &[u32], length: usize) -> Vec<u64> {
    let mut moved = vec![0; length];
    for (&count, &to) in counters.iter().zip(mapping) {
        if let Some(place) = moved.get_mut(to as usize) {
            *place += count;
        }
    }
    moved
}

fn grown(before: &[u64], now: &[u64]) -> Vec<(u32, u64)> {
    let pairs = (0u32..).zip(before.iter().zip(now));
    pairs.filter(|(_, (before, now))| now > before).map(|(i, (b, n))| (i, n - b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_seen_for_five_minutes() {
        let start = Instant::now();
        let mut window = Window::new(2, start);
        window.add((None, None, PoolId(1)), 4);
        let view = window.view(&[3, 0], 5, start + Duration::from_secs(2));
        assert_eq!(view.length, Duration::from_secs(2));
        assert_eq!(view.total, BTreeMap::from([(0, 3)]));
        assert_eq!(view.steps.len(), STEPS);
        assert!((view.rate - 2.5).abs() < 1e-9);
        let at = |steps: u32| start + STEP * steps;
        assert!(!window.is_due(start) && window.is_due(at(1)));
        for step in 1..30 {
            window.advance(vec![3, u64::from(step)], 5, at(step));
        }
        let view = window.view(&[3, 29], 5, at(30));
        assert_eq!((view.length, &view.total), (STEP * 30, &BTreeMap::from([(0, 3), (1, 29)])));
        assert_eq!(view.steps.first(), Some(&(STEP, vec![(0, 3), (1, 1)])));
        assert_eq!(view.places.len(), 1);
        window.advance(vec![3, 30], 5, at(30));
        let view = window.view(&[3, 30], 5, at(30));
        assert_eq!((view.length, view.places.len()), (STEP * 29, 0));
        assert_eq!(view.total, BTreeMap::from([(1, 29)]));
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
        assert_eq!(view.total, BTreeMap::from([(0, 4), (1, 2)]));
        assert_eq!(view.places, BTreeMap::from([((None, None, PoolId(7)), 1)]));
        assert_eq!(moved(&[1, 2, 3], &[NONE, 1, 0], 2), [3, 2]);
    }
}
