//! Wants a reload when a file changes that the configuration was read from (`watch = true`).
//!
//! ```text
//! a reload ──► inputs: what it looked at ──► Folders: what is watched for it
//!    ▲                                             │ something changed
//!    └────── wanted ◄── Quiet: 500 ms without ◄────┘
//! ```
//!
//! The reload itself is that of SIGHUP: this module never reads a configuration. After each one what is
//! watched is arranged anew, and what changed between reading and arranging is found by the marks of the
//! inputs.

mod folders;
mod names;
mod quiet;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::config::files::mark_of;
use crate::config::inputs::Input;
use crate::serve::watch::folders::Folders;
use crate::serve::watch::quiet::Quiet;

/// Starts to watch; what is received wants a reload. With `watch = false` the channel is closed.
/// `inputs` is what the last reload looked at. Must be called within a runtime.
///
/// # Errors
/// What the system says if it cannot watch at all.
pub fn start(is_on: bool, inputs: watch::Receiver<Arc<[Input]>>) -> io::Result<mpsc::Receiver<()>> {
    // One wish that waits is as good as many.
    let (wanted, wishes) = mpsc::channel(1);
    if is_on {
        tokio::spawn(follow(Folders::new()?, inputs, wanted));
    }
    Ok(wishes)
}

async fn follow(
    mut folders: Folders,
    mut inputs: watch::Receiver<Arc<[Input]>>,
    wanted: mpsc::Sender<()>,
) {
    let mut quiet = Quiet::default();
    inputs.mark_changed();
    loop {
        let due = async {
            match quiet.due() {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            result = inputs.changed() => {
                if result.is_err() {
                    return;
                }
                let inputs = Arc::clone(&inputs.borrow_and_update());
                let is_stale = tokio::task::block_in_place(|| {
                    folders.watch(&inputs);
                    inputs.iter().any(|input| mark_of(&input.path, input.kind) != input.mark)
                });
                if is_stale {
                    quiet.note(Instant::now());
                }
            }
            result = folders.changed() => match result {
                Ok(()) => quiet.note(Instant::now()),
                Err(error) => {
                    warn!(%error, "files are no longer watched; reload with SIGHUP");
                    return;
                }
            },
            () = due => {
                quiet = Quiet::default();
                info!("files changed");
                // A wish that waits already is this one too.
                let _waiting = wanted.try_send(());
            }
            () = wanted.closed() => return,
        }
    }
}
