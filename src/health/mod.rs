//! Health: from the results of probes and the words of operators to what the decision reads.
//!
//! ```text
//! probe ─► track (rise, fall, flapping) ─► board (all addresses) ─┐
//!                               overrides (forced, drained, off) ─┴─► steer::availability::Health
//! ```
//!
//! Pure: results come in with the time they were had at. Who probes, and when the next probe is due by
//! the clock, is the edge's business (`serve::prober`, with [`schedule`]); `serve::control` holds the
//! board and swaps what follows from it in.

pub mod board;
pub mod overrides;
pub mod schedule;
pub mod track;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::config::monitors::Monitor;
use crate::name::Name;

/// What health is kept of, from one state to the next: an address, by the monitor that probes it
/// (health.md: "state survives a reload for every (monitor name, address) pair that is still there").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetKey {
    /// The zone whose monitor it is; none for a shared one.
    pub zone: Option<String>,
    /// The monitor's name.
    pub monitor: String,
    /// The address.
    pub address: IpAddr,
    /// The host name of the origin, where the monitor asks by it.
    pub host: Option<Arc<str>>,
}

impl TargetKey {
    /// The key of an address that a monitor probes.
    pub fn new(monitor: &Monitor, address: IpAddr, host: Option<&Name>) -> Self {
        let (zone, name) = (monitor.zone.clone(), monitor.name.clone());
        // As it stands in a Host header and in a certificate: without the final dot.
        let host = host.map(|host| host.to_string().trim_end_matches('.').into());
        Self { zone, monitor: name, address, host }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.address, self.monitor)
    }
}
