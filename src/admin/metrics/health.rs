//! The metrics of pools, origins and round-trip times.

use super::catalogue as metrics;
use super::exposition::{Exposition, Metric};
use crate::health::overrides::Subject;
use crate::rtt::Vantage;
use crate::serve::standing::Standing;
use crate::steer::availability::{Assessment, HealthState, assess};
use crate::steer::load_balancer::Policy;
use crate::steer::pool::{Pool, PoolId};

pub(super) fn expose(out: &mut Exposition, standing: &Standing, limit: usize) {
    let moment = &standing.moment;
    let assessed = |(id, pool)| Assessed {
        subject: Subject::pool(&moment.state, id),
        pool,
        assessment: assess(id, pool, &moment.health),
    };
    let pools: Vec<_> = (0u32..).map(PoolId).zip(moment.pools.iter()).map(assessed).collect();
    let origins: usize = pools.iter().map(|pool| pool.pool.origins.len()).sum();

    let shown = if pools.len() > limit { &[] } else { &pools[..] };
    expose_pools(out, &metrics::POOL_AVAILABLE, shown, |pool| {
        u64::from(pool.assessment.is_available())
    });
    expose_pools(out, &metrics::POOL_HEALTHY_ORIGINS, shown, |pool| pool.healthy());
    let shown = if origins > limit { &[] } else { &pools[..] };
    expose_origins(out, &metrics::ORIGIN_HEALTHY, shown, |pool, index| {
        pool.assessment.states.get(index) == Some(&HealthState::Healthy)
    });
    expose_origins(out, &metrics::ORIGIN_ELIGIBLE, shown, |pool, index| {
        pool.assessment.eligible.get(index).copied().unwrap_or(false)
    });
    let unavailable = pools.iter().filter(|p| p.pool.enabled && !p.assessment.is_available());
    out.begin(&metrics::UNAVAILABLE_POOLS);
    out.count(&metrics::UNAVAILABLE_POOLS, &[], unavailable.count() as u64);
    out.begin(&metrics::UNHEALTHY_ORIGINS);
    out.count(&metrics::UNHEALTHY_ORIGINS, &[], pools.iter().map(Assessed::unhealthy).sum());

    out.begin(&metrics::OVERRIDE);
    for said in standing.overrides.iter().take(limit) {
        let Subject { zone, pool, origin } = &said.subject;
        let (zone, origin) = (zone.as_deref().unwrap_or(""), origin.as_deref().unwrap_or(""));
        let labels =
            [("zone", zone), ("pool", pool), ("origin", origin), ("word", said.word.as_str())];
        out.count(&metrics::OVERRIDE, &labels, 1);
    }
    expose_times(out, standing, limit);
}

/// A pool and how it is.
struct Assessed<'a> {
    subject: Subject,
    pool: &'a Pool,
    assessment: Assessment,
}

impl Assessed<'_> {
    fn zone(&self) -> &str {
        self.subject.zone.as_deref().unwrap_or("")
    }

    /// How many origins are enabled and healthy.
    fn healthy(&self) -> u64 {
        self.count(|state| state == HealthState::Healthy)
    }

    fn unhealthy(&self) -> u64 {
        self.count(|state| state != HealthState::Healthy)
    }

    fn count(&self, is: impl Fn(HealthState) -> bool) -> u64 {
        let origins = self.pool.origins.iter().zip(&self.assessment.states);
        let enabled = origins.filter(|(origin, _)| origin.enabled && self.pool.enabled);
        enabled.filter(|&(_, &state)| is(state)).count() as u64
    }
}

fn expose_pools(
    out: &mut Exposition,
    metric: &Metric,
    pools: &[Assessed<'_>],
    value: impl Fn(&Assessed<'_>) -> u64,
) {
    out.begin(metric);
    for pool in pools {
        out.count(metric, &[("zone", pool.zone()), ("pool", &pool.pool.name)], value(pool));
    }
}

fn expose_origins(
    out: &mut Exposition,
    metric: &Metric,
    pools: &[Assessed<'_>],
    is: impl Fn(&Assessed<'_>, usize) -> bool,
) {
    out.begin(metric);
    for pool in pools {
        for (index, origin) in pool.pool.origins.iter().enumerate() {
            let labels =
                [("zone", pool.zone()), ("pool", &pool.pool.name), ("origin", &origin.name)];
            out.count(metric, &labels, u64::from(is(pool, index)));
        }
    }
}

/// The round-trip times that load balancers with RTT steering go by. Where tolerances differ, figures may
/// too; the first load balancer's are shown.
fn expose_times(out: &mut Exposition, standing: &Standing, limit: usize) {
    out.begin(&metrics::RTT);
    let state = &standing.moment.state;
    let steered = state.balancers.iter().zip(&state.balancer_sources);
    let tolerance = steered.filter(|(balancer, _)| balancer.policy == Policy::Rtt).map(|(_, s)| s);
    let Some(tolerance) = tolerance.map(|source| source.rtt_tolerance).next() else { return };
    let Some(figures) = standing.times.with_tolerance(tolerance) else { return };
    let regions = state.locator.regions();
    let vantages = regions.iter().map(|(region, name)| (Vantage::Region(region), name));
    let mut shown = 0;
    for (vantage, region) in vantages.chain([(Vantage::Pop, "")]) {
        for (id, pool) in (0u32..).map(PoolId).zip(state.pools.iter()) {
            let Some(time) = figures.table.get(vantage, state.pop.as_deref(), id) else { continue };
            shown += 1;
            if shown > limit {
                return;
            }
            let zone = state.pool_zones.get(id.0 as usize).and_then(Option::as_ref);
            let zone = zone.map(ToString::to_string).unwrap_or_default();
            let labels = [("zone", zone.as_str()), ("pool", &pool.name), ("region", region)];
            out.sample(&metrics::RTT, &labels, time.as_secs_f64());
        }
    }
}
