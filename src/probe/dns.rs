//! A DNS query over UDP. The server is up if it answers the question without an error.
//!
//! Query and reply are read and written here, octet by octet: a probe needs the header and the
//! question of a message and nothing else of it.

use std::net::SocketAddr;

use crate::name::Name;
use crate::probe::connect::{Sources, ask};
use crate::probe::failure::Failure;
use crate::probe::{Deadline, Success, random};
use crate::rr::RecordType;

/// A message's header in octets (RFC 1035 section 4.1.1).
const HEADER: usize = 12;
/// A reply, in the third octet.
const QR: u8 = 0x80;
/// Recursion is desired: a resolver then does its work, and an authoritative server ignores it.
const RD: u8 = 0x01;
/// The class IN.
const IN: u16 = 1;

/// Asks, and waits for the reply to this very question. One that is cut (TC) is as good.
pub(super) async fn probe(
    sources: &Sources,
    to: SocketAddr,
    name: &Name,
    record_type: RecordType,
    deadline: Deadline,
) -> Result<Success, Failure> {
    let socket = sources.datagrams(to).await?;
    let query = write_query(random()?, name, record_type);
    ask(&socket, &query, deadline, |reply| judge(&query, reply)).await
}

fn write_query(id: [u8; 2], name: &Name, record_type: RecordType) -> Vec<u8> {
    let mut query = vec![id[0], id[1], RD, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(name.as_wire());
    query.extend_from_slice(&record_type.0.to_be_bytes());
    query.extend_from_slice(&IN.to_be_bytes());
    query
}

/// None if the message is no reply to the query: then it does not come from the server.
fn judge(query: &[u8], reply: &[u8]) -> Option<Result<(), Failure>> {
    let (id, flags, rcode) = (reply.get(..2)?, reply.get(2)?, reply.get(3)? & 0x0f);
    if Some(id) != query.get(..2) || flags & QR == 0 {
        return None;
    }
    let question = query.get(HEADER..)?;
    let repeated = reply.get(HEADER..query.len());
    let same = repeated.is_some_and(|repeated| repeated.eq_ignore_ascii_case(question));
    // A server that could not read the query, or refuses it, may leave the question out.
    let has_question = reply.get(4..6) != Some(&[0, 0]);
    if rcode == 0 && !same || has_question && !same {
        return None;
    }
    let words = match rcode {
        0 => return Some(Ok(())),
        1 => "FORMERR (it cannot read the query)",
        2 => "SERVFAIL (it failed to answer)",
        3 => "NXDOMAIN (the name does not exist)",
        4 => "NOTIMP (it does not know such queries)",
        5 => "REFUSED",
        other => return Some(Err(Failure::Reply(format!("the DNS reply has the code {other}")))),
    };
    Some(Err(Failure::Reply(format!("the DNS reply is {words}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> Vec<u8> {
        write_query([7, 9], &Name::parse_absolute("www.example.").unwrap(), RecordType::A)
    }

    fn reply(change: impl FnOnce(&mut Vec<u8>)) -> Option<Result<(), Failure>> {
        let mut reply = query();
        reply[2] |= QR;
        change(&mut reply);
        judge(&query(), &reply)
    }

    #[test]
    fn only_a_reply_to_the_question_counts() {
        assert_eq!(reply(|_| {}), Some(Ok(())));
        assert_eq!(reply(|reply| reply[13] = b'W'), Some(Ok(())), "names have no case");
        assert_eq!(reply(|reply| reply[2] &= !QR), None, "a query is no reply");
        assert_eq!(reply(|reply| reply[1] = 8), None, "another id");
        assert_eq!(reply(|reply| reply[13] = b'x'), None, "another question");
        assert_eq!(reply(|reply| reply.truncate(HEADER)), None, "no question");
        assert_eq!(reply(Vec::clear), None);
    }

    #[test]
    fn an_error_may_come_without_the_question() {
        let refused = reply(|reply| {
            reply[3] = 5;
            reply[5] = 0;
            reply.truncate(HEADER);
        });
        assert_eq!(refused, Some(Err(Failure::Reply("the DNS reply is REFUSED".to_owned()))));
    }
}
