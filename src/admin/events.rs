//! What happens, as it happens: server-sent events (WHATWG HTML, "Server-sent events").
//!
//! A task for each follower reads the journal from the number that it has come to, and waits while
//! its client does not take more. So a slow client costs one batch of memory; if events gave way before
//! it came to them, it is told how many, and goes on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use crate::admin::Service;
use crate::admin::error::Refusal;
use crate::journal::{Event, Page};
use crate::serve::journal::{Journal, MOST_FOLLOWERS, Progress};

/// How many events are sent at once.
const BATCH: usize = 64;
/// After such a silence a comment is sent, so that nothing on the way takes the connection for dead, and
/// neither does `connection`, which closes those that are idle.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Who takes nothing for so long is gone.
const STUCK: Duration = Duration::from_secs(60);
/// A follower is let go after this time, and comes again if it still may: the token may have changed.
const LONGEST: Duration = Duration::from_secs(3600);

/// From where on events are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    after: Option<u64>,
}

/// Sends the events after a number, then each that happens.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Refusal> {
    let form = "ask as /api/v1/events, or /api/v1/events?after=17 for those after number 17";
    let Query(Asked { after }) =
        asked.map_err(|rejection| Refusal::bad(rejection.body_text(), form))?;
    let after = match headers.get("last-event-id") {
        None => after,
        // A browser that comes again sends it, beside the query of the first time.
        Some(id) => {
            let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
            Some(number.ok_or_else(|| {
                Refusal::bad(format!("Last-Event-ID: {id:?} is no number of an event"), form)
            })?)
        }
    };
    let journal = Arc::clone(service.control.journal());
    let permit = Arc::clone(&journal.followers).try_acquire_owned().map_err(|_| {
        let error = format!("{MOST_FOLLOWERS} clients follow the events already");
        let help = "ask again later, or ask /api/v1/journal now and then";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, help)
    })?;
    // Who names no number wants what is new.
    let after = match after {
        Some(after) => journal.resume(after),
        None => journal.watch().borrow().next.saturating_sub(1),
    };
    let (sender, body) = Channel::new(1);
    tokio::spawn(Follower { journal, sender, after, _permit: permit }.run());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, Body::new(body)).into_response())
}

/// One who follows.
struct Follower {
    journal: Arc<Journal>,
    sender: Sender<Bytes, std::convert::Infallible>,
    /// The number of the last event that was sent.
    after: u64,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    /// Sends events until the client leaves or the server ends.
    async fn run(mut self) {
        let mut progress = self.journal.watch();
        let end = Instant::now() + LONGEST;
        // At once, so that the client sees that it is heard.
        if self.send(": the journal of meridian\n\n".to_owned()).await.is_err() {
            return;
        }
        loop {
            let Progress { next, is_over } = *progress.borrow_and_update();
            while self.after + 1 < next {
                let Page { events, first, .. } = self.journal.after(self.after, BATCH);
                let Some(last) = events.last().map(|event| event.seq) else { break };
                let left_out = first.saturating_sub(self.after + 1);
                self.after = last;
                if self.send(written(left_out, &events)).await.is_err() {
                    return;
                }
            }
            let news =
                async { progress.wait_for(|now| now.next > next || now.is_over).await.map(drop) };
            if is_over || Instant::now() >= end {
                return;
            }
            let wait = timeout_at(end.min(Instant::now() + KEEP_ALIVE), news).await;
            let is_silent = match wait {
                Ok(Ok(_)) => false,
                Ok(Err(_)) => return,
                Err(_) => true,
            };
            if is_silent && self.send(":\n\n".to_owned()).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the client takes it; an error if it is gone or seems to be.
    async fn send(&mut self, text: String) -> Result<(), ()> {
        let sent = timeout(STUCK, self.sender.send_data(Bytes::from(text))).await;
        sent.map_err(|_| ())?.map_err(|_| ())
    }
}

/// What stands in place of events that gave way, in the form of an event.
#[derive(Debug, Serialize)]
struct LeftOut<'e> {
    /// The number of the last of them.
    seq: u64,
    /// When the first happened that is still kept.
    at: &'e str,
    kind: &'static str,
    left_out: u64,
    text: String,
}

/// Events as they are sent. Before them stands how many were left out.
fn written(left_out: u64, events: &[Arc<Event>]) -> String {
    let mut text = String::new();
    if let Some(first) = events.first().filter(|_| left_out > 0) {
        let told = match left_out {
            1 => "1 event was".to_owned(),
            _ => format!("{left_out} events were"),
        };
        let (seq, kind) = (first.seq.saturating_sub(1), "left_out");
        let told = format!("{told} left out, having given way to newer ones");
        write(&mut text, seq, kind, &LeftOut { seq, at: &first.at, kind, left_out, text: told });
    }
    for event in events {
        write(&mut text, event.seq, event.entry.kind.word(), event);
    }
    text
}

fn write(text: &mut String, id: u64, kind: &str, data: &impl Serialize) {
    // JSON has no line break within, and what is sent here can be written as JSON.
    if let Ok(data) = serde_json::to_string(data) {
        text.push_str(&format!("id: {id}\nevent: {kind}\ndata: {data}\n\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Entry, Kept, Kind};

    #[test]
    fn events_are_written_with_their_numbers() {
        let mut kept = Kept::new(10);
        let text = "a \"text\"\nof two lines".to_owned();
        let at = "2026-11-30T14:00:00.000Z".to_owned();
        kept.push(at.clone(), Entry::new(Kind::Started, String::new()));
        kept.push(at, Entry::new(Kind::Pool, text));
        let expected = "id: 1\nevent: left_out\n\
             data: {\"seq\":1,\"at\":\"2026-11-30T14:00:00.000Z\",\"kind\":\"left_out\",\
             \"left_out\":3,\"text\":\"3 events were left out, having given way to newer ones\"}\n\n\
             id: 2\nevent: pool\n\
             data: {\"seq\":2,\"at\":\"2026-11-30T14:00:00.000Z\",\"kind\":\"pool\",\
             \"text\":\"a \\\"text\\\"\\nof two lines\"}\n\n";
        assert_eq!(written(3, &kept.latest(1).events), expected);
    }

    #[tokio::test]
    async fn who_is_slow_is_told_how_many_were_left_out_and_goes_on() {
        let journal = Arc::new(Journal::default());
        let entry = |number: u64| Entry::new(Kind::Rtt, number.to_string());
        journal.record((1..=5).map(entry));
        let permit = Arc::clone(&journal.followers).try_acquire_owned().unwrap();
        let (sender, body) = Channel::new(1);
        let follower =
            Follower { journal: Arc::clone(&journal), sender, after: 2, _permit: permit };
        // Nothing is taken yet; meanwhile everything that it has not seen gives way.
        let running = tokio::spawn(follower.run());
        journal.record((6..=20_005).map(entry));
        journal.end();
        let text = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        running.await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains("\"left_out\":10003,"), "{}", &text[..300]);
        assert_eq!(text.matches("\nid: ").count(), 10_001);
        assert!(text.contains("\nid: 20005\n"));
        assert_eq!(journal.followers.available_permits(), MOST_FOLLOWERS);
    }
}
