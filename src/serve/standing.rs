//! All that is known at one moment, as values: what the admin service shows and explains.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::config::duration::show_age;
use crate::explain::{Facts, Said, Scene};
use crate::health::overrides::{Overrides, Subject};
use crate::health::track::Outcome;
use crate::rtt::figures::Published;
use crate::serve::live::Moment;
use crate::steer::availability::HealthState;
use crate::steer::load_balancer::RttTolerance;
use crate::steer::pool::{OriginAddress, OriginIndex, PoolId, ProbeId};
use crate::steer::rtt::RttTable;

/// A moment, and what led to it.
#[derive(Debug)]
pub struct Standing {
    /// What answers are made from.
    pub moment: Arc<Moment>,
    /// What is known of each address, by [`ProbeId`].
    pub targets: Vec<Known>,
    /// What operators said.
    pub overrides: Overrides,
    /// The round-trip times that decisions go by.
    pub times: Published,
    /// When this was.
    pub now: Instant,
    /// The same by the clock.
    pub clock: SystemTime,
}

/// What is known of an address.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its health.
    pub state: HealthState,
    /// Since when.
    pub since: Option<Instant>,
    /// The latest result.
    pub last: Option<Outcome>,
    /// Whether it is held down for flapping.
    pub is_held_down: bool,
    /// Whether the latest result is older than it may be.
    pub is_stale: bool,
}

impl Standing {
    /// What is explained of it.
    pub fn scene(&self) -> Scene<'_> {
        let Moment { state, pools, health, plan, .. } = self.moment.as_ref();
        Scene { state, pools, health, plan, facts: self }
    }

    /// What is known of an address; none where nothing probes it.
    pub fn known(&self, address: &OriginAddress) -> Option<&Known> {
        let ProbeId(number) = address.probe?;
        self.targets.get(number as usize)
    }

    /// How long ago something was.
    pub fn age(&self, then: Instant) -> Duration {
        self.now.saturating_duration_since(then)
    }

    /// The time of day so long ago, in seconds since 1970.
    pub fn clock_before(&self, age: Duration) -> u64 {
        let then = self.clock.checked_sub(age).unwrap_or(UNIX_EPOCH);
        then.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn said(&self, subject: &Subject) -> Option<Said> {
        Said::among(&self.overrides, subject)
    }

    fn describe(&self, known: &Known) -> String {
        let mut text = known.state.word().to_owned();
        if let Some(since) = known.since {
            text.push_str(&format!(" for {}", show_age(self.age(since))));
        }
        let failure = known.last.as_ref().and_then(|last| last.failure.as_ref());
        if let Some(failure) = failure {
            text.push_str(&format!(": {failure}"));
        }
        if known.is_held_down {
            text.push_str("; held down, because it flaps");
        }
        if known.is_stale
            && let Some(last) = &known.last
        {
            text.push_str(&format!(
                "; stale: the last result is {} old",
                show_age(self.age(last.at))
            ));
        }
        text
    }
}

impl Facts for Standing {
    fn said_of_pool(&self, pool: PoolId) -> Option<Said> {
        self.said(&Subject::pool(&self.moment.state, pool))
    }

    fn said_of_origin(&self, pool: PoolId, origin: OriginIndex) -> Option<Said> {
        let name = self.moment.state.pool(pool)?.origin(origin)?.name.clone();
        let subject = Subject::pool(&self.moment.state, pool);
        self.said(&Subject { origin: Some(name), ..subject })
    }

    fn times(&self, tolerance: RttTolerance) -> Option<&RttTable> {
        self.times.with_tolerance(tolerance).map(|figures| &figures.table)
    }

    /// Where all addresses are well, that is one fact; else each is told.
    fn probed(&self, pool: PoolId, origin: OriginIndex) -> Option<String> {
        let addresses = &self.moment.pools.get(pool.0 as usize)?.origin(origin)?.addresses;
        let known: Vec<_> = addresses
            .iter()
            .filter_map(|address| Some((address.ip, self.known(address)?)))
            .filter(|(_, known)| known.state != HealthState::Unknown)
            .collect();
        let is_well = |known: &Known| {
            let failed = known.last.as_ref().is_some_and(|last| last.failure.is_some());
            known.state == HealthState::Healthy && !failed && !known.is_stale
        };
        let (_, first) = known.first()?;
        if known.len() == addresses.len() && known.iter().all(|(_, known)| is_well(known)) {
            let latest = known.iter().max_by_key(|(_, known)| known.since);
            return latest.map(|(_, known)| self.describe(known));
        }
        if addresses.len() == 1 {
            return Some(self.describe(first));
        }
        let each = known.iter().map(|(ip, known)| format!("{ip} {}", self.describe(known)));
        Some(each.collect::<Vec<_>>().join(", "))
    }
}
