//! Meridian: an authoritative DNS-based global load balancer.
//!
//! A library for one program, in the order in which a query passes through it:
//!
//! ```text
//! octets in                                                          octets out
//!     │                                                                   ▲
//!     ▼                                                                   │
//!   serve ──► query ──► respond ──► zone ──► locate ──► steer ──► answer ──► wire
//!   sockets   parse     the one     find     where the  which     sections,  write
//!                       function    a name   client is  origins   TTL, scope
//! ```
//!
//! - [`serve`] owns sockets and threads. [`serve::udp`] is the path of datagrams, [`serve::stream`]
//!   that of connections.
//! - [`quick`] answers the common query by itself, from tables that the functions below filled in; the
//!   rest of this list is the long way, which every message can take.
//! - [`query`] makes a [`query::Request`] of octets, or says which response code refuses them.
//! - [`respond`] answers: [`respond::respond`] is called by every transport, and by `explain`.
//! - [`zone`] finds a name ([`zone::Zone::lookup`](zone::node::Zone::lookup)): records, an alias, a
//!   delegation, a load balancer, or nothing.
//! - [`locate`] knows the place of an address, and for how long a prefix it holds.
//! - [`steer`] takes the load balancer and the place to the origins of the answer.
//! - [`answer`] is the result as data, borrowed from the state.
//! - [`wire`] writes it, cut to the size that client and transport allow.
//! - [`served`] is what was answered in a few octets, and [`tally`] counts it.
//! - [`tsig`] tells whether a message is signed with a key, and signs its reply; [`transfer`] decides who may
//!   have a whole zone, and makes the messages of that.
//! - [`cookies`] tells who has the address that it claims; [`limit`] how often who does not is answered.
//!
//! All of them read one [`state::State`], which [`config`] builds from the files and a reload
//! replaces whole. [`explain`] shows the steps of a decision, [`simulate`] the shares of many,
//! [`changes`] what a reload changed, [`journal`] what happened since the start, and [`serial`] keeps SOA serials. [`name`] and [`rr`] are the
//! words that everything is written in. [`cli`] is the command line. [`probe`] tries one address once,
//! in the way of its monitor.
//!
//! What decides is pure: no I/O, no clock, no lock, no randomness, no log. Time, sequence numbers and
//! state are arguments. Only the modules marked below, and [`config::files`], touch the world; a lint
//! refuses the others the usual ways out (clippy.toml).
//!
//! ARCHITECTURE.md follows a query from file to file, and lists what must stay true.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[allow(clippy::disallowed_methods, reason = "the edge: HTTP, clock")]
pub mod admin;
pub mod answer;
pub mod changes;
#[allow(clippy::disallowed_methods, reason = "the edge: arguments, log")]
pub mod cli;
pub mod config;
pub mod cookies;
pub mod explain;
pub mod health;
pub mod journal;
pub mod limit;
pub mod locate;
pub mod name;
#[allow(clippy::disallowed_methods, reason = "the edge: connections to origins, programs, files")]
pub mod probe;
pub mod query;
pub mod query_log;
pub mod quick;
pub mod resolution;
pub mod respond;
pub mod rr;
pub mod rtt;
pub mod scope;
#[allow(clippy::disallowed_methods, reason = "the edge: modification times of files")]
pub mod serial;
#[allow(clippy::disallowed_methods, reason = "the edge: sockets, clock")]
pub mod serve;
pub mod served;
pub mod simulate;
pub mod state;
#[allow(clippy::disallowed_methods, reason = "the edge: the files of the state folder")]
pub mod state_folder;
pub mod steer;
pub mod tally;
pub mod timestamp;
pub mod transfer;
pub mod tsig;
pub mod wire;
pub mod zone;
