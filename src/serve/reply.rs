//! The reply to one message, whatever it came by: parsed, answered, written.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

use crate::answer::{Answer, ExtendedError};
use crate::query::{self, Rcode};
use crate::respond::{Responder, respond};
use crate::steer::Memory;
use crate::wire::write::write;
use crate::wire::{Repeated, Transport};

/// Answers one message the long way into `out`; gives the length of the reply, if there is one.
#[inline]
pub fn answer(
    message: &[u8],
    source: IpAddr,
    responder: &Responder<'_, impl Memory>,
    transport: Transport,
    out: &mut [u8],
) -> Option<usize> {
    // A fault in one answer is that answer's failure, never the process's.
    match catch_unwind(AssertUnwindSafe(|| attempt(message, source, responder, transport, out))) {
        Ok(length) => length,
        Err(_) => {
            error!("a query made the server panic; it was answered SERVFAIL");
            let fail = AssertUnwindSafe(|| failure(message, transport, out));
            catch_unwind(fail).ok().flatten()
        }
    }
}

#[inline]
fn attempt(
    message: &[u8],
    source: IpAddr,
    responder: &Responder<'_, impl Memory>,
    transport: Transport,
    out: &mut [u8],
) -> Option<usize> {
    let request = query::parse(message);
    let repeated = Repeated::read(message)?;
    let answer = respond(&request, source, responder)?;
    let limit = transport.limit(request.echoed().1);
    write(&request, repeated, &answer, limit, out)
}

/// SERVFAIL for an answer that could not be made.
fn failure(message: &[u8], transport: Transport, out: &mut [u8]) -> Option<usize> {
    let request = query::parse(message);
    let mut answer = Answer::empty(Rcode::ServFail);
    answer.extended_error = Some(ExtendedError::Internal);
    let limit = transport.limit(request.echoed().1);
    write(&request, Repeated::read(message)?, &answer, limit, out)
}
