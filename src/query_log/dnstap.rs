//! A record as a dnstap message (dnstap.proto of dnstap.info): an AUTH_RESPONSE with the query that it
//! answers, or an AUTH_QUERY alone where response rate limiting held the answer back.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use prost::Message as _;

use crate::limit::Verdict;
use crate::query_log::Record;
use crate::served::Protocol;

/// The type of what [`Dnstap`] holds: a message.
const MESSAGE: i32 = 1;
/// The types of a message: what an authoritative server got, and what it sent.
const AUTH_QUERY: i32 = 1;
const AUTH_RESPONSE: i32 = 2;

/// The envelope.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Dnstap {
    #[prost(bytes = "vec", optional, tag = "1")]
    identity: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    version: Option<Vec<u8>>,
    #[prost(message, optional, tag = "14")]
    message: Option<Message>,
    #[prost(int32, required, tag = "15")]
    kind: i32,
}

/// A query with its reply.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Message {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(int32, optional, tag = "2")]
    family: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    protocol: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    query_address: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    query_port: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    query_seconds: Option<u64>,
    #[prost(fixed32, optional, tag = "9")]
    query_nanoseconds: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    query: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "12")]
    response_seconds: Option<u64>,
    #[prost(fixed32, optional, tag = "13")]
    response_nanoseconds: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "14")]
    response: Option<Vec<u8>>,
}

/// The octets of a record; `identity` is what the server calls itself.
pub fn encode(record: &Record, identity: Option<&[u8]>) -> Vec<u8> {
    let (family, address) = address(record.client);
    let at = record.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let octets = |octets: &[u8]| (!octets.is_empty()).then(|| octets.to_vec());
    let (seconds, nanoseconds) = (at.as_secs(), at.subsec_nanos());
    let is_sent = record.served.verdict != Verdict::Drop;
    let message = Message {
        kind: if is_sent { AUTH_RESPONSE } else { AUTH_QUERY },
        family: Some(family),
        protocol: Some(protocol(record.served.protocol)),
        query_address: Some(address),
        query_port: record.port.map(u32::from),
        query: octets(&record.query),
        query_seconds: (!is_sent).then_some(seconds),
        query_nanoseconds: (!is_sent).then_some(nanoseconds),
        response_seconds: is_sent.then_some(seconds),
        response_nanoseconds: is_sent.then_some(nanoseconds),
        response: octets(&record.reply),
    };
    let version = concat!("meridian ", env!("CARGO_PKG_VERSION"));
    let dnstap = Dnstap {
        identity: identity.map(<[u8]>::to_vec),
        version: Some(version.as_bytes().to_vec()),
        message: Some(message),
        kind: MESSAGE,
    };
    dnstap.encode_to_vec()
}

/// The socket family, and the octets of the address.
fn address(client: IpAddr) -> (i32, Vec<u8>) {
    match client.to_canonical() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    }
}

/// The number of a protocol.
fn protocol(protocol: Protocol) -> i32 {
    match protocol {
        Protocol::Udp => 1,
        Protocol::Tcp => 2,
        Protocol::Tls => 3,
        // There is no number for HTTP/3.
        Protocol::Https | Protocol::Http3 => 4,
        Protocol::Quic => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Rcode;
    use crate::served::Served;

    fn message(verdict: Verdict, protocol: Protocol, reply: &[u8]) -> Message {
        let served = Served { verdict, protocol, ..Served::new(Rcode::NoError) };
        let client = ("::ffff:192.0.2.1".parse().expect("an address"), Some(4242));
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(5_000_000_007);
        let octets = encode(&Record::new(at, client, served, 1, (&[1, 2], reply)), Some(b"ns1"));
        let dnstap = Dnstap::decode(octets.as_slice()).expect("a message of dnstap");
        assert_eq!((dnstap.kind, dnstap.identity.as_deref()), (MESSAGE, Some(&b"ns1"[..])));
        dnstap.message.expect("a message")
    }

    #[test]
    fn a_reply_has_its_query_and_its_time() {
        let message = message(Verdict::Send, Protocol::Quic, &[3, 4]);
        assert_eq!((message.kind, message.protocol, message.family), (2, Some(7), Some(1)));
        assert_eq!(message.query_address.as_deref(), Some(&[192, 0, 2, 1][..]));
        assert_eq!(message.query_port, Some(4242));
        assert_eq!(message.query.as_deref(), Some(&[1, 2][..]));
        assert_eq!(message.response.as_deref(), Some(&[3, 4][..]));
        assert_eq!((message.response_seconds, message.response_nanoseconds), (Some(5), Some(7)));
        assert_eq!((message.query_seconds, message.query_nanoseconds), (None, None));
    }

    #[test]
    fn an_answer_that_was_held_back_is_a_query_alone() {
        let message = message(Verdict::Drop, Protocol::Udp, &[]);
        assert_eq!((message.kind, message.response), (1, None));
        assert_eq!((message.query_seconds, message.query_nanoseconds), (Some(5), Some(7)));
        assert_eq!((message.response_seconds, message.response_nanoseconds), (None, None));
    }
}
