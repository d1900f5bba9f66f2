//! What happened: the journal as a list.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use crate::admin::Service;
use crate::admin::error::{Document, Refusal};
use crate::journal::Page;

/// How many events are listed where the request does not say.
const USUAL: usize = 100;
/// The most that are listed at once.
const MOST: usize = 1000;

/// Which events are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    limit: Option<usize>,
    after: Option<u64>,
}

/// Lists events, the newest last: those that follow a number, or the latest.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Document<Page>, Refusal> {
    let form = "ask as /api/v1/journal?limit=100&after=17; both may be left out";
    let Query(Asked { limit, after }) =
        asked.map_err(|rejection| Refusal::bad(rejection.body_text(), form))?;
    let limit = limit.unwrap_or(USUAL).min(MOST);
    let journal = service.control.journal();
    Ok(Document(match after {
        Some(after) => journal.after(journal.resume(after), limit),
        None => journal.latest(limit),
    }))
}
