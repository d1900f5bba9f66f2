//! Zones: what their sources say, and what is found in them.
//!
//! `lexer`, `master` and `rdata` turn texts into records; `build` checks the records of a zone and
//! makes its tree; `node` is that tree; `lookup` finds a name in it (RFC 1034 section 4.3.2). A
//! query only touches the last two.

pub mod build;
mod checks;
mod field;
mod findings;
mod header;
pub mod lexer;
pub mod lookup;
pub mod master;
pub mod node;
pub mod rdata;
mod svcb;
mod word;

use crate::name::{Name, parent_of};
use crate::rr::RecordType;
use crate::zone::node::{NameMap, Zone};

/// All zones of a state.
#[derive(Debug, Default)]
pub struct ZoneSet {
    zones: Vec<Zone>,
    by_apex: NameMap<usize>,
}

impl ZoneSet {
    /// Collects zones of different apexes.
    pub fn new(zones: Vec<Zone>) -> Self {
        let by_apex =
            zones.iter().enumerate().map(|(index, zone)| (zone.apex.to_key(), index)).collect();
        Self { zones, by_apex }
    }

    /// The zone that a question is answered from: of those at or above the name the nearest; for DS
    /// at an apex the parent zone if it is here too (RFC 4035 section 3.1.4.1). `key` is the name
    /// in lower-case wire form.
    pub fn find(&self, key: &[u8], record_type: RecordType) -> Option<&Zone> {
        self.find_numbered(key, record_type).map(|(_, zone)| zone)
    }

    /// The same with the zone's number, by which its answers are counted.
    pub fn find_numbered(&self, key: &[u8], record_type: RecordType) -> Option<(u32, &Zone)> {
        let nearest = |from: Option<&[u8]>| {
            let mut suffix = from;
            while let Some(name) = suffix {
                if let Some(&index) = self.by_apex.get(name) {
                    return Some((u32::try_from(index).ok()?, self.zones.get(index)?));
                }
                suffix = parent_of(name);
            }
            None
        };
        let parents = if record_type == RecordType::DS { nearest(parent_of(key)) } else { None };
        parents.or_else(|| nearest(Some(key)))
    }

    /// The zone with this apex.
    pub fn at(&self, apex: &Name) -> Option<&Zone> {
        self.at_key(&apex.to_key())
    }

    /// The zone whose apex has this lower-case wire form.
    pub fn at_key(&self, key: &[u8]) -> Option<&Zone> {
        self.by_apex.get(key).and_then(|&index| self.zones.get(index))
    }

    /// All zones.
    pub fn iter(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter()
    }

    /// All zones, to be completed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Zone> {
        self.zones.iter_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }
}
