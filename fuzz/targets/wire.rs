//! The octets of a message to those of its reply, as a worker makes them: the short way and the long
//! way reply the same, by every transport, with cookies.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use meridian::cookies::{Cookies, Secret, Secrets};
use meridian::query::parse;
use meridian::respond::Responder;
use meridian::serve::reply::{self, Arrival};
use meridian::serve::udp::answer_one;
use meridian::steer::FirstOnly;
use meridian::wire::Transport;

use crate::world::MOMENT;

/// One input.
pub(crate) fn run(message: &[u8]) {
    let moment = &*MOMENT;
    let responder = Responder { state: &moment.state, plan: &moment.plan, sequences: &FirstOnly };
    let source = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let cookies = Cookies::new(Some(Secrets { current: Secret([7; 16]), previous: None }), 1000);
    let mut by_worker = vec![0; 1280];
    let length = answer_one(message, source, &cookies, &moment.quick, &responder, &mut by_worker);
    by_worker.truncate(length.unwrap_or(0));
    for transport in [Transport::Datagram, Transport::Stream, Transport::Encrypted] {
        let idle = (transport != Transport::Datagram).then_some(Duration::from_secs(10));
        let takes_several = false;
        let arrival =
            Arrival { source, transport, takes_several, refusals: None, idle, cookies: &cookies };
        let mut long = vec![0; reply::MAX_MESSAGE];
        let length = reply::answer(message, &arrival, &responder, &mut long);
        long.truncate(length.unwrap_or(0));
        if transport == Transport::Datagram {
            assert_eq!(by_worker, long, "the short way and the long way");
        }
        check(message, transport, &long);
    }
}

/// Checks a reply: it is one, it is to this message, it fits.
fn check(message: &[u8], transport: Transport, reply: &[u8]) {
    let Some((header, _)) = reply.split_first_chunk::<12>() else {
        assert!(reply.is_empty(), "a reply has a header");
        let is_reply = message.get(2).is_some_and(|flags| flags & 0x80 != 0);
        assert!(message.len() < 12 || is_reply, "silence is for replies and scraps");
        return;
    };
    assert_eq!(header[..2], message[..2], "the id");
    assert_eq!(header[2] & 0x80, 0x80, "QR");
    assert_eq!(header[3] & 0xf0, 0, "RA, Z, AD and CD");
    assert!(reply.len() <= transport.limit(parse(message).echoed().1), "the size");
    // Nothing that we send is an error to our own reader but that it is a reply.
    let mut as_query = reply.to_vec();
    as_query[2] &= 0x7f;
    drop(parse(&as_query));
}
