//! Meridian: an authoritative DNS-based global load balancer.

pub mod config;
pub mod locate;
pub mod name;
pub mod rr;
pub mod steer;
pub mod zone;
