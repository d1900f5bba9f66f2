//! From an address to a place.
//!
//! Loading goes from the files of geo/ to one compiled table: `regions` (the region tree), `subnets`
//! (what the operator knows) and `mmdb` with `record` (what a database knows) become `runs` of
//! addresses; `compose` lays them over one another, and the `table` is compiled from that. A query only touches
//! the table: [`Locator::locate`]. Nothing here reads files; the caller hands in their contents.

pub mod centroids;
pub mod codes;
mod compose;
pub mod mmdb;
pub mod place;
pub mod record;
pub mod regions;
pub mod runs;
pub mod subnets;
pub mod table;

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

pub use crate::locate::mmdb::DatabaseInfo;
pub use crate::locate::regions::Regions;
pub use crate::locate::table::Located;

use crate::config::report::{Report, Source};
use crate::locate::compose::Composer;
use crate::locate::mmdb::Database;
use crate::locate::place::{AvailabilityZones, Place};
use crate::locate::subnets::Subnet;
use crate::locate::table::Table;

/// The contents of the files of geo/ that say where clients are.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocatorInput<'a> {
    /// geo/regions.toml; without it the regions that ship are used.
    pub regions: Option<&'a Source>,
    /// geo/subnets.toml.
    pub subnets: Option<&'a Source>,
    /// The name and content of the database; see [`mmdb::only_database`] for several.
    pub database: Option<(&'a Path, &'a [u8])>,
}

/// Knows where every address is.
#[derive(Debug)]
pub struct Locator {
    table: Table,
    regions: Regions,
    subnets: Vec<Subnet>,
    database: Option<DatabaseInfo>,
}

/// What an address was located by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// The subnet of subnets.toml; or else the network around the address of which the database
    /// knows the same.
    pub network: Option<IpNet>,
    /// Where that stands.
    pub source: MatchSource,
}

/// Where a place was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchSource {
    /// In geo/subnets.toml, with what it leaves out from the database.
    Subnets,
    /// In the database.
    Database,
    /// Nowhere: the client has no location.
    None,
}

impl Locator {
    /// Compiles the table. Mistakes are reported; if there are errors, the locator knows what could
    /// be read and is not to be served from.
    pub fn load(input: LocatorInput<'_>, zones: &mut AvailabilityZones, report: &Report) -> Self {
        let regions = Regions::load(input.regions, report);
        // Regions that could not be read would all be unknown there.
        let has_regions = input.regions.is_none_or(|source| !report.is_silenced(source.path()));
        let subnets = match input.subnets.filter(|_| has_regions) {
            Some(source) => subnets::load(source, &regions, zones, report),
            None => Vec::new(),
        };
        let database = match input.database {
            Some((file, content)) => Database::load(file, content, report),
            None => None,
        };
        let composer = Composer::new(&regions, &subnets, database.as_ref());
        let table = composer.compile().unwrap_or_else(|error| {
            let file = input.database.map(|(file, _)| file);
            let file = file.unwrap_or_else(|| Path::new("geo"));
            report.error(file, None, "", error.to_string(), "use a smaller database");
            Table::default()
        });
        Self { table, database: database.map(|database| database.info), regions, subnets }
    }

    /// The place of an address, and the scope within which it is the same.
    pub fn locate(&self, address: IpAddr) -> Located {
        self.table.locate(address)
    }

    /// The number of its place, and the scope.
    #[inline]
    pub fn find(&self, address: &IpAddr) -> (u32, u8) {
        self.table.find(address)
    }

    /// What an address is located by: for explanations, not for answers.
    pub fn describe(&self, address: IpAddr) -> Matched {
        let address = address.to_canonical();
        let subnet = self
            .subnets
            .iter()
            .map(|subnet| subnet.network)
            .filter(|network| network.contains(&address))
            .max_by_key(IpNet::prefix_len);
        if subnet.is_some() {
            return Matched { network: subnet, source: MatchSource::Subnets };
        }
        let Located { place, scope, .. } = self.locate(address);
        if place == Place::default() {
            return Matched { network: None, source: MatchSource::None };
        }
        let network = IpNet::new(address, scope).ok().map(|network| network.trunc());
        Matched { network, source: MatchSource::Database }
    }

    /// The region tree.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The entries of subnets.toml, in ascending order of address.
    pub fn subnets(&self) -> &[Subnet] {
        &self.subnets
    }

    /// What the database says of itself, if there is one.
    pub fn database(&self) -> Option<&DatabaseInfo> {
        self.database.as_ref()
    }

    /// The compiled table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

#[cfg(test)]
mod tests;
