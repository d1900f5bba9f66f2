//! A zone file to a state and its plan.

use std::io;

use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::steer::availability::Health;
use meridian::steer::plan::Plan;

/// One input.
pub(crate) fn run(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else { return };
    let files = Files { zones: vec![Source::new("zone.toml", text)], ..Files::default() };
    let report = Report::default();
    let read = |_: &std::path::Path| Err(io::ErrorKind::NotFound.into());
    let state = build(&files, &Server::default(), &read, &report);
    // A state without an error, or an error without a state; and every message can be shown.
    assert_eq!(state.is_none(), report.has_errors());
    let shown: Vec<String> = report.into_sorted().iter().map(ToString::to_string).collect();
    drop(shown);
    if let Some(state) = state {
        Plan::new(&state.pools, &Health::default());
    }
}
