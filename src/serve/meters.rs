//! What is counted beside answers: probes, look-ups of host names, reloads, connections. None of it is on
//! the path of a query, so the counters are shared by all threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::{info, warn};

use crate::serve::refusals::Refusals;
use crate::serve::seldom::Seldom;
use crate::served::Protocol;
use crate::state_folder;
use crate::tally::Shared;
use crate::tally::histogram::Histogram;

/// The bounds of the time that a probe takes, in microseconds.
const PROBE_BOUNDS: &[u64] = &[
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The origin is up.
    Success,
    /// It is not.
    Failure,
    /// This machine could not make the probe.
    NotMade,
}

/// How a look-up of one family of a host name ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// With addresses.
    Addresses,
    /// Without any.
    Empty,
    /// Not at all.
    Failure,
}

/// All of them.
#[derive(Debug)]
pub struct Meters {
    begun: Instant,
    /// When the process began, in seconds since 1970.
    pub begun_at: u64,
    probes: [AtomicU64; ProbeResult::ALL.len()],
    /// How long probes took.
    pub probe_times: Histogram,
    /// When the last probe ended, in milliseconds since the process began; 0 if none has.
    last_probe: AtomicU64,
    lookups: [AtomicU64; LookupResult::ALL.len()],
    reloads: [AtomicU64; 2],
    /// When what is served was read, in seconds since 1970, and whether the last attempt read it.
    loaded_at: AtomicU64,
    is_current: AtomicBool,
    connections: [Connections; Protocol::ALL.len()],
    is_writable: AtomicBool,
    /// What was told of transfers that were refused.
    pub refusals: Refusals,
    /// When it was told of transfers whose clients were too slow.
    pub slow_transfers: Seldom,
    /// When it was told that no connection could be accepted.
    pub no_room: Seldom,
    /// The same for the admin service.
    pub no_admin_room: Seldom,
}

#[derive(Debug, Default)]
struct Connections {
    accepted: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
}

/// A connection, as long as it is open.
#[derive(Debug)]
pub struct Open<'m>(&'m Connections);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl ProbeResult {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Self); 3] =
        [("success", Self::Success), ("failure", Self::Failure), ("not_made", Self::NotMade)];
}

impl LookupResult {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Self); 3] =
        [("addresses", Self::Addresses), ("empty", Self::Empty), ("failure", Self::Failure)];
}

impl Default for Meters {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            begun: Instant::now(),
            begun_at: seconds_now(),
            probes: std::array::from_fn(zero),
            probe_times: Histogram::new(PROBE_BOUNDS),
            last_probe: AtomicU64::new(0),
            lookups: std::array::from_fn(zero),
            reloads: std::array::from_fn(zero),
            loaded_at: AtomicU64::new(seconds_now()),
            is_current: AtomicBool::new(true),
            connections: std::array::from_fn(|_| Connections::default()),
            is_writable: AtomicBool::new(true),
            refusals: Refusals::default(),
            slow_transfers: Seldom::default(),
            no_room: Seldom::default(),
            no_admin_room: Seldom::default(),
        }
    }
}

impl Meters {
    /// Counts a probe that ended now.
    pub fn count_probe(&self, result: ProbeResult, took: Duration) {
        self.probes[result as usize].fetch_add(1, Ordering::Relaxed);
        self.probe_times.add::<Shared>(took, 1);
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_probe.store(now.max(1), Ordering::Relaxed);
    }

    /// The probes that ended so.
    pub fn probes(&self, result: ProbeResult) -> u64 {
        self.probes[result as usize].load(Ordering::Relaxed)
    }

    /// How long ago the last probe ended; none if none has.
    pub fn prober_age(&self) -> Option<Duration> {
        let last = self.last_probe.load(Ordering::Relaxed);
        (last > 0).then(|| self.begun.elapsed().saturating_sub(Duration::from_millis(last)))
    }

    /// Counts a look-up.
    pub fn count_lookup(&self, result: LookupResult) {
        self.lookups[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The look-ups that ended so.
    pub fn lookups(&self, result: LookupResult) -> u64 {
        self.lookups[result as usize].load(Ordering::Relaxed)
    }

    /// Counts a reload.
    pub fn count_reload(&self, succeeded: bool) {
        self.reloads[usize::from(succeeded)].fetch_add(1, Ordering::Relaxed);
        self.is_current.store(succeeded, Ordering::Relaxed);
        if succeeded {
            self.loaded_at.store(seconds_now(), Ordering::Relaxed);
        }
    }

    /// The reloads that failed, and those that succeeded.
    pub fn reloads(&self) -> [u64; 2] {
        [0, 1].map(|i: usize| self.reloads[i].load(Ordering::Relaxed))
    }

    /// When what is served was read, in seconds since 1970, and whether no reload has failed since.
    pub fn loaded(&self) -> (u64, bool) {
        (self.loaded_at.load(Ordering::Relaxed), self.is_current.load(Ordering::Relaxed))
    }

    /// Counts a connection as long as this is kept.
    pub fn open(&self, protocol: Protocol) -> Open<'_> {
        let connections = &self.connections[protocol as usize];
        connections.accepted.fetch_add(1, Ordering::Relaxed);
        Open(connections)
    }

    /// Counts a connection that was refused.
    pub fn refuse(&self, protocol: Protocol) {
        self.connections[protocol as usize].refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The connections over a protocol: accepted, refused, and open now.
    pub fn connections(&self, protocol: Protocol) -> [u64; 3] {
        let Connections { accepted, refused, closed } = &self.connections[protocol as usize];
        // In this order none is closed that was not accepted.
        let closed = closed.load(Ordering::Acquire);
        let accepted = accepted.load(Ordering::Relaxed);
        [accepted, refused.load(Ordering::Relaxed), accepted.saturating_sub(closed)]
    }

    /// Sees whether files can be written into the state folder by the server's user, if it took another,
    /// and logs if that is not as before.
    pub fn try_state_folder(&self, folder: &Path, user: Option<&str>) {
        let written = state_folder::check(folder);
        let was = self.is_writable.swap(written.is_ok(), Ordering::Relaxed);
        match written {
            Ok(()) if !was => info!("the state folder can be written again"),
            Err(error) if was => {
                warn!(
                    %error,
                    user,
                    "the state folder cannot be written; what it keeps is lost at a restart"
                );
            }
            _ => {}
        }
    }

    /// Whether the state folder could be written when that was last tried.
    pub fn is_state_writable(&self) -> bool {
        self.is_writable.load(Ordering::Relaxed)
    }
}

/// Tries the state folder now and then, for as long as the server runs.
pub async fn watch_state_folder(
    meters: Arc<Meters>,
    folder: PathBuf,
    user: Option<String>,
    every: Duration,
) {
    // The start has tried it already.
    let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    loop {
        tick.tick().await;
        let (meters, folder, user) = (Arc::clone(&meters), folder.clone(), user.clone());
        // A slow disk holds up nothing else.
        let tried = move || meters.try_state_folder(&folder, user.as_deref());
        let tried = tokio::task::spawn_blocking(tried).await;
        if let Err(error) = tried {
            warn!(%error, "the state folder could not be tried");
        }
    }
}

/// Seconds since 1970.
fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
