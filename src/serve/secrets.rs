//! The secrets of cookies: those of the configured file, which several servers can share, else the server's
//! own, which are kept in the state folder and replaced every day. What fails is warned of; without a
//! secret cookies are ignored, and serving goes on.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use crate::cookies::{SECRET, Secret, Secrets};
use crate::serve::live::Live;
use crate::state_folder;

/// The file of the state folder.
const FILE: &str = "cookies.json";
/// How long a secret is used, in seconds.
const LIFE: u64 = 86_400;
/// How often it is looked whether it has been used that long.
const LOOK: Duration = Duration::from_secs(60);

/// Gives the answers their secrets.
#[derive(Debug)]
pub struct Keeper {
    state_folder: PathBuf,
    live: Live,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// True if the secrets come from a file.
    is_configured: bool,
    /// The server's own, once they were needed.
    own: Option<Own>,
}

/// The server's own secrets, as they are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Own {
    /// In hexadecimal.
    current: String,
    /// The one before.
    previous: Option<String>,
    /// Since when the current one is used, in seconds since 1970.
    since: u64,
}

impl Own {
    /// The secrets; none of what is no secret.
    fn secrets(&self) -> Option<Secrets> {
        let secret = |text: &String| {
            let octets = HEXLOWER.decode(text.as_bytes()).ok()?;
            Some(Secret(<[u8; SECRET]>::try_from(octets).ok()?))
        };
        let previous = self.previous.as_ref().and_then(secret);
        Some(Secrets { current: secret(&self.current)?, previous })
    }

    /// True if the secret is to be replaced; one of a time to come too, as that may never end.
    fn is_due(&self, now: u64) -> bool {
        now.checked_sub(self.since).is_none_or(|age| age >= LIFE)
    }

    /// A new secret after this one.
    fn successor(&self, now: u64) -> Result<Self, rustix::io::Errno> {
        let mut secret = [0; SECRET];
        fill_random(&mut secret)?;
        let previous = self.secrets().map(|_| self.current.clone());
        Ok(Self { current: HEXLOWER.encode(&secret), previous, since: now })
    }
}

impl Keeper {
    /// Begins with the secrets of a file, or with the server's own.
    pub fn new(state_folder: PathBuf, live: Live, configured: Option<Secrets>) -> Self {
        let keeper = Self { state_folder, live, inner: Mutex::default() };
        keeper.follow(configured);
        keeper
    }

    /// Goes on with the secrets of a file, or with the server's own.
    pub fn follow(&self, configured: Option<Secrets>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.is_configured = configured.is_some();
        match configured {
            Some(secrets) => self.live.set_secrets(secrets),
            None => self.use_own(&mut inner, unix_seconds()),
        }
    }

    /// Replaces the server's own secret whenever it was used for a day.
    pub async fn rotate(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = unix_seconds();
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if !inner.is_configured && inner.own.as_ref().is_none_or(|own| own.is_due(now)) {
                self.use_own(&mut inner, now);
            }
        }
    }

    /// Uses the server's own secrets, with a new one if that is due.
    fn use_own(&self, inner: &mut Inner, now: u64) {
        let own = inner.own.take().unwrap_or_else(|| self.kept());
        let own = if own.is_due(now) || own.secrets().is_none() {
            match own.successor(now) {
                Ok(new) => {
                    self.keep(&new);
                    new
                }
                Err(error) => {
                    warn!(%error, "there is no new secret for cookies; the old one is used");
                    own
                }
            }
        } else {
            own
        };
        if let Some(secrets) = own.secrets() {
            self.live.set_secrets(secrets);
        }
        inner.own = Some(own);
    }

    fn kept(&self) -> Own {
        state_folder::read(&self.state_folder, FILE).unwrap_or_else(|error| {
            warn!(%error, "the secret of cookies cannot be used; there is a new one");
            Own::default()
        })
    }

    fn keep(&self, own: &Own) {
        debug!("cookies have a new secret");
        if let Err(error) = state_folder::write_private(&self.state_folder, FILE, own) {
            warn!(%error, "the secret of cookies cannot be kept; after a restart there is a new one");
        }
    }
}

/// Fills octets with random ones.
pub fn fill_random(mut octets: &mut [u8]) -> Result<(), rustix::io::Errno> {
    while !octets.is_empty() {
        match getrandom(&mut *octets, GetRandomFlags::empty()) {
            Ok(filled) => octets = octets.get_mut(filled..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Seconds since 1970.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_replaced_after_a_day_and_the_one_before_kept() {
        let first = Own::default().successor(1000).unwrap();
        assert_eq!(first.secrets().unwrap().previous, None);
        assert!(!first.is_due(1000 + LIFE - 1) && first.is_due(1000 + LIFE) && first.is_due(999));
        let second = first.successor(1000 + LIFE).unwrap();
        let (first, second) = (first.secrets().unwrap(), second.secrets().unwrap());
        assert_eq!(second.previous, Some(first.current));
        assert_ne!(second.current, first.current);
    }

    #[test]
    fn what_is_no_secret_is_replaced() {
        let odd = Own { current: "00".to_owned(), previous: None, since: 5 };
        assert_eq!(odd.secrets(), None);
        assert_eq!(odd.successor(6).unwrap().secrets().unwrap().previous, None);
    }
}
