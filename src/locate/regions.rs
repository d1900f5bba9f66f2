//! The region tree: named parts of the world, and which region a country belongs to.
//!
//! It is read from geo/regions.toml, or from the set that ships in default-regions.toml. Countries
//! without a region of their own fall to the region of their continent, if there is one.

use std::collections::HashMap;
use std::hash::Hash;

use crate::config::reader::{File, Place, Table, Value};
use crate::config::report::{Report, Source, nearest};
use crate::locate::codes::{Area, Continent};
use crate::locate::place::{Country, RegionId, Subdivision};

/// The text of the regions that ship with the program.
pub const DEFAULT_REGIONS: &str = include_str!("default-regions.toml");

const NAME_REMEDY: &str = "give 1 to 63 of the characters a-z, 0-9, - and _";

/// The regions, numbered in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    regions: Vec<Region>,
    by_name: HashMap<String, RegionId>,
    by_subdivision: HashMap<Subdivision, RegionId>,
    by_country: HashMap<Country, RegionId>,
    by_continent: HashMap<Continent, RegionId>,
}

#[derive(Clone, Debug)]
struct Region {
    name: String,
    parent: Option<RegionId>,
}

impl Regions {
    /// Reads geo/regions.toml, or takes the set that ships where there is no such file. Mistakes
    /// are reported, and what could be read is returned.
    pub fn load(source: Option<&Source>, report: &Report) -> Self {
        match source {
            Some(source) => Self::read(source, report),
            None => Self::read(&Source::new("default-regions.toml", DEFAULT_REGIONS), report),
        }
    }

    fn read(source: &Source, report: &Report) -> Self {
        let document = File::parse(source, report);
        let root = document.root();
        let mut reading = Reading::default();
        if let Some(table) =
            root.optional("regions").and_then(|value| value.table("tables [regions.NAME]"))
        {
            reading.tables(&table);
        }
        root.finish();
        if reading.regions.regions.is_empty() && !report.has_errors() {
            let help = "remove the file to use the regions that ship, or add [regions.NAME]";
            report.warning(source.path(), None, "", "the file has no regions", help);
        }
        reading.regions
    }

    /// The region with a name.
    pub fn find(&self, name: &str) -> Option<RegionId> {
        self.by_name.get(name).copied()
    }

    /// The region that a configuration value names; a mistake is reported with the nearest name.
    pub fn read_name(&self, value: &Value<'_, '_>) -> Option<RegionId> {
        let name = value.string("the name of a region")?;
        let region = self.find(name);
        if region.is_none() {
            let help = match self.nearest(name) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "add it to geo/regions.toml, or name a region that is there".to_owned(),
            };
            value.error(format!("there is no region {name:?}"), help);
        }
        region
    }

    /// The name that an unknown name was probably meant to be.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.iter().map(|(_, name)| name))
    }

    /// The name of a region.
    pub fn name(&self, region: RegionId) -> &str {
        self.get(region).map_or("", |region| &region.name)
    }

    /// The region that a region lies in.
    pub fn parent(&self, region: RegionId) -> Option<RegionId> {
        self.get(region)?.parent
    }

    /// The region itself and those that it lies in, from the inside out.
    pub fn ancestors(&self, region: RegionId) -> impl Iterator<Item = RegionId> {
        std::iter::successors(Some(region), |&region| self.parent(region))
    }

    /// All regions with their names, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (RegionId, &str)> {
        (0..).map(RegionId).zip(self.regions.iter().map(|region| region.name.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The region of a place: subdivision beats country beats continent. Where no continent is
    /// given, that of the country counts.
    pub fn region_of(
        &self,
        country: Option<Country>,
        subdivision: Option<Subdivision>,
        continent: Option<Continent>,
    ) -> Option<RegionId> {
        let of_subdivision = || self.by_subdivision.get(&subdivision?).copied();
        let of_country = || self.by_country.get(&country?).copied();
        let of_continent = || {
            let continent = continent.or_else(|| Continent::of(country?))?;
            self.by_continent.get(&continent).copied()
        };
        of_subdivision().or_else(of_country).or_else(of_continent)
    }

    fn get(&self, region: RegionId) -> Option<&Region> {
        self.regions.get(usize::from(region.0))
    }
}

/// The state of reading one file.
#[derive(Default)]
struct Reading {
    regions: Regions,
    /// Where each code was listed first.
    listed: HashMap<String, (RegionId, Place)>,
}

impl Reading {
    fn tables(&mut self, table: &Table<'_, '_>) {
        // All names first: a parent may stand below its children.
        let mut known = Vec::new();
        for (name, value) in table.entries() {
            if let Some(region) = self.add(&name, &value) {
                known.push((region, value));
            }
        }
        let mut parents = Vec::new();
        for (region, value) in known {
            let Some(table) = value.table("a table [regions.NAME]") else {
                continue;
            };
            self.codes(region, &table);
            if let Some(value) = table.optional("parent")
                && let Some(parent) = self.regions.read_name(&value)
            {
                self.set_parent(region, Some(parent));
                parents.push((region, value));
            }
            table.finish();
        }
        for (region, value) in parents {
            self.check_cycle(region, &value);
        }
    }

    fn add(&mut self, name: &str, value: &Value<'_, '_>) -> Option<RegionId> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if !(1..=63).contains(&name.len()) || !name.chars().all(valid) {
            value.key_error(format!("{name:?} is not a region name"), NAME_REMEDY);
            return None;
        }
        let Ok(number) = u16::try_from(self.regions.len()) else {
            value.key_error("there are more than 65,536 regions", "remove those that are not used");
            return None;
        };
        let region = RegionId(number);
        self.regions.regions.push(Region { name: name.to_owned(), parent: None });
        self.regions.by_name.insert(name.to_owned(), region);
        Some(region)
    }

    fn codes(&mut self, region: RegionId, table: &Table<'_, '_>) {
        let entries = |key| {
            let list = table.optional(key).and_then(|value| value.list("a list of codes"));
            list.unwrap_or_default()
        };
        for value in entries("countries") {
            match Area::read(&value) {
                Some(Area::Country(country)) => {
                    self.list(region, &value, country.to_string());
                    insert_new(&mut self.regions.by_country, country, region);
                }
                Some(Area::Subdivision(subdivision)) => {
                    self.list(region, &value, subdivision.to_string());
                    insert_new(&mut self.regions.by_subdivision, subdivision, region);
                }
                None => {}
            }
        }
        for value in entries("continents") {
            if let Some(continent) = value.choice(&Continent::ALL) {
                self.list(region, &value, format!("continent {continent}"));
                insert_new(&mut self.regions.by_continent, continent, region);
            }
        }
    }

    /// Notes where a code is listed, and reports it if it already was.
    fn list(&mut self, region: RegionId, value: &Value<'_, '_>, code: String) {
        let place = value.place();
        if let Some((other, first)) = self.listed.get(&code) {
            let message = format!(
                "{code} is already listed in region {} ({}:{}:{})",
                self.regions.name(*other),
                first.file.display(),
                first.position.line,
                first.position.column,
            );
            place.error(value.report(), message, "keep it in one of the two");
        } else {
            self.listed.insert(code, (region, place));
        }
    }

    /// Reports a region that lies in itself, and takes it out of what it lies in.
    fn check_cycle(&mut self, region: RegionId, parent: &Value<'_, '_>) {
        // A walk longer than there are regions is in a cycle, perhaps one further up.
        let walk = || self.regions.ancestors(region).take(self.regions.len() + 1);
        if !walk().skip(1).any(|ancestor| ancestor == region) {
            return;
        }
        let around = walk().skip(1).take_while(|&ancestor| ancestor != region);
        let names: Vec<_> = std::iter::once(region)
            .chain(around)
            .chain([region])
            .map(|region| self.regions.name(region))
            .collect();
        parent.error(
            format!("the region lies in itself: {}", names.join(" in ")),
            "remove `parent` from one of them",
        );
        self.set_parent(region, None);
    }

    fn set_parent(&mut self, region: RegionId, parent: Option<RegionId>) {
        if let Some(region) = self.regions.regions.get_mut(usize::from(region.0)) {
            region.parent = parent;
        }
    }
}

/// The first mention of a code counts, so that a mistake does not lead to others.
fn insert_new<K: Hash + Eq>(map: &mut HashMap<K, RegionId>, code: K, region: RegionId) {
    map.entry(code).or_insert(region);
}
