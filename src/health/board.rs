//! The health of all addresses that are probed, and which pools it matters to.

use std::collections::HashMap;
use std::time::Instant;

use crate::config::monitors::{Monitor, Probe};
use crate::config::pools::{ProbeTarget, Probes};
use crate::health::TargetKey;
use crate::health::track::{Change, Outcome, Track};
use crate::state::State;
use crate::steer::availability::{Health, HealthState};
use crate::steer::pool::{OriginIndex, Pool, PoolId, ProbeId};

/// All addresses of a state, by [`ProbeId`].
#[derive(Clone, Debug, Default)]
pub struct Board {
    targets: Vec<Target>,
    by_key: HashMap<TargetKey, ProbeId>,
}

/// An address by a monitor.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it is.
    pub key: TargetKey,
    /// The same by the numbers of the state.
    pub probed: ProbeTarget,
    /// What is known of it.
    pub track: Track,
    /// The origins that have the address, in pools with the monitor.
    pub origins: Vec<(PoolId, OriginIndex)>,
}

/// A change of health, with all that a log line or an event needs.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Which address.
    pub probe: ProbeId,
    /// From what to what, and why.
    pub change: Change,
}

impl Board {
    /// The board of a state, of what is probed of its pools, with what `self` knows of the addresses that
    /// are still there.
    pub fn carry_over(mut self, state: &State, pools: &[Pool], probes: &Probes) -> Self {
        let mut targets: Vec<Target> = Vec::with_capacity(probes.targets().len());
        let mut by_key = HashMap::with_capacity(targets.capacity());
        for (id, probed) in (0u32..).map(ProbeId).zip(probes.targets()) {
            let ProbeTarget { monitor, address, host } = probed;
            let Some(monitor) = state.monitors.get(monitor.0 as usize) else { continue };
            let key = TargetKey::new(monitor, *address, host.as_ref());
            let known = self.by_key.get(&key).and_then(|id| self.targets.get_mut(id.0 as usize));
            let track = known.map(|target| std::mem::take(&mut target.track)).unwrap_or_default();
            by_key.insert(key.clone(), id);
            targets.push(Target { key, probed: probed.clone(), track, origins: Vec::new() });
        }
        for (pool_id, pool) in (0u32..).map(PoolId).zip(pools) {
            for (index, origin) in pool.indexed() {
                for probe in origin.addresses.iter().filter_map(|address| address.probe) {
                    if let Some(target) = targets.get_mut(probe.0 as usize) {
                        target.origins.push((pool_id, index));
                    }
                }
            }
        }
        Self { targets, by_key }
    }

    /// True if these are the addresses of the board, by the same numbers.
    pub fn is_of(&self, probes: &Probes) -> bool {
        self.targets.iter().map(|target| &target.probed).eq(probes.targets())
    }

    /// All addresses, by their numbers.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The number of an address; none if it is not (or no more) probed.
    pub fn find(&self, key: &TargetKey) -> Option<ProbeId> {
        self.by_key.get(key).copied()
    }

    /// An address by its number.
    pub fn target(&self, probe: ProbeId) -> Option<&Target> {
        self.targets.get(probe.0 as usize)
    }

    /// What probes an address.
    pub fn monitor<'s>(&self, state: &'s State, probe: ProbeId) -> Option<&'s Monitor> {
        state.monitors.get(self.target(probe)?.probed.monitor.0 as usize)
    }

    /// Takes the result of a probe in.
    pub fn record(
        &mut self,
        probe: ProbeId,
        monitor: &Monitor,
        outcome: Outcome,
    ) -> Option<Changed> {
        let target = self.targets.get_mut(probe.0 as usize)?;
        let change = target.track.record(monitor, outcome)?;
        Some(Changed { probe, change })
    }

    /// What the decision reads of it; nothing is forced.
    pub fn health(&self) -> Health {
        let mut health = Health::uniform(self.targets.len(), HealthState::Unknown);
        for (probe, target) in (0u32..).map(ProbeId).zip(&self.targets) {
            health.set_probe(probe, target.track.state());
        }
        health
    }

    /// How many addresses that are probed have no result yet. What is pushed is not waited for.
    pub fn awaited(&self, state: &State) -> usize {
        let awaited = |target: &&Target| {
            let monitor = state.monitors.get(target.probed.monitor.0 as usize);
            target.track.last().is_none() && monitor.is_none_or(Monitor::is_probed)
        };
        self.targets.iter().filter(awaited).count()
    }

    /// Pushed states whose time to live is over: each becomes a failure that says so.
    pub fn expire_pushed(&mut self, state: &State, now: Instant) -> Vec<Changed> {
        let mut changes = Vec::new();
        for (probe, target) in (0u32..).map(ProbeId).zip(&mut self.targets) {
            let Some(monitor) = state.monitors.get(target.probed.monitor.0 as usize) else {
                continue;
            };
            let Probe::Push { ttl } = monitor.probe else { continue };
            let is_over =
                |last: &Outcome| last.failure.is_none() && now.duration_since(last.at) > ttl;
            if target.track.last().is_some_and(is_over) {
                let ttl = crate::config::duration::show_duration(ttl);
                let failure = Some(format!("no state was pushed for {ttl}"));
                let outcome = Outcome { at: now, rtt: None, failure };
                let change = target.track.record(monitor, outcome);
                changes.extend(change.map(|change| Changed { probe, change }));
            }
        }
        changes
    }
}
