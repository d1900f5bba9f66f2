//! States of `push` monitors, from whatever knows them.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::admin::error::{Document, Refusal};
use crate::admin::overrides::plain_text;
use crate::admin::{Body, Service, blocking, read};
use crate::config::report::remedy_for_name;
use crate::health::TargetKey;
use crate::serve::control::PushError;
use crate::state::State as Configuration;

/// A pushed state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pushed {
    monitor: String,
    zone: Option<String>,
    address: IpAddr,
    state: UpOrDown,
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UpOrDown {
    Up,
    Down,
}

/// Takes a state in. What follows from it is in the answers when this returns.
pub(super) async fn post(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Document<serde_json::Value>, Refusal> {
    let pushed: Pushed = read(body)?;
    plain_text("why", pushed.why.as_deref())?;
    blocking(move || {
        let zone = find_monitor(&service.control.live().load().state, &pushed)?;
        let Pushed { monitor, address, state, why, .. } = pushed;
        let key = TargetKey { zone, monitor, address, host: None };
        let up = state == UpOrDown::Up;
        service.control.push(&key, up, why).map_err(|error| refusal(&error))?;
        let state = if up { "up" } else { "down" };
        let TargetKey { zone, monitor, address, host: _ } = key;
        Ok(Document(json!({
            "zone": zone, "monitor": monitor, "address": address, "state": state,
        })))
    })
    .await?
}

/// The zone of the monitor that is meant.
fn find_monitor(state: &Configuration, pushed: &Pushed) -> Result<Option<String>, Refusal> {
    let wanted = pushed.zone.as_deref().map(|zone| format!("{}.", zone.trim_end_matches('.')));
    let in_scope = |zone: Option<&str>| match (&wanted, zone) {
        (Some(wanted), Some(zone)) => wanted.eq_ignore_ascii_case(zone),
        _ => true,
    };
    let monitors = || state.monitors.iter().filter(|monitor| in_scope(monitor.zone.as_deref()));
    let named: Vec<_> = monitors().filter(|monitor| monitor.name == pushed.monitor).collect();
    match named.as_slice() {
        [monitor] => Ok(monitor.zone.clone()),
        [] => {
            let names: Vec<String> = monitors().map(|monitor| monitor.name.clone()).collect();
            let name = &pushed.monitor;
            let help = remedy_for_name(name, &names, "monitors", "there are no monitors");
            let error = format!("there is no monitor {name:?}");
            Err(Refusal::new(StatusCode::NOT_FOUND, error, help))
        }
        several => {
            let zones = several.iter().map(|monitor| monitor.zone.as_deref().unwrap_or("shared"));
            let zones = zones.collect::<Vec<_>>().join(" and ");
            let error = format!("the zones {zones} each have a monitor {:?}", pushed.monitor);
            Err(Refusal::new(StatusCode::CONFLICT, error, "name the zone too, with \"zone\""))
        }
    }
}

fn refusal(error: &PushError) -> Refusal {
    let (status, help) = match error {
        PushError::Unknown { .. } => {
            (StatusCode::NOT_FOUND, "give an address of an origin in a pool with this monitor")
        }
        PushError::NotPush(_) => {
            (StatusCode::BAD_REQUEST, "to overrule what it probes, use /api/v1/overrides")
        }
    };
    Refusal::new(status, error.to_string(), help)
}
