//! The state: everything that a reload replaces, built whole and swapped whole.

use std::sync::Arc;
use std::time::Duration;

use crate::config::identity::Identity;
use crate::config::load_balancers::ParsedBalancer;
use crate::config::monitors::Monitor;
use crate::config::pools::{MonitorId, Probes};
use crate::limit::RateLimit;
use crate::locate::Locator;
use crate::locate::place::{AvailabilityZones, RegionId};
use crate::name::Name;
use crate::steer::Steering;
use crate::steer::load_balancer::{LoadBalancer, LoadBalancerId, RttTolerance};
use crate::steer::plan::Plan;
use crate::steer::pool::{Pool, PoolId};
use crate::steer::rtt::RttTable;
use crate::tally::layout::Layout;
use crate::transfer::Rules;
use crate::tsig::Keys;
use crate::zone::ZoneSet;
use crate::zone::node::NameMap;

/// The validated configuration, compiled for answering.
#[derive(Debug)]
pub struct State {
    /// The zones.
    pub zones: ZoneSet,
    /// Where addresses are.
    pub locator: Locator,
    /// Each region's parent, by [`RegionId`].
    pub parents: Vec<Option<RegionId>>,
    /// All pools, by [`PoolId`].
    pub pools: Arc<[Pool]>,
    /// Which zone each pool belongs to, by [`PoolId`]; none for shared ones.
    pub pool_zones: Vec<Option<Name>>,
    /// The monitor of each pool, by [`PoolId`].
    pub pool_monitors: Vec<Option<MonitorId>>,
    /// The load balancers that are enabled, by [`LoadBalancerId`].
    pub balancers: Vec<LoadBalancer>,
    /// What `explain` needs of each load balancer besides, by [`LoadBalancerId`].
    pub balancer_sources: Vec<BalancerSource>,
    /// The monitors, by their ids.
    pub monitors: Vec<Monitor>,
    /// What they probe.
    pub probes: Probes,
    /// The names of the availability zones.
    pub availability_zones: AvailabilityZones,
    /// The round-trip times.
    pub rtt: RttTable,
    /// How old a measured round-trip time may be.
    pub rtt_max_age: Duration,
    /// The pop of this node.
    pub pop: Option<String>,
    /// The region that this node stands in.
    pub region: Option<RegionId>,
    /// What the server says of itself.
    pub identity: Identity,
    /// Whether a client that knows cookies gets data over UDP only with a valid one.
    pub require_cookies: bool,
    /// How often a network gets the same answer over UDP.
    pub rate_limit: RateLimit,
    /// Who may have which zone, by its apex in lower-case wire form; nobody has the others.
    pub transfers: NameMap<Rules>,
    /// What transfers are signed with. The files of secrets are not read before the state is served.
    pub keys: Keys,
    /// True if a load balancer has session affinity.
    pub has_sessions: bool,
    /// How many sequence slots the load balancers use together.
    pub slot_count: u32,
    /// Which counter is whose.
    pub layout: Arc<Layout>,
}

/// What a load balancer's candidate lists were worked out from.
#[derive(Clone, Debug)]
pub struct BalancerSource {
    /// `pools` as configured.
    pub pools: Vec<PoolId>,
    /// The tolerance of its RTT order.
    pub rtt_tolerance: RttTolerance,
}

impl From<&ParsedBalancer> for BalancerSource {
    fn from(parsed: &ParsedBalancer) -> Self {
        Self { pools: parsed.pools.clone(), rtt_tolerance: parsed.rtt_tolerance }
    }
}

impl State {
    /// What a decision reads, with the plan of the moment.
    pub fn steering<'s>(&'s self, plan: &'s Plan) -> Steering<'s> {
        Steering { pools: &self.pools, plan, parents: &self.parents }
    }

    /// A load balancer by its index.
    pub fn balancer(&self, id: LoadBalancerId) -> Option<&LoadBalancer> {
        self.balancers.get(id.0 as usize)
    }

    /// A pool by its index.
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(id.0 as usize)
    }

    /// The name of a pool, for people.
    pub fn pool_name(&self, id: PoolId) -> &str {
        self.pool(id).map_or("", |pool| &pool.name)
    }
}
