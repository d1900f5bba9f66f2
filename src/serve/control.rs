//! What changes between reloads: health and overrides. Holds them, works out what follows, and swaps
//! it in. Its lock is for those who change something; a query never meets it.

mod events;
mod names;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc::UnboundedSender;
use tracing::{info, warn};

use crate::config::monitors::Monitor;
use crate::health::TargetKey;
use crate::health::board::{Board, Changed, Target};
use crate::health::overrides::{Note, Override, Overrides, Subject, TooMany, Word};
use crate::health::track::Outcome;
use crate::journal::{Entry, entries};
use crate::name::Name;
use crate::probe::Prober;
use crate::resolution::{self, Resolved};
use crate::rtt::Vantage;
use crate::rtt::book::Book;
use crate::rtt::figures::{Moved, Published};
use crate::serve::journal::Journal;
use crate::serve::live::{Live, Moment};
use crate::serve::prober::{Target as ProbeTarget, Targets};
use crate::serve::resolver::Names;
use crate::serve::sessions::SharedSessions;
use crate::serve::standing::{Known, Standing};
use crate::state::State;
use crate::state_folder;
use crate::steer::availability::HealthState;
use crate::steer::pool::{Pool, PoolId, ProbeId};

/// How often measured round-trip times are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// The name of the file of overrides within the state folder.
const OVERRIDES: &str = "overrides.json";

/// The one place where health, overrides and states change.
#[derive(Debug)]
pub struct Control {
    live: Live,
    state_folder: PathBuf,
    /// Where the prober is told what to probe.
    targets: UnboundedSender<Targets>,
    inner: Mutex<Inner>,
    /// Where what happens is told.
    journal: Arc<Journal>,
    /// Held while overrides are changed and kept, so that the file follows the changes in order. The
    /// lock above is not held for it: a slow disk must not hold up health.
    keeping: Mutex<()>,
}

/// A monitor: its zone (none for a shared one) and its name.
pub type MonitorName = (Option<String>, String);

#[derive(Debug, Default)]
struct Inner {
    board: Board,
    /// What probes.
    prober: Option<Arc<Prober>>,
    /// Where the resolver is told what to resolve; none while nothing resolves.
    names: Option<UnboundedSender<Names>>,
    /// What it was told, and what it found.
    wanted: Vec<Name>,
    resolved: Resolved,
    /// The state's pools with what is resolved, and nothing overridden.
    pools: Arc<[Pool]>,
    overrides: Overrides,
    /// The round-trip times that are measured, and what of them the decision goes by.
    times: Book,
    published: Published,
    /// When they were last published.
    published_at: Option<Instant>,
    /// Monitors whose results are stale, as far as that was said.
    stale: BTreeSet<MonitorName>,
}

/// Why a state cannot be pushed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Nothing is probed under this key.
    #[error("no pool has an origin with the address {address} and the monitor {monitor:?}")]
    Unknown {
        /// The monitor.
        monitor: String,
        /// The address.
        address: std::net::IpAddr,
    },
    /// The monitor probes by itself.
    #[error("the monitor {0:?} is not of the type push")]
    NotPush(String),
}

impl Control {
    /// Begins with a state: nothing is known of what it probes, and the overrides of the state folder
    /// hold.
    pub fn new(
        state: State,
        state_folder: PathBuf,
        prober: Arc<Prober>,
        targets: UnboundedSender<Targets>,
        sessions: SharedSessions,
    ) -> Self {
        let overrides = state_folder::read(&state_folder, OVERRIDES).unwrap_or_else(|error| {
            warn!(%error, "the overrides of the state folder cannot be used; none hold");
            Overrides::default()
        });
        let mut inner = Inner { overrides, ..Inner::default() };
        inner.overrides.expire(SystemTime::now());
        let moment = inner.adopt(1, None, state);
        let control = Self {
            live: Live::new(moment, sessions),
            state_folder,
            targets,
            inner: Mutex::new(inner),
            journal: Arc::default(),
            keeping: Mutex::new(()),
        };
        {
            let mut inner = control.lock();
            control.journal.record([entries::started(
                &control.live.load().state,
                inner.board.targets().len(),
            )]);
            for said in inner.overrides.iter() {
                log_override("an override of before holds", &said);
                control.journal.record([entries::overridden(&said, entries::Word::Holds)]);
            }
            inner.prober = Some(prober);
            control.probe(&inner);
        }
        control
    }

    /// What answers are made from.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// What happened since the start.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Serves a new state, with all that is known of what is still there; `cause` is what the journal
    /// tells of it.
    pub fn adopt(&self, generation: u64, state: State, prober: Arc<Prober>, cause: Entry) {
        let mut inner = self.lock();
        let old = Arc::clone(&self.live.load().state);
        let moment = inner.adopt(generation, Some(&old), state);
        self.swap(&inner, moment, [cause]);
        inner.prober = Some(prober);
        self.probe(&inner);
    }

    /// Takes the results of probes in. What follows from them is in the answers when this returns.
    pub fn record(&self, results: impl IntoIterator<Item = (Arc<TargetKey>, Outcome)>) {
        let mut inner = self.lock();
        let moment = self.live.load();
        let state = &moment.state;
        let mut changes = Vec::new();
        for (key, outcome) in results {
            let Some(probe) = inner.board.find(&key) else { continue };
            let Some(monitor) = inner.board.monitor(state, probe) else { continue };
            if let Some(rtt) = outcome.rtt {
                inner.measure(state, probe, rtt, outcome.at);
            }
            changes.extend(inner.board.record(probe, monitor, outcome));
        }
        self.publish(&inner, &moment, &changes);
    }

    /// Takes a pushed state in; `why` is shown.
    ///
    /// # Errors
    /// [`PushError`].
    pub fn push(&self, key: &TargetKey, up: bool, why: Option<String>) -> Result<(), PushError> {
        let mut inner = self.lock();
        let moment = self.live.load();
        let unknown = || PushError::Unknown { monitor: key.monitor.clone(), address: key.address };
        let probe = inner.board.find(key).ok_or_else(unknown)?;
        let monitor = inner.board.monitor(&moment.state, probe).ok_or_else(unknown)?;
        if monitor.is_probed() {
            return Err(PushError::NotPush(monitor.name.clone()));
        }
        let said = || why.unwrap_or_else(|| "pushed as down".to_owned());
        let failure = (!up).then(said);
        let outcome = Outcome { at: Instant::now(), rtt: None, failure };
        let changes: Vec<_> = inner.board.record(probe, monitor, outcome).into_iter().collect();
        self.publish(&inner, &moment, &changes);
        Ok(())
    }

    /// Takes round-trip times in that something else measured, as `read` makes them of the state.
    ///
    /// # Errors
    /// Those of `read`; then nothing was taken in.
    pub fn measured<E>(
        &self,
        at: Instant,
        read: impl FnOnce(&State) -> Result<Vec<(Vantage, PoolId, Duration)>, E>,
    ) -> Result<(), E> {
        let mut inner = self.lock();
        for (vantage, pool, rtt) in read(&self.live.load().state)? {
            inner.times.add(vantage, pool, rtt, at);
        }
        Ok(())
    }

    /// How many addresses have no first result yet, and how many host names were not asked for yet.
    pub fn awaited(&self) -> usize {
        let inner = self.lock();
        let unknown = inner.wanted.iter().filter(|name| inner.resolved.get(name).is_none());
        inner.board.awaited(&self.live.load().state) + unknown.count()
    }

    /// True if an address is probed, and not only pushed.
    pub fn is_probing(&self) -> bool {
        let inner = self.lock();
        let state = &self.live.load().state;
        let mut probes = (0u32..).map(ProbeId).take(inner.board.targets().len());
        probes.any(|probe| inner.board.monitor(state, probe).is_some_and(Monitor::is_probed))
    }

    /// How many addresses are monitored.
    pub fn monitored(&self) -> usize {
        self.lock().board.targets().len()
    }

    /// Says something of a pool or an origin. False if it could not be kept for after a restart.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn set_override(&self, subject: Subject, word: Word, note: Note) -> Result<bool, TooMany> {
        let _in_order = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        let said = Override { subject: subject.clone(), word, note: note.clone() };
        let overrides = {
            let mut inner = self.lock();
            inner.overrides.set(subject, word, note)?;
            self.apply_overrides(&inner, [entries::overridden(&said, entries::Word::Said)]);
            inner.overrides.clone()
        };
        log_override("overridden", &said);
        Ok(self.keep(&overrides))
    }

    /// Lifts what was said of a pool or an origin; gives that, and whether the lifting could be kept.
    pub fn lift_override(&self, subject: &Subject, word: Option<Word>) -> (Vec<Override>, bool) {
        let _in_order = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        let (lifted, overrides) = {
            let mut inner = self.lock();
            let lifted = inner.overrides.lift(subject, word);
            if lifted.is_empty() {
                return (lifted, true);
            }
            self.apply_overrides(&inner, told(&lifted, entries::Word::Lifted));
            (lifted, inner.overrides.clone())
        };
        lifted.iter().for_each(|said| log_override("override lifted", said));
        let kept = self.keep(&overrides);
        (lifted, kept)
    }

    /// Everything that an operator said.
    pub fn overrides(&self) -> Vec<Override> {
        self.lock().overrides.iter().collect()
    }

    /// All that is known at this moment, copied: who reads it holds up nothing.
    pub fn standing(&self) -> Standing {
        let inner = self.lock();
        let moment = self.live.load_full();
        let (now, clock) = (Instant::now(), SystemTime::now());
        let known = |(probe, target): (ProbeId, &Target)| {
            let monitor = inner.board.monitor(&moment.state, probe);
            Known {
                state: target.track.state(),
                since: target.track.since(),
                last: target.track.last().cloned(),
                is_held_down: target.track.is_held_down(),
                is_stale: monitor.is_some_and(|monitor| is_stale(target, monitor, now)),
            }
        };
        let targets = (0u32..).map(ProbeId).zip(inner.board.targets()).map(known).collect();
        let overrides = inner.overrides.clone();
        let times = inner.published.clone();
        Standing { moment, targets, overrides, times, now, clock }
    }

    /// The monitors whose latest results are older than they may be: whatever probes is stuck.
    pub fn stale_monitors(&self) -> BTreeSet<MonitorName> {
        let inner = self.lock();
        inner.stale_monitors(&self.live.load().state, Instant::now())
    }

    /// Does what only the passing of time asks for: overrides and pushed states that are over, results
    /// that are stale.
    pub fn tick(&self) {
        self.live.tidy();
        let mut inner = self.lock();
        let moment = self.live.load();
        let now = Instant::now();
        // What is over is so by the clock at the next start too, and need not be kept.
        let lifted = inner.overrides.expire(SystemTime::now());
        if !lifted.is_empty() {
            self.apply_overrides(&inner, told(&lifted, entries::Word::Over));
            lifted.iter().for_each(|said| log_override("override over", said));
        }
        let changes = inner.board.expire_pushed(&moment.state, now);
        self.publish(&inner, &self.live.load(), &changes);
        let moved = inner.publish_times(&moment.state, now);
        if !moved.is_empty() {
            let rules = inner.published.rules(&moment.state);
            self.live.swap(self.live.load().with_measured(rules));
            self.tell_moved(&moment.state, &moved);
        }
        inner.tell_stale(&moment.state, now);
    }

    /// Ends all probes, and resolves no more.
    pub fn stop_probing(&self) {
        self.lock().names = None;
        // Without a receiver nothing is probed any more.
        let _ended = self.targets.send(Targets::default());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the prober what to probe. Under the lock, so that what is told last is what holds.
    fn probe(&self, inner: &Inner) {
        let state = &self.live.load().state;
        let monitors: Vec<Arc<Monitor>> = state.monitors.iter().cloned().map(Arc::new).collect();
        let list = inner.board.targets().iter().filter_map(|target| {
            let monitor = Arc::clone(monitors.get(target.probed.monitor.0 as usize)?);
            Some(ProbeTarget { key: Arc::new(target.key.clone()), monitor })
        });
        let targets = Targets { prober: inner.prober.clone(), list: list.collect() };
        if self.targets.send(targets).is_err() {
            warn!("the prober ended; health stays as it is");
        }
    }

    /// Swaps in what follows from changes of health, and logs them.
    fn publish(&self, inner: &Inner, moment: &Moment, changes: &[Changed]) {
        if changes.is_empty() {
            return;
        }
        let mut health = moment.health.clone();
        let mut pools = BTreeSet::new();
        for Changed { probe, change } in changes {
            health.set_probe(*probe, change.to);
            let origins = inner.board.target(*probe).map(|target| &target.origins[..]);
            pools.extend(origins.unwrap_or_default().iter().map(|&(pool, _)| pool));
        }
        let pools: Vec<PoolId> = pools.into_iter().collect();
        let told = inner.told(moment, changes);
        self.swap(inner, moment.with_health(health, &pools), told);
        for changed in changes {
            if let Some(target) = inner.board.target(changed.probe) {
                log_change(&moment.state, target, changed);
            }
        }
    }

    fn apply_overrides(&self, inner: &Inner, causes: impl IntoIterator<Item = Entry>) {
        let moment = self.live.load();
        let mut health = moment.health.clone();
        let pools = inner.overrides.apply(&moment.state, &inner.pools, &mut health);
        self.swap(inner, moment.with_overrides(pools, health), causes);
    }

    fn keep(&self, overrides: &Overrides) -> bool {
        let kept = state_folder::write(&self.state_folder, OVERRIDES, overrides);
        if let Err(error) = &kept {
            warn!(%error, "the overrides cannot be kept; after a restart they are as they were");
        }
        kept.is_ok()
    }
}

impl Inner {
    fn adopt(&mut self, generation: u64, old: Option<&State>, state: State) -> Moment {
        let (pools, probes) = resolution::apply(&state, &self.resolved);
        self.board = std::mem::take(&mut self.board).carry_over(&state, &pools, &probes);
        drop(probes);
        self.pools = pools;
        if let Some(old) = old {
            self.times = std::mem::take(&mut self.times).carry_over(old, &state);
        }
        self.published = Published::of_state(&state);
        self.published.update(&state, &self.times);
        let mut health = self.board.health();
        let pools = self.overrides.apply(&state, &self.pools, &mut health);
        let rules = self.published.rules(&state);
        Moment::new(generation, state, pools, health, rules)
    }

    /// Files the round-trip time of a probe under this node's pop and region, for each pool that has
    /// the address.
    fn measure(&mut self, state: &State, probe: ProbeId, rtt: Duration, at: Instant) {
        let Some(target) = self.board.target(probe) else { return };
        let mut last = None;
        // Origins of one pool follow each other.
        for &(pool, _) in
            target.origins.iter().filter(|(pool, _)| last.replace(*pool) != Some(*pool))
        {
            self.times.add(Vantage::Pop, pool, rtt, at);
            if let Some(region) = state.region {
                self.times.add(Vantage::Region(region), pool, rtt, at);
            }
        }
    }

    /// Publishes round-trip times, once in a while; gives the figures that moved.
    fn publish_times(&mut self, state: &State, now: Instant) -> Vec<Moved> {
        if self.published_at.is_some_and(|at| now.duration_since(at) < PUBLISH_EVERY) {
            return Vec::new();
        }
        self.published_at = Some(now);
        self.times.drop_older(state.rtt_max_age, now);
        self.published.update(state, &self.times)
    }

    fn stale_monitors(&self, state: &State, now: Instant) -> BTreeSet<MonitorName> {
        let mut stale = BTreeSet::new();
        for (probe, target) in (0u32..).map(ProbeId).zip(self.board.targets()) {
            let Some(monitor) = self.board.monitor(state, probe) else { continue };
            if is_stale(target, monitor, now) {
                stale.insert((monitor.zone.clone(), monitor.name.clone()));
            }
        }
        stale
    }

    /// Logs monitors whose results have become stale, and fresh again.
    fn tell_stale(&mut self, state: &State, now: Instant) {
        let stale = self.stale_monitors(state, now);
        for (_, monitor) in stale.difference(&self.stale) {
            warn!(monitor, "health is stale: no result within max_age; the last ones still count");
        }
        for (_, monitor) in self.stale.difference(&stale) {
            info!(monitor, "health is fresh again");
        }
        self.stale = stale;
    }
}

/// What is pushed has no interval to be stale by.
fn is_stale(target: &Target, monitor: &Monitor, now: Instant) -> bool {
    monitor.is_probed() && target.track.is_stale(monitor, now)
}

/// One line for a change of health: who, from, to, why.
fn log_change(state: &State, target: &Target, changed: &Changed) {
    let TargetKey { monitor, address, .. } = &target.key;
    let named = |&(pool, origin): &(PoolId, _)| {
        let origin = state.pool(pool).and_then(|pool| pool.origin(origin));
        format!("{}/{}", state.pool_name(pool), origin.map_or("", |origin| &origin.name))
    };
    let origins = target.origins.iter().map(named).collect::<Vec<_>>().join(" ");
    let change = &changed.change;
    let (from, to, reason) = (change.from.word(), change.to.word(), change.reason.as_str());
    match change.to {
        _ if change.from == change.to => {
            warn!(monitor, %address, origins, health = to, reason, "health is damped");
        }
        HealthState::Unhealthy => {
            warn!(monitor, %address, origins, from, to, reason, "health changed");
        }
        HealthState::Healthy | HealthState::Unknown => {
            info!(monitor, %address, origins, from, to, reason, "health changed");
        }
    }
}

fn told(lifted: &[Override], what: entries::Word) -> impl Iterator<Item = Entry> + '_ {
    lifted.iter().map(move |said| entries::overridden(said, what))
}

fn log_override(message: &'static str, said: &Override) {
    let Override { subject: Subject { zone, pool, origin }, word, note } = said;
    let subject = match origin {
        Some(origin) => format!("{pool}/{origin}"),
        None => pool.clone(),
    };
    let zone = zone.as_deref().unwrap_or("shared");
    let (by, why) = (note.by.as_deref().unwrap_or(""), note.why.as_deref().unwrap_or(""));
    info!(subject, zone, word = word.as_str(), by, why, until = note.until, "{message}");
}
