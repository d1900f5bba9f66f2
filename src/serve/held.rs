//! What one connection makes the server hold: octets of queries that are not whole or not answered yet.
//! QUIC lets a client begin a hundred queries at a time, each of up to 64 KiB; without a limit for all of
//! them together a few connections could take all memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most octets that are held for one connection: one query of the largest size, and a hundred that
/// are as large as queries are.
const MOST: usize = 128 << 10;

/// What a connection's queries share.
#[derive(Clone, Debug)]
pub struct Held {
    octets: Arc<AtomicUsize>,
    most: usize,
}

/// What one query holds; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    all: Held,
    own: usize,
}

impl Default for Held {
    fn default() -> Self {
        Self::up_to(MOST)
    }
}

impl Held {
    /// Nothing yet, and at most so many octets.
    pub fn up_to(most: usize) -> Self {
        Self { octets: Arc::default(), most }
    }

    /// The share of a query that begins.
    pub fn share(&self) -> Share {
        Share { all: self.clone(), own: 0 }
    }
}

impl Share {
    /// Takes so many octets more. False if the connection has too many then: it is to be closed.
    #[must_use]
    pub fn take(&mut self, octets: usize) -> bool {
        self.own += octets;
        self.all.octets.fetch_add(octets, Ordering::Relaxed) + octets <= self.all.most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.octets.fetch_sub(self.own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_queries_of_a_connection_share_what_it_may_hold() {
        let held = Held::default();
        let (mut first, mut second) = (held.share(), held.share());
        assert!(first.take(MOST - 1));
        assert!(second.take(1));
        assert!(!second.take(1));
        drop(first);
        assert!(second.take(MOST - 2));
        assert!(!held.share().take(1));
    }
}
