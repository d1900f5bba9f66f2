//! QUIC (RFC 9000): an endpoint for each address, its handshakes, and who may have a connection. What is
//! said over a connection is the matter of `doq` and `http3`.
//!
//! The first packet of a client proves nothing: its address may be another's. Until the address is proven a
//! connection does not count for it, so that nobody uses up a victim's connections. Such handshakes are
//! few: when many are pending, a client must first show that it gets what is sent to its address (Retry).

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connecting, Endpoint, EndpointConfig, IdleTimeout, Incoming, TransportConfig, VarInt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::serve::connections::Permit;
use crate::serve::stream::{LAST, MOST_REQUESTS, Streams, stopped};
use crate::serve::tls::{self, CurrentCertificate};
use crate::serve::{doq, http3};
use crate::served::Protocol;

/// How many handshakes may be pending at an endpoint.
const MOST_HANDSHAKES: usize = 1024;
/// From how many on an address must be proven before its handshake begins.
const MANY_HANDSHAKES: usize = 64;
/// How many octets a client may send ahead on a stream, and on all of a connection.
const STREAM_WINDOW: u32 = 16 << 10;
const WINDOW: u32 = 64 << 10;
/// How many octets of replies may wait for a client that does not take them.
const SEND_WINDOW: u64 = 64 << 10;
/// How much is kept of clients that have not been looked at yet, each and all.
const UNSEEN: u64 = 16 << 10;
const ALL_UNSEEN: u64 = 4 << 20;
/// How long what has begun may take when the server stops.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// What messages are carried in, over the connections of an endpoint.
#[derive(Clone, Debug)]
pub enum QuicCarrier {
    /// Streams (RFC 9250).
    Doq,
    /// HTTP/3, under a path (RFC 8484, RFC 9114).
    Http3(Arc<str>),
}

impl QuicCarrier {
    /// As the log names it.
    pub fn word(&self) -> &'static str {
        self.carried().word()
    }

    /// As what its queries are counted.
    fn carried(&self) -> Protocol {
        match self {
            Self::Doq => Protocol::Quic,
            Self::Http3(_) => Protocol::Http3,
        }
    }

    /// The application protocol (RFC 9250 section 4.1.1, RFC 9114 section 3.1).
    fn protocol(&self) -> &'static [u8] {
        match self {
            Self::Doq => b"doq",
            Self::Http3(_) => b"h3",
        }
    }

    /// How many streams of one direction a client may have.
    fn one_way_streams(&self) -> VarInt {
        match self {
            // There are none; one is an error of the connection (RFC 9250 section 4.2).
            Self::Doq => VarInt::from_u32(0),
            // Three are needed, and a client may try others (RFC 9114 section 6.2).
            Self::Http3(_) => VarInt::from_u32(8),
        }
    }

    /// What a client is told that has too many connections.
    fn excessive_load(&self) -> VarInt {
        match self {
            Self::Doq => doq::EXCESSIVE_LOAD,
            Self::Http3(_) => http3::EXCESSIVE_LOAD,
        }
    }
}

/// When a connection ends whose client has no use for it.
pub(super) struct Deadline {
    at: Instant,
    patience: Duration,
    /// Not later than this, however much is asked: the server stops.
    last: Option<Instant>,
}

impl Deadline {
    /// For a connection that begins.
    pub(super) fn new(idle: Duration) -> Self {
        Self { at: Instant::now() + idle, patience: idle, last: None }
    }

    /// Waits until it is reached.
    pub(super) fn reached(&self) -> Sleep {
        sleep_until(self.at)
    }

    /// Puts it off: a query was answered.
    pub(super) fn put_off(&mut self) {
        let at = Instant::now() + self.patience;
        self.at = self.last.map_or(at, |last| at.min(last));
    }

    /// Leaves time for what has arrived only.
    pub(super) fn stop(&mut self) {
        self.patience = LAST;
        self.last = Some(Instant::now() + FAREWELL);
        self.put_off();
    }

    /// True if the server stops.
    pub(super) fn is_last(&self) -> bool {
        self.last.is_some()
    }
}

/// An endpoint on a socket.
///
/// # Errors
/// What rustls or the system says.
pub fn endpoint(
    socket: UdpSocket,
    certificate: &Arc<CurrentCertificate>,
    carrier: &QuicCarrier,
    idle: Duration,
) -> io::Result<Endpoint> {
    let cryptography = tls::quic(certificate, carrier.protocol()).map_err(io::Error::other)?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(cryptography));
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(MOST_REQUESTS))
        .max_concurrent_uni_streams(carrier.one_way_streams())
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).map_err(io::Error::other)?));
    server
        .transport_config(Arc::new(transport))
        .max_incoming(MOST_HANDSHAKES)
        .incoming_buffer_size(UNSEEN)
        .incoming_buffer_size_total(ALL_UNSEEN);
    let runtime = Arc::new(quinn::TokioRuntime);
    Endpoint::new(EndpointConfig::default(), Some(server), socket, runtime)
}

/// Accepts connections of an endpoint until the server stops, and ends when they have ended.
pub async fn accept(endpoint: Endpoint, carrier: QuicCarrier, streams: Streams) {
    let mut stop = streams.stop.clone();
    let handshakes = Arc::new(Semaphore::new(MOST_HANDSHAKES));
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { return };
                let admitted = admit(incoming, carrier.carried(), &handshakes, &streams);
                let Some(admitted) = admitted else { continue };
                running.spawn(carry(admitted, carrier.clone(), streams.clone()));
            }
            Some(_ended) = running.join_next() => {}
            () = stopped(&mut stop) => break,
        }
    }
    endpoint.set_server_config(None);
    while running.join_next().await.is_some() {}
    // What closes the connections has to leave yet.
    let _left = timeout(LAST, endpoint.wait_idle()).await;
}

/// A connection that may begin.
struct Admitted {
    connecting: Connecting,
    /// None as long as the client's address is not proven.
    permit: Option<Permit>,
    handshake: OwnedSemaphorePermit,
}

/// Begins a handshake, if there may be one more, and one more connection.
fn admit(
    incoming: Incoming,
    carried: Protocol,
    handshakes: &Arc<Semaphore>,
    streams: &Streams,
) -> Option<Admitted> {
    let pending = MOST_HANDSHAKES.saturating_sub(handshakes.available_permits());
    if pending >= MANY_HANDSHAKES && incoming.may_retry() {
        // It fails only where there may be none.
        let _sent = incoming.retry();
        return None;
    }
    let Ok(handshake) = Arc::clone(handshakes).try_acquire_owned() else {
        incoming.refuse();
        return None;
    };
    let mut permit = None;
    if incoming.remote_address_validated() {
        permit = streams.connections.admit(incoming.remote_address().ip());
        if permit.is_none() {
            streams.live.meters().refuse(carried);
            incoming.refuse();
            return None;
        }
    }
    // Packets that cannot begin a connection are no concern of others.
    let connecting = incoming.accept().ok()?;
    Some(Admitted { connecting, permit, handshake })
}

/// Shakes hands, and serves a connection by what carries its messages; gives the permit back at its end.
async fn carry(admitted: Admitted, carrier: QuicCarrier, streams: Streams) {
    let Admitted { connecting, permit, handshake } = admitted;
    let mut stop = streams.stop.clone();
    let ends = async {
        stopped(&mut stop).await;
        tokio::time::sleep(FAREWELL).await;
    };
    let connected = tokio::select! {
        connected = timeout(streams.idle, connecting) => connected,
        () = ends => return,
    };
    // A client that cannot shake hands in time, or at all, is no concern of others.
    let Ok(Ok(connection)) = connected else { return };
    drop(handshake);
    let admit = || streams.connections.admit(connection.remote_address().ip());
    let meters = Arc::clone(streams.live.meters());
    let Some(_permit) = permit.or_else(admit) else {
        meters.refuse(carrier.carried());
        connection.close(carrier.excessive_load(), b"too many connections");
        return;
    };
    let _open = meters.open(carrier.carried());
    match carrier {
        QuicCarrier::Doq => doq::serve(connection, streams).await,
        QuicCarrier::Http3(path) => http3::serve(connection, path, streams).await,
    }
}
