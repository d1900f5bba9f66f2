//! A record as a line of JSON. What the octets of the messages say is read from them; which load balancer
//! and pool answered is known only while the state that answered is.

use std::time::{Duration, SystemTime};

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use serde::Serialize;

use crate::limit::Verdict;
use crate::query_log::Record;
use crate::served::Choice;
use crate::state::State;
use crate::timestamp::show_time;

/// A line. Names are fully qualified.
#[derive(Debug, Serialize)]
pub struct Line {
    /// When, to the millisecond.
    pub at: String,
    /// Who asked.
    pub client: String,
    /// How.
    pub protocol: &'static str,
    /// The client subnet of the query.
    pub client_subnet: Option<String>,
    /// What for.
    pub name: Option<String>,
    /// The type of that.
    #[serde(rename = "type")]
    pub record_type: Option<String>,
    /// The response code.
    pub rcode: &'static str,
    /// The load balancer.
    pub load_balancer: Option<String>,
    /// The pool that answered.
    pub pool: Option<String>,
    /// True if that is the fallback pool.
    pub fallback: bool,
    /// True if health did not count.
    pub last_resort: bool,
    /// The data of the answer's records; none for a transfer, and for a reply that was too long to be kept.
    pub answer: Option<Vec<String>>,
    /// For how much of the client subnet the answer holds.
    pub ecs_scope: Option<u8>,
    /// True if the client was told to come again over TCP.
    pub truncated: bool,
    /// What response rate limiting made of it: null, "truncated" or "dropped".
    pub limited: Option<&'static str>,
}

impl Line {
    /// Of a record; `known` is the state that it is of, if that is still known.
    pub fn new(record: &Record, known: Option<&State>) -> Self {
        let served = &record.served;
        let query = Message::from_vec(&record.query).ok();
        let question = query.as_ref().and_then(|query| query.queries.first());
        let steered = served.steered.zip(known);
        let owner = steered.and_then(|(steered, state)| {
            let (id, choice) = state.layout.owner(steered.counter)?;
            let balancer = state.balancers.get(id.0 as usize)?;
            Some((balancer.name.to_string(), choice))
        });
        let pool = steered.and_then(|(steered, state)| {
            let id = steered.pool?;
            state.pools.get(id.0 as usize).map(|pool| pool.name.to_string())
        });
        let reply = Message::from_vec(&record.reply).ok();
        let answer = match (reply, served.verdict) {
            (Some(reply), _) => {
                Some(reply.answers.iter().map(|record| record.data.to_string()).collect())
            }
            (None, Verdict::Drop) => Some(Vec::new()),
            (None, _) => None,
        };
        Self {
            at: moment(record.at),
            client: record.client.to_canonical().to_string(),
            protocol: served.protocol.word(),
            client_subnet: query.as_ref().and_then(subnet),
            name: question.map(|question| question.name().to_string()),
            record_type: question.map(|question| question.query_type().to_string()),
            rcode: served.rcode.mnemonic(),
            fallback: owner.as_ref().is_some_and(|(_, choice)| *choice == Choice::Fallback),
            load_balancer: owner.map(|(name, _)| name),
            pool,
            last_resort: served.steered.is_some_and(|steered| steered.is_last_resort),
            answer,
            ecs_scope: served.subnet.map(|subnet| subnet.scope),
            truncated: served.is_truncated || served.verdict == Verdict::Truncate,
            limited: match served.verdict {
                Verdict::Send => None,
                Verdict::Truncate => Some("truncated"),
                Verdict::Drop => Some("dropped"),
            },
        }
    }
}

/// The client subnet of a query.
fn subnet(query: &Message) -> Option<String> {
    match query.edns.as_ref()?.option(EdnsCode::Subnet)? {
        EdnsOption::Subnet(subnet) => Some(format!("{}/{}", subnet.addr(), subnet.source_prefix())),
        _ => None,
    }
}

/// As "2026-11-30T14:05:00.123Z".
fn moment(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut text = show_time(since.as_secs());
    text.pop();
    format!("{text}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Rcode;
    use crate::query_log::MAX_REPLY;
    use crate::served::Served;

    fn line(verdict: Verdict, query: &[u8], reply: &[u8]) -> Line {
        let served = Served { verdict, ..Served::new(Rcode::NoError) };
        let client = ("::ffff:192.0.2.1".parse().expect("an address"), None);
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_042);
        Line::new(&Record::new(at, client, served, 1, (query, reply)), None)
    }

    #[test]
    fn what_is_not_known_is_null() {
        let line = line(Verdict::Send, b"no query", &[0; MAX_REPLY + 1]);
        assert_eq!(
            (line.at.as_str(), line.client.as_str()),
            ("2023-11-14T22:13:20.042Z", "192.0.2.1")
        );
        assert_eq!((line.name, line.record_type, line.answer), (None, None, None));
    }

    #[test]
    fn an_answer_that_was_not_sent_has_no_records() {
        let line = line(Verdict::Drop, b"no query", &[]);
        assert_eq!((line.limited, line.answer), (Some("dropped"), Some(Vec::new())));
    }
}
