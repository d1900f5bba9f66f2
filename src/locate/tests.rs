//! What regions, subnets and the database make together, and the databases that the tests of this
//! folder share.

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

#[test]
fn country_databases_give_the_country() {
    let (locator, _, errors) = load(None, None, Some(COUNTRY));
    assert!(errors.is_empty(), "{errors:?}");
    let sweden = place(&locator, "89.160.20.112");
    assert_eq!(sweden.country, Country::parse("SE"));
    assert_eq!(sweden.region, locator.regions().find("weu"));
    assert_eq!((sweden.subdivision, sweden.coordinates), (None, None));
    assert_eq!(place(&locator, "2001:220::1").country, Country::parse("KR"));
    assert_eq!(place(&locator, "192.0.2.1"), Place::default());
}

#[test]
fn flat_databases_give_the_country() {
    let (locator, _, errors) = load(None, None, Some("geo/iptoasn-country.mmdb"));
    assert!(errors.is_empty(), "{errors:?}");
    for (address, country) in
        [("193.0.6.139", "NL"), ("2001:67c:2e8:22::c100:68b", "NL"), ("200.160.2.3", "BR")]
    {
        assert_eq!(place(&locator, address).country, Country::parse(country), "{address}");
    }
    let info = locator.database().unwrap();
    assert!(info.networks > 300_000 && info.records > 200, "{info:?}");
}

#[test]
fn what_an_entry_leaves_out_comes_from_the_database() {
    let subnets = "
        [subnets.\"81.2.69.0/24\"]
        region = \"neas\"
        zone = \"a\"
        [subnets.\"216.160.83.0/24\"]
        location = [1.0, 2.0]
        [subnets.\"89.160.20.0/24\"]
        country = \"SE\"
        [subnets.\"2.125.160.216/29\"]
        country = \"NL\"
        [subnets.\"175.16.199.0/24\"]
        country = \"CN-11\"
    ";
    let (locator, zones, errors) = load(None, Some(subnets), Some(CITY));
    assert!(errors.is_empty(), "{errors:?}");
    let (without, _, _) = load(None, None, Some(CITY));

    let london = place(&locator, "81.2.69.142");
    let expected = Place {
        region: locator.regions().find("neas"),
        zone: london.zone,
        ..place(&without, "81.2.69.142")
    };
    assert_eq!(zones.name(london.zone.unwrap()), "a");
    assert_eq!(london, expected);
    // Where the database knows nothing, the entry is all there is.
    let outside = place(&locator, "81.2.69.1");
    assert_eq!((outside.region, outside.country), (expected.region, None));

    let milton = place(&locator, "216.160.83.57");
    assert_eq!(milton.coordinates, Coordinates::from_degrees(1.0, 2.0));
    assert_eq!(milton.subdivision, Subdivision::parse("US-WA"));
    assert_eq!(milton.region, locator.regions().find("wnam"));

    // The same country: what is narrower holds. Another one: it does not.
    assert_eq!(place(&locator, "89.160.20.113"), place(&without, "89.160.20.113"));
    let moved = place(&locator, "2.125.160.217");
    assert!(place(&without, "2.125.160.217").coordinates.is_some());
    let expected = Place {
        region: locator.regions().find("weu"),
        country: Country::parse("NL"),
        ..Place::default()
    };
    assert_eq!(moved, expected);
    let beijing = place(&locator, "175.16.199.1");
    assert_eq!(beijing.subdivision, Subdivision::parse("CN-11"));
    assert_eq!(beijing.coordinates, None);
}

#[test]
fn a_subnet_without_a_country_is_split_by_those_of_the_database() {
    let subnets = "[subnets.\"0.0.0.0/0\"]\nregion = \"weu\"\n";
    let (locator, _, _) = load(None, Some(subnets), Some(CITY));
    let sweden = locator.locate(address("89.160.20.113"));
    let london = locator.locate(address("81.2.69.142"));
    assert_eq!(sweden.place.region, london.place.region);
    assert_ne!(sweden.place.country, london.place.country);
    assert!(sweden.scope > 8 && london.scope > 8);
}

#[test]
fn entries_do_not_inherit_from_wider_ones() {
    let subnets = "
        [subnets.\"10.0.0.0/8\"]
        region = \"weu\"
        zone = \"a\"
        country = \"NL\"
        [subnets.\"10.1.0.0/16\"]
        region = \"eeu\"
        [subnets.\"10.1.2.0/24\"]
    ";
    let (locator, _, errors) = load(None, Some(subnets), None);
    assert!(errors.is_empty(), "{errors:?}");
    let middle = Place { region: locator.regions().find("eeu"), ..Place::default() };
    assert_eq!(place(&locator, "10.1.0.1"), middle);
    assert_eq!(place(&locator, "10.1.2.1"), Place::default());
    assert_eq!(locator.locate(address("10.1.2.1")).scope, 24);
    // The /24 inside makes the rest of the /16 no longer one block.
    assert_eq!(locator.locate(address("10.1.3.1")).scope, 24);
    assert_eq!(locator.locate(address("10.1.128.1")).scope, 17);
    assert_eq!(locator.locate(address("10.128.0.1")).scope, 9);
    assert_eq!(locator.locate(address("::ffff:10.128.0.1")).scope, 96 + 9);
}

#[test]
fn the_match_is_described() {
    let subnets = "[subnets.\"10.0.0.0/8\"]\nregion = \"weu\"\n[subnets.\"10.1.0.0/16\"]\n\
                   [subnets.\"::ffff:10.2.0.0/112\"]\n[subnets.\"2001:db8::/32\"]\n";
    let (locator, _, errors) = load(None, Some(subnets), Some(CITY));
    assert!(errors.is_empty(), "{errors:?}");
    for (client, network, source) in [
        ("10.0.0.1", Some("10.0.0.0/8"), MatchSource::Subnets),
        ("10.1.0.1", Some("10.1.0.0/16"), MatchSource::Subnets),
        ("10.2.0.1", Some("10.2.0.0/16"), MatchSource::Subnets),
        ("::ffff:10.2.0.1", Some("10.2.0.0/16"), MatchSource::Subnets),
        ("2001:db8::1", Some("2001:db8::/32"), MatchSource::Subnets),
        ("81.2.69.142", Some("81.2.69.142/31"), MatchSource::Database),
        ("::ffff:81.2.69.142", Some("81.2.69.142/31"), MatchSource::Database),
        ("192.0.2.1", None, MatchSource::None),
    ] {
        let network = network.map(|network| network.parse().unwrap());
        assert_eq!(locator.describe(address(client)), Matched { network, source }, "{client}");
    }
}

#[test]
fn continents_work_with_databases_that_have_none() {
    let regions = "[regions.europe]\ncontinents = [\"EU\"]\n";
    let (locator, _, errors) = load(Some(regions), None, Some("geo/iptoasn-country.mmdb"));
    assert!(errors.is_empty(), "{errors:?}");
    let europe = locator.regions().find("europe");
    assert!(europe.is_some());
    assert_eq!(place(&locator, "193.0.6.139").region, europe);
    assert_eq!(place(&locator, "200.160.2.3").region, None);
}

#[test]
fn all_files_are_read_even_if_one_is_wrong() {
    let (locator, _, errors) = load(
        Some("[regions.weu]\ncountries = [\"XYZ\"]\n"),
        Some("[subnets.\"10.0.0.0/33\"]\n"),
        Some(ASN),
    );
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(locator.locate(address("10.0.0.1")), Located::default());
    assert!(locator.database().is_none());
}
