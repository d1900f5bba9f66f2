//! Connections of the admin service: how many, how long, how large their headers. Each of them ends,
//! whatever its client does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tracing::warn;

use crate::serve::http::{self, Limits};
use crate::serve::meters::Meters;

/// What a client may take.
const LIMITS: Limits =
    Limits { headers: Duration::from_secs(10), idle: Duration::from_secs(30), streams: 32 };
/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that accepts connections.
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) router: Router,
    /// A permit for each connection that there may be.
    pub(super) connections: Arc<Semaphore>,
    /// True when the server ends.
    pub(super) stopped: watch::Receiver<bool>,
    /// Who knows what was logged.
    pub(super) meters: Arc<Meters>,
}

impl Listener {
    /// Accepts connections until the server ends.
    pub(super) async fn run(mut self) {
        loop {
            let accepted = async {
                // Not one more is accepted than can be carried; the others wait in the kernel.
                let permit = Arc::clone(&self.connections).acquire_owned().await;
                (permit, self.socket.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                accepted = accepted => accepted,
                _ = self.stopped.wait_for(|&stopped| stopped) => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (router, stopped) = (self.router.clone(), self.stopped.clone());
                    tokio::spawn(async move {
                        carry(stream, router, stopped).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    // As a rule the process has too many open files; that passes.
                    if let Some(attempts) = self.meters.no_admin_room.due(Instant::now()) {
                        warn!(%error, attempts, "no admin connection can be accepted at the moment");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Carries one connection to its end.
async fn carry(stream: TcpStream, router: Router, stopped: watch::Receiver<bool>) {
    let router = TowerToHyperService::new(router);
    http::carry(stream, move |request| router.call(request), LIMITS, stopped).await;
}
