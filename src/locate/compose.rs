//! Makes the table of places from what the operator and the database know.
//!
//! An entry of subnets.toml goes before the database as a whole: among entries the longest prefix
//! counts, and no wider one. Only then are its gaps filled, from the database alone.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::locate::mmdb::{Database, NO_RECORD};
use crate::locate::place::Place;
use crate::locate::record::Record;
use crate::locate::regions::Regions;
use crate::locate::runs::{Bits, Block, Runs};
use crate::locate::subnets::Subnet;
use crate::locate::table::{Table, TableError};

/// Makes places from the entries of subnets.toml and the records of the database.
pub(super) struct Composer<'a> {
    regions: &'a Regions,
    subnets: &'a [Subnet],
    database: Option<&'a Database>,
    places: Vec<Place>,
    by_place: HashMap<Place, u32>,
    by_parts: HashMap<(u32, u32), u32>,
}

impl<'a> Composer<'a> {
    pub(super) fn new(
        regions: &'a Regions,
        subnets: &'a [Subnet],
        database: Option<&'a Database>,
    ) -> Self {
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

    /// The table of all addresses.
    ///
    /// # Errors
    /// [`TableError`] if it would be too large.
    pub(super) fn compile(mut self) -> Result<Table, TableError> {
        let (v4_subnets, v6_subnets) = self.subnet_runs();
        let v4 = self.places_of(self.database.map(|database| &database.v4), &v4_subnets);
        let v6 = self.places_of(self.database.map(|database| &database.v6), &v6_subnets);
        Table::build(self.places, &v4, &v6)
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
