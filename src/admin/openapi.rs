//! The description of this service, for programs (OpenAPI 3.1). It is written by hand, and tests hold
//! it to the routes and to real answers.

use axum::http::{HeaderName, HeaderValue, header};

const DOCUMENT: &str = include_str!("openapi.json");

/// Gives the description.
pub(super) async fn get() -> ([(HeaderName, HeaderValue); 3], &'static str) {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (headers, DOCUMENT)
}
