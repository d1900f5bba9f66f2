//! Serving: sockets, the swap of states, signals. The edge around the pure core.

pub mod handler;
pub mod live;
pub mod reload;
pub mod sequences;
pub mod sockets;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hickory_server::Server as HickoryServer;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::config::files::Paths;
use crate::config::server::Server;
use crate::serve::handler::Handler;
use crate::serve::live::{Live, Moment};
use crate::serve::reload::{Reloader, keep_serials};
use crate::serve::sockets::{BindError, Bound, bind};
use crate::state::State;

/// How long a TCP connection may be idle (dns.md).
const TCP_IDLE: Duration = Duration::from_secs(10);
/// How many replies of one TCP connection may wait to be sent.
const TCP_REPLIES: usize = 32;
/// How long a stop may take (operations.md).
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// None of the default addresses can be listened on.
    #[error("there is no address to listen on; name one with listen = [\"ADDRESS:PORT\"]")]
    NoAddress,
    /// The system refuses threads, signals or sockets.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Serves a state until SIGTERM or SIGINT; SIGHUP reads the files again.
///
/// # Errors
/// [`ServeError`] if it cannot start.
pub fn serve(paths: Paths, server: Server, mut state: State) -> Result<(), ServeError> {
    let sockets = bind_all(&server)?;
    keep_serials(&server, &mut state);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if server.workers > 0 {
        builder.worker_threads(server.workers);
    }
    let runtime = builder.enable_all().build()?;
    runtime.block_on(run(paths, server, state, sockets))?;
    // What a client keeps open does not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

/// Binds every address; of the default ones those that the machine has.
fn bind_all(server: &Server) -> Result<Vec<Bound>, ServeError> {
    let mut sockets = Vec::new();
    for &address in &server.listen {
        match bind(address, server.freebind) {
            Ok(bound) => sockets.push(bound),
            Err(error) if server.listen_is_default && error.is_missing_address() => {
                warn!(%address, "this machine does not have the address; it is not listened on");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if sockets.is_empty() { Err(ServeError::NoAddress) } else { Ok(sockets) }
}

async fn run(
    paths: Paths,
    server: Server,
    state: State,
    sockets: Vec<Bound>,
) -> Result<(), ServeError> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let (zones, load_balancers) = (state.zones.len(), state.balancers.len());
    let (pools, monitors) = (state.pools.len(), state.monitors.len());
    let live = Live::new(Moment::new(1, state));
    let mut dns = HickoryServer::new(Handler::new(live.clone()));
    for Bound { address, udp, tcp } in sockets {
        dns.register_socket(tokio::net::UdpSocket::from_std(udp)?);
        dns.register_listener(tokio::net::TcpListener::from_std(tcp)?, TCP_IDLE, TCP_REPLIES);
        info!(%address, "listening");
    }
    if monitors > 0 {
        warn!(monitors, "nothing probes in this version: every origin counts as healthy");
    }
    info!(zones, load_balancers, pools, generation = 1, "ready");
    let reloader = Arc::new(Reloader::new(paths, server, live));
    loop {
        tokio::select! {
            _ = hangup.recv() => {
                let reloader = Arc::clone(&reloader);
                // Reading files must not hold up answers.
                let reload = tokio::task::spawn_blocking(move || reloader.reload());
                if let Err(error) = reload.await {
                    warn!(%error, "the reload failed; the old state is kept");
                }
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    info!("stopping");
    let stopped = tokio::time::timeout(STOP_WITHIN, dns.shutdown_gracefully()).await;
    if stopped.is_err() {
        warn!("some connections were still open after 5 s and are closed");
    }
    info!("stopped");
    Ok(())
}
