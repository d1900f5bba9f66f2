//! Between h3 and quinn: h3 keeps a frame until it is whole, however long it says that it is. Here the octets
//! that a client sends are counted, and a connection that makes the server hold too many is closed.

use std::task::{Context, Poll};

use h3::error::Code;
use h3::quic::{
    Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};
use hyper::body::Bytes;

use crate::serve::held::{Held, Share};
use crate::serve::http3::EXCESSIVE_LOAD;

/// How many octets a client may send on the streams of a connection that carry no requests, in all. They
/// say how the connection is used, and last as long as it does.
const MOST_CONTROL: usize = 256 << 10;

/// A connection that counts what its client sends.
pub struct BoundedConnection {
    inner: h3_quinn::Connection,
    quic: quinn::Connection,
    held: Held,
    control: Held,
}

impl BoundedConnection {
    /// For a connection that begins.
    pub fn new(quic: quinn::Connection) -> Self {
        let inner = h3_quinn::Connection::new(quic.clone());
        Self { inner, quic, held: Held::default(), control: Held::up_to(MOST_CONTROL) }
    }

    fn bounded<S>(&self, inner: S, share: Share) -> BoundedStream<S> {
        BoundedStream { inner, quic: self.quic.clone(), share }
    }
}

impl Connection<Bytes> for BoundedConnection {
    type RecvStream = BoundedStream<h3_quinn::RecvStream>;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = Connection::<Bytes>::poll_accept_recv(&mut self.inner, context);
        accepted.map_ok(|stream| self.bounded(stream, self.control.share()))
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = self.inner.poll_accept_bidi(context);
        accepted.map_ok(|stream| self.bounded(stream, self.held.share()))
    }

    fn opener(&self) -> Self::OpenStreams {
        let inner = Connection::<Bytes>::opener(&self.inner);
        Opener { inner, quic: self.quic.clone(), held: self.held.clone() }
    }
}

impl OpenStreams<Bytes> for BoundedConnection {
    type BidiStream = BoundedStream<h3_quinn::BidiStream<Bytes>>;
    type SendStream = h3_quinn::SendStream<Bytes>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let opened = self.inner.poll_open_bidi(context);
        opened.map_ok(|stream| self.bounded(stream, self.held.share()))
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        OpenStreams::<Bytes>::close(&mut self.inner, code, reason);
    }
}

/// Opens streams of a connection.
pub struct Opener {
    inner: h3_quinn::OpenStreams,
    quic: quinn::Connection,
    held: Held,
}

impl OpenStreams<Bytes> for Opener {
    type BidiStream = BoundedStream<h3_quinn::BidiStream<Bytes>>;
    type SendStream = h3_quinn::SendStream<Bytes>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let opened = self.inner.poll_open_bidi(context);
        opened.map_ok(|inner| BoundedStream {
            inner,
            quic: self.quic.clone(),
            share: self.held.share(),
        })
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        OpenStreams::<Bytes>::close(&mut self.inner, code, reason);
    }
}

/// A stream whose received octets are counted for as long as it lasts.
pub struct BoundedStream<S> {
    inner: S,
    quic: quinn::Connection,
    share: Share,
}

impl<S: RecvStream<Buf = Bytes>> RecvStream for BoundedStream<S> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let received = self.inner.poll_data(context);
        if let Poll::Ready(Ok(Some(data))) = &received
            && !self.share.take(data.len())
        {
            self.quic.close(EXCESSIVE_LOAD, b"too much is sent before it can be answered");
            let error_code = EXCESSIVE_LOAD.into_inner();
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        received
    }

    fn stop_sending(&mut self, code: u64) {
        self.inner.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for BoundedStream<S> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.inner.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}
