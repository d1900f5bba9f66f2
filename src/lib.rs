//! Meridian: an authoritative DNS-based global load balancer.
