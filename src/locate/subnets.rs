//! geo/subnets.toml: what the operator knows of subnets, above all their region and availability
//! zone.
//!
//! The longest prefix wins as a whole: an entry inherits nothing from a wider one. What an entry
//! leaves out is filled from the database when the table is compiled.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use crate::config::pools::availability_zone;
use crate::config::reader::{File, Place, Table, Value};
use crate::config::report::{Position, Report, Source};
use crate::locate::codes::Area;
use crate::locate::place::{AvailabilityZoneId, AvailabilityZones, Coordinates, RegionId};
use crate::locate::regions::Regions;

/// The prefix length of IPv4-mapped IPv6 addresses.
const MAPPED_LENGTH: u8 = 96;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The addresses that it is for; IPv4-mapped IPv6 ones are IPv4 here.
    pub network: IpNet,
    /// The region, if it is given.
    pub region: Option<RegionId>,
    /// The availability zone within `region`.
    pub zone: Option<AvailabilityZoneId>,
    /// The country or subdivision, if it is given.
    pub area: Option<Area>,
    /// The coordinates, if they are given.
    pub coordinates: Option<Coordinates>,
    /// Where it stands in the file.
    pub position: Position,
}

/// Reads geo/subnets.toml. Mistakes are reported; the entries that could be read are returned in
/// ascending order of address, the wider before the narrower ones within it.
pub fn load(
    source: &Source,
    regions: &Regions,
    zones: &mut AvailabilityZones,
    report: &Report,
) -> Vec<Subnet> {
    let document = File::parse(source, report);
    let root = document.root();
    let mut subnets = Vec::new();
    let mut seen: HashMap<IpNet, Place> = HashMap::new();
    if let Some(table) =
        root.optional("subnets").and_then(|value| value.table("tables [subnets.\"CIDR\"]"))
    {
        for (text, value) in table.entries() {
            let network = network(&text, &value);
            let Some(table) = value.table("a table [subnets.\"CIDR\"]") else {
                continue;
            };
            // The rest is read even where the network is wrong, so that all mistakes show.
            let subnet = entry(network, &table, regions, zones, value.key_place().position);
            table.finish();
            let Some(subnet) = subnet else { continue };
            if let Some(first) = seen.get(&subnet.network) {
                let Position { line, column } = first.position;
                let (network, file) = (subnet.network, first.file.display());
                value.key_error(
                    format!("{network} already has an entry ({file}:{line}:{column})"),
                    "keep one of the two",
                );
                continue;
            }
            seen.insert(subnet.network, value.key_place());
            subnets.push(subnet);
        }
    }
    root.finish();
    subnets.sort_by_key(|subnet| (subnet.network.network(), subnet.network.prefix_len()));
    subnets
}

fn entry(
    network: Option<IpNet>,
    table: &Table<'_, '_>,
    regions: &Regions,
    zones: &mut AvailabilityZones,
    position: Position,
) -> Option<Subnet> {
    let region = table.optional("region");
    let zone = table.optional("zone");
    if let (None, Some(zone)) = (&region, &zone) {
        zone.key_error(
            "a zone is given without its region",
            "add `region`, of which the zone is a part",
        );
    }
    let area = table.optional("country");
    let location = table.optional("location");
    let subnet = |network| Subnet {
        network,
        region: region.and_then(|value| regions.read_name(&value)),
        zone: zone.and_then(|value| availability_zone(&value, zones)),
        area: area.and_then(|value| Area::read(&value)),
        coordinates: location.and_then(|value| read_location(&value)),
        position,
    };
    // Without a network the entry is read for its mistakes only.
    let known = network.is_some();
    let subnet = subnet(network.unwrap_or_default());
    known.then_some(subnet)
}

/// `location = [latitude, longitude]` in degrees.
pub fn read_location(value: &Value<'_, '_>) -> Option<Coordinates> {
    let remedy = "[latitude, longitude] in degrees, as [52.4, 4.9]";
    let list = value.list(remedy)?;
    let [latitude, longitude] = list.as_slice() else {
        value.error(
            format!("a location is two numbers, and there are {} here", list.len()),
            format!("give {remedy}"),
        );
        return None;
    };
    let latitude = read_degrees(latitude, "latitude", 90.0);
    let longitude = read_degrees(longitude, "longitude", 180.0);
    Coordinates::from_degrees(latitude?, longitude?)
}

fn read_degrees(value: &Value<'_, '_>, name: &str, limit: f64) -> Option<f64> {
    let degrees: Option<f64> = value.number_text(&format!("the {name} in degrees"))?.parse().ok();
    let valid = degrees.filter(|degrees| degrees.abs() <= limit);
    if valid.is_none() {
        value.error(
            format!("the {name} is out of range"),
            format!("give -{limit} to {limit} degrees; latitude comes first"),
        );
    }
    valid
}

/// Reads a key as a network, with IPv4-mapped ones as IPv4.
fn network(text: &str, value: &Value<'_, '_>) -> Option<IpNet> {
    let Ok(network) = text.parse::<IpNet>() else {
        let help = match text.parse::<IpAddr>() {
            Ok(address) => {
                format!("for this one address, write {:?}", IpNet::from(address).to_string())
            }
            Err(_) => "give an address and a prefix length, as \"192.0.2.0/24\"".to_owned(),
        };
        value.key_error(format!("{text:?} is not a network"), help);
        return None;
    };
    if network != network.trunc() {
        value.key_error(
            format!("{network} has bits set beyond its prefix length"),
            format!("write \"{}\"", network.trunc()),
        );
        return None;
    }
    Some(unmapped(network))
}

/// The IPv4 network of an IPv4-mapped one; any other as it is.
pub fn unmapped(network: IpNet) -> IpNet {
    let mapped = || {
        let IpNet::V6(v6) = network else { return None };
        let length = v6.prefix_len().checked_sub(MAPPED_LENGTH)?;
        Ipv4Net::new(v6.network().to_ipv4_mapped()?, length).ok()
    };
    mapped().map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Subnet>, Vec<String>) {
        let report = Report::default();
        let regions = Regions::load(None, &report);
        let source = Source::new("geo/subnets.toml", text);
        let subnets = load(&source, &regions, &mut AvailabilityZones::default(), &report);
        let errors = report.into_sorted();
        (subnets, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn entries_are_read_and_sorted() {
        let (subnets, errors) = read(
            "[subnets.\"192.0.2.0/24\"]\nregion = \"weu\"\nzone = \"weu-a\"\n\
             [subnets.\"10.0.0.0/8\"]\ncountry = \"us-ca\"\nlocation = [-33.9, 151]\n\
             [subnets.\"::ffff:10.0.0.0/112\"]\n[subnets.\"2001:db8::/32\"]\n",
        );
        assert!(errors.is_empty(), "{errors:?}");
        let networks: Vec<_> = subnets.iter().map(|s| s.network.to_string()).collect();
        assert_eq!(networks, ["10.0.0.0/8", "10.0.0.0/16", "192.0.2.0/24", "2001:db8::/32"]);
        assert_eq!(subnets[0].area.unwrap().to_string(), "US-CA");
        let coordinates = subnets[0].coordinates.unwrap();
        assert_eq!(coordinates.to_degrees(), [-33.9, 151.0]);
        assert!(subnets[2].region.is_some() && subnets[2].zone.is_some());
        assert_eq!(subnets[2].position, Position { line: 1, column: 10 });
    }

    #[test]
    fn all_mistakes_are_reported_with_a_remedy() {
        for (text, error) in [
            (
                "[subnets.\"10.0.0.1/8\"]",
                "1:10: error: subnets.\"10.0.0.1/8\": 10.0.0.1/8 has bits set beyond its prefix \
                 length\n    help: write \"10.0.0.0/8\"",
            ),
            (
                "[subnets.\"10.0.0.1\"]",
                "1:10: error: subnets.\"10.0.0.1\": \"10.0.0.1\" is not a network\n    help: for \
                 this one address, write \"10.0.0.1/32\"",
            ),
            (
                "[subnets.office]",
                "1:10: error: subnets.office: \"office\" is not a network\n    help: give an \
                 address and a prefix length, as \"192.0.2.0/24\"",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\n[subnets.\"::ffff:10.0.0.0/104\"]",
                "2:10: error: subnets.\"::ffff:10.0.0.0/104\": 10.0.0.0/8 already has an entry \
                 (geo/subnets.toml:1:10)\n    help: keep one of the two",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\nzone = \"a\"",
                "2:1: error: subnets.\"10.0.0.0/8\".zone: a zone is given without its region\n    \
                 help: add `region`, of which the zone is a part",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\nregion = \"weuu\"",
                "2:10: error: subnets.\"10.0.0.0/8\".region: there is no region \"weuu\"\n    \
                 help: did you mean \"weu\"?",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\ncountry = \"UK\"",
                "2:11: error: subnets.\"10.0.0.0/8\".country: UK is not an assigned ISO 3166-1 \
                 code\n    help: the code is GB",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\nlocation = [97.0, 4.9]",
                "2:13: error: subnets.\"10.0.0.0/8\".location[0]: the latitude is out of range\n    \
                 help: give -90 to 90 degrees; latitude comes first",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\nlocation = [52.4]",
                "2:12: error: subnets.\"10.0.0.0/8\".location: a location is two numbers, and there are 1 here\n    \
                 help: give [latitude, longitude] in degrees, as [52.4, 4.9]",
            ),
            (
                "[subnets.\"10.0.0.0/8\"]\nsubdivision = \"US-CA\"",
                "2:1: error: subnets.\"10.0.0.0/8\".subdivision: unknown key\n    help: the keys \
                 here are region, zone, country, location",
            ),
        ] {
            let (_, errors) = read(text);
            assert_eq!(errors, [format!("geo/subnets.toml:{error}")]);
        }
    }

    #[test]
    fn a_wrong_network_does_not_hide_other_mistakes() {
        let (subnets, errors) = read(
            "[subnets.\"10.0.0.1/8\"]\nregion = \"nowhere\"\nlocation = [nan, inf]\nzone = \"\"\n",
        );
        assert!(subnets.is_empty());
        assert_eq!(errors.len(), 5, "{errors:?}");
    }
}
