use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::*;
use crate::locate::place::{Coordinates, Country, Subdivision};

/// A file that lies beside the source.
pub(super) fn file(name: &str) -> (PathBuf, Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let content = std::fs::read(&path).unwrap();
    (path, content)
}

pub(super) const CITY: &str = "tests/data/geo/GeoIP2-City-Test.mmdb";
pub(super) const COUNTRY: &str = "tests/data/geo/GeoIP2-Country-Test.mmdb";
pub(super) const ASN: &str = "tests/data/geo/GeoLite2-ASN-Test.mmdb";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A locator from texts and a database, with what is wrong with them.
fn load(
    regions: Option<&str>,
    subnets: Option<&str>,
    database: Option<&str>,
) -> (Locator, AvailabilityZones, Vec<String>) {
    let regions = regions.map(|text| Source::new("geo/regions.toml", text));
    let subnets = subnets.map(|text| Source::new("geo/subnets.toml", text));
    let database = database.map(file);
    let mut zones = AvailabilityZones::default();
    let report = Report::default();
    let input = LocatorInput {
        regions: regions.as_ref(),
        subnets: subnets.as_ref(),
        database: database.as_ref().map(|(path, content)| (&**path, &**content)),
    };
    let locator = Locator::load(input, &mut zones, &report);
    let errors = report.into_sorted();
    (locator, zones, errors.iter().map(ToString::to_string).collect())
}

fn place(locator: &Locator, text: &str) -> Place {
    locator.locate(address(text)).place
}

#[test]
fn city_databases_give_everything() {
    let (locator, _, errors) = load(None, None, Some(CITY));
    assert!(errors.is_empty(), "{errors:?}");
    let london = place(&locator, "81.2.69.142");
    assert_eq!(london.country, Country::parse("GB"));
    assert_eq!(london.subdivision, Subdivision::parse("GB-ENG"));
    assert_eq!(london.coordinates, Coordinates::from_degrees(51.5142, -0.0931));
    assert_eq!(london.region, locator.regions().find("weu"));
    let milton = place(&locator, "216.160.83.57");
    assert_eq!(milton.subdivision, Subdivision::parse("US-WA"));
    assert_eq!(milton.region, locator.regions().find("wnam"));
    let info = locator.database().unwrap();
    assert_eq!(info.database_type, "GeoIP2-City");
}
