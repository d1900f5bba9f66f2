//! What was answered, in a few octets: what counters count by, and what a log of queries is written from.
//! The short and the long way both make it beside the reply. It holds numbers of one state;
//! [`Layout`](crate::tally::layout::Layout) tells which load balancer and which of its pools they mean.

use std::net::IpAddr;

use crate::limit::Verdict;
use crate::query::{ClientSubnet, Rcode};
use crate::steer::pool::PoolId;

/// A reply, or the answer that was not sent for response rate limiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The response code.
    pub rcode: Rcode,
    /// What carried the query.
    pub protocol: Protocol,
    /// The number of the zone; none outside all zones, and where a load balancer tells it.
    pub zone: Option<u32>,
    /// What steering made of it; none for static records.
    pub steered: Option<Steered>,
    /// The client subnet of the query, and for how much of it the answer holds.
    pub subnet: Option<Scoped>,
    /// True if TC is set, because not all of the answer has room.
    pub is_truncated: bool,
    /// What response rate limiting made of it.
    pub verdict: Verdict,
    /// True if a fault of this program is all that was answered.
    pub is_fault: bool,
}

/// What carries a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A datagram.
    Udp,
    /// TCP.
    Tcp,
    /// TLS (RFC 7858).
    Tls,
    /// HTTPS (RFC 8484) over TCP.
    Https,
    /// QUIC (RFC 9250).
    Quic,
    /// HTTPS over QUIC (RFC 9114).
    Http3,
}

/// What a load balancer made of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steered {
    /// The number of the counter: it tells the load balancer, and what was chosen.
    pub counter: u32,
    /// The pool that answered.
    pub pool: Option<PoolId>,
    /// The number of the client's place in the location table: its region and country.
    pub place: u32,
    /// True if health did not count: as a last resort, or in an unhealthy zone that is stayed in.
    pub is_last_resort: bool,
}

/// What a load balancer can make of a query, besides one of its pools as a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one of its pools, by its position among them.
    Candidate(usize),
    /// Its fallback pool, as no candidate is available.
    Fallback,
    /// The chosen pool has no address of the type.
    NoData,
    /// No pool can answer.
    Failure,
}

/// A client subnet and the scope of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoped {
    /// True for IPv6.
    pub is_v6: bool,
    /// The scope prefix of the answer.
    pub scope: u8,
}

impl Protocol {
    /// All of them, in the order of their indices.
    pub const ALL: [Self; 6] =
        [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic, Self::Http3];

    /// As logs and metrics name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
            Self::Http3 => "http3",
        }
    }
}

impl Choice {
    /// What there is after the pools.
    pub const AFTER: [Self; 3] = [Self::Fallback, Self::NoData, Self::Failure];

    /// Its number among all that a load balancer of so many pools can choose.
    pub fn number(self, pools: usize) -> usize {
        match self {
            Self::Candidate(position) => position,
            Self::Fallback => pools,
            Self::NoData => pools + 1,
            Self::Failure => pools + 2,
        }
    }
}

impl Scoped {
    /// Of an answer with a scope to a query with this client subnet, if it has one.
    #[inline]
    pub fn new(subnet: Option<&ClientSubnet>, scope: u8) -> Option<Self> {
        let subnet = subnet?;
        Some(Self { is_v6: matches!(subnet.address, Some(IpAddr::V6(_))), scope })
    }
}

impl Served {
    /// An answer with records that a load balancer chose.
    pub fn steered(steered: Steered, subnet: Option<Scoped>) -> Self {
        Self { steered: Some(steered), subnet, ..Self::new(Rcode::NoError) }
    }

    /// An answer of which no more is known than its response code.
    pub fn new(rcode: Rcode) -> Self {
        Self {
            rcode,
            protocol: Protocol::Udp,
            zone: None,
            steered: None,
            subnet: None,
            is_truncated: false,
            verdict: Verdict::Send,
            is_fault: false,
        }
    }
}
