//! From an address to a place.
//!
//! Loading goes from the files of geo/ to one compiled table: `regions` (the region tree), `subnets`
//! (what the operator knows) and `mmdb` with `record` (what a database knows) become `runs` of
//! addresses, which are laid over one another and compiled into the `table`. A query only touches
//! the table: [`Locator::locate`]. Nothing here reads files; the caller hands in their contents.

pub mod codes;
pub mod mmdb;
pub mod place;
pub mod record;
pub mod regions;
pub mod runs;
pub mod subnets;
pub mod table;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

pub use crate::locate::mmdb::DatabaseInfo;
pub use crate::locate::regions::Regions;
pub use crate::locate::table::Located;

use crate::config::report::{Report, Source};
use crate::locate::mmdb::{Database, NO_RECORD};
use crate::locate::place::{AvailabilityZones, Place};
use crate::locate::record::Record;
use crate::locate::runs::{Bits, Block, Runs};
use crate::locate::subnets::Subnet;
use crate::locate::table::{Table, TableError};

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
        let subnets = match input.subnets {
            Some(source) => subnets::load(source, &regions, zones, report),
            None => Vec::new(),
        };
        let database = match input.database {
            Some((file, content)) => Database::load(file, content, report),
            None => None,
        };
        let mut composer = Composer::new(&regions, &subnets, database.as_ref());
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

/// Makes places from the entries of subnets.toml and the records of the database.
struct Composer<'a> {
    regions: &'a Regions,
    subnets: &'a [Subnet],
    database: Option<&'a Database>,
    places: Vec<Place>,
    by_place: HashMap<Place, u32>,
    by_parts: HashMap<(u32, u32), u32>,
}

impl<'a> Composer<'a> {
    fn new(regions: &'a Regions, subnets: &'a [Subnet], database: Option<&'a Database>) -> Self {
        Self {
            regions,
            subnets,
            database,
            // The first place is that of addresses without a location.
            places: vec![Place::default()],
            by_place: HashMap::from([(Place::default(), 0)]),
            by_parts: HashMap::new(),
        }
    }

    fn compile(&mut self) -> Result<Table, TableError> {
        let (v4_subnets, v6_subnets) = self.subnet_runs();
        let v4 = self.places_of(self.database.map(|database| &database.v4), &v4_subnets);
        let v6 = self.places_of(self.database.map(|database| &database.v6), &v6_subnets);
        Table::build(std::mem::take(&mut self.places), &v4, &v6)
    }

    /// The entries as runs of their numbers, counted from one; zero is "no entry".
    fn subnet_runs(&self) -> (Runs<u32>, Runs<u128>) {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (value, subnet) in (1..).zip(self.subnets) {
            let prefix_length = subnet.network.prefix_len();
            match subnet.network.network() {
                IpAddr::V4(first) => {
                    v4.push(Block { first: first.to_bits(), prefix_length, value })
                }
                IpAddr::V6(first) => {
                    v6.push(Block { first: first.to_bits(), prefix_length, value })
                }
            }
        }
        (Runs::from_nested(v4, 0), Runs::from_nested(v6, 0))
    }

    fn places_of<A: Bits>(&mut self, records: Option<&Runs<A>>, subnets: &Runs<A>) -> Runs<A> {
        let nothing = Runs::uniform(NO_RECORD);
        records
            .unwrap_or(&nothing)
            .overlaid(subnets, |record, subnet| self.place_of(record, subnet))
    }

    /// The number of the place that a record and an entry make together.
    fn place_of(&mut self, record: u32, subnet: u32) -> u32 {
        if let Some(&number) = self.by_parts.get(&(record, subnet)) {
            return number;
        }
        let records = self.database.map(|database| &database.records);
        let record_content = records.and_then(|records| records.get(record as usize));
        let record_content = record_content.copied().unwrap_or_default();
        let subnet_content =
            subnet.checked_sub(1).and_then(|index| self.subnets.get(index as usize));
        let place = compose(self.regions, record_content, subnet_content);
        let number = *self.by_place.entry(place).or_insert_with(|| {
            self.places.push(place);
            u32::try_from(self.places.len() - 1).unwrap_or(0)
        });
        self.by_parts.insert((record, subnet), number);
        number
    }
}

/// Fills field by field what an entry leaves out from the record, where they speak of the same
/// area: if an entry gives another country than the record (or another subdivision), the record's
/// narrower facts are about somewhere else.
fn compose(regions: &Regions, mut record: Record, subnet: Option<&Subnet>) -> Place {
    let area = subnet.and_then(|subnet| subnet.area);
    if let Some(area) = area
        && record.country != Some(area.country())
    {
        record = Record::default();
    }
    if let Some(subdivision) = area.and_then(|area| area.subdivision())
        && record.subdivision != Some(subdivision)
    {
        record.coordinates = None;
    }
    let country = area.map(|area| area.country()).or(record.country);
    let subdivision = area.and_then(|area| area.subdivision()).or(record.subdivision);
    let region = subnet
        .and_then(|subnet| subnet.region)
        .or_else(|| regions.region_of(country, subdivision, record.continent));
    Place {
        region,
        zone: subnet.and_then(|subnet| subnet.zone),
        country,
        subdivision,
        coordinates: subnet.and_then(|subnet| subnet.coordinates).or(record.coordinates),
    }
}

#[cfg(test)]
mod tests;
