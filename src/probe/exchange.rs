//! One HTTP exchange over one connection, of either version.
//!
//! hyper gives a connection as a future beside the one of the request. Both run in the probe's own
//! task and end with it; the tasks that HTTP/2 starts are ended when the exchange is dropped.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::{Executor, Read, Write};
use hyper::{Request, Response};
use tokio::task::JoinSet;

use crate::probe::failure::{Failure, Stage};
use crate::probe::{Deadline, LIMIT};

/// The window that a server may fill before it is read.
const WINDOW: u32 = 64 << 10;

/// Sends a request by HTTP/1.1, and gives the response to `judge`.
pub(super) async fn http1<T>(
    io: impl Read + Write + Unpin + Send,
    request: Request<Full<Bytes>>,
    deadline: Deadline,
    judge: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(LIMIT)
        .handshake(io)
        .await
        .map_err(|error| Failure::of_exchange(&error))?;
    let response = deadline.within(Stage::Reply, sender.send_request(request));
    beside(connection, judged(response, judge)).await
}

/// Sends a request by HTTP/2, likewise.
pub(super) async fn http2<T>(
    io: impl Read + Write + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    deadline: Deadline,
    judge: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let tasks = Tasks::default();
    let _end = EndTasks(tasks.clone());
    let (mut sender, connection) = http2::Builder::new(tasks)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(WINDOW)
        .handshake(io)
        .await
        .map_err(|error| Failure::of_exchange(&error))?;
    let response = deadline.within(Stage::Reply, sender.send_request(request));
    beside(connection, judged(response, judge)).await
}

/// Waits for a response, and judges it.
async fn judged<T>(
    response: impl Future<Output = Result<hyper::Result<Response<Incoming>>, Failure>>,
    judge: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    judge(response.await?.map_err(|error| Failure::of_exchange(&error))?).await
}

/// Runs an exchange while the connection runs beside it.
async fn beside<T>(connection: impl Future, exchange: impl Future<Output = T>) -> T {
    let (mut connection, mut exchange) = (pin!(connection), pin!(exchange));
    let mut has_ended = false;
    poll_fn(|context| {
        if let Poll::Ready(result) = exchange.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        if !has_ended && connection.as_mut().poll(context).is_ready() {
            has_ended = true;
            // The exchange has been told why.
            return exchange.as_mut().poll(context);
        }
        Poll::Pending
    })
    .await
}

/// The tasks of an HTTP/2 connection.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        if let Ok(mut tasks) = self.0.lock() {
            tasks.spawn(async { _ = future.await });
        }
    }
}

/// Ends the tasks when it is dropped.
struct EndTasks(Tasks);

impl Drop for EndTasks {
    fn drop(&mut self) {
        if let Ok(mut tasks) = self.0.0.lock() {
            tasks.abort_all();
        }
    }
}
