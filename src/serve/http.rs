//! Carries HTTP/1.1 and HTTP/2 over one connection, for as long as its client has use for it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// How many octets the headers of a request may have.
const LARGEST_HEADERS: usize = 64 * 1024;

/// How long a client may have a connection, and for how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the headers of a request may take, and how long HTTP/1 may be idle.
    pub headers: Duration,
    /// How often it is looked whether a connection is used, after a first look when its first request
    /// should be there. One that was not used in between is closed.
    pub idle: Duration,
    /// How many requests of one HTTP/2 connection may run at a time.
    pub streams: u32,
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

/// Carries one connection to its end; `answer` answers a request.
pub async fn carry<A, F, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: A,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let activity = Arc::new(Activity::default());
    let service = service_fn(|request: Request<Incoming>| {
        let in_use = activity.begin();
        let response = answer(request);
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
        .header_read_timeout(limits.headers)
        .max_buf_size(LARGEST_HEADERS);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(limits.streams);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut look =
        tokio::time::interval_at(tokio::time::Instant::now() + limits.headers, limits.idle);
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
