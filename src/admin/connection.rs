//! Connections of the admin service: how long, how large their headers. Each of them ends, whatever its client
//! does.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::warn;

use crate::admin::seats::{Seat, Seats};
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
    /// A seat for each connection that there may be.
    pub(super) seats: Arc<Seats>,
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
                let (stream, _) = self.socket.accept().await?;
                Ok::<_, io::Error>((stream, self.seats.take().await))
            };
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                _ = self.stopped.wait_for(|&stopped| stopped) => return,
            };
            match accepted {
                Ok((stream, seat)) => {
                    let (router, stopped) = (self.router.clone(), self.stopped.clone());
                    tokio::spawn(carry(stream, seat, router, stopped));
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

/// Carries one connection to its end, or until another needs its seat.
async fn carry(stream: TcpStream, seat: Seat, router: Router, stopped: watch::Receiver<bool>) {
    let router = TowerToHyperService::new(router);
    let answer = move |request| router.call(request);
    tokio::select! {
        () = http::carry(stream, answer, LIMITS, stopped, seat.turn()) => {}
        () = seat.is_wanted() => {}
    }
}
