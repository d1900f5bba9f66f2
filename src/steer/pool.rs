//! Pools and origins as the decision reads them: validated, names resolved to numbers.

use std::net::IpAddr;

use crate::config::decimal::Decimal;
use crate::locate::place::{AvailabilityZoneId, Coordinates, RegionId};
use crate::name::Name;
use crate::rr::Ttl;

/// The most origins that a pool may have: bounds the work and the stack of one decision.
pub const MAX_ORIGINS: usize = 1024;

/// A pool, by its index in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// An origin within its pool, by its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginIndex(pub u16);

/// What is probed: one address by one monitor, by its index in the state (health.md: an address
/// that several pools share with the same monitor is probed once).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(pub u32);

/// A set of origins of which only the healthy members are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name in the configuration.
    pub name: String,
    /// A disabled pool is never answered, not even as the fallback pool.
    pub enabled: bool,
    /// The region that the pool lies in; none for the world.
    pub region: Option<RegionId>,
    /// Where it is on the globe.
    pub location: Option<Coordinates>,
    /// The name of its monitor; without one, its enabled origins count as healthy.
    pub monitor: Option<String>,
    /// How many enabled origins must be healthy for the pool to be healthy.
    pub minimum_origins: usize,
    /// How clients of the pool's region meet their own zone.
    pub zonal_affinity: ZonalAffinity,
    /// When failover origins take over, and what happens when nothing is healthy.
    pub failover_policy: FailoverPolicy,
    /// The members, in the order of the configuration.
    pub origins: Vec<Origin>,
    /// True if a load balancer with session affinity can answer it.
    pub keeps_sessions: bool,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The name in the configuration.
    pub name: String,
    /// The host name that it is given by; none where addresses are given.
    pub host: Option<Name>,
    /// Its addresses: at least one, or those that its host name was resolved to.
    pub addresses: Vec<OriginAddress>,
    /// The availability zone that it stands in.
    pub zone: Option<AvailabilityZoneId>,
    /// Its share relative to the others; 0 takes no new traffic.
    pub weight: Decimal,
    /// Primary or failover.
    pub role: Role,
    /// A disabled origin is as if it were not there.
    pub enabled: bool,
}

/// One address of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginAddress {
    /// The address.
    pub ip: IpAddr,
    /// The probe that tells its health; none in a pool without a monitor.
    pub probe: Option<ProbeId>,
    /// How long an answer with it may be kept at most, where it comes from a resolver.
    pub ttl: Option<Ttl>,
}

/// What an origin is there for (zonal-affinity.md, "failover policy").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes traffic in normal operation.
    #[default]
    Primary,
    /// Takes it when too few primaries are healthy.
    Failover,
}

/// The zonal affinity modes (zonal-affinity.md, "Modes").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZonalAffinity {
    /// Zones do not matter.
    #[default]
    Disabled,
    /// A client never leaves its zone.
    StayWithinZone,
    /// A client leaves its zone when less than this share of it is eligible; with 0, when
    /// nothing is.
    SpillCrossZone {
        /// The share, 0 to 1.
        spillover_ratio: Decimal,
    },
}

/// The failover policy (zonal-affinity.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverPolicy {
    /// Fail over when strictly less than this share of the primaries is healthy; with 0, when
    /// none is.
    pub failover_ratio: Decimal,
    /// Answer nothing, instead of all primaries, when everything is unhealthy.
    pub drop_traffic_if_unhealthy: bool,
}

impl Default for FailoverPolicy {
    fn default() -> Self {
        Self { failover_ratio: Decimal::ZERO, drop_traffic_if_unhealthy: false }
    }
}

/// What the records of an answer are: addresses of a family, or a host name in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A.
    V4,
    /// AAAA.
    V6,
    /// CNAME.
    Host,
}

impl Family {
    /// Those of addresses, in the order of their indices.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// All of them, in the order of their indices.
    pub const WITH_HOST: [Self; 3] = [Self::V4, Self::V6, Self::Host];

    /// 0 for IPv4, 1 for IPv6, 2 for host names.
    pub fn index(self) -> usize {
        match self {
            Self::V4 => 0,
            Self::V6 => 1,
            Self::Host => 2,
        }
    }

    /// True if the address is of this family.
    pub fn holds(self, ip: IpAddr) -> bool {
        match self {
            Self::V4 => ip.is_ipv4(),
            Self::V6 => ip.is_ipv6(),
            Self::Host => false,
        }
    }
}

impl Pool {
    /// An origin by its position.
    pub fn origin(&self, index: OriginIndex) -> Option<&Origin> {
        self.origins.get(usize::from(index.0))
    }

    /// All origins with their positions.
    pub fn indexed(&self) -> impl Iterator<Item = (OriginIndex, &Origin)> {
        (0u16..).map(OriginIndex).zip(&self.origins)
    }

    /// True if an origin is given by host name.
    pub fn has_hosts(&self) -> bool {
        self.origins.iter().any(|origin| origin.host.is_some())
    }

    /// The distinct availability zones of its origins, sorted; the configuration's, not the
    /// healthy ones', so that what is numbered by them survives a change of health.
    pub fn zones(&self) -> Vec<AvailabilityZoneId> {
        let mut zones: Vec<_> = self.origins.iter().filter_map(|origin| origin.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        zones
    }
}

impl Origin {
    /// True for a *configured backend* (zonal-affinity.md): enabled, and weight above 0.
    pub fn is_configured(&self) -> bool {
        self.enabled && !self.weight.is_zero()
    }
}
