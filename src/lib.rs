//! Meridian: an authoritative DNS-based global load balancer.

pub mod answer;
pub mod changes;
pub mod cli;
pub mod config;
pub mod explain;
pub mod locate;
pub mod name;
pub mod query;
pub mod quick;
pub mod respond;
pub mod rr;
pub mod serial;
pub mod serve;
pub mod state;
pub mod steer;
pub mod wire;
pub mod zone;
