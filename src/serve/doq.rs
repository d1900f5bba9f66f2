//! DNS over QUIC (RFC 9250): a query and its reply on a stream of their own, each after its length. Queries
//! of a connection do not wait for one another.
//!
//! As over TCP a client holds a connection no longer than it has use for it: a whole query must have come
//! within the idle time, and a reply must be taken within it. Of each connection the octets of queries are
//! bounded (`held`), and one reply at a time waits for room to be sent.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, ReadError, RecvStream, SendStream, VarInt};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::query::{self, Keepalive};
use crate::serve::held::{Held, Share};
use crate::serve::live::Live;
use crate::serve::quic::{Deadline, FAREWELL};
use crate::serve::reply::{MAX_MESSAGE, answer_alone};
use crate::serve::stream::{Streams, stopped};
use crate::served::Protocol;

/// The codes that connections and streams are ended with (RFC 9250 section 4.3).
const NO_ERROR: VarInt = VarInt::from_u32(0x0);
const INTERNAL_ERROR: VarInt = VarInt::from_u32(0x1);
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(0x2);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(0x3);
/// For a client that makes the server hold too much.
pub const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x4);
const UNSPECIFIED_ERROR: VarInt = VarInt::from_u32(0x5);

/// What goes wrong with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The stream ends with this code, and others are not touched.
    OfStream(VarInt),
    /// The client breaks the rules: the connection ends with this code.
    OfConnection(VarInt),
}

/// What the streams of a connection share.
struct Shared {
    connection: Connection,
    live: Live,
    idle: Duration,
    held: Held,
    /// Held by who makes a reply, until the reply is on its way.
    sending: Mutex<()>,
}

/// Answers what comes over a connection until it ends, or its client has no use for it.
pub async fn serve(connection: Connection, streams: Streams) {
    let Streams { live, idle, mut stop, alive: _alive, .. } = streams;
    let shared = Shared {
        connection: connection.clone(),
        live,
        idle,
        held: Held::default(),
        sending: Mutex::new(()),
    };
    let shared = Arc::new(shared);
    let mut running = JoinSet::new();
    let mut deadline = Deadline::new(idle);
    loop {
        tokio::select! {
            stream = connection.accept_bi() => match stream {
                Ok((send, recv)) => _ = running.spawn(exchange(send, recv, Arc::clone(&shared))),
                // The client has closed it, or is gone.
                Err(_) => return,
            },
            // Where the fault is the connection's it is closed by now, and nothing more is accepted.
            Some(ended) = running.join_next() => if matches!(ended, Ok(Ok(()))) {
                deadline.put_off();
            },
            () = deadline.reached() => break,
            () = stopped(&mut stop), if !deadline.is_last() => deadline.stop(),
        }
    }
    if deadline.is_last() {
        // What was answered is on its way; without an acknowledgement the end could overtake it.
        let rest = async { while running.join_next().await.is_some() {} };
        let _in_time = timeout(FAREWELL, rest).await;
    }
    connection.close(NO_ERROR, &[]);
}

/// Answers the query of a stream, and sees that its reply is received.
async fn exchange(
    mut send: SendStream,
    mut recv: RecvStream,
    shared: Arc<Shared>,
) -> Result<(), Fault> {
    let result = attempt(&mut send, &mut recv, &shared).await;
    match result {
        Ok(()) => {}
        // They fail where the client has ended the stream itself.
        Err(Fault::OfStream(code)) => _ = (recv.stop(code), send.reset(code)),
        // At once: a stream that is dropped ends as if there were a reply, with nothing in it.
        Err(Fault::OfConnection(code)) => shared.connection.close(code, &[]),
    }
    result
}

async fn attempt(
    send: &mut SendStream,
    recv: &mut RecvStream,
    shared: &Shared,
) -> Result<(), Fault> {
    let Shared { connection, live, idle, held, sending } = shared;
    let late = |_elapsed| Fault::OfStream(UNSPECIFIED_ERROR);
    let mut share = held.share();
    let query = timeout(*idle, read_query(recv, &mut share)).await.map_err(late)??;
    let turn = timeout(*idle, sending.lock()).await.map_err(late)?;
    let reply = reply(&query, connection.remote_address().ip(), live)?;
    drop((query, share));
    let sent = timeout(*idle, send.write_all(&reply)).await.map_err(late)?;
    // A client that wants it no more has said so, or is gone.
    sent.map_err(|_| Fault::OfStream(REQUEST_CANCELLED))?;
    drop((turn, reply));
    send.finish().map_err(|_| Fault::OfStream(INTERNAL_ERROR))?;
    match timeout(*idle, send.stopped()).await {
        Ok(Ok(None)) => Ok(()),
        Ok(_) => Err(Fault::OfStream(REQUEST_CANCELLED)),
        Err(elapsed) => Err(late(elapsed)),
    }
}

/// Reads a query to the end of its stream, which says that nothing follows it (section 4.2).
async fn read_query(recv: &mut RecvStream, share: &mut Share) -> Result<Vec<u8>, Fault> {
    let mut octets = Vec::new();
    loop {
        let chunk = recv.read_chunk(MAX_MESSAGE, true).await.map_err(|error| match error {
            // "Servers SHOULD NOT continue processing" (section 4.3.1).
            ReadError::Reset(_) => Fault::OfStream(REQUEST_CANCELLED),
            _ => Fault::OfStream(UNSPECIFIED_ERROR),
        })?;
        let Some(chunk) = chunk else { break };
        if !share.take(chunk.bytes.len()) {
            return Err(Fault::OfConnection(EXCESSIVE_LOAD));
        }
        octets.extend_from_slice(&chunk.bytes);
        // More than one query on a stream is an error of the protocol (section 4.3.3).
        if announced(&octets).is_some_and(|(length, rest)| rest.len() > length) {
            return Err(Fault::OfConnection(PROTOCOL_ERROR));
        }
    }
    // So is an end before all that was announced.
    let is_whole = announced(&octets).is_some_and(|(length, rest)| rest.len() == length);
    if is_whole { Ok(octets.split_off(2)) } else { Err(Fault::OfConnection(PROTOCOL_ERROR)) }
}

/// The length that a message is announced with, and what is there of it.
fn announced(octets: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = octets.split_first_chunk::<2>()?;
    Some((usize::from(u16::from_be_bytes(*length)), rest))
}

/// The reply to a query, after its length.
fn reply(query: &[u8], client: IpAddr, live: &Live) -> Result<Vec<u8>, Fault> {
    // "The DNS Message ID MUST be set to zero" (section 4.2.1), and the time that a connection may be
    // idle is not said by messages (section 5.5.2).
    let has_id = !query.starts_with(&[0, 0]);
    let keepalive = query::parse(query).echoed().1.map(|edns| edns.keepalive);
    if has_id || keepalive.is_some_and(|keepalive| keepalive != Keepalive::Absent) {
        return Err(Fault::OfConnection(PROTOCOL_ERROR));
    }
    let framed = |reply: &[u8]| {
        u16::try_from(reply.len()).map(|prefix| [&prefix.to_be_bytes(), reply].concat())
    };
    let reply = answer_alone(query, client, Protocol::Quic, live, framed);
    // What is no query has no reply, and a stream must have one.
    let reply = reply.ok_or(Fault::OfConnection(PROTOCOL_ERROR))?;
    reply.map_err(|_| Fault::OfStream(INTERNAL_ERROR))
}
