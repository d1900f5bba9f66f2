//! The metrics of the server itself: what it does beside answering, and what it serves.

use super::catalogue as metrics;
use super::exposition::{Exposition, Metric};
use crate::admin::Service;
use crate::serve::meters::{LookupResult, Meters, ProbeResult};
use crate::served::Protocol;
use crate::tally::histogram::Histogram;

pub(super) fn expose(out: &mut Exposition, service: &Service) {
    let live = service.control.live();
    let meters = live.meters();
    expose_probes(out, service, meters);
    expose_reloads(out, service, meters);
    expose_connections(out, meters);
    let flag = |is| Some(f64::from(u8::from(is)));
    out.single(&metrics::STATE_WRITABLE, flag(meters.is_state_writable()));
    let lost = live.query_log().map_or(0, |log| log.lost());
    single(out, &metrics::QUERY_LOG_LOST, Some(lost));
    out.single(&metrics::READY, flag(service.why_not_ready().is_none()));
    out.begin(&metrics::BUILD);
    out.count(&metrics::BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    single(out, &metrics::STARTED_AT, Some(meters.begun_at));
}

fn expose_probes(out: &mut Exposition, service: &Service, meters: &Meters) {
    out.begin(&metrics::PROBES);
    for (word, result) in ProbeResult::ALL {
        out.count(&metrics::PROBES, &[("result", word)], meters.probes(result));
    }
    out.histogram(&metrics::PROBE_DURATION, &Histogram::sum([&meters.probe_times]));
    // Where nothing is probed any more, its age says nothing.
    let is_probing = service.control.is_probing();
    let age = meters.prober_age().filter(|_| is_probing);
    out.single(&metrics::PROBER_AGE, age.map(|age| age.as_secs_f64()));
    single(out, &metrics::STALE_MONITORS, Some(service.stale_monitors() as u64));
    out.begin(&metrics::LOOKUPS);
    for (word, result) in LookupResult::ALL {
        out.count(&metrics::LOOKUPS, &[("result", word)], meters.lookups(result));
    }
}

fn expose_reloads(out: &mut Exposition, service: &Service, meters: &Meters) {
    out.begin(&metrics::RELOADS);
    for (result, count) in ["failure", "success"].into_iter().zip(meters.reloads()) {
        out.count(&metrics::RELOADS, &[("result", result)], count);
    }
    let (loaded_at, is_current) = meters.loaded();
    single(out, &metrics::LAST_RELOAD_SUCCESSFUL, Some(u64::from(is_current)));
    single(out, &metrics::LOADED_AT, Some(loaded_at));
    let moment = service.control.live().load();
    let state = &moment.state;
    single(out, &metrics::GENERATION, Some(moment.generation));
    let built_at = state.locator.database().map(|database| database.build_epoch);
    single(out, &metrics::GEO_BUILT_AT, built_at);
    let certificate = service.reloader.certificate();
    let expires_at = certificate.and_then(|certificate| {
        let first = certificate.not_after().iter().copied().min()?;
        u64::try_from(first).ok()
    });
    single(out, &metrics::CERTIFICATE_EXPIRES_AT, expires_at);
    single(out, &metrics::ZONES, Some(state.zones.len() as u64));
    single(out, &metrics::BALANCERS, Some(state.balancers.len() as u64));
    single(out, &metrics::POOLS, Some(state.pools.len() as u64));
    let origins: usize = state.pools.iter().map(|pool| pool.origins.len()).sum();
    single(out, &metrics::ORIGINS, Some(origins as u64));
}

fn expose_connections(out: &mut Exposition, meters: &Meters) {
    let of = [&metrics::CONNECTIONS, &metrics::REFUSED_CONNECTIONS, &metrics::OPEN_CONNECTIONS];
    for (index, metric) in of.into_iter().enumerate() {
        out.begin(metric);
        for protocol in Protocol::ALL.into_iter().filter(|&protocol| protocol != Protocol::Udp) {
            let count = meters.connections(protocol)[index];
            out.count(metric, &[("transport", protocol.word())], count);
        }
    }
}

fn single(out: &mut Exposition, metric: &Metric, value: Option<u64>) {
    out.begin(metric);
    if let Some(value) = value {
        out.count(metric, &[], value);
    }
}
