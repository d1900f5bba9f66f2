//! A zone on its way to a secondary: each message is made when the one before was taken, from the moment in
//! which the transfer began.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{error, info, warn};

use crate::query::{self, Request};
use crate::respond::Responder;
use crate::serve::live::Moment;
use crate::serve::reply::{Grant, MAX_MESSAGE};
use crate::steer::FirstOnly;
use crate::steer::plan::Plan;
use crate::transfer::pages::Cursor;
use crate::tsig::stamp::Stamp;
use crate::wire::Repeated;
use crate::wire::page::Page;

/// A transfer that is under way.
#[derive(Debug)]
pub struct Outgoing {
    moment: Arc<Moment>,
    plan: Arc<Plan>,
    grant: Grant,
    cursor: Cursor,
    messages: usize,
}

/// The next step of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message of this length.
    Message(usize),
    /// All messages were sent.
    Done,
    /// It cannot go on, which a client sees by the end of the connection.
    Failed,
}

impl Outgoing {
    /// Begins with what was granted, from a moment.
    pub fn new(grant: Grant, moment: &Arc<Moment>) -> Self {
        let plan = Arc::clone(moment.published());
        Self { moment: Arc::clone(moment), plan, grant, cursor: Cursor::default(), messages: 0 }
    }

    /// Writes the next message.
    pub fn next(&mut self, out: &mut [u8]) -> Step {
        if self.cursor.is_done() {
            let (zone, serial, key) = self.names();
            info!(zone, serial, key, messages = self.messages, "transferred");
            return Step::Done;
        }
        match catch_unwind(AssertUnwindSafe(|| self.write(out))) {
            Ok(Some(length)) => {
                self.messages += 1;
                Step::Message(length)
            }
            Ok(None) => {
                warn!("a transfer was broken off: a record does not fit a message");
                Step::Failed
            }
            Err(_) => {
                error!("a transfer made the server panic; it was broken off");
                Step::Failed
            }
        }
    }

    /// Tells that it ends here, as its client is too slow, and how many ended so since that was last told.
    pub fn tell_slow(&self, client: IpAddr, broken_off: u64) {
        let (client, (zone, serial, key)) = (client.to_canonical(), self.names());
        let messages = self.messages;
        warn!(
            %client, zone, serial, key, messages, broken_off,
            "a zone transfer was broken off: the client took too little of it for too long"
        );
    }

    /// The zone, its serial and the key, as the log names them.
    fn names(&self) -> (Option<String>, Option<u32>, String) {
        let key = self.grant.stamp.as_ref().and_then(Stamp::key);
        let key = key.map(|key| key.name.to_string()).unwrap_or_default();
        let zone = self.moment.state.zones.at_key(&self.grant.zone);
        let (zone, serial) = zone.map(|zone| (zone.apex.to_string(), zone.serial())).unzip();
        (zone, serial, key)
    }

    fn write(&mut self, out: &mut [u8]) -> Option<usize> {
        let Moment { state, .. } = self.moment.as_ref();
        let zone = state.zones.at_key(&self.grant.zone)?;
        let responder = Responder { state, plan: &self.plan, sequences: &FirstOnly };
        let Request::Query(query) = query::parse(&self.grant.query) else { return None };
        let first = self.cursor.is_new().then_some(&query);
        let reserved = self.grant.stamp.as_ref().map_or(0, Stamp::length);
        let limit = MAX_MESSAGE.checked_sub(reserved)?;
        let (question, edns) =
            (first.map(|query| &query.question), first.and_then(|query| query.edns));
        let mut page = Page::begin(question, edns.as_ref(), out, limit)?;
        self.cursor.fill(zone, &responder, &mut page).ok()?;
        let length = page.finish(Repeated::read(&self.grant.query)?)?;
        let Some(stamp) = &mut self.grant.stamp else { return Some(length) };
        stamp.set_time(unix_seconds());
        stamp.sign(out, length)
    }
}

/// Seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
