//! Reads location databases in MaxMind's format: into runs of distinct records, once, at loading.
//!
//! The search tree is walked here and not by the `maxminddb` crate, so that a corrupt tree ends
//! within a bound: no node is visited more often than a sound file needs. The crate checks the
//! file's frame, finds records and decodes them.
//!
//! IPv4 data is taken from `::/96`, where the format puts it. Other places where the tree leads to
//! the same nodes (`::ffff:0:0/96`, `2001::/32`, `2002::/16`) are aliases for old readers, and are
//! left out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use maxminddb::{MaxMindDbError, Reader};

use crate::config::report::Report;
use crate::locate::record::{Datum, Record};
use crate::locate::runs::{Bits, Runs};

/// The number of "no record" in the runs.
pub const NO_RECORD: u32 = 0;

/// What a database says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// The file, as the user would name it.
    pub file: PathBuf,
    /// The type, as `GeoLite2-City`.
    pub database_type: String,
    /// When it was built, in seconds since 1970.
    pub build_epoch: u64,
    /// How many networks have a record.
    pub networks: usize,
    /// How many records differ in what is used of them.
    pub records: usize,
}

/// The content of a database.
#[derive(Debug)]
pub struct Database {
    /// What it says of itself.
    pub info: DatabaseInfo,
    /// The distinct records; the first stands for no record.
    pub records: Vec<Record>,
    /// The numbers of the records of all IPv4 addresses.
    pub v4: Runs<u32>,
    /// The numbers of the records of all IPv6 addresses.
    pub v6: Runs<u128>,
}

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The frame or a record is damaged, or it is no such database at all.
    #[error("{0}")]
    Format(#[from] MaxMindDbError),
    /// The search tree leads in circles or deeper than an address is long.
    #[error("the search tree is damaged: it leads in circles")]
    Tree,
    /// The records are larger than records are.
    #[error("the records are damaged: they hold far more values than the file could")]
    Records,
    /// Nothing in it says where an address is.
    #[error(
        "it is no location database (its type is {database_type:?}): no record has a country, \
         continent or location"
    )]
    NoLocation {
        /// The type that the file gives itself.
        database_type: String,
    },
}

impl DatabaseError {
    /// What would be right.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoLocation { .. } => {
                "use a country or city database: records with country.iso_code or country_code, \
                 continent.code, or location.latitude and location.longitude"
            }
            Self::Format(_) | Self::Tree | Self::Records => {
                "get the file again; a MaxMind-format country or city database (.mmdb) belongs here"
            }
        }
    }
}

impl Database {
    /// Reads a database, and reports why if it cannot.
    pub fn load(file: &Path, content: &[u8], report: &Report) -> Option<Self> {
        match Self::read(file, content) {
            Ok(database) => Some(database),
            Err(error) => {
                let message = format!("the database cannot be used: {error}");
                report.error(file, None, "", message, error.help());
                None
            }
        }
    }

    fn read(file: &Path, content: &[u8]) -> Result<Self, DatabaseError> {
        let reader = Reader::from_source(content)?;
        let metadata = reader.metadata();
        let node_count = metadata.node_count as usize;
        let mut walk = Walk {
            tree: Tree { content, node_octets: usize::from(metadata.record_size) / 4, node_count },
            steps_left: node_count.saturating_mul(2).saturating_add(256),
            values_left: content.len().saturating_mul(8).saturating_add(1 << 20),
            networks: 0,
            records: Records::default(),
            reader: &reader,
        };
        let (v4, v6) = if metadata.ip_version == 4 {
            (walk.runs(0, None)?, Runs::uniform(NO_RECORD))
        } else {
            let v4_root = walk.tree.v4_root();
            let aliased = Some(v4_root).filter(|&node| node < node_count);
            (walk.runs(v4_root, None)?, walk.runs(0, aliased)?)
        };
        let records = walk.records.distinct;
        if records.iter().all(|record| *record == Record::default()) {
            return Err(DatabaseError::NoLocation {
                database_type: metadata.database_type.clone(),
            });
        }
        let info = DatabaseInfo {
            file: file.to_owned(),
            database_type: metadata.database_type.clone(),
            build_epoch: metadata.build_epoch,
            networks: walk.networks,
            records: records.len() - 1,
        };
        Ok(Self { info, records, v4, v6 })
    }
}

/// The only database of those found in geo/. A node has one database: of two, nobody could say
/// which of them an answer followed. More than one is reported, with their names.
pub fn only_database<'a>(files: &'a [PathBuf], report: &Report) -> Option<&'a Path> {
    match files {
        [] => None,
        [file] => Some(file),
        [first, ..] => {
            let mut names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            names.sort();
            let message = format!("there are {} databases: {}", files.len(), names.join(", "));
            let folder = first.parent().unwrap_or(first);
            report.error(folder, None, "", message, "keep one of them here");
            None
        }
    }
}

/// The search tree's nodes: two records each, for the next bit 0 and 1.
struct Tree<'a> {
    content: &'a [u8],
    node_octets: usize,
    node_count: usize,
}

impl Tree<'_> {
    /// The record of a node for a bit. `None` if it is not within the file, which the crate has
    /// checked.
    fn child(&self, node: usize, bit: u8) -> Option<usize> {
        let start = node.checked_mul(self.node_octets)?;
        let node = self.content.get(start..)?.get(..self.node_octets)?;
        let number = match (node, bit) {
            (&[a, b, c, _, _, _], 0) | (&[_, _, _, a, b, c], _) => [0, a, b, c],
            // The middle octet holds the highest four bits of both records.
            (&[a, b, c, middle, _, _, _], 0) => [middle >> 4, a, b, c],
            (&[_, _, _, middle, a, b, c], _) => [middle & 0xf, a, b, c],
            (&[a, b, c, d, _, _, _, _], 0) | (&[_, _, _, _, a, b, c, d], _) => [a, b, c, d],
            _ => return None,
        };
        usize::try_from(u32::from_be_bytes(number)).ok()
    }

    /// Where the IPv4 data of a tree for IPv6 begins: behind 96 zero bits, or what stands there
    /// before.
    fn v4_root(&self) -> usize {
        let mut node = 0;
        for _ in 0..96 {
            if node >= self.node_count {
                break;
            }
            node = self.child(node, 0).unwrap_or(self.node_count);
        }
        node
    }
}

/// The distinct records that were decoded, by where they stand and by their content.
struct Records {
    distinct: Vec<Record>,
    by_pointer: HashMap<usize, u32>,
    by_content: HashMap<Record, u32>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            distinct: vec![Record::default()],
            by_pointer: HashMap::new(),
            by_content: HashMap::from([(Record::default(), NO_RECORD)]),
        }
    }
}

/// A walk through the tree, in the order of addresses.
struct Walk<'a> {
    tree: Tree<'a>,
    reader: &'a Reader<&'a [u8]>,
    records: Records,
    networks: usize,
    /// Bounds the work on the tree: a sound one is walked once.
    steps_left: usize,
    /// Bounds the work on the records: sound ones share little.
    values_left: usize,
}

impl Walk<'_> {
    /// The records of all addresses below a node. The `aliased` node is not entered.
    fn runs<A: Bits + Into<Tagged>>(
        &mut self,
        root: usize,
        aliased: Option<usize>,
    ) -> Result<Runs<A>, DatabaseError> {
        let mut runs = Runs::uniform(NO_RECORD);
        let mut open = vec![(root, A::FIRST, 0_u8)];
        while let Some((node, first, depth)) = open.pop() {
            if Some(node) == aliased || node == self.tree.node_count {
                runs.push(first, NO_RECORD);
            } else if node > self.tree.node_count {
                self.networks += 1;
                let record = self.record(node, first.into())?;
                runs.push(first, record);
            } else {
                self.steps_left = self.steps_left.checked_sub(1).ok_or(DatabaseError::Tree)?;
                if depth >= A::WIDTH {
                    return Err(DatabaseError::Tree);
                }
                for bit in [1, 0] {
                    let child = self.tree.child(node, bit).ok_or(DatabaseError::Tree)?;
                    open.push((child, first.with(depth, 1, bit), depth + 1));
                }
            }
        }
        Ok(runs)
    }

    /// The number of the record that a pointer of the tree leads to, for one of its addresses.
    fn record(&mut self, pointer: usize, Tagged(address): Tagged) -> Result<u32, DatabaseError> {
        if let Some(&number) = self.records.by_pointer.get(&pointer) {
            return Ok(number);
        }
        let datum = self.reader.lookup(address)?.decode::<Datum<'_>>()?;
        let datum = datum.unwrap_or_default();
        let values = self.values_left.checked_sub(datum.size());
        self.values_left = values.ok_or(DatabaseError::Records)?;
        let record = Record::from(&datum);
        let Records { distinct, by_pointer, by_content } = &mut self.records;
        let number = *by_content.entry(record).or_insert_with(|| {
            distinct.push(record);
            // There are fewer records than the tree has pointers, which have at most 32 bits.
            u32::try_from(distinct.len() - 1).unwrap_or(NO_RECORD)
        });
        by_pointer.insert(pointer, number);
        Ok(number)
    }
}

/// An address of the tree as the crate takes it.
struct Tagged(IpAddr);

impl From<u32> for Tagged {
    fn from(bits: u32) -> Self {
        Self(IpAddr::from(bits.to_be_bytes()))
    }
}

impl From<u128> for Tagged {
    fn from(bits: u128) -> Self {
        Self(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    }
}

#[cfg(test)]
mod tests;
