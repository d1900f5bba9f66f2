//! Whose turn it is in a connection of HTTP: the server's, which has a whole request and makes an answer of it,
//! or its client's, which has yet to send one whole or to take what is there. A connection that waits for its
//! client may be closed; one in which the server is at work may not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Frame, SizeHint};

/// Whose turn it is in a connection. It begins as the client's.
#[derive(Debug)]
pub struct Turn {
    begun: Instant,
    /// How many of its requests the server is at work on.
    working: AtomicUsize,
    /// Since when it is the client's turn if there are none, in microseconds since it began.
    since: AtomicU64,
}

impl Default for Turn {
    fn default() -> Self {
        Self { begun: Instant::now(), working: AtomicUsize::new(0), since: AtomicU64::new(0) }
    }
}

impl Turn {
    /// For how long its client has been waited for; none while the server is at work. Octets of a request
    /// that is not whole do not count, however many come.
    pub fn waited(&self) -> Option<Duration> {
        if self.working.load(Ordering::Acquire) > 0 {
            return None;
        }
        let since = Duration::from_micros(self.since.load(Ordering::Relaxed));
        Some(self.begun.elapsed().saturating_sub(since))
    }
}

/// A request of a connection, until its answer has been taken.
#[derive(Debug)]
pub struct Exchange {
    turn: Arc<Turn>,
    is_ours: AtomicBool,
}

impl Exchange {
    /// One that begins.
    pub fn new(turn: &Arc<Turn>) -> Arc<Self> {
        Arc::new(Self { turn: Arc::clone(turn), is_ours: AtomicBool::new(false) })
    }

    /// The server is at work on it.
    pub fn is_ours(&self) {
        if !self.is_ours.swap(true, Ordering::AcqRel) {
            self.turn.working.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Its client has yet to do something. That it is said again makes a new beginning: something was taken.
    pub fn is_theirs(&self) {
        let since = u64::try_from(self.turn.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.turn.since.store(since, Ordering::Relaxed);
        if self.is_ours.swap(false, Ordering::AcqRel) {
            self.turn.working.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.is_theirs();
    }
}

/// The body of a request. Once it is whole, or nobody wants more of it, it is the server's turn.
#[derive(Debug)]
pub struct Sent<B> {
    body: B,
    exchange: Arc<Exchange>,
}

impl<B: Body> Sent<B> {
    pub(super) fn new(body: B, exchange: Arc<Exchange>) -> Self {
        let sent = Self { body, exchange };
        if sent.body.is_end_stream() {
            sent.exchange.is_ours();
        }
        sent
    }
}

impl<B: Body + Unpin> Body for Sent<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.exchange.is_ours();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Sent<B> {
    fn drop(&mut self) {
        self.exchange.is_ours();
    }
}

/// The body of a response, which may come for as long as its parts are taken. What has been given is the
/// client's to take; while there is nothing to give it is the server's turn.
#[derive(Debug)]
pub struct Taken<B> {
    body: B,
    exchange: Arc<Exchange>,
}

impl<B> Taken<B> {
    pub(super) fn new(body: B, exchange: Arc<Exchange>) -> Self {
        exchange.is_theirs();
        Self { body, exchange }
    }
}

impl<B: Body + Unpin> Body for Taken<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match polled {
            Poll::Ready(_) => self.exchange.is_theirs(),
            Poll::Pending => self.exchange.is_ours(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::channel::{Channel, Sender};
    use http_body_util::{BodyExt as _, Empty};
    use hyper::body::Bytes;

    fn channel() -> (Sender<Bytes>, Channel<Bytes>) {
        Channel::new(1)
    }

    #[tokio::test]
    async fn it_is_the_clients_turn_until_its_request_is_whole() {
        let turn = Arc::new(Turn::default());
        assert!(turn.waited().is_some(), "nothing has come");
        let exchange = Exchange::new(&turn);
        let (mut sender, body) = channel();
        let mut body = Sent::new(body, Arc::clone(&exchange));
        let before = turn.waited().expect("its body has not come");
        sender.send_data(Bytes::from("half")).await.unwrap();
        body.frame().await.unwrap().unwrap();
        assert!(turn.waited().expect("half of it has come") >= before, "that is no beginning");
        drop(sender);
        assert!(body.frame().await.is_none());
        assert_eq!(turn.waited(), None);
        drop((body, exchange));
        assert!(turn.waited().is_some(), "there is no answer any more");
    }

    #[test]
    fn it_is_the_servers_turn_when_it_wants_no_more_of_a_request() {
        let turn = Arc::new(Turn::default());
        let exchange = Exchange::new(&turn);
        let (_sender, body) = channel();
        drop(Sent::new(body, Arc::clone(&exchange)));
        assert_eq!(turn.waited(), None);
        let without = Exchange::new(&turn);
        drop(exchange);
        assert!(turn.waited().is_some());
        let _body = Sent::new(Empty::<Bytes>::new(), Arc::clone(&without));
        assert_eq!(turn.waited(), None, "a request without a body is whole");
    }

    #[tokio::test]
    async fn it_is_the_servers_turn_while_it_has_nothing_to_give() {
        let turn = Arc::new(Turn::default());
        let exchange = Exchange::new(&turn);
        exchange.is_ours();
        let (mut sender, body) = channel();
        let mut body = Taken::new(body, exchange);
        assert!(turn.waited().is_some(), "the head of the response is there to be taken");
        assert!(
            std::future::poll_fn(|c| Poll::Ready(Pin::new(&mut body).poll_frame(c).is_pending()))
                .await
        );
        assert_eq!(turn.waited(), None, "the client waits for the next part");
        sender.send_data(Bytes::from("part")).await.unwrap();
        body.frame().await.unwrap().unwrap();
        assert!(turn.waited().is_some(), "it has the part to take");
    }
}
