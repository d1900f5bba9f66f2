//! What happened, for people and for programs: a bounded list of events, the oldest of which give way.
//!
//! ```text
//! serve::control, serve::reload, serve::resolver ─► entries ─► Kept ─► admin: journal, events
//! ```
//!
//! Pure: an event is given its time. Who may write and who waits for news is the edge's business
//! (`serve::journal`). A query never writes one.

pub mod entries;

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;

use crate::changes::Changes;
use crate::config::report::Diagnostic;

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The server started.
    Started,
    /// The health of an origin changed.
    Health,
    /// A pool became available, or ceased to be.
    Pool,
    /// An operator said something, or it is over.
    Override,
    /// The files were read again.
    Reload,
    /// A round-trip time that is published moved.
    Rtt,
    /// The addresses of a host name changed.
    Resolution,
}

/// What happened. What does not belong to the kind is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// The zone of the pool; none for a shared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The origin; none where the pool as a whole is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The origin's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What probes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<String>,
    /// The host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The region that a round-trip time is measured from; none for this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// What was so before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What is so now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Until when it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The number of the state that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// What a reload changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Why a reload was refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Diagnostic>,
    /// All of it in a sentence.
    pub text: String,
}

/// An event: what happened, its number and its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Its number, from 1.
    pub seq: u64,
    /// When it happened.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

/// The events that are kept.
#[derive(Clone, Debug)]
pub struct Kept {
    events: VecDeque<Arc<Event>>,
    most: usize,
    next: u64,
}

/// A part of what is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// The events, the newest last.
    pub events: Vec<Arc<Event>>,
    /// The number of the oldest event that is kept.
    pub first: u64,
    /// The number that the next event gets.
    pub next: u64,
}

impl Kept {
    /// Keeps so many events.
    pub fn new(most: usize) -> Self {
        Self { events: VecDeque::new(), most: most.max(1), next: 1 }
    }

    /// Adds an event.
    pub fn push(&mut self, at: String, entry: Entry) {
        if self.events.len() >= self.most {
            self.events.pop_front();
        }
        self.events.push_back(Arc::new(Event { seq: self.next, at, entry }));
        self.next += 1;
    }

    /// The number of the oldest event that is kept; that of the next one if there is none.
    pub fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    /// The number that the next event gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Where to go on after an event of this number. A number that was not given yet is one of an
    /// earlier run of the server: then everything is new.
    pub fn resume(&self, after: u64) -> u64 {
        if after < self.next { after } else { 0 }
    }

    /// The first events after this number, so many at most.
    pub fn after(&self, after: u64, limit: usize) -> Page {
        let skipped = (after.saturating_add(1)).saturating_sub(self.first());
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        self.page(self.events.iter().skip(skipped).take(limit))
    }

    /// The latest events, so many at most.
    pub fn latest(&self, limit: usize) -> Page {
        self.page(self.events.iter().skip(self.events.len().saturating_sub(limit)))
    }

    fn page<'e>(&self, events: impl Iterator<Item = &'e Arc<Event>>) -> Page {
        Page { events: events.cloned().collect(), first: self.first(), next: self.next }
    }
}

impl Entry {
    /// Something that happened, of which only the sentence is known.
    pub fn new(kind: Kind, text: String) -> Self {
        Self {
            kind,
            zone: None,
            pool: None,
            origin: None,
            address: None,
            monitor: None,
            host: None,
            region: None,
            from: None,
            to: None,
            why: None,
            by: None,
            until: None,
            generation: None,
            changes: None,
            errors: Vec::new(),
            text,
        }
    }
}

impl Kind {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Health => "health",
            Self::Pool => "pool",
            Self::Override => "override",
            Self::Reload => "reload",
            Self::Rtt => "rtt",
            Self::Resolution => "resolution",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(most: usize, events: u64) -> Kept {
        let mut kept = Kept::new(most);
        for number in 1..=events {
            kept.push("2026-11-30T14:00:00.000Z".to_owned(), entry(&number.to_string()));
        }
        kept
    }

    fn entry(text: &str) -> Entry {
        Entry::new(Kind::Health, text.to_owned())
    }

    fn numbers(page: &Page) -> Vec<u64> {
        page.events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn the_oldest_give_way() {
        let kept = kept(3, 5);
        assert_eq!(numbers(&kept.after(0, 10)), [3, 4, 5]);
        assert_eq!((kept.first(), kept.next()), (3, 6));
        assert_eq!(
            kept.latest(2).events.iter().map(|e| &e.entry.text).collect::<Vec<_>>(),
            ["4", "5"]
        );
    }

    #[test]
    fn a_reader_goes_on_where_it_was() {
        let kept = kept(10, 5);
        assert_eq!(numbers(&kept.after(2, 2)), [3, 4]);
        assert_eq!(numbers(&kept.after(4, 2)), [5]);
        assert_eq!(numbers(&kept.after(5, 2)), [0u64; 0]);
        assert_eq!(numbers(&kept.after(u64::MAX, 2)), [0u64; 0]);
        assert_eq!(kept.resume(5), 5);
        assert_eq!(kept.resume(6), 0, "a number of an earlier run");
    }

    #[test]
    fn an_empty_journal_has_a_next_number() {
        let kept = Kept::new(3);
        assert_eq!((kept.first(), kept.next()), (1, 1));
        assert!(kept.after(0, 10).events.is_empty() && kept.latest(10).events.is_empty());
    }

    #[test]
    fn what_does_not_belong_to_the_kind_is_left_out() {
        let kept = kept(1, 1);
        let event = kept.latest(1).events.into_iter().next().unwrap();
        let json = serde_json::to_string(&event).unwrap();
        let expected = r#"{"seq":1,"at":"2026-11-30T14:00:00.000Z","kind":"health","text":"1"}"#;
        assert_eq!(json, expected);
    }
}
