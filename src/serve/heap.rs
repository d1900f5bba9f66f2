//! Gives memory back to the system that loading left free: after the start and after each reload.
//!
//! The texts, the tables that are read from them and the old state are thousands of small pieces between
//! those that stay. The allocator of glibc returns only what lies free at the end of a heap, and each thread
//! that reloads may have a heap of its own: without this a server that reloads keeps the memory of several
//! states. Nothing of it is on the path of a query.

#![allow(unsafe_code, reason = "no crate in the tree has this function of glibc as a safe one")]

use std::time::{Duration, Instant};

use tracing::{debug, warn};

use crate::serve::live::Live;

/// How often it is seen whether there is something to give back.
const TICK: Duration = Duration::from_secs(1);

/// Gives back what is free whenever much was freed, for as long as the server runs.
pub async fn keep(live: Live) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        if !live.take_leavings() {
            continue;
        }
        // Some ten milliseconds for each hundred megabytes. It locks one heap at a time.
        let began = Instant::now();
        match tokio::task::spawn_blocking(give_back).await {
            Ok(()) => debug!(took = ?began.elapsed(), "free memory was given back"),
            Err(error) => warn!(%error, "free memory could not be given back"),
        }
    }
}

/// Gives back every whole page that is free. Other allocators than glibc's do so by themselves.
fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time by any thread (malloc_trim(3)), and touches nothing but what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
