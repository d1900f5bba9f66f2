//! The admin service: HTTP for operators and for what watches the server.
//!
//! ```text
//! listen ─► seats (how many) ─► connection (how long) ─► guard (who may) ─► ready, status, explain,
//!                                                                           metrics, traffic,
//!                                                                           overrides, push, rtt, reload
//!                                                                           journal, events, openapi
//!                                                          └► page
//! ```
//!
//! It reads what `serve::control` copies for it, and changes things through it alone: the path of a
//! query never meets it. Each answer is JSON, errors too ([`error`]).

mod connection;
pub mod error;
mod events;
mod explain;
mod guard;
mod journal;
pub mod load_balancers;
mod metrics;
mod openapi;
pub mod overrides;
mod page;
mod push;
mod ready;
mod reload;
mod rtt;
mod seats;
pub mod status;
pub mod traffic;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::middleware;
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::admin::connection::Listener;
use crate::admin::error::Refusal;
use crate::admin::guard::Guard;
pub use crate::admin::seats::MOST_CONNECTIONS;
use crate::admin::seats::Seats;
use crate::config::admin::is_loopback;
use crate::serve::control::Control;
use crate::serve::reload::Reloader;

/// How many octets the body of a request may have.
const LONGEST_BODY: usize = 64 * 1024;

/// What the requests are answered from.
#[derive(Debug)]
pub struct Service {
    control: Arc<Control>,
    reloader: Arc<Reloader>,
    phase: AtomicU8,
    started: Instant,
    /// How many monitors were stale, and when that was.
    stale: Mutex<Option<(Instant, usize)>>,
}

/// What the server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It waits for the first results, and does not answer DNS yet.
    Starting,
    /// It answers.
    Serving,
    /// It ends.
    Stopping,
}

impl Service {
    /// A service of a server that starts.
    pub fn new(control: Arc<Control>, reloader: Arc<Reloader>) -> Self {
        let phase = AtomicU8::new(Phase::Starting as u8);
        Self { control, reloader, phase, started: Instant::now(), stale: Mutex::default() }
    }

    /// What the server is doing from now on.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn phase(&self) -> Phase {
        let phases = [Phase::Starting, Phase::Serving, Phase::Stopping];
        let now = self.phase.load(Ordering::Acquire);
        phases.into_iter().find(|&phase| phase as u8 == now).unwrap_or(Phase::Stopping)
    }
}

/// The running service.
#[derive(Debug)]
pub struct Running {
    stop: watch::Sender<bool>,
    seats: Arc<Seats>,
}

impl Running {
    /// Starts to accept on these sockets.
    ///
    /// # Errors
    /// What the system says if it refuses a socket.
    pub fn start(
        service: &Arc<Service>,
        sockets: Vec<(SocketAddr, std::net::TcpListener)>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let seats = Arc::new(Seats::default());
        for (address, socket) in sockets {
            let router = router(service, address);
            let socket = tokio::net::TcpListener::from_std(socket)?;
            let (seats, stopped) = (Arc::clone(&seats), stopped.clone());
            info!(%address, "admin listening");
            let meters = Arc::clone(service.control.live().meters());
            tokio::spawn(Listener { socket, router, seats, stopped, meters }.run());
        }
        Ok(Self { stop, seats })
    }

    /// Accepts nothing more, and lets what has begun end, for so long at most.
    pub async fn stop(self, within: Duration) {
        let _nobody_listens = self.stop.send(true);
        if tokio::time::timeout(within, self.seats.are_free()).await.is_err() {
            warn!("some admin connections were still open and are closed");
        }
    }
}

/// What is answered where, to those who reach this address.
fn router(service: &Arc<Service>, address: SocketAddr) -> Router {
    let guard = Guard { service: Arc::clone(service), is_local: is_loopback(address) };
    let guarded = Router::new()
        .route("/api/v1/status", get(status::get))
        .route("/metrics", get(metrics::get))
        .route("/api/v1/explain", get(explain::get))
        .route("/api/v1/traffic", get(traffic::get))
        .route(
            "/api/v1/overrides",
            get(overrides::get).put(overrides::put).delete(overrides::delete),
        )
        .route("/api/v1/events", get(events::get))
        .route("/api/v1/journal", get(journal::get))
        .route("/api/v1/openapi.json", get(openapi::get))
        .route("/api/v1/push", post(push::post))
        .route("/api/v1/rtt", post(rtt::post))
        .route("/api/v1/reload", post(reload::post))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::not_allowed)
        .layer(middleware::from_fn_with_state(guard, guard::guard));
    Router::new()
        .route("/livez", get(ready::livez))
        .route("/readyz", get(ready::readyz))
        .route("/", get(page::index))
        .route("/assets/{file}", get(page::asset))
        .method_not_allowed_fallback(error::not_allowed)
        .merge(guarded)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn(guard::in_time))
        .with_state(Arc::clone(service))
}

/// A body of a request, whole.
type Body = Result<Bytes, BytesRejection>;

/// Reads the JSON of a request.
fn read<T: DeserializeOwned>(body: Body) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 64 KiB", "")
        } else {
            Refusal::bad(rejection.body_text(), "send the body whole")
        }
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        let help = "send one JSON object with the keys that docs/api.md lists";
        Refusal::bad(format!("the body cannot be used: {error}"), help)
    })
}

/// Does what waits for a lock or for a disk, and so must not hold up other requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        warn!(%error, "an admin request failed");
        let help = "the log says more; please report it";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed by a mistake", help)
    })
}
