//! What is known of one address by one monitor: consecutive results against `rise` and `fall`, and how
//! often it changed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::config::duration::show_duration;
use crate::config::monitors::Monitor;
use crate::steer::availability::HealthState;

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When it was had.
    pub at: Instant,
    /// The round-trip time that it measured, if it did.
    pub rtt: Option<Duration>,
    /// Why it failed, in plain words; none for success.
    pub failure: Option<String>,
}

/// The health of one address.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// What `rise` and `fall` have decided; none before the first result.
    decided: Option<Decided>,
    /// How many results in a row spoke against it.
    against: u32,
    /// When it changed, the latest last: as many as flapping is told by.
    changes: VecDeque<Instant>,
    /// Held down because it flaps.
    held_down: bool,
    /// When what is shown became so.
    since: Option<Instant>,
    last: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    Up,
    Down,
}

/// A change of what is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it was.
    pub from: HealthState,
    /// What it is; the same if it only began or ceased to be held down.
    pub to: HealthState,
    /// Why, in plain words.
    pub reason: String,
}

impl Track {
    /// The state that counts.
    pub fn state(&self) -> HealthState {
        match self.decided {
            None => HealthState::Unknown,
            Some(Decided::Up) if !self.held_down => HealthState::Healthy,
            Some(_) => HealthState::Unhealthy,
        }
    }

    /// Since when the state is as it is; none while it is unknown.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// The latest result.
    pub fn last(&self) -> Option<&Outcome> {
        self.last.as_ref()
    }

    /// True while it is held down for flapping.
    pub fn is_held_down(&self) -> bool {
        self.held_down
    }

    /// True if the latest result is older than `max_age`: whatever probes is stuck.
    pub fn is_stale(&self, monitor: &Monitor, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|last| now.duration_since(last.at) > monitor.max_age)
    }

    /// Takes a result in. The first one counts at once, others after `rise` or `fall` in a row.
    pub fn record(&mut self, monitor: &Monitor, outcome: Outcome) -> Option<Change> {
        let from = self.state();
        let at = outcome.at;
        let told = if outcome.failure.is_none() { Decided::Up } else { Decided::Down };
        match self.decided {
            None => self.decided = Some(told),
            Some(decided) if decided == told => self.against = 0,
            Some(_) => {
                self.against += 1;
                let needed = match told {
                    Decided::Up => monitor.rise,
                    Decided::Down => monitor.fall,
                };
                if self.against >= needed {
                    self.decided = Some(told);
                    self.against = 0;
                    self.changes.push_back(at);
                }
            }
        }
        let was_held = self.held_down;
        self.held_down = self.flaps(monitor, at);
        let to = self.state();
        let reason = self.reason(monitor, &outcome, was_held);
        self.last = Some(outcome);
        if from != to {
            self.since = Some(at);
        }
        (from != to || was_held != self.held_down).then_some(Change { from, to, reason })
    }

    /// True if it changed more than `flap_threshold` times within `flap_window`. Forgets changes that
    /// do not matter any more.
    fn flaps(&mut self, monitor: &Monitor, now: Instant) -> bool {
        let Some(threshold) = monitor.flap_threshold else {
            self.changes.clear();
            return false;
        };
        let threshold = usize::try_from(threshold).unwrap_or(usize::MAX);
        while self.changes.len() > threshold.saturating_add(1) {
            self.changes.pop_front();
        }
        while self
            .changes
            .front()
            .is_some_and(|&change| now.duration_since(change) >= monitor.flap_window)
        {
            self.changes.pop_front();
        }
        self.changes.len() > threshold
    }

    fn reason(&self, monitor: &Monitor, outcome: &Outcome, was_held: bool) -> String {
        let failure = || outcome.failure.clone();
        if self.held_down && !was_held {
            let changes = self.changes.len();
            let window = show_duration(monitor.flap_window);
            let flapping =
                format!("flapping: {changes} changes in {window}; held down until it is steady");
            return match failure() {
                Some(failure) => format!("{failure}; {flapping}"),
                None => flapping,
            };
        }
        let steady = if was_held && !self.held_down { "steady again; " } else { "" };
        match failure() {
            Some(failure) => format!("{steady}{failure}"),
            None => format!("{steady}the probe succeeded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::monitors::Probe;
    use HealthState::{Healthy, Unhealthy, Unknown};

    fn monitor() -> Monitor {
        let seconds = Duration::from_secs;
        Monitor {
            name: "m".to_owned(),
            zone: None,
            probe: Probe::Tcp { port: 80 },
            interval: seconds(1),
            timeout: seconds(1),
            rise: 2,
            fall: 3,
            max_age: seconds(5),
            flap_threshold: None,
            flap_window: seconds(60),
        }
    }

    struct Clock {
        monitor: Monitor,
        track: Track,
        now: Instant,
    }

    impl Clock {
        fn new(monitor: Monitor) -> Self {
            Self { monitor, track: Track::default(), now: Instant::now() }
        }

        /// Results one second apart: `+` for success, `-` for failure. The states after each.
        fn run(&mut self, results: &str) -> Vec<HealthState> {
            let mut states = Vec::new();
            for result in results.chars() {
                self.now += Duration::from_secs(1);
                let failure = (result == '-').then(|| "connection refused".to_owned());
                self.track.record(&self.monitor, Outcome { at: self.now, rtt: None, failure });
                states.push(self.track.state());
            }
            states
        }
    }

    #[test]
    fn the_first_result_counts_at_once() {
        assert_eq!(Track::default().state(), Unknown);
        assert_eq!(Clock::new(monitor()).run("-"), [Unhealthy]);
        assert_eq!(Clock::new(monitor()).run("+"), [Healthy]);
    }

    #[test]
    fn later_results_count_after_rise_or_fall_in_a_row() {
        let mut clock = Clock::new(monitor());
        assert_eq!(clock.run("+--+--"), [Healthy; 6]);
        assert_eq!(clock.run("-"), [Unhealthy]);
        assert_eq!(clock.run("+-+"), [Unhealthy; 3]);
        assert_eq!(clock.run("+"), [Healthy]);
    }

    #[test]
    fn a_change_says_what_and_why() {
        let mut track = Track::default();
        let at = Instant::now();
        let failure = Some("connection refused".to_owned());
        let change = track.record(&monitor(), Outcome { at, rtt: None, failure }).unwrap();
        assert_eq!((change.from, change.to), (Unknown, Unhealthy));
        assert_eq!(change.reason, "connection refused");
        assert_eq!(track.since(), Some(at));
    }

    #[test]
    fn what_flaps_is_held_down_until_it_is_steady() {
        let mut clock = Clock::new(Monitor {
            rise: 1,
            fall: 1,
            flap_threshold: Some(2),
            flap_window: Duration::from_secs(10),
            ..monitor()
        });
        assert_eq!(clock.run("+-+"), [Healthy, Unhealthy, Healthy]);
        assert_eq!(clock.run("-+"), [Unhealthy, Unhealthy], "three changes, then four");
        assert!(clock.track.is_held_down());
        // It changed at seconds 2, 3, 4 and 5. From 13 on only two changes are within 10 s.
        assert_eq!(clock.run("+++++++"), [Unhealthy; 7], "seconds 6 to 12");
        assert_eq!(clock.run("+"), [Healthy], "second 13");
        assert!(!clock.track.is_held_down());
    }

    #[test]
    fn an_old_result_is_stale() {
        let mut clock = Clock::new(monitor());
        assert!(!clock.track.is_stale(&clock.monitor, clock.now), "there is none");
        clock.run("+");
        let later = |seconds| clock.now + Duration::from_secs(seconds);
        assert!(!clock.track.is_stale(&clock.monitor, later(5)));
        assert!(clock.track.is_stale(&clock.monitor, later(6)));
    }
}
