//! Host names of origins (steering.md, "Choice within a pool"): which of them need addresses, and what
//! pools and probes become of the addresses that were found.
//!
//! ```text
//! state ─► wanted ─► serve::resolver ─► track (a name) ─► Resolved ─┐
//!   └───────────────────────────────────────────────────── apply ◄──┘ ─► pools, probes
//! ```
//!
//! Pure: who asks a resolver, and when, is the edge's business (`serve::resolver`), and `serve::control`
//! swaps what follows from the result in.

pub mod track;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::config::pools::{ProbeTarget, Probes};
use crate::name::Name;
use crate::rr::Ttl;
use crate::state::State;
use crate::steer::pool::{OriginAddress, Pool, PoolId};

/// The addresses of host names at one moment. A name that is here without addresses was asked for, and
/// has none that are good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    names: HashMap<Box<[u8]>, Vec<ResolvedAddress>>,
}

/// An address of a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedAddress {
    /// The address.
    pub ip: IpAddr,
    /// How long an answer with it may be kept.
    pub ttl: Ttl,
}

/// The host names of a state that need addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The names, each once.
    pub names: Vec<Name>,
    /// The longest TTL of an answer with their addresses; longer ones make no difference.
    pub longest: Ttl,
}

impl Resolved {
    /// Says what addresses a name has.
    pub fn insert(&mut self, name: &Name, addresses: Vec<ResolvedAddress>) {
        self.names.insert(name.to_key(), addresses);
    }

    /// The addresses of a name; none if it was not asked for yet.
    pub fn get(&self, name: &Name) -> Option<&[ResolvedAddress]> {
        self.names.get(&name.to_key()).map(Vec::as_slice)
    }
}

/// The host names whose addresses are answered or probed: those in pools of a load balancer that does
/// not answer them as CNAME, and those in pools with a monitor.
pub fn wanted(state: &State) -> Wanted {
    let mut flattened: HashMap<PoolId, Ttl> = HashMap::new();
    for balancer in state.balancers.iter().filter(|balancer| !balancer.aliases) {
        for &(pool, _) in &balancer.slots {
            let longest = flattened.entry(pool).or_default();
            *longest = balancer.ttl.max(*longest);
        }
    }
    let mut names = BTreeMap::new();
    let mut longest = Ttl::default();
    for (id, pool) in (0u32..).map(PoolId).zip(state.pools.iter()) {
        let answered = flattened.get(&id);
        if !pool.has_hosts() || answered.is_none() && pool.monitor.is_none() {
            continue;
        }
        longest = answered.copied().unwrap_or_default().max(longest);
        let hosts = pool.origins.iter().filter_map(|origin| origin.host.as_ref());
        names.extend(hosts.map(|host| (host.to_key(), host.clone())));
    }
    Wanted { names: names.into_values().collect(), longest }
}

/// The pools of a state with the addresses of their host names, and what is probed of them. The numbers
/// of what is probed anyhow are the state's own.
pub fn apply<'s>(state: &'s State, resolved: &Resolved) -> (Arc<[Pool]>, Cow<'s, Probes>) {
    if !state.pools.iter().any(Pool::has_hosts) {
        return (Arc::clone(&state.pools), Cow::Borrowed(&state.probes));
    }
    let mut probes = state.probes.clone();
    let mut pools = state.pools.to_vec();
    for (pool, &monitor) in pools.iter_mut().zip(&state.pool_monitors) {
        let asks_by_name = monitor
            .and_then(|id| state.monitors.get(id.0 as usize))
            .is_some_and(|monitor| monitor.probe.asks_by_origin());
        for origin in &mut pool.origins {
            let Some(host) = &origin.host else { continue };
            let found = resolved.get(host).unwrap_or_default();
            let mut address = |&ResolvedAddress { ip, ttl }: &ResolvedAddress| {
                let target = |monitor| {
                    let host = asks_by_name.then(|| host.clone());
                    ProbeTarget { monitor, address: ip, host }
                };
                let probe = monitor.map(|monitor| probes.intern(target(monitor)));
                OriginAddress { ip, probe, ttl: Some(ttl) }
            };
            origin.addresses = found.iter().map(&mut address).collect();
        }
    }
    (pools.into(), Cow::Owned(probes))
}

/// The pools that are not the same in both lists.
pub fn changed(old: &[Pool], new: &[Pool]) -> Vec<PoolId> {
    let pairs = old.iter().zip(new).zip((0u32..).map(PoolId));
    let differs = |((old, new), id): ((&Pool, &Pool), PoolId)| {
        (new.has_hosts() && old.origins != new.origins).then_some(id)
    };
    pairs.filter_map(differs).collect()
}
