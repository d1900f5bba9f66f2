//! Every metric that there is. docs/metrics.md has the same in a table, and a test compares both.

use super::exposition::{Kind, Metric};

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, unit: None, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit: None, help }
}

const fn seconds(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit: Some("seconds"), help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, unit: Some("seconds"), help }
}

pub(super) const REPLIES: Metric =
    counter("meridian_replies", "Replies that were made, without those that were limited.");
pub(super) const ZONE_REPLIES: Metric = counter("meridian_zone_replies", "Replies from a zone.");
pub(super) const BALANCER_ANSWERS: Metric = counter(
    "meridian_load_balancer_answers",
    "Queries for steered types of a load balancer, by what became of them.",
);
pub(super) const POOL_ANSWERS: Metric = counter("meridian_pool_answers", "Answers from a pool.");
pub(super) const FALLBACK_ANSWERS: Metric = counter(
    "meridian_fallback_answers",
    "Answers from a fallback pool, as no candidate was available.",
);
pub(super) const LAST_RESORT_ANSWERS: Metric = counter(
    "meridian_last_resort_answers",
    "Answers for which health did not count, as nothing in the pool or zone was healthy.",
);
pub(super) const ECS_ANSWERS: Metric = counter(
    "meridian_ecs_answers",
    "Replies to queries with a client subnet, by the scope prefix that they hold for.",
);
pub(super) const TRUNCATED: Metric =
    counter("meridian_truncated_replies", "Replies with TC, as they did not fit.");
pub(super) const LIMITED: Metric = counter(
    "meridian_limited_answers",
    "Answers that response rate limiting truncated or did not send.",
);
pub(super) const DROPPED: Metric =
    counter("meridian_dropped_messages", "Messages that got no reply for what they are.");
pub(super) const PANICS: Metric =
    counter("meridian_panics", "Faults of this program, each of which became a SERVFAIL at most.");
pub(super) const BATCH_DURATION: Metric = histogram(
    "meridian_batch_duration_seconds",
    "How long UDP queries were worked on, from their receipt to the sending of their batch's replies; \
     a sample of the batches.",
);

pub(super) const ORIGIN_HEALTHY: Metric =
    gauge("meridian_origin_healthy", "Whether an origin counts as healthy.");
pub(super) const ORIGIN_ELIGIBLE: Metric =
    gauge("meridian_origin_eligible", "Whether an origin may take new answers.");
pub(super) const OVERRIDE: Metric =
    gauge("meridian_override", "What an operator said of a pool or an origin.");
pub(super) const POOL_AVAILABLE: Metric =
    gauge("meridian_pool_available", "Whether a pool is available.");
pub(super) const POOL_HEALTHY_ORIGINS: Metric =
    gauge("meridian_pool_healthy_origins", "How many origins of a pool count as healthy.");
pub(super) const UNAVAILABLE_POOLS: Metric =
    gauge("meridian_unavailable_pools", "How many pools are enabled and not available.");
pub(super) const UNHEALTHY_ORIGINS: Metric =
    gauge("meridian_unhealthy_origins", "How many origins are enabled and not healthy.");
pub(super) const RTT: Metric =
    seconds("meridian_rtt_seconds", "The round-trip time to a pool that RTT steering goes by.");
pub(super) const STALE_MONITORS: Metric =
    gauge("meridian_stale_monitors", "How many monitors have no result within max_age.");

pub(super) const PROBES: Metric = counter("meridian_probes", "Probes that ended.");
pub(super) const PROBE_DURATION: Metric =
    histogram("meridian_probe_duration_seconds", "How long probes took.");
pub(super) const PROBER_AGE: Metric =
    seconds("meridian_prober_age_seconds", "How long ago the last probe ended.");
pub(super) const LOOKUPS: Metric = counter(
    "meridian_lookups",
    "Look-ups of addresses of host names, one for each address family.",
);
pub(super) const RELOADS: Metric = counter("meridian_reloads", "Reloads.");
pub(super) const LAST_RELOAD_SUCCESSFUL: Metric =
    gauge("meridian_last_reload_successful", "Whether the last reload succeeded.");
pub(super) const LOADED_AT: Metric =
    seconds("meridian_last_reload_success_timestamp_seconds", "When what is served was loaded.");
pub(super) const GENERATION: Metric =
    gauge("meridian_configuration_generation", "The number of what is served.");
pub(super) const GEO_BUILT_AT: Metric = seconds(
    "meridian_geo_database_build_timestamp_seconds",
    "When the location database was built.",
);
pub(super) const CERTIFICATE_EXPIRES_AT: Metric = seconds(
    "meridian_certificate_expiry_timestamp_seconds",
    "When the first certificate of the chain that clients are shown expires.",
);
pub(super) const CONNECTIONS: Metric =
    counter("meridian_connections", "Connections that were accepted.");
pub(super) const REFUSED_CONNECTIONS: Metric = counter(
    "meridian_refused_connections",
    "Connections that were refused, as there were too many.",
);
pub(super) const OPEN_CONNECTIONS: Metric =
    gauge("meridian_open_connections", "Connections that are open.");
pub(super) const STATE_WRITABLE: Metric = gauge(
    "meridian_state_folder_writable",
    "Whether a file could be written into the state folder when that was last tried.",
);
pub(super) const QUERY_LOG_LOST: Metric =
    counter("meridian_query_log_lost", "Records of the query log that nobody was there to take.");
pub(super) const READY: Metric = gauge("meridian_ready", "Whether /readyz says yes.");
pub(super) const ZONES: Metric = gauge("meridian_zones", "Zones that are served.");
pub(super) const BALANCERS: Metric =
    gauge("meridian_load_balancers", "Load balancers that are enabled.");
pub(super) const POOLS: Metric = gauge("meridian_pools", "Pools.");
pub(super) const ORIGINS: Metric = gauge("meridian_origins", "Origins.");
pub(super) const BUILD: Metric =
    Metric { name: "meridian_build", kind: Kind::Info, unit: None, help: "This program." };
pub(super) const STARTED_AT: Metric =
    seconds("process_start_time_seconds", "When the process began.");
