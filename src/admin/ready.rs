//! Whether the process lives, and whether it should be asked.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::admin::error::{Document, Refusal};
use crate::admin::{Phase, Service, blocking};

/// How long what was found to be stale counts.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The process lives, and its runtime goes round.
pub(super) async fn livez() -> Document<serde_json::Value> {
    Document(json!({ "alive": true }))
}

/// Whether this server should be asked; not whether the origins are up.
pub(super) async fn readyz(State(service): State<Arc<Service>>) -> Result<Response, Refusal> {
    let (status, document) = match blocking(move || service.why_not_ready()).await? {
        None => (StatusCode::OK, json!({ "ready": true })),
        Some(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false, "reason": reason }))
        }
    };
    Ok((status, Document(document)).into_response())
}

impl Service {
    /// Why this server should not be asked; none if it should be.
    pub(super) fn why_not_ready(&self) -> Option<String> {
        match self.phase() {
            Phase::Starting => {
                let awaited = self.control.awaited();
                Some(format!("starting: {awaited} addresses have no first result yet"))
            }
            Phase::Stopping => Some("stopping".to_owned()),
            Phase::Serving => {
                let stale = self.stale_monitors();
                (stale > 0).then(|| {
                    format!("the prober is stale: {stale} monitors have no result within max_age")
                })
            }
        }
    }

    /// How many monitors are stale. Whoever asks often does not get at the lock of health more often.
    pub(super) fn stale_monitors(&self) -> usize {
        let mut seen = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((at, stale)) if at.elapsed() < LOOK_AGAIN => stale,
            _ => {
                let stale = self.control.stale_monitors().len();
                *seen = Some((Instant::now(), stale));
                stale
            }
        }
    }
}
