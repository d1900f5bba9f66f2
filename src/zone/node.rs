//! The tree of one zone, flattened: every existing name (empty non-terminals included) is a node,
//! found by its lower-case wire form, and knows what a look-up would otherwise walk for: the zone
//! cut it lies at or below, the DNAME above it, its wildcard child.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::name::Name;
use crate::rr::{Rdata, RecordType, RrSet, Ttl};
use crate::steer::load_balancer::LoadBalancerId;

/// A zone.
#[derive(Debug)]
pub struct Zone {
    /// The name of the zone.
    pub apex: Name,
    /// The start of authority.
    pub soa: Soa,
    /// The files that it comes from.
    pub sources: Vec<PathBuf>,
    pub(super) nodes: Vec<Node>,
    pub(super) index: NameMap<NodeId>,
    pub(super) cuts: Vec<Cut>,
}

/// A map keyed by names in lower-case wire form. Only the configuration puts names in, so the hash
/// need not stand up to an adversary, and is a fast one.
pub type NameMap<T> = HashMap<Box<[u8]>, T, foldhash::fast::FixedState>;

/// A node, by its index in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// A zone cut, by its index in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CutId(pub(super) u32);

/// An existing name.
#[derive(Debug)]
pub struct Node {
    /// The owner name.
    pub owner: Name,
    /// Its static records, by type.
    pub rrsets: Vec<RrSet>,
    /// The types, HTTPS or SVCB, whose records get the load balancer's addresses as hints.
    pub hinted: Vec<RecordType>,
    /// The load balancer that owns its A, AAAA and CNAME.
    pub steered: Option<LoadBalancerId>,
    /// The zone cut that the name is at or below.
    pub cut: Option<CutId>,
    /// The node's child `*`, which answers for names that do not exist (RFC 4592).
    pub wildcard: Option<NodeId>,
}

/// A delegation (RFC 9499: zone cut).
#[derive(Debug)]
pub struct Cut {
    /// The node that owns the NS records.
    pub node: NodeId,
    /// The addresses of its name servers that this zone knows.
    pub glue: Vec<Glue>,
}

/// Addresses of a name server of a delegation.
#[derive(Clone, Copy, Debug)]
pub struct Glue {
    /// The node that owns them.
    pub node: NodeId,
    /// A or AAAA.
    pub record_type: RecordType,
    /// True if the name server's name lies in the delegated zone, so that the referral is of no use
    /// without them (RFC 9471 section 2.1).
    pub required: bool,
}

/// The start of authority of a zone.
#[derive(Clone, Debug)]
pub struct Soa {
    /// The record as it answers a query for it.
    pub rrset: RrSet,
    /// The TTL of negative answers: the lower of its own and its minimum (RFC 2308 section 5).
    pub negative_ttl: Ttl,
    /// True where the configuration gives the serial; else it is derived from the files.
    pub serial_is_given: bool,
}

impl Zone {
    /// The node with a name in lower-case wire form.
    pub fn node_at(&self, key: &[u8]) -> Option<&Node> {
        self.index.get(key).and_then(|&id| self.node(id))
    }

    /// A node by its index.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// A zone cut by its index.
    pub fn cut(&self, id: CutId) -> Option<&Cut> {
        self.cuts.get(id.0 as usize)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Sets the serial of the SOA.
    pub fn set_serial(&mut self, serial: u32) {
        self.soa.rrset = self.soa.rrset.with_serial(serial);
        let apex = self.index.get(&self.apex.to_key()).copied();
        let node = apex.and_then(|id| self.nodes.get_mut(id.0 as usize));
        let sets = node.into_iter().flat_map(|node| &mut node.rrsets);
        for set in sets.filter(|set| set.record_type == RecordType::SOA) {
            *set = self.soa.rrset.clone();
        }
    }

    /// The serial of the SOA.
    pub fn serial(&self) -> u32 {
        self.soa.rrset.rdata.first().map_or(0, |rdata| {
            let at = rdata.len().saturating_sub(20);
            let octets = rdata.get(at..at + 4).and_then(|octets| octets.try_into().ok());
            octets.map_or(0, u32::from_be_bytes)
        })
    }
}

/// The minimum of a SOA's RDATA, its last field (RFC 1035 section 3.3.13).
pub fn soa_minimum(rdata: &[u8]) -> Option<u32> {
    rdata.last_chunk().copied().map(u32::from_be_bytes)
}

impl Node {
    /// The records of a type.
    pub fn rrset(&self, record_type: RecordType) -> Option<&RrSet> {
        self.rrsets.iter().find(|set| set.record_type == record_type)
    }
}

impl RrSet {
    /// A SOA record set with another serial: the first of the five numbers that end its RDATA
    /// (RFC 1035 section 3.3.13).
    fn with_serial(&self, serial: u32) -> Self {
        let replace = |rdata: &Rdata| {
            let mut octets = rdata.to_vec();
            let at = octets.len().saturating_sub(20);
            if let Some(field) = octets.get_mut(at..at + 4) {
                field.copy_from_slice(&serial.to_be_bytes());
            }
            Rdata::from(octets)
        };
        Self { rdata: self.rdata.iter().map(replace).collect(), ..self.clone() }
    }
}
