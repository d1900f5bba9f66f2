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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate::codes::assigned_countries;

    fn read(text: &str) -> (Regions, Vec<String>) {
        let report = Report::default();
        let regions = Regions::load(Some(&Source::new("geo/regions.toml", text)), &report);
        let errors = report.into_sorted();
        (regions, errors.iter().map(ToString::to_string).collect())
    }

    fn region_of(regions: &Regions, code: &str) -> Option<String> {
        let area = Area::parse(code).unwrap();
        let region = regions.region_of(Some(area.country()), area.subdivision(), None)?;
        Some(regions.name(region).to_owned())
    }

    #[test]
    fn the_regions_that_ship_hold_every_country() {
        let report = Report::default();
        let regions = Regions::load(None, &report);
        let errors = report.into_sorted();
        assert!(errors.is_empty(), "{errors:?}");
        let names: Vec<_> = regions.iter().map(|(_, name)| name).collect();
        assert_eq!(
            names,
            [
                "nam", "wnam", "enam", "weu", "eeu", "nsam", "ssam", "oc", "me", "naf", "saf",
                "sas", "seas", "neas"
            ]
        );
        // A code in two regions is an error, so each that is found is in one.
        for country in assigned_countries() {
            assert!(regions.region_of(Some(country), None, None).is_some(), "{country}");
        }
        let nam = regions.find("nam");
        for (child, parent) in [("wnam", nam), ("enam", nam), ("weu", None)] {
            assert_eq!(regions.parent(regions.find(child).unwrap()), parent);
        }
        for (code, region) in [
            ("US", "nam"),
            ("CA", "nam"),
            ("MX", "nam"),
            ("US-CA", "wnam"),
            ("US-NY", "enam"),
            ("CA-BC", "wnam"),
            ("CA-QC", "enam"),
            ("MX-BCN", "wnam"),
            ("MX-CMX", "enam"),
            ("US-GU", "oc"),
            ("NL", "weu"),
            ("DE-BE", "weu"),
            ("XK", "eeu"),
        ] {
            assert_eq!(region_of(&regions, code).as_deref(), Some(region), "{code}");
        }
    }

    #[test]
    fn states_and_provinces_are_all_on_one_side() {
        let regions = Regions::load(None, &Report::default());
        let count = |country: &str| {
            let of = |subdivision: &&Subdivision| subdivision.country.to_string() == country;
            regions.by_subdivision.keys().filter(of).count()
        };
        assert_eq!((count("US"), count("CA"), count("MX")), (57, 13, 32));
    }

    #[test]
    fn subdivision_beats_country_beats_continent() {
        let (regions, errors) = read(
            "[regions.europe]\ncontinents = [\"EU\"]\n[regions.weu]\nparent = \"europe\"\n\
             countries = [\"FR\", \"FR-COR\"]\n[regions.corse]\ncountries = [\"FR-20R\"]\n",
        );
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(region_of(&regions, "FR-20R").as_deref(), Some("corse"));
        assert_eq!(region_of(&regions, "FR-IDF").as_deref(), Some("weu"));
        assert_eq!(region_of(&regions, "PL").as_deref(), Some("europe"));
        assert_eq!(region_of(&regions, "JP"), None);
        let europe = regions.find("europe");
        let of_continent = regions.region_of(None, None, Some(Continent::Europe));
        assert_eq!(of_continent, europe);
        // What the database says of a country's continent goes before the usual.
        let asia = Some(Continent::Asia);
        assert_eq!(regions.region_of(Country::parse("CY"), None, asia), None);
        let weu = regions.find("weu").unwrap();
        let ancestors: Vec<_> = regions.ancestors(weu).map(|id| regions.name(id)).collect();
        assert_eq!(ancestors, ["weu", "europe"]);
        assert_eq!(regions.nearest("wue"), Some("weu"));
    }

    #[test]
    fn all_mistakes_are_reported_with_a_remedy() {
        let (_, errors) = read(
            "[regions.weu]\ncountries = [\"NL\", \"UK\", \"N\"]\ncontinent = [\"EU\"]\n\
             [regions.eeu]\nparent = \"wue\"\ncountries = [\"NL\"]\ncontinents = [\"EUR\"]\n\
             [regions.Bad]\n[other]\n",
        );
        assert_eq!(
            errors,
            [
                "geo/regions.toml:2:20: error: regions.weu.countries[1]: UK is not an assigned ISO \
                 3166-1 code\n    help: the code is GB",
                "geo/regions.toml:2:26: error: regions.weu.countries[2]: \"N\" is not an ISO 3166 \
                 code\n    help: give two letters, as \"NL\", or a subdivision, as \"US-CA\"",
                "geo/regions.toml:3:1: error: regions.weu.continent: unknown key\n    help: did \
                 you mean `continents`?",
                "geo/regions.toml:5:10: error: regions.eeu.parent: there is no region \"wue\"\n    \
                 help: did you mean \"weu\"?",
                "geo/regions.toml:6:14: error: regions.eeu.countries[0]: NL is already listed in \
                 region weu (geo/regions.toml:2:14)\n    help: keep it in one of the two",
                "geo/regions.toml:7:15: error: regions.eeu.continents[0]: \"EUR\" is not a choice \
                 here\n    help: did you mean \"EU\"? The choices are \"AF\", \"AN\", \"AS\", \
                 \"EU\", \"NA\", \"OC\", \"SA\"",
                "geo/regions.toml:8:10: error: regions.Bad: \"Bad\" is not a region name\n    help: \
                 give 1 to 63 of the characters a-z, 0-9, - and _",
                "geo/regions.toml:9:2: error: other: unknown key\n    help: the keys here are \
                 regions",
            ]
        );
    }

    #[test]
    fn a_cycle_is_reported_once_and_broken() {
        let (regions, errors) = read(
            "[regions.a]\nparent = \"b\"\n[regions.b]\nparent = \"c\"\n[regions.c]\nparent = \
             \"b\"\n[regions.d]\nparent = \"d\"\n",
        );
        assert_eq!(
            errors,
            [
                "geo/regions.toml:4:10: error: regions.b.parent: the region lies in itself: b in c \
                 in b\n    help: remove `parent` from one of them",
                "geo/regions.toml:8:10: error: regions.d.parent: the region lies in itself: d in \
                 d\n    help: remove `parent` from one of them",
            ]
        );
        for (region, _) in regions.iter() {
            assert!(regions.ancestors(region).count() <= 4);
        }
    }

    #[test]
    fn an_empty_file_is_a_warning() {
        let (regions, errors) = read("# nothing\n");
        assert!(regions.is_empty());
        assert!(errors[0].starts_with("geo/regions.toml: warning"), "{errors:?}");
    }
}
