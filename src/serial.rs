//! SOA serials where the configuration gives none (dns.md): the newest modification time of the
//! zone's files, or one more than the last one served if the published data changed since, whichever
//! is higher. What was served last is kept in the state folder.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::query::Question;
use crate::respond::{Client, Responder};
use crate::rr::RecordType;
use crate::state::State;
use crate::state_folder::{self, StateFileError};
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

impl Serials {
    /// Reads them from the state folder.
    ///
    /// # Errors
    /// [`StateFileError`] if there are some that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, StateFileError> {
        state_folder::read(folder, FILE)
    }

    /// Keeps them in the state folder.
    ///
    /// # Errors
    /// [`StateFileError`] if that fails.
    pub fn write(&self, folder: &Path) -> Result<(), StateFileError> {
        state_folder::write(folder, FILE, self)
    }

    /// Gives every zone of a state its serial. True if a zone's is new, so that it is to be kept.
    pub fn assign(&mut self, state: &mut State) -> bool {
        let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
        let plan = Plan::new(&state.pools, &health);
        let published = |zone| format!("{:016x}", published(state, &plan, zone));
        let published: Vec<String> = state.zones.iter().map(published).collect();
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
fn published(state: &State, plan: &Plan, zone: &Zone) -> u64 {
    let responder = Responder { state, plan, sequences: &FirstOnly };
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
    fn serials_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut serials = Serials::read(folder.path()).unwrap();
        assert_eq!(serials, Serials::default());
        let served = Served { serial: 7, published: "x".to_owned() };
        serials.zones.insert("example.test.".to_owned(), served);
        serials.write(folder.path()).unwrap();
        assert_eq!(Serials::read(folder.path()).unwrap(), serials);
    }
}
