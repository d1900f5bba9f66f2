//! Load balancers as the decision reads them: candidate lists worked out at load, one for each way
//! that a client can match.

use std::sync::Arc;
use std::time::Duration;

use crate::locate::place::{Coordinates, Country, RegionId, Subdivision};
use crate::name::Name;
use crate::rr::Ttl;
use crate::steer::pool::PoolId;
use crate::steer::random::RandomPools;
use crate::steer::session::SessionAffinity;

/// The most origins that one answer may be asked to carry by number (`answers`).
pub const MAX_ANSWERS: u8 = 64;

/// A load balancer, by its index in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadBalancerId(pub u32);

/// A steered name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// The owner name.
    pub name: Name,
    /// How the candidates follow from the client.
    pub policy: Policy,
    /// Which client address steers.
    pub client: ClientSource,
    /// The TTL of the records.
    pub ttl: Ttl,
    /// How many origins an answer carries.
    pub answers: Answers,
    /// Answered, whatever its health, when no candidate is available.
    pub fallback_pool: PoolId,
    /// The candidate lists and who matches them.
    pub rules: Rules,
    /// With random steering: the pools and their weights, which go before `rules`.
    pub random: Option<RandomPools>,
    /// With RTT steering: its number among those, by which a plan has its lists of the moment, which
    /// go before `rules`.
    pub measured: Option<u32>,
    /// Every pool that can be answered, each once, with the first of its sequence slots.
    pub slots: Vec<(PoolId, u32)>,
    /// True where origins that are given by host name are answered as CNAME: their pools are its own,
    /// and a CNAME may stand at its name. Else their addresses are answered.
    pub aliases: bool,
    /// Where HTTPS or SVCB records of its name get hints: how far from its sequence slots those are
    /// that count the hints.
    pub hint_slots: Option<u32>,
    /// False where the answer cannot depend on the client's place: the ECS scope is then 0, or no
    /// longer than sessions ask for.
    pub depends_on_client: bool,
    /// How clients keep their origins; none where they do not.
    pub sessions: Option<SessionAffinity>,
}

/// The steering policies on offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The pools in their order.
    #[default]
    Failover,
    /// By pop, country and region maps.
    Geo,
    /// By round-trip time.
    Rtt,
    /// By distance.
    Proximity,
    /// By weight, whoever the client is.
    Random,
}

impl Policy {
    /// All of them, by the words of the configuration.
    pub const ALL: [(&'static str, Self); 5] = [
        ("failover", Self::Failover),
        ("geo", Self::Geo),
        ("rtt", Self::Rtt),
        ("proximity", Self::Proximity),
        ("random", Self::Random),
    ];

    /// The word of the configuration.
    pub fn word(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, policy)| *policy == self);
        named.map_or("", |&(word, _)| word)
    }
}

/// Who the client is (steering.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientSource {
    /// The EDNS Client Subnet where there is one with a source prefix above 0, else the resolver.
    #[default]
    Ecs,
    /// Always the source address of the query.
    Resolver,
}

/// How many origins one answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// At most so many, weighted without replacement, the chosen one first.
    Count(u8),
    /// The whole eligible set, rotated, the client's zone first.
    All,
}

/// The candidate lists of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The lists, by their index.
    pub lists: Vec<Rule>,
    /// The list of this node's pop, which beats every other.
    pub pop: Option<u16>,
    /// Lists by subdivision, sorted.
    pub subdivisions: Vec<(Subdivision, u16)>,
    /// Lists by coordinates, sorted; shared by load balancers of the same pools, since there are as
    /// many as a database has places.
    pub spots: Arc<[(Coordinates, u16)]>,
    /// Lists by country, sorted.
    pub countries: Vec<(Country, u16)>,
    /// Lists by region, sorted; the client's nearest ancestor that is here counts.
    pub regions: Vec<(RegionId, u16)>,
    /// The list of clients that none of the above matches.
    pub default: u16,
}

/// One candidate list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The configuration key that it comes from ("region_pools.weu"), as `explain` names it.
    pub name: String,
    /// The pools, first choice first.
    pub candidates: Vec<PoolId>,
}

/// How near two round-trip times must be to count as equal (`rtt_tolerance`): the larger of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttTolerance {
    /// So far apart, whatever they are.
    pub absolute: Duration,
    /// So far apart in millionths of the lower one.
    pub relative_micros: u32,
}

impl Default for RttTolerance {
    fn default() -> Self {
        Self { absolute: Duration::from_millis(5), relative_micros: 100_000 }
    }
}

impl LoadBalancer {
    /// The position of one of its pools among them.
    pub fn position(&self, pool: PoolId) -> Option<usize> {
        self.slots.iter().position(|&(id, _)| id == pool)
    }

    /// The first sequence slot of one of its pools.
    pub fn first_slot(&self, pool: PoolId) -> Option<u32> {
        self.slots.iter().find(|&&(id, _)| id == pool).map(|&(_, slot)| slot)
    }
}
