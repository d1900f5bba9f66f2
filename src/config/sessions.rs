//! `session_affinity` of a load balancer, and the table `[sessions]` of the server (steering.md,
//! "Session affinity").

use std::time::Duration;

use crate::config::reader::{Table, Value};
use crate::rr::Ttl;
use crate::steer::session::{Failback, SessionSettings};

/// How much of an IPv4 address is the client subnet by default.
pub const DEFAULT_IPV4_PREFIX: u8 = 24;
/// The same of an IPv6 address.
pub const DEFAULT_IPV6_PREFIX: u8 = 56;
/// How many sessions are kept by default.
pub const DEFAULT_MAX_SESSIONS: usize = 1_000_000;
/// The most sessions that can be asked for: 1.6 GB.
pub const MAX_SESSIONS: u64 = 100_000_000;

/// `{ ttl = "30m", ipv4_prefix = 24, ipv6_prefix = 56, failback = "keep" }`, of a load balancer whose
/// records have this TTL.
pub fn session_affinity(value: &Value<'_, '_>, of_records: Ttl) -> Option<SessionSettings> {
    let table = value.table("{ ttl = \"30m\" }")?;
    let ttl =
        table.required("ttl", "say how long a session lives after its last query, as \"30m\"");
    let range = Duration::from_secs(60)..=Duration::from_secs(86_400);
    let ttl = ttl.and_then(|value| Some((value.duration(range)?, value)));
    if let Some((ttl, value)) = &ttl
        && ttl.as_secs() <= u64::from(of_records.seconds())
    {
        value.warning(
            format!(
                "a resolver may ask again after the records' {} s only: sessions are over then",
                of_records.seconds()
            ),
            "give a longer ttl here, or the records a shorter one",
        );
    }
    let prefix = |key, longest| {
        let length = table.optional(key)?.integer(1..=longest, "a prefix length")?;
        u8::try_from(length).ok()
    };
    let ipv4_prefix = prefix("ipv4_prefix", 32).unwrap_or(DEFAULT_IPV4_PREFIX);
    let ipv6_prefix = prefix("ipv6_prefix", 128).unwrap_or(DEFAULT_IPV6_PREFIX);
    let words = [("keep", Failback::Keep), ("move", Failback::Move)];
    let failback = table.optional("failback").and_then(|value| value.choice(&words));
    table.finish();
    Some(SessionSettings {
        ttl: u32::try_from(ttl?.0.as_secs()).ok()?,
        ipv4_prefix,
        ipv6_prefix,
        failback: failback.unwrap_or_default(),
    })
}

/// `max_sessions` of `[sessions]`.
pub fn max_sessions(table: &Table<'_, '_>) -> usize {
    let value = table.optional("max_sessions");
    let number = value.and_then(|value| value.integer(1..=MAX_SESSIONS, "a number of sessions"));
    table.finish();
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(DEFAULT_MAX_SESSIONS)
}
