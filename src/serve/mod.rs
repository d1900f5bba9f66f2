//! Serving: sockets, probes, the swap of states, signals. The edge around the pure core.

pub mod activation;
pub mod connections;
pub mod control;
pub mod doh;
pub mod doq;
pub mod encrypted;
pub mod heap;
pub mod held;
pub mod http;
pub mod http3;
pub mod journal;
pub mod listen;
pub mod live;
pub mod meters;
pub mod mmsg;
pub mod notifier;
pub mod open_files;
pub mod outgoing;
pub mod pace;
pub mod privileges;
pub mod prober;
pub mod query_log;
pub mod quic;
pub mod refusals;
pub mod reload;
pub mod reply;
pub mod resolver;
pub mod secrets;
pub mod seldom;
pub mod sequences;
pub mod service_manager;
pub mod sessions;
pub mod sockets;
pub mod standing;
pub mod stream;
pub mod tls;
pub mod traffic;
pub mod turn;
pub mod udp;
pub mod watch;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::admin::{Phase, Running, Service};
use crate::config::files::{Paths, Secrets};
use crate::config::inputs::Input;
use crate::config::server::{Server, TcpSettings, UdpSettings};
use crate::probe::{Prober, ProberError, ProberSettings};
use crate::serve::activation::{Passed, PassedError};
use crate::serve::connections::Connections;
use crate::serve::control::Control;
use crate::serve::encrypted::Listeners;
use crate::serve::listen::Sockets;
use crate::serve::live::Live;
use crate::serve::notifier::Notifier;
use crate::serve::privileges::{Account, PrivilegesError, drop_spare_capabilities};
use crate::serve::prober::{start_prober, start_recorder};
use crate::serve::query_log::{LogWriter, QueryLogError};
use crate::serve::reload::{Followers, Reloader, keep_serials, remembered_serials};
use crate::serve::resolver::start_resolver;
use crate::serve::secrets::Keeper;
use crate::serve::service_manager::{ServiceManager, watchdog_interval};
use crate::serve::sessions::SharedSessions;
use crate::serve::sockets::{BindError, Bound};
use crate::serve::stream::{Carrier, Streams};
use crate::serve::udp::WorkerSettings;
use crate::state::State;

/// How long a stop may take (operations.md).
const STOP_WITHIN: Duration = Duration::from_millis(4500);
/// How often it is seen whether the state folder can be written.
const TRY_STATE_FOLDER: Duration = Duration::from_secs(60);
/// How often it is looked whether the first results are there.
const LOOK_FOR_RESULTS: Duration = Duration::from_millis(5);

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A socket that a service manager passed cannot be used.
    #[error(transparent)]
    Passed(#[from] PassedError),
    /// Privileges cannot be given up.
    #[error(transparent)]
    Privileges(#[from] PrivilegesError),
    /// None of the default addresses can be listened on.
    #[error("there is no address to listen on; name one with listen = [\"ADDRESS:PORT\"]")]
    NoAddress,
    /// Nothing can be probed as configured.
    #[error(transparent)]
    Prober(#[from] ProberError),
    /// The query log cannot be opened.
    #[error(transparent)]
    QueryLog(#[from] QueryLogError),
    /// TLS cannot be set up.
    #[error("cannot serve TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// Files cannot be watched.
    #[error(
        "cannot watch files: {0}; allow more with sysctl fs.inotify.max_user_instances, or set watch = false"
    )]
    Watch(#[source] io::Error),
    /// The system refuses threads, signals or sockets.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Serves a state until SIGTERM or SIGINT; SIGHUP reads the files again; `secrets` are what files
/// have that are kept from others; `inputs` is what was looked at; `early_hangup` tells of one that came
/// while they were read the first time.
///
/// # Errors
/// [`ServeError`] if it cannot start.
pub fn serve(
    paths: Paths,
    server: Server,
    mut state: State,
    secrets: Secrets,
    inputs: Vec<Input>,
    early_hangup: Arc<AtomicBool>,
) -> Result<(), ServeError> {
    let account = server.privileges.as_ref().map(Account::find).transpose()?;
    let sockets = Sockets::open(&server, Passed::from_environment()?)?;
    match &account {
        Some(account) => account.assume(&inputs, &state.monitors, &server.state)?,
        None => drop_spare_capabilities(),
    }
    // The first threads: what they may is what is left by now.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if server.workers > 0 {
        builder.worker_threads(server.workers);
    }
    let runtime = builder.enable_all().build()?;
    // Whoever sees that the addresses are listened on may send a signal.
    let signals = {
        let _within = runtime.enter();
        Signals::new()?
    };
    let mut serials = remembered_serials(&server);
    keep_serials(&server, &mut state, &mut serials);
    state.keys = secrets.keys.clone();
    let prober = Arc::new(prober_of(&server, &state)?);
    let (to_prober, targets) = mpsc::unbounded_channel();
    let (to_recorder, results) = std::sync::mpsc::channel();
    // Any number will do that clients do not know.
    let sessions = SharedSessions::new(server.max_sessions, RandomState::new().hash_one(0));
    let control = Control::new(state, server.state.clone(), prober, to_prober, sessions);
    let control = Arc::new(control);
    start_prober(targets, to_recorder, Arc::clone(control.live().meters()))?;
    start_recorder(results, Arc::clone(&control))?;
    let (to_resolver, names) = mpsc::unbounded_channel();
    start_resolver(names, Arc::clone(&control))?;
    control.resolve(&server.resolver, Some(to_resolver));
    // After privileges are given up: the file must be one that it can begin anew.
    let user = account.as_ref().map(Account::user);
    let query_log = server.query_log.as_ref();
    let query_log = query_log.map(|(settings, _)| LogWriter::start(settings, user, control.live()));
    let query_log = query_log.transpose()?;
    let cookies = secrets.cookies;
    let keeper = Arc::new(Keeper::new(server.state.clone(), control.live().clone(), cookies));
    let rotating = Arc::clone(&keeper);
    runtime.spawn(async move { rotating.rotate().await });
    let (live, state) = (control.live(), server.state.clone());
    runtime.spawn(traffic::keep(live.clone()));
    runtime.spawn(heap::keep(live.clone()));
    let meters = Arc::clone(live.meters());
    let user = account.map(|account| account.user().to_owned());
    meters.try_state_folder(&state, user.as_deref());
    runtime.spawn(meters::watch_state_folder(meters, state, user, TRY_STATE_FOLDER));
    let notifier = {
        let _within = runtime.enter();
        Notifier::start()
    };
    let manager = Arc::new(ServiceManager::default());
    let followers = Followers { keeper, notifier, manager: Arc::clone(&manager) };
    let reloader =
        Reloader::new(paths, server.clone(), Arc::clone(&control), serials, secrets, followers);
    reloader.note_inputs(inputs);
    let run = run(&server, &control, Arc::new(reloader), sockets, signals, &manager, &early_hangup);
    runtime.block_on(run)?;
    control.stop_probing();
    if let Some(writer) = query_log {
        writer.end();
    }
    // What a client keeps open does not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

/// What probes the addresses of a state.
///
/// # Errors
/// [`ProberError`] if that cannot work.
fn prober_of(server: &Server, state: &State) -> Result<Prober, ProberError> {
    let source = server.probe_source.clone();
    let settings = ProberSettings { source, ..ProberSettings::default() };
    Prober::new(&settings, &state.monitors)
}

/// The cores that this process may run on.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What the connections of all listeners share, what stops them, and what waits until they have ended.
fn streams(
    live: &Live,
    settings: &TcpSettings,
) -> (Streams, tokio::sync::watch::Sender<bool>, impl Future<Output = ()> + use<>) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (alive, mut ended) = mpsc::channel(1);
    let streams = Streams {
        live: live.clone(),
        connections: Connections::new(settings.connections, settings.connections_per_client),
        idle: settings.idle,
        stop: stopped,
        alive,
    };
    // Nothing is ever sent: it ends when every holder is gone.
    (streams, stop, async move { _ = ended.recv().await })
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
        let workers = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
        for (number, socket) in sockets.into_iter().enumerate() {
            let settings = WorkerSettings {
                batch: settings.batch,
                reports_arrival: address.ip().is_unspecified(),
                core: settings.pin.then_some(number % cores()),
                workers,
            };
            let stop = Arc::clone(&self.stop);
            self.threads.push(udp::start(socket, settings, live.clone(), stop)?);
        }
        Ok(())
    }

    /// True while none of them has ended.
    fn all_run(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
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

/// The signals that the server listens to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the server is to end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits until every address has its first result, for as long as that may take (health.md).
async fn first_results(control: &Control, wait: Duration) {
    let began = Instant::now();
    let mut awaited = control.awaited();
    let addresses = control.monitored();
    if addresses > 0 {
        info!(addresses, "waiting for the first probe results");
    } else if awaited > 0 {
        info!(names = awaited, "waiting for the addresses of host names");
    }
    while awaited > 0 && began.elapsed() < wait {
        tokio::time::sleep(LOOK_FOR_RESULTS).await;
        awaited = control.awaited();
    }
    if awaited > 0 {
        warn!(addresses = awaited, ?wait, "no first result within startup_wait; they are unknown");
    }
}

async fn run(
    server: &Server,
    control: &Arc<Control>,
    reloader: Arc<Reloader>,
    sockets: Sockets,
    mut signals: Signals,
    manager: &ServiceManager,
    early_hangup: &AtomicBool,
) -> Result<(), ServeError> {
    let live = control.live();
    let Sockets { dns: sockets, encrypted, admin } = sockets;
    let encrypted = Listeners::new(server, reloader.certificate(), encrypted)?;
    let service = Arc::new(Service::new(Arc::clone(control), Arc::clone(&reloader)));
    let admin = Running::start(&service, admin)?;
    for Bound { address, .. } in &sockets {
        info!(%address, "listening");
    }
    encrypted.log();
    open_files::check(server, control.monitored());
    manager.waits("waiting for the first probe results");
    tokio::select! {
        () = first_results(control, server.startup_wait) => {}
        () = signals.end() => {
            info!("stopped before the first answer");
            manager.stops();
            return Ok(());
        }
    }
    let (zones, load_balancers, pools, monitored) = {
        let state = &live.load().state;
        let monitored = control.monitored();
        (state.zones.len(), state.balancers.len(), state.pools.len(), monitored)
    };
    let (streams, stop_streams, ended) = streams(live, &server.tcp);
    let mut workers = Workers::default();
    for Bound { address, udp, tcp } in sockets {
        workers.start(address, udp, &server.udp, live)?;
        let listener = tokio::net::TcpListener::from_std(tcp)?;
        tokio::spawn(stream::accept(listener, Carrier::Plain, streams.clone()));
    }
    encrypted.start(&streams)?;
    drop(streams);
    let mut changes = watch::start(server.watch, reloader.inputs()).map_err(ServeError::Watch)?;
    // Before anybody is told that the server is ready: a hangup after that is in `signals` alone, and one
    // hangup is one reload.
    let mut wanted = early_hangup.swap(false, Ordering::Relaxed);
    service.enter(Phase::Serving);
    info!(zones, load_balancers, pools, monitored, generation = 1, "ready");
    manager.ready("serving generation 1");
    let mut watchdog = watchdog_interval().map(tokio::time::interval);
    reloader.notify();
    // Reading files must hold up neither answers nor the end.
    let start = || {
        let reloader = Arc::clone(&reloader);
        tokio::task::spawn_blocking(move || reloader.reload())
    };
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
        let asked_for_life = async {
            match watchdog.as_mut() {
                Some(watchdog) => watchdog.tick().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // One that comes during a reload is followed by another: files may have changed since.
            _ = signals.hangup.recv() => wanted = true,
            // A channel that is closed is passed over.
            Some(()) = changes.recv() => wanted = true,
            result = finished => {
                if let Err(error) = result {
                    warn!(%error, "the reload failed; the old state is kept");
                    manager.reloaded("a reload failed; the old state is served");
                }
                running = None;
            }
            // A worker that is gone is a reason to be started again.
            _ = asked_for_life => if workers.all_run() { manager.is_alive() },
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
        }
    }
    info!("stopping");
    manager.stops();
    service.enter(Phase::Stopping);
    control.journal().end();
    // Nobody listens only if there is no listener.
    let _told = stop_streams.send(true);
    let streams = tokio::time::timeout(STOP_WITHIN, ended);
    let (stopped, ()) = tokio::join!(streams, admin.stop(STOP_WITHIN));
    if stopped.is_err() {
        warn!("some connections were still open and are closed");
    }
    // Last, so that a connection that lingers keeps nobody without answers.
    if let Err(error) = tokio::task::spawn_blocking(move || workers.stop()).await {
        warn!(%error, "the UDP workers could not be stopped");
    }
    info!("stopped");
    Ok(())
}
