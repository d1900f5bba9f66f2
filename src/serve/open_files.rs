//! How many files the server may have open, and may come to need: each connection, probe and socket is one.

use std::fs;

use rustix::process::{Resource, getrlimit};
use tracing::warn;

use crate::admin;
use crate::config::server::Server;

/// Room for what is opened for a moment: files that a reload reads, look-ups of host names.
const SPARE: usize = 32;

/// Warns if the system does not allow as many as may be needed, once everything is listened on. `probed` are the
/// addresses that may be probed at the same time.
pub fn check(server: &Server, probed: usize) {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let needed = needed(server, probed);
    if u64::try_from(needed).is_ok_and(|needed| needed <= limit) {
        return;
    }
    let connections = server.tcp.connections;
    warn!(
        limit,
        needed,
        connections,
        probed,
        help = "raise the limit (LimitNOFILE= of the unit, ulimit -n), or lower tcp.connections",
        "the server may come to need more open files than it may have"
    );
}

/// How many may be needed at the same time.
fn needed(server: &Server, probed: usize) -> usize {
    let admin = server.admin.as_ref().map_or(0, |_| admin::MOST_CONNECTIONS);
    // Where /proc cannot be read, what is spare has to do.
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    [open, server.tcp.connections, admin, probed, SPARE].into_iter().fold(0, usize::saturating_add)
}
