//! A writer of small MaxMind-format databases, so that the tests bring their own geography: a
//! binary tree over IPv6 (IPv4 in ::/96, as the real databases have it), 32-bit records.

use std::net::IpAddr;

use serde_json::Value;

/// A node of the search tree.
enum Node {
    Empty,
    Data(usize),
    Fork(Box<[Self; 2]>),
}

/// A database of networks ("192.0.2.0/24") and their records; no network may contain another.
pub(crate) fn database(networks: &[(&str, Value)]) -> Vec<u8> {
    let mut root = fork();
    let mut data = Vec::new();
    for (network, record) in networks {
        let (bits, length) = bits(network);
        let mut node = &mut root;
        for depth in 0..length {
            if matches!(node, Node::Empty) {
                *node = fork();
            }
            let Node::Fork(children) = node else { panic!("{network} lies in another network") };
            node = &mut children[usize::from(bits >> (127 - depth) & 1 == 1)];
        }
        *node = Node::Data(data.len());
        encode(record, &mut data);
    }

    let mut forks = Vec::new();
    number(&root, &mut forks);
    let count = forks.len();
    let mut octets = Vec::new();
    for fork in &forks {
        for child in fork {
            let value = match child {
                Place::Nothing => count,
                Place::Fork(index) => *index,
                Place::Data(offset) => count + SEPARATOR + offset,
            };
            octets.extend(u32::try_from(value).expect("a small database").to_be_bytes());
        }
    }
    octets.extend([0; SEPARATOR]);
    octets.extend(data);
    octets.extend(b"\xab\xcd\xefMaxMind.com");
    metadata(count, &mut octets);
    octets
}

/// The zeros between tree and data.
const SEPARATOR: usize = 16;

/// What a record of the tree points at.
#[derive(Clone, Copy)]
enum Place {
    Nothing,
    Fork(usize),
    Data(usize),
}

fn fork() -> Node {
    Node::Fork(Box::new([Node::Empty, Node::Empty]))
}

/// Numbers the forks in the order in which they are written.
fn number(node: &Node, forks: &mut Vec<[Place; 2]>) -> Place {
    match node {
        Node::Empty => Place::Nothing,
        Node::Data(offset) => Place::Data(*offset),
        Node::Fork(children) => {
            let index = forks.len();
            forks.push([Place::Nothing; 2]);
            for (side, child) in children.iter().enumerate() {
                forks[index][side] = number(child, forks);
            }
            Place::Fork(index)
        }
    }
}

fn bits(network: &str) -> (u128, u32) {
    let (address, length) = network.split_once('/').expect("a network with its length");
    let length: u32 = length.parse().expect("a length");
    match address.parse().expect("an address") {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), length + 96),
        IpAddr::V6(v6) => (u128::from(v6), length),
    }
}

/// Type numbers of the format.
const STRING: u8 = 2;
const DOUBLE: u8 = 3;
const UINT16: u8 = 5;
const UINT32: u8 = 6;
const MAP: u8 = 7;
const UINT64: u8 = 9;
const ARRAY: u8 = 11;

/// Encodes strings, numbers (as doubles), maps and arrays.
fn encode(value: &Value, octets: &mut Vec<u8>) {
    match value {
        Value::String(text) => string(text, octets),
        Value::Number(number) => {
            control(DOUBLE, 8, octets);
            octets.extend(number.as_f64().expect("a double").to_be_bytes());
        }
        Value::Object(map) => {
            control(MAP, map.len(), octets);
            for (key, value) in map {
                string(key, octets);
                encode(value, octets);
            }
        }
        Value::Array(items) => {
            control(ARRAY, items.len(), octets);
            for item in items {
                encode(item, octets);
            }
        }
        other => panic!("{other} has no place in a test database"),
    }
}

fn string(text: &str, octets: &mut Vec<u8>) {
    control(STRING, text.len(), octets);
    octets.extend(text.as_bytes());
}

fn control(kind: u8, size: usize, octets: &mut Vec<u8>) {
    let size = u8::try_from(size).expect("a short value");
    assert!(size < 29, "longer values are not needed here");
    if kind <= 7 {
        octets.push(kind << 5 | size);
    } else {
        octets.extend([size, kind - 7]);
    }
}

fn unsigned(kind: u8, value: u32, octets: &mut Vec<u8>) {
    let all = value.to_be_bytes();
    let significant = &all[all.iter().take_while(|octet| **octet == 0).count()..];
    control(kind, significant.len(), octets);
    octets.extend(significant);
}

fn metadata(node_count: usize, octets: &mut Vec<u8>) {
    let node_count = u32::try_from(node_count).expect("a small database");
    let numbers = [
        ("binary_format_major_version", UINT16, 2),
        ("binary_format_minor_version", UINT16, 0),
        ("build_epoch", UINT64, 1_700_000_000),
        ("ip_version", UINT16, 6),
        ("node_count", UINT32, node_count),
        ("record_size", UINT16, 32),
    ];
    control(MAP, numbers.len() + 3, octets);
    for (key, kind, value) in numbers {
        string(key, octets);
        unsigned(kind, value, octets);
    }
    string("database_type", octets);
    string("Test-City", octets);
    string("languages", octets);
    control(ARRAY, 0, octets);
    string("description", octets);
    control(MAP, 0, octets);
}

// The writer is right if an independent reader finds what was written, and nothing beside it.
#[test]
fn the_reader_library_finds_what_was_written() {
    use serde_json::json;

    let networks =
        [("192.0.2.0/24", json!({"a": "b"})), ("2001:db8::/33", json!({"c": [1.5, {"d": "e"}]}))];
    let reader = maxminddb::Reader::from_source(database(&networks)).expect("a database");
    let find = |address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        let found = reader.lookup(address).expect("a lookup");
        found.decode::<Value>().expect("a record")
    };
    assert_eq!(find("192.0.2.255"), Some(json!({"a": "b"})));
    assert_eq!(find("2001:db8:7fff::1"), Some(json!({"c": [1.5, {"d": "e"}]})));
    for address in ["192.0.3.0", "192.0.1.255", "2001:db8:8000::", "::1"] {
        assert_eq!(find(address), None, "{address}");
    }
}
