//! A country database in MaxMind's format, of the form of GeoIP2 Country: a binary tree over IPv6
//! with IPv4 in ::/96 and 32-bit records, and one data record for each country.

use std::collections::BTreeMap;

use crate::{GROUPS, Subnet};

/// The zeros between tree and data.
const SEPARATOR: usize = 16;

/// Type numbers of the format.
const STRING: u8 = 2;
const UINT16: u8 = 5;
const UINT32: u8 = 6;
const MAP: u8 = 7;
const UINT64: u8 = 9;
const ARRAY: u8 = 11;

/// What a side of a node leads to.
#[derive(Clone, Copy)]
enum Side {
    Nothing,
    Node(usize),
    Data(usize),
}

/// A database of disjoint subnets.
pub(crate) fn database(subnets: &[Subnet]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut offsets = BTreeMap::new();
    let mut nodes = vec![[Side::Nothing; 2]];
    for subnet in subnets {
        let place = (subnet.group, subnet.country);
        let offset = *offsets.entry(place).or_insert_with(|| {
            let offset = data.len();
            let (continent, country) = GROUPS[subnet.group].countries[subnet.country];
            record(continent, country, &mut data);
            offset
        });
        insert(subnet, offset, &mut nodes);
    }

    let count = nodes.len();
    let mut octets = Vec::new();
    for side in nodes.iter().flatten() {
        let number = match side {
            Side::Nothing => count,
            Side::Node(index) => *index,
            Side::Data(offset) => count + SEPARATOR + offset,
        };
        octets.extend(u32_of(number).to_be_bytes());
    }
    octets.extend([0; SEPARATOR]);
    octets.extend(data);
    octets.extend(b"\xab\xcd\xefMaxMind.com");
    metadata(u32_of(count), &mut octets);
    octets
}

fn insert(subnet: &Subnet, offset: usize, nodes: &mut Vec<[Side; 2]>) {
    let bits = u128::from(subnet.network.network().to_bits());
    let length = 96 + u32::from(subnet.network.prefix_len());
    let mut node = 0;
    for depth in 0..length {
        let side = usize::from(bits >> (127 - depth) & 1 == 1);
        if depth + 1 == length {
            nodes[node][side] = Side::Data(offset);
        } else if let Side::Node(next) = nodes[node][side] {
            node = next;
        } else {
            nodes.push([Side::Nothing; 2]);
            let next = nodes.len() - 1;
            nodes[node][side] = Side::Node(next);
            node = next;
        }
    }
}

fn record(continent: &str, country: &str, octets: &mut Vec<u8>) {
    control(MAP, 2, octets);
    for (object, key, value) in [("continent", "code", continent), ("country", "iso_code", country)]
    {
        string(object, octets);
        control(MAP, 1, octets);
        string(key, octets);
        string(value, octets);
    }
}

fn metadata(node_count: u32, octets: &mut Vec<u8>) {
    let numbers = [
        ("binary_format_major_version", UINT16, 2),
        ("binary_format_minor_version", UINT16, 0),
        ("build_epoch", UINT64, 1_700_000_000),
        ("ip_version", UINT16, 6),
        ("node_count", UINT32, node_count),
        ("record_size", UINT16, 32),
    ];
    control(MAP, 9, octets);
    for (key, kind, value) in numbers {
        string(key, octets);
        let value = value.to_be_bytes();
        let significant = value.iter().copied().skip_while(|octet| *octet == 0);
        control(kind, significant.clone().count(), octets);
        octets.extend(significant);
    }
    string("database_type", octets);
    string("GeoIP2-Country", octets);
    string("languages", octets);
    control(ARRAY, 1, octets);
    string("en", octets);
    string("description", octets);
    control(MAP, 1, octets);
    string("en", octets);
    string("A made-up database", octets);
}

fn string(text: &str, octets: &mut Vec<u8>) {
    control(STRING, text.len(), octets);
    octets.extend(text.as_bytes());
}

/// The octets before a value; nothing here is as long as 29.
fn control(kind: u8, size: usize, octets: &mut Vec<u8>) {
    let size = u8::try_from(size).unwrap_or(0);
    if kind <= MAP {
        octets.push(kind << 5 | size);
    } else {
        octets.extend([size, kind - MAP]);
    }
}

/// What the subnets of IPv4 make is far below the limit.
fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
