//! The data of an OPT record to the options of a reply: ECS, cookies and all the others, as
//! hickory-proto reads both.

use std::net::{IpAddr, Ipv4Addr};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use meridian::cookies::{Cookies, Secret, Secrets};
use meridian::respond::Responder;
use meridian::serve::reply::{self, Arrival};
use meridian::steer::FirstOnly;

use crate::world::MOMENT;

/// One input: how many octets of it are an option's data is the input's affair.
pub(crate) fn run(options: &[u8]) {
    let Ok(length) = u16::try_from(options.len()) else { return };
    let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend(b"\x02lb\x07example\x04test\x00\x00\x01\x00\x01");
    message.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0]);
    message.extend(length.to_be_bytes());
    message.extend(options);
    let moment = &*MOMENT;
    let responder = Responder { state: &moment.state, plan: &moment.plan, sequences: &FirstOnly };
    let source = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let cookies = Cookies::new(Some(Secrets { current: Secret([7; 16]), previous: None }), 1000);
    let mut out = vec![0; reply::MAX_MESSAGE];
    let arrival = Arrival::datagram(source, &cookies);
    let length = reply::answer(&message, &arrival, &responder, &mut out).expect("a reply");
    let replied = &out[..length];
    let asked = subnet(&message);
    // A client subnet of family 0 is more than hickory-proto reads.
    let Ok(reply) = Message::from_vec(replied) else {
        assert!(options.windows(4).any(|option| option == [0, 8, 0, 4]), "a well-formed reply");
        return;
    };
    assert!(reply.edns.is_some(), "OPT in, OPT out");
    if reply.metadata.response_code == ResponseCode::FormErr {
        assert!(reply.answers.is_empty(), "no answer to a malformed query");
        return;
    }
    // What is repeated of a client subnet is what was sent, and nothing comes unasked.
    let given = subnet(replied);
    assert_eq!(
        given.as_ref().map(|(address, prefix, _)| (*address, *prefix)),
        asked.map(|(address, prefix, _)| (address, prefix)),
    );
    if let Some((address, prefix, scope)) = given {
        assert!(scope <= if address.is_ipv4() { 32 } else { 128 });
        assert!(prefix > 0 || scope == 0, "whoever gives no address gets no scope");
    }
    let cookie = reply.edns.iter().find_map(|edns| edns.option(EdnsCode::Cookie));
    if let Some(EdnsOption::Unknown(_, data)) = cookie {
        assert_eq!(data.len(), 24, "a client cookie and a server cookie");
        assert!(options.windows(8).any(|octets| octets == &data[..8]), "the client's own cookie");
    }
}

/// Address, source prefix and scope of the client subnet of a message.
fn subnet(message: &[u8]) -> Option<(IpAddr, u8, u8)> {
    match Message::from_vec(message).ok()?.edns?.option(EdnsCode::Subnet)? {
        EdnsOption::Subnet(subnet) => {
            Some((subnet.addr(), subnet.source_prefix(), subnet.scope_prefix()))
        }
        _ => None,
    }
}
