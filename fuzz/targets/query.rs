//! The octets of a message to those of its reply, by our writer's model: hickory-proto writes the
//! answer, and reads it again.

use std::net::{IpAddr, Ipv4Addr};

use hickory_proto::op::Message;
use meridian::query::parse;
use meridian::respond::{Responder, respond};
use meridian::steer::FirstOnly;
use meridian::wire::{Repeated, Transport};

use crate::message::{encode, reply};
use crate::world::MOMENT;

/// One input.
pub(crate) fn run(message: &[u8]) {
    let moment = &*MOMENT;
    let responder = Responder { state: &moment.state, plan: &moment.plan, sequences: &FirstOnly };
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
}
