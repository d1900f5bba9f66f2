//! A datagram and its reply.

use std::net::SocketAddr;

use crate::probe::connect::{Sources, ask};
use crate::probe::failure::{Failure, plain_octets};
use crate::probe::{Deadline, Success};

/// Sends the payload. The first datagram that comes back decides.
pub(super) async fn probe(
    sources: &Sources,
    to: SocketAddr,
    payload: &str,
    expected: Option<&str>,
    deadline: Deadline,
) -> Result<Success, Failure> {
    let socket = sources.datagrams(to).await?;
    let expected = expected.unwrap_or_default();
    ask(&socket, payload.as_bytes(), deadline, |reply| {
        Some(if reply.starts_with(expected.as_bytes()) {
            Ok(())
        } else {
            let reply = plain_octets(reply);
            Err(Failure::Reply(format!(
                "the reply is {reply:?} and does not begin with {expected:?}"
            )))
        })
    })
    .await
}
