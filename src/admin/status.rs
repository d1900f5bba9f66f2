//! What there is and how it is: pools, origins, addresses, with their health and what was said of
//! them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde::{Deserialize, Serialize};

use crate::admin::error::{Document, Refusal};
use crate::admin::load_balancers::{self, LoadBalancerStatus};
use crate::admin::overrides::ShownWord;
use crate::admin::{Service, blocking};
use crate::explain::{origin_reason, pool_part};
use crate::health::overrides::{Overrides, Subject};
use crate::locate::place::Coordinates;
use crate::name::Name;
use crate::resolution;
use crate::serve::standing::Standing;
use crate::steer::availability::assess;
use crate::steer::pool::{Origin, OriginAddress, OriginIndex, Pool, PoolId, Role};
use crate::timestamp::show_time;

/// The status of a server. Names are the configuration's; new keys may be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// The number of the state that is served.
    pub generation: u64,
    /// How long the server runs.
    pub uptime_seconds: u64,
    /// Whether it should be asked (`/readyz`).
    pub ready: bool,
    /// Why not.
    pub not_ready: Option<String>,
    /// The last reload, if it was refused: what is served is older than the files.
    #[serde(default)]
    pub refused_reload: Option<RefusedReload>,
    /// The zones.
    pub zones: Vec<String>,
    /// The load balancers that are enabled.
    #[serde(default)]
    pub load_balancers: Vec<LoadBalancerStatus>,
    /// The pools.
    pub pools: Vec<PoolStatus>,
}

/// A reload that was refused, and that none has made good since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefusedReload {
    /// When it was.
    pub at: String,
    /// The first mistake, of 300 characters at most.
    pub error: String,
}

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub pool: String,
    /// The zone that it belongs to; none for a shared one.
    pub zone: Option<String>,
    /// The region that it lies in.
    pub region: Option<String>,
    /// Its latitude and longitude in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<[f64; 2]>,
    /// Its monitor.
    pub monitor: Option<String>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether it is available.
    pub available: bool,
    /// Why.
    pub reason: String,
    /// What was said of it.
    #[serde(rename = "override")]
    pub said: Option<ShownWord>,
    /// Its origins.
    pub origins: Vec<OriginStatus>,
}

/// An origin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OriginStatus {
    /// Its name.
    pub origin: String,
    /// The availability zone that it stands in.
    pub zone: Option<String>,
    /// `primary` or `failover`.
    pub role: String,
    /// Its weight; 0 if it is drained.
    pub weight: f64,
    /// Whether it is enabled.
    pub enabled: bool,
    /// `healthy`, `unhealthy` or `unknown`: what counts.
    pub health: String,
    /// Whether it may take new answers.
    pub eligible: bool,
    /// Why.
    pub reason: String,
    /// What was said of it.
    #[serde(rename = "override")]
    pub said: Option<ShownWord>,
    /// The host name that it is given by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Of a host name: what is known of its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Its addresses, or what its host name was resolved to.
    pub addresses: Vec<AddressStatus>,
}

/// What is known of the addresses of a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// There are some.
    Resolved,
    /// They are looked for, and none is known.
    Unresolved,
    /// They are not looked for: it is answered as CNAME, and nothing probes it.
    Alias,
}

/// An address, as its probes see it. Without a monitor only the address is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddressStatus {
    /// The address.
    pub address: String,
    /// `healthy`, `unhealthy` or `unknown` by the probes; none without a monitor.
    pub health: Option<String>,
    /// Since when.
    pub since: Option<String>,
    /// For how long.
    pub since_seconds: Option<f64>,
    /// How old the latest result is.
    pub result_age_seconds: Option<f64>,
    /// Why the latest probe failed.
    pub failure: Option<String>,
    /// The round-trip time that it measured.
    pub rtt_ms: Option<f64>,
    /// Whether the latest result is older than it may be.
    pub stale: bool,
    /// Whether it is held down because it flaps.
    pub held_down: bool,
}

/// Shows the status.
pub(super) async fn get(State(service): State<Arc<Service>>) -> Result<Document<Status>, Refusal> {
    blocking(move || Document(service.status())).await
}

impl Service {
    fn status(&self) -> Status {
        let not_ready = self.why_not_ready();
        let standing = self.control.standing();
        let state = &standing.moment.state;
        let pools = (0u32..).map(PoolId).zip(standing.moment.pools.iter());
        let wanted = resolution::wanted(state).names;
        let wanted: HashSet<_> = wanted.iter().map(Name::to_key).collect();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generation: standing.moment.generation,
            uptime_seconds: self.started.elapsed().as_secs(),
            ready: not_ready.is_none(),
            not_ready,
            refused_reload: self.reloader.refused().map(|refused| RefusedReload {
                at: show_time(refused.at),
                error: refused.error.clone(),
            }),
            zones: state.zones.iter().map(|zone| zone.apex.to_string()).collect(),
            load_balancers: load_balancers::status(&standing.scene()),
            pools: pools.map(|(id, pool)| pool_status(&standing, &wanted, id, pool)).collect(),
        }
    }
}

/// The status of a pool; `wanted` are the keys of the host names whose addresses are looked for.
fn pool_status(
    standing: &Standing,
    wanted: &HashSet<Box<[u8]>>,
    id: PoolId,
    pool: &Pool,
) -> PoolStatus {
    let scene = standing.scene();
    let state = scene.state;
    let part = pool_part(&scene, id);
    let assessment = assess(id, pool, scene.health);
    let subject = Subject::pool(state, id);
    let origin = |(index, origin): (OriginIndex, &Origin)| {
        let subject = Subject { origin: Some(origin.name.clone()), ..subject.clone() };
        let role = match origin.role {
            Role::Primary => "primary",
            Role::Failover => "failover",
        };
        OriginStatus {
            origin: origin.name.clone(),
            zone: origin.zone.map(|zone| state.availability_zones.name(zone).to_owned()),
            role: role.to_owned(),
            weight: origin.weight.to_f64(),
            enabled: origin.enabled,
            health: assessment.state(index).word().to_owned(),
            eligible: assessment.is_eligible(index),
            reason: origin_reason(&scene, (id, pool), index, &assessment),
            said: said(&standing.overrides, &subject),
            host: origin.host.as_ref().map(ToString::to_string),
            resolution: origin.host.as_ref().map(|host| match origin.addresses.is_empty() {
                false => Resolution::Resolved,
                true if wanted.contains(&host.to_key()) => Resolution::Unresolved,
                true => Resolution::Alias,
            }),
            addresses: origin.addresses.iter().map(|at| address_status(standing, at)).collect(),
        }
    };
    PoolStatus {
        pool: part.pool,
        zone: subject.zone.clone(),
        region: pool.region.map(|region| state.locator.regions().name(region).to_owned()),
        location: pool.location.map(Coordinates::to_degrees),
        monitor: pool.monitor.clone(),
        enabled: pool.enabled,
        available: part.available,
        reason: part.reason,
        said: said(&standing.overrides, &subject),
        origins: pool.indexed().map(origin).collect(),
    }
}

fn said(overrides: &Overrides, subject: &Subject) -> Option<ShownWord> {
    overrides.of(subject).map(|(word, note)| ShownWord::new(word, note))
}

fn address_status(standing: &Standing, address: &OriginAddress) -> AddressStatus {
    let known = standing.known(address);
    let last = known.and_then(|known| known.last.as_ref());
    let since = known.and_then(|known| known.since).map(|since| standing.age(since));
    let milliseconds = |rtt: Duration| (rtt.as_secs_f64() * 1e6).round() / 1e3;
    let seconds = |age: Duration| (age.as_secs_f64() * 1e3).round() / 1e3;
    AddressStatus {
        address: address.ip.to_string(),
        health: known.map(|known| known.state.word().to_owned()),
        since: since.map(|since| show_time(standing.clock_before(since))),
        since_seconds: since.map(seconds),
        result_age_seconds: last.map(|last| seconds(standing.age(last.at))),
        failure: last.and_then(|last| last.failure.clone()),
        rtt_ms: last.and_then(|last| last.rtt).map(milliseconds),
        stale: known.is_some_and(|known| known.is_stale),
        held_down: known.is_some_and(|known| known.is_held_down),
    }
}
