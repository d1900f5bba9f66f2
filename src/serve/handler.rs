//! Carries between hickory-server and the answering function: octets in, records out. Decides
//! nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hickory_proto::op::{Header, HeaderCounts, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::Record;
use hickory_proto::serialize::binary::BinDecoder;
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::server::{
    Request as HickoryRequest, RequestHandler, ResponseHandler, ResponseInfo,
};
use hickory_server::zone_handler::{MessageResponseBuilder, Queries};
use tracing::{debug, error};

use crate::answer::{Answer, ExtendedError};
use crate::query::{self, Rcode, Request};
use crate::respond::respond;
use crate::serve::live::Live;
use crate::serve::sequences::SharedSequences;
use crate::serve::sessions::SessionsAt;
use crate::steer::Sequences;
use crate::steer::session::{OriginTag, SessionKey, Sessions};
use crate::wire::message::{Reply, reply};
use crate::wire::{Repeated, Transport};

/// Answers what hickory-server received.
#[derive(Clone, Debug)]
pub struct Handler {
    live: Live,
}

impl Handler {
    /// Answers from the current moment.
    pub fn new(live: Live) -> Self {
        Self { live }
    }

    /// The reply to a message, and whether it repeats the question; none for what is not replied to.
    fn reply(&self, request: &HickoryRequest) -> Option<(Reply, bool)> {
        let message = request.as_slice();
        let parsed = query::parse(message);
        let repeated = Repeated::read(message)?;
        let transport = match request.protocol() {
            Protocol::Udp => Transport::Datagram,
            _ => Transport::Stream,
        };
        let moment = self.live.load();
        let sessions = self.live.sessions();
        let memory = Shared { sequences: &moment.sequences, sessions: sessions.at(sessions.now()) };
        // A fault in one answer is that answer's failure, never the process's.
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let answer = respond(&parsed, request.src().ip(), &moment.responder(&memory))?;
            Some(reply(&parsed, repeated, &answer, transport))
        }));
        let with_question = parsed.echoed().0.is_some();
        match answered {
            Ok(None) => None,
            Ok(Some(Ok(reply))) => Some((reply, with_question)),
            Ok(Some(Err(fault))) => {
                error!(%fault, "an answer could not be written");
                failure(&parsed, repeated, transport)
            }
            Err(_) => {
                error!("a query made the server panic; it was answered SERVFAIL");
                failure(&parsed, repeated, transport)
            }
        }
    }
}

/// What answers over TCP leave for those after them.
#[derive(Debug)]
struct Shared<'m> {
    sequences: &'m SharedSequences,
    sessions: SessionsAt<'m>,
}

impl Sequences for Shared<'_> {
    fn next(&self, slot: u32, fingerprint: u32) -> u32 {
        self.sequences.next(slot, fingerprint)
    }
}

impl Sessions for Shared<'_> {
    fn find(&self, key: SessionKey, ttl: u32) -> Option<OriginTag> {
        self.sessions.find(key, ttl)
    }

    fn begin(&self, key: SessionKey, origin: OriginTag) {
        self.sessions.begin(key, origin);
    }
}

/// SERVFAIL for an answer that could not be made.
fn failure(
    request: &Request<'_>,
    repeated: Repeated,
    transport: Transport,
) -> Option<(Reply, bool)> {
    let mut answer = Answer::empty(Rcode::ServFail);
    answer.extended_error = Some(ExtendedError::Internal);
    let reply = reply(request, repeated, &answer, transport).ok()?;
    Some((reply, request.echoed().0.is_some()))
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &HickoryRequest,
        mut responses: R,
    ) -> ResponseInfo {
        let Some((reply, with_question)) = self.reply(request) else {
            return nothing_sent(request);
        };
        match send(request, &reply, with_question, &mut responses).await {
            Ok(info) => info,
            Err(fault) => {
                // The client is gone, or its queue is full: nobody is left to tell.
                debug!(%fault, "a reply could not be sent");
                nothing_sent(request)
            }
        }
    }
}

async fn send(
    request: &HickoryRequest,
    reply: &Reply,
    with_question: bool,
    responses: &mut impl ResponseHandler,
) -> Result<ResponseInfo, NetError> {
    let none;
    let queries = if with_question {
        &request.queries
    } else {
        none =
            Queries::read(&mut BinDecoder::new(&[]), 0).map_err(hickory_proto::ProtoError::from)?;
        &none
    };
    let message = MessageResponseBuilder::new(queries, reply.edns.as_ref()).build(
        reply.metadata,
        &reply.answers,
        &reply.authorities,
        std::iter::empty::<&Record>(),
        &reply.additionals,
    );
    responses.send_response(message).await
}

/// What hickory-server is told where nothing was sent.
fn nothing_sent(request: &HickoryRequest) -> ResponseInfo {
    let mut metadata = Metadata::new(request.metadata.id, MessageType::Response, OpCode::Query);
    metadata.response_code = ResponseCode::ServFail;
    ResponseInfo::from(Header { metadata, counts: HeaderCounts::default() })
}
