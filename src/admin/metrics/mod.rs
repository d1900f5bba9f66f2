//! `/metrics`: what the server counted and how it is, for Prometheus and what reads the same formats.
//!
//! ```text
//! catalogue (which metrics) ─┐
//! answers, health, server ───┴─► exposition (as text 0.0.4 or OpenMetrics 1.0) ─► response
//! ```
//!
//! A writer of our own: everything is read anew at each scrape and held nowhere, and both formats are
//! asked for. The `prometheus-client` crate writes OpenMetrics only, from a registry of values that it holds.

mod answers;
mod catalogue;
mod exposition;
mod health;
mod server;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use self::exposition::{Exposition, Format};
use crate::admin::error::Refusal;
use crate::admin::{Service, blocking};

/// Shows all metrics.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
    // With very many pools it takes a while, and meets the lock of health.
    let text = blocking(move || service.expose(format)).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, text).into_response())
}

impl Service {
    fn expose(&self, format: Format) -> String {
        let mut out = Exposition::new(format);
        let limit = self.metrics_limit();
        answers::expose(&mut out, &self.control.live().traffic().sums(), limit);
        health::expose(&mut out, &self.control.standing(), limit);
        server::expose(&mut out, self);
        out.finish()
    }

    fn metrics_limit(&self) -> usize {
        self.reloader.server().admin.as_ref().map_or(0, |admin| admin.metrics_limit)
    }
}
