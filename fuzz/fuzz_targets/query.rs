//! The octets of a message to those of its reply.

#![no_main]

#[path = "../../tests/properties/message.rs"]
mod message;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use hickory_proto::op::Message;
use libfuzzer_sys::fuzz_target;
use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::query::parse;
use meridian::respond::{Responder, respond};
use meridian::state::State;
use meridian::steer::FirstOnly;
use meridian::steer::availability::Health;
use meridian::steer::plan::Plan;
use meridian::wire::{Repeated, Transport};

use crate::message::{encode, reply};

const ZONE: &str = "zone = \"example.test\"\nzonefile = \"example.test.zone\"\n\
    [pools.p]\nregion = \"weu\"\norigins = [\
    { name = \"a\", address = [\"192.0.2.100\", \"2001:db8::100\"] }, \
    { name = \"b\", address = \"192.0.2.101\" }]\n\
    [pools.off]\nenabled = false\norigins = [{ name = \"c\", address = \"192.0.2.102\" }]\n\
    [load_balancers.lb]\npools = [\"p\"]\nsteering = \"geo\"\n\
    region_pools = { weu = [\"p\"], enam = [\"off\", \"p\"] }\n\
    [load_balancers.all]\npools = [\"p\"]\nanswers = \"all\"\n\
    [load_balancers.down]\npools = [\"off\"]\n";
const MASTER: &str = include_str!("../../tests/data/example.test.zone");

static MOMENT: LazyLock<(State, Plan)> = LazyLock::new(|| {
    let files = Files { zones: vec![Source::new("zone.toml", ZONE)], ..Files::default() };
    let report = Report::default();
    let state = build(&files, &Server::default(), &|_| Ok(MASTER.to_owned()), &report);
    let state = state.unwrap_or_else(|| panic!("{:?}", report.into_sorted()));
    let plan = Plan::new(&state.pools, &Health::default());
    (state, plan)
});

fuzz_target!(|message: &[u8]| {
    let (state, plan) = &*MOMENT;
    let responder = Responder { state, plan, sequences: &FirstOnly };
    let request = parse(message);
    let resolver = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let Some(answer) = respond(&request, resolver, &responder) else { return };
    let repeated = Repeated::read(message).expect("a header, since there is an answer");
    let (question, edns) = request.echoed();
    for transport in [Transport::Datagram, Transport::Stream] {
        let reply = reply(&request, repeated, &answer, transport).expect("a reply");
        let octets = encode(&reply, question).expect("octets");
        assert!(octets.len() <= transport.limit(edns));
        // A client subnet of family 0 is more than hickory-proto reads.
        if edns.and_then(|edns| edns.client_subnet).is_none_or(|subnet| subnet.address.is_some()) {
            Message::from_vec(&octets).expect("a well-formed reply");
        }
    }
});
