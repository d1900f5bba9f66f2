//! Connections of the admin service: how many, how long, how large their headers. Each of them ends,
//! whatever its client does.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tracing::warn;

/// How long the headers of a request may take, and how long HTTP/1 may be idle.
const LONGEST_HEADERS: Duration = Duration::from_secs(10);
/// How often it is looked whether a connection is used, after a first look when its first request
/// should be there. One that was not used in between is closed.
const IDLE: Duration = Duration::from_secs(30);
/// How many octets the headers of a request may have.
const LARGEST_HEADERS: usize = 64 * 1024;
/// How many requests of one HTTP/2 connection may run at a time.
const MOST_STREAMS: u32 = 32;
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
                    warn!(%error, "an admin connection cannot be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Whether a connection is used. A response that lasts longer than its headers would have to count
/// as running until its end.
#[derive(Debug, Default)]
struct Activity {
    running: AtomicUsize,
    was_used: AtomicBool,
}

impl Activity {
    fn begin(self: &Arc<Self>) -> InUse {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.was_used.store(true, Ordering::Relaxed);
        InUse(Arc::clone(self))
    }

    /// True if nothing runs, and nothing has begun since the last look.
    fn is_idle(&self) -> bool {
        let was_used = self.was_used.swap(false, Ordering::Relaxed);
        self.running.load(Ordering::Relaxed) == 0 && !was_used
    }
}

struct InUse(Arc<Activity>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Carries one connection to its end.
async fn carry(stream: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
    let activity = Arc::new(Activity::default());
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        let in_use = activity.begin();
        let response = router.call(request);
        async move {
            let response = response.await;
            drop(in_use);
            response
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEADERS)
        .max_buf_size(LARGEST_HEADERS);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut look = tokio::time::interval_at(tokio::time::Instant::now() + LONGEST_HEADERS, IDLE);
    let mut ends = false;
    loop {
        tokio::select! {
            // That a client leaves, or does not speak HTTP, is its business.
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|&stopped| stopped), if !ends => {}
            _ = look.tick() => {
                if !activity.is_idle() {
                    continue;
                }
                if ends {
                    return;
                }
            }
        }
        ends = true;
        connection.as_mut().graceful_shutdown();
    }
}
