//! The path of queries takes no memory from the system: parsing, answering and writing are counted here, in a
//! program of their own because the allocator that counts is the whole program's.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use allocation_counter::measure;
use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::query;
use meridian::respond::{Responder, respond};
use meridian::rr::RecordType;
use meridian::steer::FirstOnly;
use meridian::steer::availability::{Health, HealthState};
use meridian::steer::plan::Plan;
use meridian::wire::write::write;
use meridian::wire::{Repeated, Transport};

const ZONE: &str = r#"
zone = "example.test"

[[records]]
name = "@"
type = "NS"
data = ["ns1"]

[[records]]
name = "ns1"
type = "A"
data = ["192.0.2.53"]

[[records]]
name = "alias"
type = "CNAME"
data = ["www"]

[[records]]
name = "*.wild"
type = "MX"
data = ["10 ns1", "20 ns.elsewhere.test."]

[[records]]
name = "sub"
type = "NS"
data = ["ns.sub", "ns1"]

[[records]]
name = "ns.sub"
type = "AAAA"
data = ["2001:db8::53"]

[[records]]
name = "www"
type = "HTTPS"
data = ["1 . alpn=h2 ech=AAAA", "2 . port=8443"]
steered_hints = true

[pools.p]
origins = [
  { name = "a", address = ["192.0.2.1", "2001:db8::1"] },
  { name = "b", address = ["192.0.2.2", "2001:db8::2"], weight = 0.5 },
  { name = "c", address = "192.0.2.3" },
]

[load_balancers.www]
pools = ["p"]
answers = "all"

[load_balancers.one]
pools = ["p"]

[pools.none]
enabled = false
origins = [{ name = "d", address = "192.0.2.4" }]

[load_balancers.dark]
pools = ["none"]
"#;

/// A query of a client subnet for a name of the zone.
fn message(labels: &[&str], record_type: RecordType) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    // A name that is written whole is of another zone.
    let apex: &[&str] = if labels.last() == Some(&"org") { &[] } else { &["example", "test"] };
    for label in labels.iter().chain(apex) {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(record_type.0.to_be_bytes());
    message.extend([0, 1, 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, 10, 1, 2]);
    message
}

// "The query path has no allocation".
#[test]
fn answers_are_made_without_taking_memory() {
    let zones = vec![Source::new("zones/example.test.toml", ZONE)];
    let report = Report::default();
    let read = |path: &Path| panic!("{} is not asked for", path.display());
    let state = build(&Files { zones, ..Files::default() }, &Server::default(), &read, &report);
    let state = state.unwrap_or_else(|| panic!("{:#?}", report.into_sorted()));
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let plan = Plan::new(&state.pools, &health);
    let responder = Responder { state: &state, plan: &plan, sequences: &FirstOnly };
    let resolver = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let mut out = [0; 1232];
    for (labels, record_type, records) in [
        (&["www"][..], RecordType::A, 3),
        (&["one"], RecordType::AAAA, 1),
        (&["www"], RecordType::HTTPS, 2),
        (&["alias"], RecordType::HTTPS, 3),
        (&["alias"], RecordType::A, 4),
        (&["ns1"], RecordType::A, 1),
        (&["ns1"], RecordType::TXT, 0),
        (&["a", "b", "wild"], RecordType::MX, 2),
        (&["x", "sub"], RecordType::A, 0),
        (&["nowhere"], RecordType::A, 0),
        (&[], RecordType::ANY, 1),
        // With extended errors.
        (&["example", "org"], RecordType::A, 0),
        (&["dark"], RecordType::A, 0),
    ] {
        let message = message(labels, record_type);
        let mut length = None;
        let counted = measure(|| {
            let request = query::parse(&message);
            let repeated = Repeated::read(&message).unwrap();
            let answer = respond(&request, resolver, &responder).unwrap();
            let limit = Transport::Datagram.limit(request.echoed().1);
            length = write(&request, repeated, &answer, limit, &mut out);
        });
        let reply = &out[..length.expect("a reply")];
        assert_eq!(u16::from_be_bytes([reply[6], reply[7]]), records, "{labels:?} {record_type}");
        assert_eq!(counted.count_total, 0, "{labels:?} {record_type}: {counted:?}");
    }
}
