//! The prober: a thread that probes every address when it is due, and passes the results on. An
//! address is never probed twice at the same time, and those of a large configuration are spread over
//! the interval (`health::schedule`).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::{error, warn};

use crate::config::monitors::Monitor;
use crate::health::TargetKey;
use crate::health::schedule::{first, next, phase};
use crate::health::track::Outcome;
use crate::probe::{Failure, Prober, Success};
use crate::serve::control::Control;
use crate::serve::meters::{Meters, ProbeResult};

/// How often what only the passing of time asks for is done.
const TICK: Duration = Duration::from_millis(200);

/// How long nothing more is logged of probes that cannot be made.
const QUIET: Duration = Duration::from_secs(10);
/// How many probes are begun before others have their turn.
const AT_ONCE: usize = 8;

/// What is to be probed, and with what.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// What probes share; none to probe nothing.
    pub prober: Option<Arc<Prober>>,
    /// The addresses, by their numbers.
    pub list: Vec<Target>,
}

/// An address to probe.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it is, from one state to the next.
    pub key: Arc<TargetKey>,
    /// How it is probed.
    pub monitor: Arc<Monitor>,
}

/// A result on its way from the prober.
pub type Report = (Arc<TargetKey>, Outcome);

/// Starts the prober, which is told what to probe through `targets` and ends when nobody can tell it
/// any more.
///
/// # Errors
/// What the system says if it refuses a thread.
pub fn start_prober(
    targets: UnboundedReceiver<Targets>,
    results: Sender<Report>,
    meters: Arc<Meters>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("prober".to_owned()).spawn(move || {
        // As a task, since what wakes the runtime's own future costs a system call each time.
        let probing = runtime.spawn(Probing::new(results, meters).run(targets));
        if let Err(fault) = runtime.block_on(probing) {
            error!(%fault, "the prober ended; health stays as it is");
        }
    })
}

/// Starts the thread that takes results in, and does what the passing of time asks for. It ends with
/// the prober.
///
/// # Errors
/// What the system says if it refuses a thread.
pub fn start_recorder(
    results: mpsc::Receiver<Report>,
    control: Arc<Control>,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("health".to_owned()).spawn(move || {
        let mut ticked = Instant::now();
        loop {
            match results.recv_timeout(TICK) {
                // All that has come goes in at once: one swap for an outage of many.
                Ok(result) => control.record(std::iter::once(result).chain(results.try_iter())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                control.tick();
            }
        }
    })
}

/// The state of the prober's thread.
struct Probing {
    results: Sender<Report>,
    meters: Arc<Meters>,
    prober: Option<Arc<Prober>>,
    slots: HashMap<Arc<TargetKey>, Slot>,
    /// What waits, by when it is due.
    queue: BTreeMap<Due, Arc<TargetKey>>,
    /// Tells what is due at the same time apart.
    queued: u64,
    running: JoinSet<Finished>,
    troubles: Troubles,
}

/// Probes that could not be made: there may be thousands a second, so not each is logged.
#[derive(Debug, Default)]
struct Troubles {
    logged: Option<Instant>,
    since: u64,
}

impl Troubles {
    fn add(&mut self, now: Instant, key: &TargetKey, failure: &Failure) {
        self.since += 1;
        if self.logged.is_none_or(|logged| now.duration_since(logged) >= QUIET) {
            let TargetKey { monitor, address, .. } = key;
            let probes = std::mem::take(&mut self.since);
            self.logged = Some(now);
            warn!(probes, monitor, %address, reason = %failure, "probes could not be made");
        }
    }
}

/// When something is due, and its number in the queue.
type Due = (Instant, u64);

/// An address.
struct Slot {
    monitor: Arc<Monitor>,
    /// When its grid begins, and how far from there its points are.
    grid: Instant,
    phase: Duration,
    activity: Activity,
}

enum Activity {
    Waits(Due),
    /// A probe runs; another follows at once if `again`.
    Runs {
        probe: AbortHandle,
        again: bool,
    },
}

/// A probe that has ended.
struct Finished {
    key: Arc<TargetKey>,
    began: Instant,
    ended: Instant,
    result: Result<Success, Failure>,
}

impl Probing {
    fn new(results: Sender<Report>, meters: Arc<Meters>) -> Self {
        Self {
            results,
            meters,
            prober: None,
            slots: HashMap::new(),
            queue: BTreeMap::new(),
            queued: 0,
            running: JoinSet::new(),
            troubles: Troubles::default(),
        }
    }

    async fn run(mut self, mut targets: UnboundedReceiver<Targets>) {
        loop {
            let first = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let due = async {
                match first {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                new = targets.recv() => match new {
                    Some(new) => self.adopt(new),
                    None => return,
                },
                Some(ended) = self.running.join_next() => self.finish(ended),
                () = due => {
                    self.begin_due();
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Probes these from now on. New addresses, and those whose monitor changed, are due at once; the
    /// others go on as they were.
    fn adopt(&mut self, targets: Targets) {
        let Targets { prober, list } = targets;
        self.prober = prober;
        let now = Instant::now();
        let mut old = std::mem::take(&mut self.slots);
        let probed = list.iter().filter(|target| target.monitor.is_probed()).enumerate();
        let mut new = 0;
        for (number, Target { key, monitor }) in probed {
            let known = old.remove(key);
            let slot = match known {
                Some(slot) if slot.monitor == *monitor => slot,
                known => {
                    let at = now + first(new, monitor.interval);
                    new += 1;
                    let activity = match known.map(|slot| slot.activity) {
                        Some(Activity::Runs { probe, .. }) => Activity::Runs { probe, again: true },
                        Some(Activity::Waits(due)) => {
                            self.queue.remove(&due);
                            self.enqueue(at, key)
                        }
                        None => self.enqueue(at, key),
                    };
                    let phase = phase(number, monitor.interval);
                    Slot { monitor: Arc::clone(monitor), grid: now, phase, activity }
                }
            };
            self.slots.insert(Arc::clone(key), slot);
        }
        for slot in old.into_values() {
            match slot.activity {
                Activity::Waits(due) => drop(self.queue.remove(&due)),
                Activity::Runs { probe, .. } => probe.abort(),
            }
        }
    }

    fn enqueue(&mut self, at: Instant, key: &Arc<TargetKey>) -> Activity {
        self.queued += 1;
        let due = (at, self.queued);
        self.queue.insert(due, Arc::clone(key));
        Activity::Waits(due)
    }

    /// Begins probes that are due: a few, and then those that run have their turn. So a prober that is
    /// behind goes on with what it has begun, which would otherwise time out for want of attention.
    fn begin_due(&mut self) {
        let now = Instant::now();
        for _ in 0..AT_ONCE {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= now) else {
                return;
            };
            let key = entry.remove();
            let (Some(slot), Some(prober)) = (self.slots.get_mut(&key), &self.prober) else {
                continue;
            };
            let (prober, monitor) = (Arc::clone(prober), Arc::clone(&slot.monitor));
            let began = Instant::now();
            // The future of an HTTP probe is large, and most addresses wait most of the time.
            let probe = self.running.spawn(Box::pin(async move {
                let result = prober.probe(&monitor, key.address, key.host.as_deref()).await;
                Finished { key, began, ended: Instant::now(), result }
            }));
            slot.activity = Activity::Runs { probe, again: false };
        }
    }

    /// Passes a result on, and puts the address back into the queue.
    fn finish(&mut self, ended: Result<Finished, JoinError>) {
        let Finished { key, began, ended, result } = match ended {
            Ok(finished) => finished,
            Err(error) if error.is_cancelled() => return,
            Err(error) => return self.recover(&error),
        };
        let Some(slot) = self.slots.get(&key) else { return };
        let Activity::Runs { again, .. } = slot.activity else { return };
        let counted = match &result {
            Ok(_) => ProbeResult::Success,
            Err(failure) if failure.is_of_this_machine() => ProbeResult::NotMade,
            Err(_) => ProbeResult::Failure,
        };
        self.meters.count_probe(counted, ended.saturating_duration_since(began));
        let outcome = match result {
            Ok(Success { rtt }) => Some(Outcome { at: ended, rtt, failure: None }),
            // An origin is not down because this machine cannot probe it.
            Err(failure) if failure.is_of_this_machine() => {
                self.troubles.add(ended, &key, &failure);
                None
            }
            Err(failure) => {
                Some(Outcome { at: ended, rtt: None, failure: Some(failure.to_string()) })
            }
        };
        if let Some(outcome) = outcome {
            // Without a receiver the process is about to end.
            let _ended = self.results.send((Arc::clone(&key), outcome));
        }
        let at = if again {
            Instant::now()
        } else {
            next(slot.grid, slot.phase, slot.monitor.interval, began)
        };
        let activity = self.enqueue(at, &key);
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.activity = activity;
        }
    }

    /// Puts what a panic of ours took out of the queue back into it. It is no result: an origin is not
    /// down for a fault of the prober.
    fn recover(&mut self, fault: &JoinError) {
        error!(%fault, "a probe panicked; its address is probed again after its interval");
        let has_ended = |slot: &Slot| match &slot.activity {
            Activity::Runs { probe, .. } => probe.is_finished(),
            Activity::Waits(_) => false,
        };
        let ended = self.slots.iter().filter(|(_, slot)| has_ended(slot));
        let ended: Vec<_> =
            ended.map(|(key, slot)| (Arc::clone(key), slot.monitor.interval)).collect();
        for (key, interval) in ended {
            let activity = self.enqueue(Instant::now() + interval, &key);
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.activity = activity;
            }
        }
    }
}
