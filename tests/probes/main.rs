//! Probes against real servers on the loopback address, good ones and hostile ones. `servers` starts
//! them; one file a subject. Expectations come from the specification of health monitoring.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod monitors;
mod servers;

mod certificates;
mod datagrams;
mod grpc;
mod hostile;
mod http;
mod local;
mod network;
mod tcp;
