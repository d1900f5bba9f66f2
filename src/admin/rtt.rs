//! Round-trip times that something else measured: real users' browsers, say.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::json;

use crate::admin::error::{Document, Refusal};
use crate::admin::overrides::not_found;
use crate::admin::{Body, Service, blocking, read};
use crate::config::report::remedy_for_name;
use crate::rtt::Vantage;
use crate::scope::Scope;
use crate::state::State as Configuration;
use crate::steer::pool::PoolId;

/// The longest round-trip time, in milliseconds.
const LONGEST: f64 = 60_000.0;

/// Samples.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pushed {
    samples: Vec<Sample>,
}

/// A sample: from where, to which pool, how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    region: Option<String>,
    subnet: Option<String>,
    pool: String,
    zone: Option<String>,
    ms: f64,
}

/// Takes samples in: all of them, or none if one is wrong.
pub(super) async fn post(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Document<serde_json::Value>, Refusal> {
    let Pushed { samples } = read(body)?;
    blocking(move || {
        // The numbers of pools and regions are those of one state.
        service.control.measured(Instant::now(), |state| {
            let read = |(number, sample)| {
                Sample::read(sample, state).map_err(|refusal| refusal.of_part(number))
            };
            (0..).zip(&samples).map(read).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(Document(json!({ "samples": samples.len() })))
    })
    .await?
}

impl Sample {
    fn read(&self, state: &Configuration) -> Result<(Vantage, PoolId, Duration), Refusal> {
        let scope = match &self.zone {
            Some(zone) => Scope::of_zone(state, zone).map_err(not_found)?,
            None => Scope::all(state),
        };
        let pool = scope.pool(&self.pool).map_err(not_found)?;
        if !(0.0..=LONGEST).contains(&self.ms) {
            let error = format!("{} is not a round-trip time", self.ms);
            let help = "give milliseconds from 0 to 60000 as \"ms\"";
            return Err(Refusal::bad(error, help));
        }
        let vantage = self.vantage(state)?;
        Ok((vantage, pool, Duration::from_secs_f64(self.ms / 1000.0)))
    }

    fn vantage(&self, state: &Configuration) -> Result<Vantage, Refusal> {
        let regions = state.locator.regions();
        match (&self.region, &self.subnet) {
            (Some(name), None) => regions.find(name).map(Vantage::Region).ok_or_else(|| {
                let names: Vec<String> = regions.iter().map(|(_, name)| name.to_owned()).collect();
                let help = remedy_for_name(name, &names, "regions", "there are no regions");
                Refusal::new(StatusCode::NOT_FOUND, format!("there is no region {name:?}"), help)
            }),
            (None, Some(text)) => {
                let of_address = |_| text.parse::<IpAddr>().map(IpNet::from);
                let subnet = text.parse::<IpNet>().or_else(of_address).map_err(|_| {
                    let help = "give an address, or one with a prefix length, as 192.0.2.0/24";
                    Refusal::bad(format!("{text:?} is not a subnet"), help)
                })?;
                let place = state.locator.locate(subnet.addr()).place;
                place.region.map(Vantage::Region).ok_or_else(|| {
                    let help =
                        "give its \"region\" instead, or put the subnet into geo/subnets.toml";
                    Refusal::bad(format!("the location data have no region for {subnet}"), help)
                })
            }
            _ => Err(Refusal::bad(
                "a sample is from one place",
                "give \"region\" or \"subnet\", and not both",
            )),
        }
    }
}
