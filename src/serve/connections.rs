//! How many connections there are, in all and of each client: what keeps anyone from taking them all
//! (RFC 7766 section 6.2.2, RFC 9210 section 6.1).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts connections against limits.
#[derive(Clone, Debug)]
pub struct Connections {
    most: usize,
    most_of_client: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    of_client: HashMap<IpAddr, usize>,
}

/// The leave to have a connection; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    client: IpAddr,
    open: Arc<Mutex<Open>>,
}

impl Connections {
    /// At most so many in all, and of each client address.
    pub fn new(most: usize, most_of_client: usize) -> Self {
        Self { most, most_of_client, open: Arc::default() }
    }

    /// Leave for one more connection of a client; none if there are too many.
    pub fn admit(&self, client: IpAddr) -> Option<Permit> {
        let client = client.to_canonical();
        // Held for a few instructions, once a connection.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.total >= self.most {
            return None;
        }
        let of_client = open.of_client.entry(client).or_default();
        if *of_client >= self.most_of_client {
            return None;
        }
        *of_client += 1;
        open.total += 1;
        Some(Permit { client, open: Arc::clone(&self.open) })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.total = open.total.saturating_sub(1);
        if let Some(count) = open.of_client.get_mut(&self.client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.of_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_limits_in_all_and_for_each_client() {
        let connections = Connections::new(3, 2);
        let [a, b]: [IpAddr; 2] = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
        let first = connections.admit(a).unwrap();
        let _second = connections.admit("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        assert!(connections.admit(a).is_none(), "two are the most of one client");
        let _third = connections.admit(b).unwrap();
        assert!(connections.admit(b).is_none(), "three are the most in all");
        drop(first);
        assert!(connections.admit(b).is_some());
        assert!(connections.open.lock().unwrap().of_client.contains_key(&a));
    }
}
