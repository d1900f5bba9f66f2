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
