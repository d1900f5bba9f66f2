//! How the admin service answers: JSON for people to read, and for errors what is wrong and what
//! would be right.

use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// A JSON document as an answer.
#[derive(Debug)]
pub(super) struct Document<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Document<T> {
    fn into_response(self) -> Response {
        let Ok(mut text) = serde_json::to_vec_pretty(&self.0) else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        text.push(b'\n');
        let headers: [(HeaderName, HeaderValue); 3] = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        (headers, text).into_response()
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: Failure,
}

/// The document of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What is wrong.
    pub error: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
}

impl Refusal {
    pub(super) fn new(
        status: StatusCode,
        error: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { status, text: Failure { error: error.into(), help: help.into() } }
    }

    /// The same, of one part of a list.
    pub(super) fn of_part(mut self, number: usize) -> Self {
        self.text.error = format!("samples[{number}]: {}", self.text.error);
        self
    }

    /// The request itself is wrong.
    pub(super) fn bad(error: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, help)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Document(self.text)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            // RFC 9110 section 11.6.1: such an answer names the scheme.
            let scheme = HeaderValue::from_static("Bearer realm=\"meridian\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// Nothing is there.
pub(super) async fn not_found(uri: Uri) -> Refusal {
    let error = format!("there is nothing at {}", uri.path());
    Refusal::new(StatusCode::NOT_FOUND, error, "docs/api.md lists what there is")
}

/// Something is there, for another method.
pub(super) async fn not_allowed(method: Method, uri: Uri) -> Refusal {
    let error = format!("{method} is not what {} is for", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error, "docs/api.md lists the methods")
}
