//! Why a client gets its answer now: the steps of `explain`, at the health of the moment.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use crate::admin::error::{Document, Refusal};
use crate::admin::{Service, blocking};
use crate::explain::{Asker, ClientText, Explanation, explain};
use crate::name::Name;
use crate::rr::RecordType;

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    name: String,
    #[serde(rename = "type", default = "address")]
    record_type: String,
    client: String,
    resolver: Option<String>,
}

fn address() -> String {
    "A".to_owned()
}

/// Explains an answer as it would be given now.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Document<Explanation>, Refusal> {
    let form = "ask as /api/v1/explain?name=www.example.com&type=A&client=192.0.2.0/24; \
                type and resolver may be left out";
    let Query(asked) = asked.map_err(|rejection| Refusal::bad(rejection.body_text(), form))?;
    let name = Name::parse_absolute(&asked.name)
        .map_err(|error| Refusal::bad(format!("name: {:?}: {error}", asked.name), form))?;
    let record_type = RecordType::parse(&asked.record_type).ok_or_else(|| {
        Refusal::bad(format!("type: {:?} is no record type", asked.record_type), form)
    })?;
    let client: ClientText =
        asked.client.parse().map_err(|error| Refusal::bad(format!("client: {error}"), form))?;
    let resolver = match &asked.resolver {
        None => None,
        Some(text) => match text.parse::<IpAddr>() {
            Ok(address) => Some(address),
            Err(_) => {
                return Err(Refusal::bad(format!("resolver: {text:?} is no address"), form));
            }
        },
    };
    let asker = Asker::new(client, resolver).map_err(|error| Refusal::bad(error, form))?;
    blocking(move || {
        let standing = service.control.standing();
        Document(explain(&standing.scene(), &name, record_type, asker))
    })
    .await
}
