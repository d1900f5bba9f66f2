//! A reload that is waited for, with its outcome.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::admin::error::{Document, Refusal};
use crate::admin::{Service, blocking};
use crate::config::report::{Diagnostic, Severity};
use crate::serve::reload::{Outcome, Refused, Reloaded};

/// Reads all files again, as SIGHUP does, and says how it went.
pub(super) async fn post(State(service): State<Arc<Service>>) -> Result<Response, Refusal> {
    let outcome = blocking(move || service.reloader.reload()).await?;
    Ok(match outcome {
        Outcome::Reloaded(reloaded) => {
            let Reloaded { generation, changes, warnings, at_next_start } = *reloaded;
            let document = Document(json!({
                "reloaded": true,
                "generation": generation,
                "changes": changes,
                "warnings": warnings,
                "at_next_start": at_next_start,
            }));
            document.into_response()
        }
        Outcome::Refused(Refused { generation, reason, diagnostics }) => {
            let of = |severity| -> Vec<&Diagnostic> {
                diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).collect()
            };
            let document = Document(json!({
                "reloaded": false,
                "generation": generation,
                "error": reason,
                "help": "correct it and reload again; what was served before is served on",
                "errors": of(Severity::Error),
                "warnings": of(Severity::Warning),
            }));
            (StatusCode::UNPROCESSABLE_ENTITY, document).into_response()
        }
    })
}
