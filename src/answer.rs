//! The answer to a query, before it is octets: response code, sections, client-subnet scope and
//! extended error, all borrowed from the state. It knows nothing of sockets or sizes; `wire` writes
//! it.

use std::fmt;

use arrayvec::ArrayVec;

use crate::cookies::{CLIENT, SERVER};
use crate::query::Rcode;
use crate::rr::{Rdata, RecordType, RrSet, Ttl};
use crate::served::Steered;
use crate::steer::load_balancer::LoadBalancer;
use crate::steer::{NoAnswer, Pick};
use crate::zone::node::{Glue, Node, Zone};
use crate::zone::rdata::with_hints;

/// The most aliases that are followed within a zone (steering.md).
pub const MAX_ALIASES: usize = 8;
/// The most addresses of a family that are given as hints.
const MAX_HINTS: usize = 64;

/// An answer.
#[derive(Debug)]
pub struct Answer<'s> {
    /// The response code.
    pub rcode: Rcode,
    /// AA.
    pub authoritative: bool,
    /// The answer section: what was found at the name and at each alias; a DNAME brings two sets.
    pub answer: ArrayVec<Set<'s>, { 2 * (1 + MAX_ALIASES) }>,
    /// What is put into the records of the last set, if that is [`Data::Hinted`]. It stands here because sets
    /// are many, and large as it is.
    pub hints: Option<Hints<'s>>,
    /// The authority section: the SOA of a negative answer, or the NS of a referral.
    pub authority: Option<Set<'s>>,
    /// The addresses of a referral's name servers.
    pub glue: Option<GlueSets<'s>>,
    /// The scope prefix for a query with a client subnet.
    pub ecs_scope: u8,
    /// The extended error, for clients with EDNS.
    pub extended_error: Option<ExtendedError<'s>>,
    /// The number of the zone that it is from.
    pub zone: Option<u32>,
    /// What steering made of it, to be counted.
    pub steered: Option<Steered>,
    /// The load balancer that steered the answer, or failed to.
    pub steered_by: Option<&'s LoadBalancer>,
    /// The name in the zone that answers, in wire form: the one asked for, the wildcard that stands for it,
    /// the delegation or DNAME above it; the zone's own if there is none. Answers of one name are equal
    /// to response rate limiting.
    pub matched: Option<&'s [u8]>,
    /// What the server says of itself.
    pub extras: Extras<'s>,
}

/// What of a reply is the server's and the connection's, not the zone's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'s> {
    /// TC, though nothing of the answer is missing: the client is to come again over TCP.
    pub truncated: bool,
    /// The server's identifier, for clients that asked for it (RFC 5001).
    pub nsid: Option<&'s [u8]>,
    /// The data of the cookie option, for clients that sent one (RFC 7873).
    pub cookie: Option<[u8; CLIENT + SERVER]>,
    /// How long the connection may be idle, in tenths of a second, for clients that asked (RFC 7828).
    pub keepalive: Option<u16>,
    /// Whether the reply is padded (RFC 7830).
    pub padded: bool,
}

/// A record set of an answer.
#[derive(Clone, Debug)]
pub struct Set<'s> {
    /// Whose records they are.
    pub owner: Owner<'s>,
    /// Their type.
    pub record_type: RecordType,
    /// Their TTL.
    pub ttl: Ttl,
    /// Their data.
    pub data: Data<'s>,
}

/// The owner of a record set.
#[derive(Clone, Debug)]
pub enum Owner<'s> {
    /// The name in the question, in the client's spelling.
    Question,
    /// A name of the zone or of an alias's data, in wire form.
    Wire(&'s [u8]),
    /// The target of a CNAME that was synthesised from a DNAME.
    Synthesised(Rdata),
}

/// The data of a record set.
#[derive(Clone, Debug)]
pub enum Data<'s> {
    /// Static records.
    Static(&'s [Rdata]),
    /// The addresses of the chosen origins.
    Steered(Pick<'s>),
    /// A CNAME that was synthesised from a DNAME (RFC 6672 section 2.2): a thing in an answer
    /// that is made for it, and so allocated.
    Synthesised(Rdata),
    /// HTTPS or SVCB records that get the answer's [`Hints`] where they are written.
    Hinted(&'s [Rdata]),
    /// The same with their hints, for those who show or transfer them.
    Made(Vec<Rdata>),
}

/// Addresses that are given as hints in HTTPS or SVCB records (RFC 9460 section 7.3).
#[derive(Clone, Debug)]
pub struct Hints<'s> {
    /// Whose addresses they are, in wire form.
    pub owner: &'s [u8],
    /// The origins, of IPv4 and of IPv6.
    pub picks: [Option<Pick<'s>>; 2],
}

/// The glue of a referral.
#[derive(Clone, Copy, Debug)]
pub struct GlueSets<'s> {
    /// The zone that holds it.
    pub zone: &'s Zone,
    /// Which of its sets, those that are required first.
    pub glue: &'s [Glue],
}

/// An extended error (RFC 8914), with what its text says.
#[derive(Clone, Copy, Debug)]
pub enum ExtendedError<'s> {
    /// 20, Not Authoritative: the name is in no zone here.
    NotAuthoritative,
    /// 0, Other: a steered name has nothing to answer.
    NoAnswer {
        /// The load balancer.
        balancer: &'s LoadBalancer,
        /// The name of its fallback pool.
        fallback: &'s str,
        /// What is wrong with it.
        reason: NoAnswer,
    },
    /// 0, Other: the answer could not be made.
    Internal,
    /// 20, Not Authoritative: there is no zone of this name to be transferred.
    NoSuchZone,
    /// 18, Prohibited: the client may not have the zone.
    TransferNotAllowed,
    /// 21, Not Supported: the transfer does not fit one message.
    TransferNeedsStream,
}

impl<'s> Answer<'s> {
    /// An answer without records.
    pub fn empty(rcode: Rcode) -> Self {
        Self {
            rcode,
            authoritative: false,
            answer: ArrayVec::new(),
            hints: None,
            authority: None,
            glue: None,
            ecs_scope: 0,
            extended_error: None,
            zone: None,
            steered: None,
            steered_by: None,
            matched: None,
            extras: Extras::default(),
        }
    }

    /// The sets of the answer section with hints in their data: for those who show answers, or transfer
    /// zones. It allocates.
    pub fn whole_sets(&self) -> Vec<Set<'s>> {
        let whole = |set: &Set<'s>| match (&set.data, &self.hints) {
            (Data::Hinted(records), Some(hints)) => {
                Set { data: Data::Made(hints.put_into(records)), ..set.clone() }
            }
            _ => set.clone(),
        };
        self.answer.iter().map(whole).collect()
    }
}

impl Hints<'_> {
    /// The addresses of each family.
    pub fn addresses(&self) -> [impl Iterator<Item = &[u8]>; 2] {
        self.picks.each_ref().map(|pick| {
            let addresses = pick.iter().flat_map(Pick::rdata);
            addresses.take(MAX_HINTS).map(|rdata| &**rdata)
        })
    }

    fn put_into(&self, records: &[Rdata]) -> Vec<Rdata> {
        let addresses = self.addresses().map(|addresses| addresses.collect::<Vec<_>>().concat());
        let hinted = |rdata: &Rdata| {
            with_hints(rdata, self.owner, &addresses).map_or_else(|| rdata.clone(), Rdata::from)
        };
        records.iter().map(hinted).collect()
    }
}

impl<'s> Owner<'s> {
    /// The owner in wire form, where this is the name in the question.
    pub fn wire<'o>(&'o self, question: &'o [u8]) -> &'o [u8] {
        match self {
            Self::Question => question,
            Self::Wire(wire) => wire,
            Self::Synthesised(wire) => wire,
        }
    }
}

impl<'s> Set<'s> {
    /// A set of static records.
    pub fn of(owner: Owner<'s>, set: &'s RrSet) -> Self {
        let RrSet { record_type, ttl, rdata } = set;
        Self { owner, record_type: *record_type, ttl: *ttl, data: Data::Static(rdata) }
    }

    /// The data of each record, in order; of [`Data::Hinted`] without the hints.
    pub fn rdata(&self) -> impl Iterator<Item = &[u8]> {
        let (slice, pick) = match &self.data {
            Data::Static(rdata) => (*rdata, None),
            Data::Synthesised(rdata) => (std::slice::from_ref(rdata), None),
            Data::Hinted(rdata) => (*rdata, None),
            Data::Made(rdata) => (&rdata[..], None),
            Data::Steered(pick) => (&[][..], Some(pick)),
        };
        let steered = pick.into_iter().flat_map(Pick::rdata);
        slice.iter().chain(steered).map(|rdata| &**rdata)
    }
}

impl<'s> GlueSets<'s> {
    /// The sets, and whether the referral is of no use without each.
    pub fn sets(&self) -> impl Iterator<Item = (Set<'s>, bool)> + use<'s> {
        let Self { zone, glue } = *self;
        glue.iter().filter_map(|glue| {
            let node: &'s Node = zone.node(glue.node)?;
            let set = node.rrset(glue.record_type)?;
            Some((Set::of(Owner::Wire(node.owner.as_wire()), set), glue.required))
        })
    }
}

impl ExtendedError<'_> {
    /// The INFO-CODE.
    pub fn code(&self) -> u16 {
        match self {
            Self::NotAuthoritative | Self::NoSuchZone => 20,
            Self::TransferNotAllowed => 18,
            Self::TransferNeedsStream => 21,
            Self::NoAnswer { .. } | Self::Internal => 0,
        }
    }
}

impl fmt::Display for ExtendedError<'_> {
    /// The EXTRA-TEXT.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthoritative => f.write_str("not in any zone of this server"),
            Self::NoAnswer { balancer, fallback, reason } => {
                write!(
                    f,
                    "{}: no pool is available, and fallback pool {fallback} ",
                    balancer.name
                )?;
                f.write_str(match reason {
                    NoAnswer::FallbackDisabled => "is disabled",
                    NoAnswer::FallbackDropped => "is unhealthy and drops its traffic",
                    NoAnswer::FallbackEmpty => "has no origin to answer",
                })
            }
            Self::Internal => f.write_str("the answer could not be made; see the server's log"),
            Self::NoSuchZone => f.write_str("no zone of this server has this name"),
            Self::TransferNotAllowed => f.write_str("this client may not have the zone"),
            Self::TransferNeedsStream => f.write_str("zones are sent over TCP and TLS only"),
        }
    }
}
