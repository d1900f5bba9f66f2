//! Serving: sockets, the swap of states, signals. The edge around the pure core.

pub mod handler;
pub mod live;
pub mod mmsg;
pub mod reload;
pub mod sequences;
pub mod sockets;
pub mod udp;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hickory_server::Server as HickoryServer;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::config::files::Paths;
use crate::config::server::{Server, UdpSettings};
use crate::serve::handler::Handler;
use crate::serve::live::{Live, Moment};
use crate::serve::reload::{Reloader, keep_serials, remembered_serials};
use crate::serve::sockets::{BindError, Bound, bind};
use crate::serve::udp::WorkerSettings;
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

/// Serves a state until SIGTERM or SIGINT; SIGHUP reads the files again;
/// `early_hangup` tells of one that came while they were read the first time.
///
/// # Errors
/// [`ServeError`] if it cannot start.
pub fn serve(
    paths: Paths,
    server: Server,
    mut state: State,
    early_hangup: Arc<AtomicBool>,
) -> Result<(), ServeError> {
    let sockets = bind_all(&server)?;
    let mut serials = remembered_serials(&server);
    keep_serials(&server, &mut state, &mut serials);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if server.workers > 0 {
        builder.worker_threads(server.workers);
    }
    let runtime = builder.enable_all().build()?;
    let live = Live::new(Moment::new(1, state));
    let reloader = Reloader::new(paths, server.clone(), live.clone(), serials);
    runtime.block_on(run(&server, &live, reloader, sockets, &early_hangup))?;
    // What a client keeps open does not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

/// Binds every address; of the default ones those that the machine has.
fn bind_all(server: &Server) -> Result<Vec<Bound>, ServeError> {
    let mut sockets = Vec::new();
    let workers = match server.udp.workers {
        0 => cores(),
        workers => workers,
    };
    let settings = UdpSettings { workers, ..server.udp };
    for &address in &server.listen {
        match bind(address, server.freebind, &settings) {
            Ok(bound) => sockets.push(bound),
            Err(error) if server.listen_is_default && error.is_missing_address() => {
                warn!(%address, "this machine does not have the address; it is not listened on");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if sockets.is_empty() { Err(ServeError::NoAddress) } else { Ok(sockets) }
}

/// Settings that were given and are of use to probes only.
fn without_effect(server: &Server) -> impl Iterator<Item = &'static str> {
    let default = Server::default();
    let given = [
        ("startup_wait", server.startup_wait != default.startup_wait),
        ("rtt_max_age", server.rtt_max_age != default.rtt_max_age),
        ("probe_source", server.probe_source != default.probe_source),
        ("identity.region", server.region.is_some()),
    ];
    given.into_iter().filter(|&(_, given)| given).map(|(key, _)| key)
}

/// The cores that this process may run on.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The UDP workers, and the word that stops them.
#[derive(Debug, Default)]
struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a worker on each socket of an address.
    fn start(
        &mut self,
        address: SocketAddr,
        sockets: Vec<UdpSocket>,
        settings: &UdpSettings,
        live: &Live,
    ) -> io::Result<()> {
        for (number, socket) in sockets.into_iter().enumerate() {
            let settings = WorkerSettings {
                batch: settings.batch,
                reports_arrival: address.ip().is_unspecified(),
                core: settings.pin.then_some(number % cores()),
            };
            let stop = Arc::clone(&self.stop);
            self.threads.push(udp::start(socket, settings, live.clone(), stop)?);
        }
        Ok(())
    }

    /// Lets every worker answer what it has, and end.
    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                warn!("a UDP worker ended by a panic");
            }
        }
    }
}

async fn run(
    server: &Server,
    live: &Live,
    reloader: Reloader,
    sockets: Vec<Bound>,
    early_hangup: &AtomicBool,
) -> Result<(), ServeError> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let (zones, load_balancers, pools, monitors) = {
        let state = &live.load().state;
        (state.zones.len(), state.balancers.len(), state.pools.len(), state.monitors.len())
    };
    let mut dns = HickoryServer::new(Handler::new(live.clone()));
    let mut workers = Workers::default();
    for Bound { address, udp, tcp } in sockets {
        workers.start(address, udp, &server.udp, live)?;
        dns.register_listener(tokio::net::TcpListener::from_std(tcp)?, TCP_IDLE, TCP_REPLIES);
        info!(%address, "listening");
    }
    if monitors > 0 {
        warn!(monitors, "nothing probes in this version: every origin counts as healthy");
    }
    for key in without_effect(server) {
        warn!(key, "the setting has no effect in this version: nothing probes");
    }
    info!(zones, load_balancers, pools, generation = 1, "ready");
    let reloader = Arc::new(reloader);
    // Reading files must hold up neither answers nor the end.
    let start = || {
        let reloader = Arc::clone(&reloader);
        tokio::task::spawn_blocking(move || reloader.reload())
    };
    let mut wanted = early_hangup.swap(false, Ordering::Relaxed);
    let mut running = None;
    loop {
        if wanted && running.is_none() {
            wanted = false;
            running = Some(start());
        }
        let finished = async {
            match running.as_mut() {
                Some(reload) => reload.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // One that comes during a reload is followed by another: files may have changed since.
            _ = hangup.recv() => wanted = true,
            result = finished => {
                if let Err(error) = result {
                    warn!(%error, "the reload failed; the old state is kept");
                }
                running = None;
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    info!("stopping");
    let stopping = tokio::task::spawn_blocking(move || workers.stop());
    let stopped = tokio::time::timeout(STOP_WITHIN, dns.shutdown_gracefully()).await;
    if stopped.is_err() {
        warn!("some connections were still open after 5 s and are closed");
    }
    if let Err(error) = stopping.await {
        warn!(%error, "the UDP workers could not be stopped");
    }
    info!("stopped");
    Ok(())
}
