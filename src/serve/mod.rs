//! Serving: sockets, the swap of states, signals. The edge around the pure core.

pub mod handler;
pub mod live;
pub mod sequences;
