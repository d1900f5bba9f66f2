//! Carries HTTP/1.1 and HTTP/2 over one connection, for as long as its client has use for it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::serve::stream::BEGUN;
use crate::serve::turn::{Exchange, Sent, Taken, Turn};

/// How many octets the headers of a request may have.
const LARGEST_HEADERS: usize = 64 * 1024;

/// How long a client may have a connection, and for how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the headers of a request may take, and how long HTTP/1 may be idle.
    pub headers: Duration,
    /// How often it is looked whether a connection is used, after a first look when its first request
    /// should be there. One whose client was waited for all the time in between is closed.
    pub idle: Duration,
    /// How many requests of one HTTP/2 connection may run at a time.
    pub streams: u32,
}

/// Carries one connection to its end; `answer` answers a request, and `turn` says whose turn it is.
pub async fn carry<A, F, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: A,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
    turn: Arc<Turn>,
) where
    A: Fn(Request<Sent<Incoming>>) -> F,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
{
    let service = service_fn(|request: Request<Incoming>| {
        let exchange = Exchange::new(&turn);
        let response = answer(request.map(|body| Sent::new(body, Arc::clone(&exchange))));
        async move {
            let Ok(response) = response.await;
            Ok::<_, Infallible>(response.map(|body| Taken::new(body, exchange)))
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
    let mut looked = Instant::now();
    let mut ends = false;
    let mut is_over = false;
    loop {
        tokio::select! {
            // That a client leaves, or does not speak HTTP, is its business.
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|&stopped| stopped), if !is_over => {
                is_over = true;
                looked = Instant::now();
                // A request that has not arrived whole by then is not waited for.
                look = tokio::time::interval_at(tokio::time::Instant::now() + BEGUN, BEGUN);
            }
            _ = look.tick() => {
                let between = looked.elapsed();
                looked = Instant::now();
                if turn.waited().is_none_or(|waited| waited < between) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::channel::Channel;
    use hyper::body::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Answers with parts that come one after the other.
    async fn answer(_: Request<Sent<Incoming>>) -> Result<Response<Channel<Bytes>>, Infallible> {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        tokio::spawn(async move {
            for _ in 0..30 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                if sender.send_data(Bytes::from("part ")).await.is_err() {
                    return;
                }
            }
            let _gone = sender.send_data(Bytes::from("the end")).await;
        });
        Ok(Response::new(body))
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

    fn limits() -> Limits {
        let short = Duration::from_millis(300);
        Limits { headers: short, idle: short, streams: 1 }
    }

    #[tokio::test]
    async fn a_response_may_last_while_its_parts_are_taken() {
        let (mut client, server) = tokio::io::duplex(1024);
        let (_stop, stopped) = watch::channel(false);
        tokio::spawn(carry(server, answer, limits(), stopped, Arc::default()));
        client.write_all(REQUEST).await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert!(text.contains("the end"), "{text}");
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_has_no_connection() {
        // The head of the response does not fit.
        let (mut client, server) = tokio::io::duplex(64);
        let (_stop, stopped) = watch::channel(false);
        let carried = tokio::spawn(carry(server, answer, limits(), stopped, Arc::default()));
        client.write_all(REQUEST).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), carried).await;
        assert!(ended.is_ok(), "it is closed");
    }
}
