//! Carries HTTP/3 (RFC 9114) over one connection of QUIC, for as long as its client has use for it: `http`
//! does the same for the versions before. The types of h3 stay here and in `bounded`.

pub mod bounded;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h3::error::{Code, StreamError};
use h3::quic::{RecvStream, SendStream};
use h3::server::{RequestResolver, RequestStream};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Body, Buf as _, Bytes, Frame};
use quinn::VarInt;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::serve::doh;
use crate::serve::http3::bounded::BoundedConnection;
use crate::serve::live::Live;
use crate::serve::quic::{Deadline, FAREWELL};
use crate::serve::stream::{LAST, Streams, stopped};
use crate::served::Protocol;

/// The code of a connection whose client makes the server hold too much (RFC 9114 section 8.1).
pub const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x107);
/// How many octets the headers of a request may have, as over HTTP/2. What is longer is for POST.
const LARGEST_HEADERS: u64 = 16 << 10;
/// How long a client has after the end to take what was sent, and to close the connection itself.
const LINGER: Duration = Duration::from_millis(500);

/// What the requests of a connection share.
struct Shared {
    connection: quinn::Connection,
    path: Arc<str>,
    live: Live,
    idle: Duration,
    /// Held by who makes a response, until the response is on its way.
    sending: Mutex<()>,
}

/// Answers what comes over a connection until it ends, or its client has no use for it. Then it is closed
/// without an error, as `requests` is dropped.
pub async fn serve(connection: quinn::Connection, path: Arc<str>, streams: Streams) {
    let Streams { live, idle, mut stop, alive: _alive, .. } = streams;
    let shared =
        Shared { connection: connection.clone(), path, live, idle, sending: Mutex::new(()) };
    let shared = Arc::new(shared);
    let mut builder = h3::server::builder();
    builder.max_field_section_size(LARGEST_HEADERS).send_grease(false);
    let begin = builder.build(BoundedConnection::new(connection.clone()));
    let begun = tokio::select! {
        begun = timeout(idle, begin) => begun,
        () = stopped(&mut stop) => return,
    };
    let Ok(Ok(mut requests)) = begun else { return };
    let mut running = JoinSet::new();
    let mut deadline = Deadline::new(idle);
    loop {
        tokio::select! {
            request = requests.accept() => match request {
                Ok(Some(request)) => _ = running.spawn(exchange(request, Arc::clone(&shared))),
                // The client wants no more, and has what it wanted.
                Ok(None) => break,
                // It has closed the connection, is gone, or has broken the rules, and was told so.
                Err(_) => return,
            },
            Some(ended) = running.join_next() => if matches!(ended, Ok(Ok(()))) {
                deadline.put_off();
            },
            () = deadline.reached() => if deadline.is_last() { break } else { return },
            () = stopped(&mut stop), if !deadline.is_last() => deadline.stop(),
        }
    }
    let _told = timeout(LAST, requests.shutdown(0)).await;
    let rest = async { while running.join_next().await.is_some() {} };
    let _in_time = timeout(FAREWELL, rest).await;
    // What was sent may be lost on the way; the end must not overtake what is sent for it.
    let _closed = timeout(LINGER, connection.closed()).await;
}

/// A request was not answered: its client broke off, was too slow, or sent no request.
struct Unanswered;

impl From<StreamError> for Unanswered {
    fn from(_: StreamError) -> Self {
        Self
    }
}

impl From<tokio::time::error::Elapsed> for Unanswered {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self
    }
}

/// Answers the request of a stream.
async fn exchange(
    request: RequestResolver<BoundedConnection, Bytes>,
    shared: Arc<Shared>,
) -> Result<(), Unanswered> {
    let (request, mut stream) = timeout(shared.idle, request.resolve_request()).await??;
    let result = answer(request, &mut stream, &shared).await;
    if result.is_err() {
        // A stream that is dropped ends as if its response were whole.
        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
    }
    result
}

async fn answer<S: RecvStream + SendStream<Bytes>>(
    request: Request<()>,
    stream: &mut RequestStream<S, Bytes>,
    shared: &Shared,
) -> Result<(), Unanswered> {
    let Shared { connection, path, live, idle, sending } = shared;
    let asked = doh::asked(request.map(|()| Content(stream)), path, *idle).await;
    let _turn = timeout(*idle, sending.lock()).await?;
    let response = doh::respond(asked, connection.remote_address().ip(), Protocol::Http3, live);
    let (head, body) = response.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let send = async {
        stream.send_response(hyper::Response::from_parts(head, ())).await?;
        if !body.is_empty() {
            stream.send_data(body).await?;
        }
        stream.finish().await
    };
    Ok(timeout(*idle, send).await??)
}

/// The body of a request, read from its stream.
struct Content<'s, S: RecvStream>(&'s mut RequestStream<S, Bytes>);

impl<S: RecvStream> Body for Content<'_, S> {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        self.get_mut().0.poll_recv_data(context).map(|read| match read {
            Ok(Some(mut data)) => Some(Ok(Frame::data(data.copy_to_bytes(data.remaining())))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        })
    }
}
