//! What a reload changed: zones, names, pools, origins and settings that were added, removed or changed, for
//! the log. Compared by what the configuration says, not by the numbers of one state.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::pools::MonitorId;
use crate::locate::place::RegionId;
use crate::state::State;
use crate::steer::load_balancer::{LoadBalancer, Policy};
use crate::steer::pool::{Origin, Pool};
use crate::zone::node::Zone;

/// How many names of one kind of change are listed.
const MOST_LISTED: usize = 10;

/// The differences between two states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Zones, by apex.
    pub zones: Difference,
    /// Steered and static names.
    pub names: Difference,
    /// Pools.
    pub pools: Difference,
    /// Origins, as POOL/ORIGIN.
    pub origins: Difference,
    /// The parts of the location data: database, regions, subnets, round-trip times.
    pub location: Difference,
    /// Settings and secrets of the server that take effect at once, by their keys.
    #[serde(default)]
    pub settings: Difference,
}

/// What became of the things of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are not there any more.
    pub removed: Vec<String>,
    /// Those that are not the same.
    pub changed: Vec<String>,
}

/// Things by their names, each with all that is to be compared of it.
type Described = BTreeMap<String, String>;

impl Changes {
    /// Compares two states. Settings are no part of them.
    pub fn between(old: &State, new: &State) -> Self {
        Self {
            zones: Difference::between(&zones(old), &zones(new)),
            names: Difference::between(&names(old), &names(new)),
            pools: Difference::between(&pools(old), &pools(new)),
            origins: Difference::between(&origins(old), &origins(new)),
            location: Difference::between(&location(old), &location(new)),
            settings: Difference::default(),
        }
    }
}

impl Difference {
    /// True if nothing is different.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Notes what became of one thing, which may be missing on either side.
    pub fn note<T: PartialEq>(&mut self, name: &str, (old, new): (Option<T>, Option<T>)) {
        let list = match (old, new) {
            (None, Some(_)) => &mut self.added,
            (Some(_), None) => &mut self.removed,
            (Some(old), Some(new)) if old != new => &mut self.changed,
            _ => return,
        };
        list.push(name.to_owned());
    }

    fn between(old: &Described, new: &Described) -> Self {
        let only_in = |these: &Described, those: &Described| {
            these.keys().filter(|name| !those.contains_key(*name)).cloned().collect()
        };
        let changed = |(name, description): (&String, &String)| {
            old.get(name).filter(|before| *before != description).map(|_| name.clone())
        };
        Self {
            added: only_in(new, old),
            removed: only_in(old, new),
            changed: new.iter().filter_map(changed).collect(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds =
            [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)];
        let mut separator = "";
        for (word, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            let listed = names.iter().take(MOST_LISTED).cloned().collect::<Vec<_>>().join(", ");
            write!(f, "{separator}{} {word}: {listed}", names.len())?;
            if names.len() > MOST_LISTED {
                f.write_str(", …")?;
            }
            separator = "; ";
        }
        if separator.is_empty() { f.write_str("unchanged") } else { Ok(()) }
    }
}

fn zones(state: &State) -> Described {
    let describe = |zone: &Zone| {
        let mut soa = zone.soa.clone();
        if !soa.serial_is_given {
            soa.rrset.rdata.clear();
        }
        // Who may have it is a key of the zone.
        let transfer = state.transfers.get(&*zone.apex.to_key());
        format!("{soa:?} {transfer:?}")
    };
    state.zones.iter().map(|zone| (zone.apex.to_string(), describe(zone))).collect()
}

fn names(state: &State) -> Described {
    let mut names = Described::new();
    for zone in state.zones.iter() {
        for node in zone.nodes() {
            let sets: Vec<_> = node
                .rrsets
                .iter()
                .filter(|set| set.record_type != crate::rr::RecordType::SOA)
                .collect();
            let balancer = node.steered.and_then(|id| state.balancer(id));
            let balancer = balancer.map(|balancer| describe_balancer(state, balancer));
            if !sets.is_empty() || balancer.is_some() {
                let hinted = &node.hinted;
                names.insert(node.owner.to_string(), format!("{sets:?} {hinted:?} {balancer:?}"));
            }
        }
    }
    names
}

fn describe_balancer(state: &State, balancer: &LoadBalancer) -> String {
    let LoadBalancer { policy, client, ttl, answers, fallback_pool, rules, .. } = balancer;
    let LoadBalancer { random, sessions, aliases, .. } = balancer;
    let list = |index: u16| {
        rules.lists.get(usize::from(index)).map(|rule| {
            let pools = rule.candidates.iter().map(|&pool| state.pool_name(pool));
            format!("{}={}", rule.name, pools.collect::<Vec<_>>().join(","))
        })
    };
    // The lists of proximity follow from where pools and clients are, which is told with those.
    let count = if *policy == Policy::Proximity { 1 } else { rules.lists.len() };
    let lists: Vec<_> = (0..u16::try_from(count).unwrap_or(u16::MAX)).map(list).collect();
    let fallback = state.pool_name(*fallback_pool);
    let weights: Option<Vec<_>> =
        random.as_ref().map(|random| random.weights.iter().map(|&(_, weight)| weight).collect());
    let sessions = sessions.as_ref().map(|affinity| affinity.keys.settings);
    format!(
        "{policy:?} {client:?} {ttl:?} {answers:?} {fallback} {lists:?} {weights:?} {sessions:?} {aliases}"
    )
}

/// A pool's name, with the zone that it belongs to.
fn pool_names(state: &State) -> impl Iterator<Item = (String, &Pool)> {
    state.pools.iter().zip(&state.pool_zones).map(|(pool, zone)| {
        let name = match zone {
            Some(zone) => format!("{} ({zone})", pool.name),
            None => pool.name.clone(),
        };
        (name, pool)
    })
}

fn pools(state: &State) -> Described {
    let region = |region: Option<RegionId>| region.map(|id| state.locator.regions().name(id));
    let describe = |(pool, monitor): (&Pool, &Option<MonitorId>)| {
        let Pool { enabled, location, minimum_origins, zonal_affinity, failover_policy, .. } = pool;
        // By its number, since zones may have monitors of one name.
        let monitor = monitor.and_then(|id| state.monitors.get(id.0 as usize));
        let region = region(pool.region);
        format!(
            "{enabled} {region:?} {location:?} {monitor:?} {minimum_origins} {zonal_affinity:?} {failover_policy:?}"
        )
    };
    let pools = pool_names(state).zip(&state.pool_monitors);
    pools.map(|((name, pool), monitor)| (name, describe((pool, monitor)))).collect()
}

/// The location data, each part by all that it says.
fn location(state: &State) -> Described {
    let locator = &state.locator;
    let regions = locator.regions();
    let region = |id: Option<RegionId>| id.map(|id| regions.name(id));
    let tree: Vec<_> =
        regions.iter().map(|(id, name)| (name, region(regions.parent(id)))).collect();
    let subnets: Vec<_> = locator.subnets().iter().map(|subnet| format!("{subnet:?}")).collect();
    let mut rtt: Vec<_> = state
        .rtt
        .regions
        .iter()
        .flat_map(|(id, row)| row.iter().map(|(pool, time)| (region(Some(*id)), pool, time)))
        .map(|(region, pool, time)| format!("{region:?} {} {time:?}", state.pool_name(*pool)))
        .collect();
    rtt.sort_unstable();
    let mut parts = Described::new();
    if let Some(database) = locator.database() {
        parts.insert("database".to_owned(), format!("{database:?}"));
    }
    parts.insert("regions".to_owned(), format!("{tree:?}"));
    parts.insert("subnets".to_owned(), format!("{subnets:?}"));
    parts.insert("round-trip times".to_owned(), format!("{rtt:?}"));
    parts
}

fn origins(state: &State) -> Described {
    let describe = |origin: &Origin| {
        let Origin { weight, role, enabled, host, .. } = origin;
        let ips: Vec<_> = origin.addresses.iter().map(|address| address.ip).collect();
        let zone = origin.zone.map(|zone| state.availability_zones.name(zone));
        format!("{host:?} {ips:?} {zone:?} {weight} {role:?} {enabled}")
    };
    let of_pool = |(pool_name, pool): (String, &Pool)| -> Vec<_> {
        let named = |origin: &Origin| (format!("{pool_name}/{}", origin.name), describe(origin));
        pool.origins.iter().map(named).collect()
    };
    pool_names(state).flat_map(of_pool).collect()
}
