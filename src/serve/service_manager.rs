//! What a service manager is told of the server's life (sd_notify(3)): that it answers, reloads and ends, a
//! line on how it stands, and that it is alive. Without a service manager nothing is said.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

/// Tells the service manager.
#[derive(Debug, Default)]
pub struct ServiceManager {
    /// True from the first answer to the beginning of the end: a reload is told of then alone, and nothing
    /// that is told overtakes that.
    serves: Mutex<bool>,
}

impl ServiceManager {
    /// The server waits, and for what.
    pub fn waits(&self, status: &str) {
        tell(&[NotifyState::Status(status)]);
    }

    /// The server answers.
    pub fn ready(&self, status: &str) {
        let mut serves = self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        *serves = true;
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// A reload begins.
    pub fn reloads(&self) {
        let serves = self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        if !*serves {
            return;
        }
        // systemd takes a reload for the one that it asked for by its time.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => warn!(%error, "the time of the reload cannot be told"),
        }
    }

    /// A reload has ended, well or not: the server is ready as before.
    pub fn reloaded(&self, status: &str) {
        let serves = self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        if *serves {
            // The status is one line, whatever an error says.
            let status = status.replace('\n', " ");
            tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        }
    }

    /// The server ends.
    pub fn stops(&self) {
        let mut serves = self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        *serves = false;
        tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// The server is alive.
    pub fn is_alive(&self) {
        tell(&[NotifyState::Watchdog]);
    }
}

/// How often the service manager wants to hear that the server is alive: twice in the time after which it
/// would take it for dead. None if it does not watch.
pub fn watchdog_interval() -> Option<Duration> {
    let limit = sd_notify::watchdog_enabled()?;
    Some((limit / 2).max(Duration::from_millis(1)))
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told how the server stands");
    }
}
