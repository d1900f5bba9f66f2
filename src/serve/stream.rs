//! DNS over streams: TCP, and TLS over it (RFC 7766, 7858). A task for each connection reads messages,
//! each after its length, and writes their replies in the order in which they are made. An answer
//! waits for nothing, so that is the order of the queries.
//!
//! A zone transfer is sent a message at a time, and between them other queries of its connection are answered.
//!
//! A client holds a connection no longer than it has use for it: a whole query must have come within
//! the idle time, however slowly its octets drip, and replies must be taken within it; those of a transfer
//! at a pace. Memory grows with what was received, not with what was announced, and little that was not sent
//! yet waits in the system's buffers: there it would be out of reach of these limits.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ALT_SVC, HeaderValue};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use crate::query::Rcode;
use crate::serve::connections::{Connections, Permit};
use crate::serve::doh;
use crate::serve::http::{self, Limits};
use crate::serve::live::Live;
use crate::serve::meters::Meters;
use crate::serve::outgoing::{Outgoing, Step};
use crate::serve::pace::Pace;
use crate::serve::reply::{Arrival, Made, Reply, converse, with_room};
use crate::served::{Protocol, Served};
use crate::tally::counters::Dropped;
use crate::wire::Transport;

/// The octets of a message's length in a stream (RFC 1035 section 4.2.2).
const LENGTH: usize = 2;
/// How much room is made for what comes next.
const ROOM: usize = 512;
/// Replies are sent when there are so many octets of them, even if more queries wait.
const ENOUGH: usize = 16 << 10;
/// With so many octets that could not be sent yet, a connection takes no more.
const UNSENT: u32 = 32 << 10;
/// How many transfers may be under way in a connection; until one ends nothing more is read of it.
const MOST_TRANSFERS: usize = 64;
/// How many requests of one connection of HTTP/2 or QUIC may run at a time.
pub(super) const MOST_REQUESTS: u32 = 100;
/// How long is waited for what has arrived, when the server stops.
pub(super) const LAST: Duration = Duration::from_millis(50);
/// How long a client may take then for a handshake or a request that it has begun.
pub(super) const BEGUN: Duration = Duration::from_millis(500);
/// How many connections may have waited to be accepted then.
const MOST_WAITING: usize = 1024;
/// How long nothing is accepted when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// What all connections share.
#[derive(Clone, Debug)]
pub struct Streams {
    /// What answers are made from.
    pub live: Live,
    /// How many there may be.
    pub connections: Connections,
    /// How long a client may take for a query, and for a reply.
    pub idle: Duration,
    /// Becomes true when the server stops.
    pub stop: watch::Receiver<bool>,
    /// Held by all that has not ended.
    pub alive: mpsc::Sender<()>,
}

/// What messages are carried in, over the connections of a listener.
#[derive(Clone)]
pub enum Carrier {
    /// The connection itself.
    Plain,
    /// TLS (RFC 7858).
    Tls(TlsAcceptor),
    /// HTTPS (RFC 8484).
    Https(Https),
}

/// How messages are carried in HTTPS.
#[derive(Clone)]
pub struct Https {
    /// Makes TLS of connections.
    pub acceptor: TlsAcceptor,
    /// The path under which messages are answered.
    pub path: Arc<str>,
    /// Where else they are, if they are (RFC 7838).
    pub alternative: Option<HeaderValue>,
}

impl Carrier {
    /// As the log names it.
    pub fn word(&self) -> &'static str {
        self.protocol().word()
    }

    /// As what its queries are counted.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Plain => Protocol::Tcp,
            Self::Tls(_) => Protocol::Tls,
            Self::Https(..) => Protocol::Https,
        }
    }
}

/// Accepts connections of a listener until the server stops.
pub async fn accept(listener: TcpListener, carrier: Carrier, streams: Streams) {
    let mut stop = streams.stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, client)) => admit(stream, client, &carrier, &streams),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                let told = &streams.live.meters().no_room;
                if let Some(attempts) = told.due(std::time::Instant::now()) {
                    warn!(%error, attempts, "no connection can be accepted at the moment");
                }
                tokio::time::sleep(NO_ROOM).await;
            }
        }
    }
    // Clients that connected before the end have been promised an answer.
    for _ in 0..MOST_WAITING {
        let Ok(Ok((stream, client))) = timeout(LAST, listener.accept()).await else { return };
        admit(stream, client, &carrier, &streams);
    }
}

/// Serves a connection in a task of its own, if there may be one more.
fn admit(stream: TcpStream, client: SocketAddr, carrier: &Carrier, streams: &Streams) {
    let Some(permit) = streams.connections.admit(client.ip()) else {
        streams.live.meters().refuse(carrier.protocol());
        reset_at_end(&stream);
        return;
    };
    // Without it small replies would wait for the client's acknowledgement.
    let _slower = stream.set_nodelay(true);
    let _more = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    tokio::spawn(carry(stream, client.ip(), carrier.clone(), streams.clone(), permit));
}

/// Makes the end of a connection a reset, which leaves nothing behind, on either side.
fn reset_at_end(stream: &TcpStream) {
    let _closed = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Serves a connection by what carries its messages; gives the permit back at its end.
async fn carry(
    mut stream: TcpStream,
    client: IpAddr,
    carrier: Carrier,
    streams: Streams,
    _permit: Permit,
) {
    let idle = streams.idle;
    let meters = Arc::clone(streams.live.meters());
    let _open = meters.open(carrier.protocol());
    // A client that cannot shake hands in time, or at all, is no concern of others.
    match carrier {
        Carrier::Plain => {
            if serve(&mut stream, client, Protocol::Tcp, streams).await == End::TooSlow {
                reset_at_end(&stream);
            }
        }
        Carrier::Tls(acceptor) => {
            let Some(mut stream) = shake_hands(&acceptor, stream, &streams).await else { return };
            if serve(&mut stream, client, Protocol::Tls, streams).await == End::TooSlow {
                reset_at_end(stream.get_ref().0);
            }
        }
        Carrier::Https(Https { acceptor, path, alternative }) => {
            let Some(stream) = shake_hands(&acceptor, stream, &streams).await else { return };
            let limits = Limits { headers: idle, idle, streams: MOST_REQUESTS };
            let Streams { live, stop, alive: _alive, .. } = streams;
            let stopping = stop.clone();
            let respond = move |request| {
                let (live, path) = (live.clone(), Arc::clone(&path));
                let (alternative, stopping) = (alternative.clone(), stopping.clone());
                async move {
                    let asked = tokio::select! {
                        asked = doh::asked(request, &path, idle) => asked,
                        () = has_ended(stopping) => Err(StatusCode::REQUEST_TIMEOUT),
                    };
                    let mut response = doh::respond(asked, client, Protocol::Https, &live);
                    if let Some(alternative) = alternative {
                        response.headers_mut().insert(ALT_SVC, alternative);
                    }
                    Ok(response)
                }
            };
            http::carry(stream, respond, limits, stop, Arc::default()).await;
        }
    }
}

/// Makes TLS of a connection; none if its client cannot do that, or not in time.
async fn shake_hands(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    streams: &Streams,
) -> Option<TlsStream<TcpStream>> {
    tokio::select! {
        stream = timeout(streams.idle, acceptor.accept(stream)) => stream.ok()?.ok(),
        () = has_ended(streams.stop.clone()) => None,
    }
}

/// Waits until the server stops, and for as long as a client may then take to send what it has begun.
async fn has_ended(mut stop: watch::Receiver<bool>) {
    stopped(&mut stop).await;
    tokio::time::sleep(BEGUN).await;
}

/// True for what is wrong with one connection, and not with accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// How the talk over a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There was no more to say, or nobody to say it to.
    Ended,
    /// The client did not take what was said.
    TooSlow,
}

/// Answers what comes over a stream until it ends, or its client is too slow.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    client: IpAddr,
    protocol: Protocol,
    streams: Streams,
) -> End {
    let Streams { live, idle, mut stop, alive: _alive, .. } = streams;
    let transport = match protocol {
        Protocol::Tcp => Transport::Stream,
        _ => Transport::Encrypted,
    };
    let mut talk = Talk::default();
    let mut has_ended = false;
    loop {
        let is_answered = {
            let cookies = live.cookies();
            let arrival = Arrival {
                source: client,
                transport,
                takes_several: true,
                refusals: Some(&live.meters().refusals),
                idle: Some(idle),
                cookies: &cookies,
            };
            talk.answer_all(&live, protocol, &arrival)
        };
        if talk.go_on_transferring().is_err() {
            return End::Ended;
        }
        if !talk.replies.is_empty() {
            let began = Instant::now();
            let send = async {
                stream.write_all(&talk.replies).await?;
                stream.flush().await
            };
            let is_slow = match timeout(idle, send).await {
                Ok(Ok(())) => !talk.keeps_pace(began.elapsed(), idle),
                Ok(Err(_)) => return End::Ended,
                Err(_elapsed) => true,
            };
            if is_slow {
                talk.break_off(client, live.meters());
                return End::TooSlow;
            }
            talk.replies.clear();
            talk.replies.shrink_to(ENOUGH);
        }
        if !is_answered {
            continue;
        }
        if !talk.transfers.is_empty() {
            if !has_ended {
                match read_at_once(&mut stream, &mut talk.received).await {
                    Ok(Some(read)) => has_ended = read == 0,
                    Ok(None) => {}
                    Err(_) => return End::Ended,
                }
            }
            // A client that takes everything at once must not keep the thread from others.
            tokio::task::yield_now().await;
            continue;
        }
        let stops = *stop.borrow();
        let patience = if stops { LAST } else { idle };
        let query = tokio::select! {
            query = timeout(patience, read_query(&mut stream, &mut talk.received)) => query,
            () = stopped(&mut stop), if !stops => continue,
        };
        if !matches!(query, Ok(Ok(true))) {
            let _closed = timeout(LAST, stream.shutdown()).await;
            return End::Ended;
        }
    }
}

/// Waits until the server stops.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender it has stopped.
    let _seen = stop.wait_for(|&stop| stop).await.map(drop);
}

/// Reads until there is a whole message; false if the stream ended before.
async fn read_query(
    stream: &mut (impl AsyncRead + Unpin),
    received: &mut Vec<u8>,
) -> io::Result<bool> {
    while message(received).is_none() {
        received.reserve(ROOM);
        if stream.read_buf(received).await? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads what is there, without waiting for it; gives how many octets that were, 0 at the end.
async fn read_at_once(
    stream: &mut (impl AsyncRead + Unpin),
    received: &mut Vec<u8>,
) -> io::Result<Option<usize>> {
    received.reserve(ROOM);
    tokio::select! {
        biased;
        read = stream.read_buf(received) => read.map(Some),
        () = std::future::ready(()) => Ok(None),
    }
}

/// The first message, if it is whole.
fn message(received: &[u8]) -> Option<&[u8]> {
    let (length, rest) = received.split_first_chunk::<LENGTH>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// What was received over a connection, and what is to be sent.
#[derive(Debug, Default)]
struct Talk {
    received: Vec<u8>,
    replies: Vec<u8>,
    /// The zones that are on their way, the one whose turn it is first.
    transfers: VecDeque<Outgoing>,
    /// Whether its client keeps up with them.
    pace: Pace,
}

/// A transfer cannot go on.
struct BrokenOff;

impl Talk {
    /// Answers whole messages, until there are enough replies. True if none is left.
    fn answer_all(&mut self, live: &Live, protocol: Protocol, arrival: &Arrival<'_>) -> bool {
        let Self { received, replies, transfers, .. } = self;
        let mut taken = 0;
        let mut is_answered = false;
        let moment = live.load();
        let memory = live.memory(&moment);
        with_room(|out| {
            while replies.len() < ENOUGH && transfers.len() < MOST_TRANSFERS {
                let Some(query) = received.get(taken..).and_then(message) else {
                    is_answered = true;
                    return;
                };
                taken += LENGTH + query.len();
                let responder = moment.responder(&memory);
                match converse(query, arrival, &responder, out) {
                    Some(Reply::Message(Made { length, served, .. })) => {
                        let reply = out.get(..length).unwrap_or_default();
                        let served = Served { protocol, ..served };
                        live.note(&moment, arrival.source, &served, (query, reply));
                        add(replies, out.get(..length));
                    }
                    Some(Reply::Transfer(grant)) => {
                        let served = Served { protocol, ..Served::new(Rcode::NoError) };
                        // What follows are many messages, made one after the other.
                        live.note(&moment, arrival.source, &served, (query, &[]));
                        transfers.push_back(Outgoing::new(*grant, &moment));
                    }
                    None => live.tally(&moment).count_dropped(Dropped::of(query)),
                }
            }
        });
        received.drain(..taken);
        if received.is_empty() {
            received.shrink_to(ROOM);
        }
        is_answered
    }

    /// Adds the next message of a transfer, each in its turn.
    fn go_on_transferring(&mut self) -> Result<(), BrokenOff> {
        let Some(mut transfer) = self.transfers.pop_front() else { return Ok(()) };
        let step = with_room(|out| {
            let step = transfer.next(out);
            if let Step::Message(length) = step {
                add(&mut self.replies, out.get(..length));
            }
            step
        });
        match step {
            Step::Message(_) => self.transfers.push_back(transfer),
            Step::Done => {}
            Step::Failed => return Err(BrokenOff),
        }
        Ok(())
    }

    /// Notes how long the client took for the replies. True if that is fast enough for what is still to come.
    fn keeps_pace(&mut self, took: Duration, patience: Duration) -> bool {
        if self.transfers.is_empty() {
            self.pace = Pace::default();
            return true;
        }
        self.pace.keeps(self.replies.len(), took, patience)
    }

    /// Tells of the transfers that a client was too slow for.
    fn break_off(&self, client: IpAddr, meters: &Meters) {
        for transfer in &self.transfers {
            if let Some(broken_off) = meters.slow_transfers.due(std::time::Instant::now()) {
                transfer.tell_slow(client, broken_off);
            }
        }
    }
}

/// Adds a message to the replies, after its length.
fn add(replies: &mut Vec<u8>, message: Option<&[u8]>) {
    let Some((message, length)) = message.and_then(|m| Some((m, u16::try_from(m.len()).ok()?)))
    else {
        return;
    };
    replies.extend(length.to_be_bytes());
    replies.extend(message);
}
