//! SOA serials where the configuration gives none (dns.md): the newest modification time of the
//! zone's files, or one more than the last one served if the published data changed since, whichever
//! is higher. What was served last is kept in the state folder.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::config::files::read_regular;
use crate::query::Question;
use crate::respond::{Client, Responder};
use crate::rr::RecordType;
use crate::state::State;
use crate::steer::FirstOnly;
use crate::steer::availability::{Health, HealthState};
use crate::steer::plan::Plan;
use crate::zone::node::Zone;

/// The name of the file within the state folder.
const FILE: &str = "serials.json";

/// What was served last, by zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serials {
    zones: BTreeMap<String, Served>,
}

/// What was served last of one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Served {
    serial: u32,
    /// A hash of the published data, the serial aside, in hexadecimal.
    published: String,
}

/// Why the serials of the state folder cannot be used or kept. Serving goes on.
#[derive(Debug, thiserror::Error)]
pub enum SerialError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The file is damaged.
    #[error("{path}: not a list of serials: {error}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

impl Serials {
    /// Reads them from the state folder; a file that is not there is an empty list.
    ///
    /// # Errors
    /// [`SerialError`] if there is one that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, SerialError> {
        let path = folder.join(FILE);
        let text = match read_regular(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(SerialError::Io { path, error }),
        };
        serde_json::from_slice(&text).map_err(|error| SerialError::Damaged { path, error })
    }

    /// Writes them to the state folder, whole or not at all; a damaged file is set aside.
    ///
    /// # Errors
    /// [`SerialError`] if that fails.
    pub fn write(&self, folder: &Path) -> Result<(), SerialError> {
        let path = folder.join(FILE);
        let draft = folder.join(format!("{FILE}.new"));
        let damaged = Self::read(folder).is_err_and(|e| matches!(e, SerialError::Damaged { .. }));
        let write = || {
            fs::create_dir_all(folder)?;
            if damaged {
                fs::rename(&path, folder.join(format!("{FILE}.damaged")))?;
            }
            // Whatever stands under the draft's name, a pipe even, is not written to.
            if let Err(error) = fs::remove_file(&draft)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            let mut file = fs::File::create_new(&draft)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|error| SerialError::Io { path, error })
    }

    /// Gives every zone of a state its serial. True if a zone's is new, so that it is to be kept.
    pub fn assign(&mut self, state: &mut State) -> bool {
        let published: Vec<String> =
            state.zones.iter().map(|zone| format!("{:016x}", published(state, zone))).collect();
        let mut changed = false;
        for (zone, published) in state.zones.iter_mut().zip(published) {
            if zone.soa.serial_is_given {
                continue;
            }
            let modified = zone.sources.iter().filter_map(|path| modified(path)).max();
            let name = zone.apex.to_string().to_ascii_lowercase();
            let served = self.zones.get(&name);
            let serial = next_serial(served, modified.unwrap_or(1), &published);
            let now = Served { serial, published };
            changed |= served != Some(&now);
            self.zones.insert(name, now);
            zone.set_serial(serial);
        }
        changed
    }
}

fn next_serial(served: Option<&Served>, modified: u32, published: &str) -> u32 {
    match served {
        Some(served) if served.published == published => modified.max(served.serial),
        Some(served) => modified.max(served.serial.saturating_add(1)),
        None => modified,
    }
}

/// A file's modification time in seconds since 1970.
fn modified(path: &Path) -> Option<u32> {
    let time = fs::metadata(path).ok()?.modified().ok()?;
    u32::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// A hash of what a zone publishes: its records, and of its steered names the answer to a client
/// without a location with everything healthy.
fn published(state: &State, zone: &Zone) -> u64 {
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let plan = Plan::new(&state.pools, &health);
    let responder = Responder { state, plan: &plan, sequences: &FirstOnly };
    let mut nodes: Vec<_> = zone.nodes().collect();
    nodes.sort_by_key(|node| node.owner.to_key());
    let mut hasher = DefaultHasher::new();
    for node in nodes {
        node.owner.as_wire().hash(&mut hasher);
        for set in node.rrsets.iter().filter(|set| set.record_type != RecordType::SOA) {
            (set.record_type, set.ttl, &set.rdata).hash(&mut hasher);
        }
        for record_type in [RecordType::A, RecordType::AAAA] {
            if node.steered.is_none() {
                continue;
            }
            let question = Question::of(&node.owner, record_type);
            let nowhere = Client { resolver: None, subnet: None };
            let answer = responder.answer(&question, nowhere);
            for set in &answer.answer {
                (set.record_type, set.ttl).hash(&mut hasher);
                set.rdata().for_each(|rdata| rdata.hash(&mut hasher));
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_never_falls_and_rises_with_the_data() {
        let served = Served { serial: 100, published: "a".to_owned() };
        assert_eq!(next_serial(None, 50, "a"), 50);
        assert_eq!(next_serial(Some(&served), 50, "a"), 100);
        assert_eq!(next_serial(Some(&served), 150, "a"), 150);
        assert_eq!(next_serial(Some(&served), 50, "b"), 101);
        assert_eq!(next_serial(Some(&served), 150, "b"), 150);
    }

    #[test]
    fn serials_survive_a_restart_and_a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let mut serials = Serials::read(folder.path()).unwrap();
        assert_eq!(serials, Serials::default());
        let served = Served { serial: 7, published: "x".to_owned() };
        serials.zones.insert("example.test.".to_owned(), served);
        serials.write(folder.path()).unwrap();
        assert_eq!(Serials::read(folder.path()).unwrap(), serials);

        fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(matches!(Serials::read(folder.path()), Err(SerialError::Damaged { .. })));
        serials.write(folder.path()).unwrap();
        assert_eq!(Serials::read(folder.path()).unwrap(), serials);
        assert!(folder.path().join("serials.json.damaged").exists());
    }
}
