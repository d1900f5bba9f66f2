//! Meridian: an authoritative DNS-based global load balancer.

pub mod answer;
pub mod config;
pub mod locate;
pub mod name;
pub mod query;
pub mod respond;
pub mod rr;
pub mod serve;
pub mod state;
pub mod steer;
pub mod wire;
pub mod zone;
