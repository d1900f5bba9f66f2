//! The black-box tests: the program is started as an operator starts it and observed only through
//! its sockets, its output and its exit codes. Expectations come from the specification and the
//! RFCs, never from the source. One file a subject; `harness` starts things, `wire` speaks DNS.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]
#![allow(clippy::print_stderr, reason = "what is skipped is told, and what is measured")]

mod harness;
mod mmdb;
mod wire;

mod admin;
mod cases;
mod clock;
mod config;
mod dns;
mod docs;
mod ecs;
mod edns;
mod environment;
mod findings;
mod health;
mod hostile;
mod hostnames;
mod http3;
mod memory;
mod policies;
mod privileges;
mod query_log;
mod quic;
mod rate_limit;
mod reload;
mod rules;
mod schema;
mod secondaries;
mod sessions;
mod shortage;
mod simulate;
mod steering;
mod streams;
mod systemd;
mod transfers;
mod watch;
mod zonal;
