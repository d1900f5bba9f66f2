//! The reply to one message, whatever it came by: parsed, answered, written.

use std::cell::RefCell;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tracing::error;

use crate::answer::{Answer, ExtendedError, Owner, Set};
use crate::cookies::{Cookies, Judged, ServerCookie};
use crate::limit::answer_hash;
use crate::query::{self, Edns, Keepalive, Question, Rcode, Request, Signature};
use crate::respond::{Responder, respond};
use crate::rr::RecordType;
use crate::serve::live::Live;
use crate::serve::refusals::Refusals;
use crate::served::{Protocol, Scoped, Served};
use crate::steer::Memory;
use crate::tally::counters::Dropped;
use crate::transfer::{Asker, Carriage, Refusal, Verdict, judge};
use crate::tsig::Keys;
use crate::tsig::check::{Checked, check};
use crate::tsig::stamp::Stamp;
use crate::wire::write::write;
use crate::wire::{Repeated, Transport};
use crate::zone::node::Zone;

/// How a message came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Where from.
    pub source: IpAddr,
    /// By what.
    pub transport: Transport,
    /// Whether a reply may have several messages: that of a zone transfer.
    pub takes_several: bool,
    /// Who tells of transfers that are refused; nobody of those in datagrams.
    pub refusals: Option<&'a Refusals>,
    /// How long its connection may be idle, where that is for the client to know (RFC 7828).
    pub idle: Option<Duration>,
    /// What cookies are judged by.
    pub cookies: &'a Cookies,
}

/// A reply that was written.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Its length.
    pub length: usize,
    /// What other answers it is equal to (`limit`).
    pub equal: u64,
    /// True if the client has the address that it claims.
    pub is_proven: bool,
    /// What was answered, but for what carried it.
    pub served: Served,
}

/// What a message is replied with.
#[derive(Debug)]
pub enum Reply {
    /// A message, which was written.
    Message(Made),
    /// A zone, in messages that are still to be written.
    Transfer(Box<Grant>),
}

/// A zone transfer that a client may have, with what its messages depend on.
#[derive(Debug)]
pub struct Grant {
    /// The zone's name in lower-case wire form.
    pub zone: Box<[u8]>,
    /// The query.
    pub query: Box<[u8]>,
    /// What signs the messages, if the query was signed.
    pub stamp: Option<Stamp>,
}

impl<'a> Arrival<'a> {
    /// In a datagram.
    pub fn datagram(source: IpAddr, cookies: &'a Cookies) -> Self {
        let transport = Transport::Datagram;
        Self { source, transport, takes_several: false, refusals: None, idle: None, cookies }
    }

    /// The time of the batch, in seconds since 1970.
    fn now(&self) -> u64 {
        self.cookies.now().into()
    }

    /// How the reply to a query for a transfer goes back.
    fn carriage(&self) -> Carriage {
        match self.transport {
            Transport::Datagram => Carriage::Datagram,
            Transport::Stream | Transport::Encrypted if self.takes_several => Carriage::Several,
            Transport::Stream | Transport::Encrypted => Carriage::Single,
        }
    }

    /// Tells of a transfer that is refused, if somebody is to be told.
    fn tell(&self, question: &Question<'_>, stamp: Option<&Stamp>, refusal: Refusal) {
        if let Some(refusals) = self.refusals {
            refusals.tell(self.source, question, stamp, refusal);
        }
    }

    /// Judges the cookie of a query.
    fn judge(&self, edns: Option<Edns>) -> Option<Judged> {
        self.cookies.judge(&edns?.cookie?, self.source)
    }
}

/// TC, in the third octet of a header.
const TRUNCATED: u8 = 2;

/// The largest message that a stream carries.
pub const MAX_MESSAGE: usize = u16::MAX as usize;

/// Lends this thread's room for the largest reply: too much to have it for each connection or request.
pub fn with_room<R>(write: impl FnOnce(&mut [u8]) -> R) -> R {
    thread_local! {
        static ROOM: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_MESSAGE].into());
    }
    ROOM.with_borrow_mut(|room| write(room))
}

/// Answers one message the long way into `out`; gives the length of the reply, if there is one.
#[inline]
pub fn answer(
    message: &[u8],
    arrival: &Arrival<'_>,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<usize> {
    make(message, arrival, responder, out).map(|made| made.length)
}

/// The same over a stream, where a reply may be a zone.
pub fn converse(
    message: &[u8],
    arrival: &Arrival<'_>,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<Reply> {
    guarded(message, arrival, responder, out)
}

/// Answers a message that comes alone, in a request or a stream of its own that nobody else can read, and
/// counts and logs that. Gives what `take` makes of the reply, if there is one. How long the connection may
/// be idle is not said by messages in it.
pub fn answer_alone<R>(
    message: &[u8],
    client: IpAddr,
    protocol: Protocol,
    live: &Live,
    take: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    let moment = live.load();
    let (memory, cookies) = (live.memory(&moment), live.cookies());
    let transport = Transport::Encrypted;
    let arrival = Arrival {
        source: client,
        transport,
        takes_several: false,
        refusals: Some(&live.meters().refusals),
        idle: None,
        cookies: &cookies,
    };
    with_room(|out| {
        let Some(made) = make(message, &arrival, &moment.responder(&memory), out) else {
            live.tally(&moment).count_dropped(Dropped::of(message));
            return None;
        };
        let reply = out.get(..made.length)?;
        live.note(&moment, client, &Served { protocol, ..made.served }, (message, reply));
        Some(take(reply))
    })
}

/// The same, with what response rate limiting needs to know of the reply.
#[inline]
pub fn make(
    message: &[u8],
    arrival: &Arrival<'_>,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<Made> {
    match guarded(message, arrival, responder, out)? {
        Reply::Message(made) => Some(made),
        // Only of an arrival that takes several messages.
        Reply::Transfer(_) => None,
    }
}

#[inline]
fn guarded(
    message: &[u8],
    arrival: &Arrival<'_>,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<Reply> {
    // A fault in one answer is that answer's failure, never the process's.
    match catch_unwind(AssertUnwindSafe(|| attempt(message, arrival, responder, out))) {
        Ok(reply) => reply,
        Err(_) => {
            error!("a query made the server panic; it was answered SERVFAIL");
            let mut answer = Answer::empty(Rcode::ServFail);
            answer.extended_error = Some(ExtendedError::Internal);
            let made = bare(message, arrival, &responder.state.keys, answer, out)?;
            let served = Served { is_fault: true, ..made.served };
            Some(Reply::Message(Made { served, ..made }))
        }
    }
}

/// The reply to a query over UDP that tells the client to come again over TCP. A signature is no proof of an
/// address, as a query that was signed may be sent again by others: so it does not exempt from the limit, and
/// the reply is signed as any other.
pub fn truncated(
    message: &[u8],
    arrival: &Arrival<'_>,
    keys: &Keys,
    out: &mut [u8],
) -> Option<usize> {
    let mut answer = Answer::empty(Rcode::NoError);
    answer.extras.truncated = true;
    bare(message, arrival, keys, answer, out).map(|made| made.length)
}

#[inline]
fn attempt(
    message: &[u8],
    arrival: &Arrival<'_>,
    responder: &Responder<'_, impl Memory>,
    out: &mut [u8],
) -> Option<Reply> {
    let mut request = accepted(query::parse(message), arrival.transport);
    let mut stamp = None;
    if let Some(signature) = request.signature() {
        (request, stamp) = checked(request, signature, message, arrival, &responder.state.keys);
    }
    let (question, edns) = request.echoed();
    let judged = arrival.judge(edns);
    let mut answer = if wants_cookie(&request, judged, arrival.transport, responder) {
        Answer::empty(Rcode::BadCookie)
    } else if let Request::Query(query) = &request
        && query.question.is_transfer()
    {
        let key = stamp.as_deref().and_then(Stamp::key).map(Arc::as_ref);
        let asker = Asker { source: arrival.source, key, carriage: arrival.carriage() };
        match judge(responder.state, query, &asker) {
            Verdict::Refused(refusal) => {
                arrival.tell(&query.question, stamp.as_deref(), refusal);
                let extended_error = refusal.extended_error();
                Answer { extended_error, ..Answer::empty(refusal.rcode()) }
            }
            Verdict::Soa(zone) => soa(zone),
            Verdict::Whole(zone) => {
                let (zone, query) = (zone.apex.to_key(), message.into());
                let stamp = stamp.map(|stamp| *stamp);
                return Some(Reply::Transfer(Box::new(Grant { zone, query, stamp })));
            }
        }
    } else {
        respond(&request, arrival.source, responder)?
    };
    let extras = &mut answer.extras;
    extras.cookie = judged.map(|judged| judged.reply);
    if let Some(edns) = edns {
        extras.padded = edns.is_padded && arrival.transport == Transport::Encrypted;
        let asked = edns.keepalive == Keepalive::Asked;
        extras.keepalive = arrival.idle.filter(|_| asked).map(tenths);
    }
    let record_type = question.map_or(RecordType::A, |question| question.record_type);
    let equal = answer_hash(&answer, record_type);
    let (length, served) = finish(message, arrival, &request, stamp, &answer, out)?;
    let is_proven = judged.is_some_and(|judged| judged.is_valid);
    Some(Reply::Message(Made { length, equal, is_proven, served }))
}

/// What was answered, by the answer and the octets that were written of it.
fn served(answer: &Answer<'_>, edns: Option<Edns>, out: &[u8]) -> Served {
    let subnet = edns.and_then(|edns| edns.client_subnet);
    Served {
        zone: answer.zone,
        // Where the names after it made it another answer than the load balancer's, it is the zone's.
        steered: answer
            .steered
            .filter(|_| matches!(answer.rcode, Rcode::NoError | Rcode::ServFail)),
        subnet: Scoped::new(subnet.as_ref(), answer.ecs_scope),
        is_truncated: out.get(2).is_some_and(|flags| flags & TRUNCATED != 0),
        ..Served::new(answer.rcode)
    }
}

/// Checks the signature of a request. One that is not good is answered NOTAUTH, whatever is asked (RFC 8945
/// section 5.2).
fn checked<'m>(
    request: Request<'m>,
    signature: Signature<'m>,
    message: &[u8],
    arrival: &Arrival<'_>,
    keys: &Keys,
) -> (Request<'m>, Option<Box<Stamp>>) {
    match check(message, signature, keys, arrival.now()) {
        None => (request.refused(Rcode::FormErr), None),
        Some(Checked { fault: None, stamp }) => (request, Some(Box::new(stamp))),
        Some(Checked { fault: Some(fault), stamp }) => {
            let refused = Refusal::Signature(fault);
            if let Some(question) = request.echoed().0.filter(|question| question.is_transfer()) {
                arrival.tell(question, Some(&stamp), refused);
            }
            (request.refused(refused.rcode()), Some(Box::new(stamp)))
        }
    }
}

/// The SOA of a zone, as an answer.
fn soa(zone: &Zone) -> Answer<'_> {
    let mut answer = Answer::empty(Rcode::NoError);
    answer.authoritative = true;
    answer.matched = Some(zone.apex.as_wire());
    answer.answer.push(Set::of(Owner::Question, &zone.soa.rrset));
    answer
}

/// A request, refused if the keepalive option of a stream has data (RFC 7828 section 3.2.1). Where it came in
/// a datagram the option is ignored.
fn accepted(request: Request<'_>, transport: Transport) -> Request<'_> {
    let keepalive = request.echoed().1.map(|edns| edns.keepalive);
    if transport == Transport::Datagram || keepalive != Some(Keepalive::Malformed) {
        return request;
    }
    match request {
        Request::Query(_) | Request::CookieOnly(_) => request.refused(Rcode::FormErr),
        Request::Refused(_) | Request::Ignore => request,
    }
}

/// True if a client gets no answer before it has a valid cookie: where it asks whether its own is one
/// (RFC 7873 section 5.4), and over UDP where that is required. Clients that know no cookies do without.
fn wants_cookie(
    request: &Request<'_>,
    judged: Option<Judged>,
    transport: Transport,
    responder: &Responder<'_, impl Memory>,
) -> bool {
    if judged.is_none_or(|judged| judged.is_valid) {
        return false;
    }
    match request {
        Request::CookieOnly(edns) => {
            edns.cookie.is_some_and(|cookie| cookie.server != ServerCookie::Absent)
        }
        Request::Query(_) => responder.state.require_cookies && transport == Transport::Datagram,
        Request::Refused(_) | Request::Ignore => false,
    }
}

/// Tenths of a second.
fn tenths(idle: Duration) -> u16 {
    u16::try_from(idle.as_millis() / 100).unwrap_or(u16::MAX)
}

/// Writes an answer that nothing in the zones is asked for. As any other it is signed if the query was (RFC 8945
/// section 5.3).
fn bare(
    message: &[u8],
    arrival: &Arrival<'_>,
    keys: &Keys,
    mut answer: Answer<'_>,
    out: &mut [u8],
) -> Option<Made> {
    let attempt = || {
        let mut request = query::parse(message);
        let mut stamp = None;
        if let Some(signature) = request.signature() {
            (request, stamp) = checked(request, signature, message, arrival, keys);
            if answer.rcode == Rcode::NoError
                && let Request::Refused(refused) = &request
            {
                answer.rcode = refused.rcode;
            }
        }
        let edns = request.echoed().1;
        let judged = arrival.judge(edns);
        answer.extras.cookie = judged.map(|judged| judged.reply);
        let is_proven = judged.is_some_and(|judged| judged.is_valid);
        let (length, served) = finish(message, arrival, &request, stamp, &answer, out)?;
        Some(Made { length, equal: answer_hash(&answer, RecordType::A), is_proven, served })
    };
    catch_unwind(AssertUnwindSafe(attempt)).ok().flatten()
}

/// Writes an answer, and signs it if the query was signed.
#[inline]
fn finish(
    message: &[u8],
    arrival: &Arrival<'_>,
    request: &Request<'_>,
    stamp: Option<Box<Stamp>>,
    answer: &Answer<'_>,
    out: &mut [u8],
) -> Option<(usize, Served)> {
    let edns = request.echoed().1;
    let reserved = stamp.as_deref().map_or(0, Stamp::length);
    let limit = arrival.transport.limit(edns).checked_sub(reserved)?;
    let mut length = write(request, Repeated::read(message)?, answer, limit, out)?;
    if let Some(mut stamp) = stamp {
        length = stamp.sign(out, length)?;
    }
    Some((length, served(answer, edns, out)))
}
