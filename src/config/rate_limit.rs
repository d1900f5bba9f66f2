//! `[rate_limit]`: how often a network gets the same answer over UDP.

use crate::config::reader::Table;
use crate::limit::RateLimit;

/// Reads the table.
pub(super) fn parse_rate_limit(table: &Table<'_, '_>) -> RateLimit {
    let default = RateLimit::default();
    let number = |key, range, wanted: &str| {
        let value = table.optional(key).and_then(|value| value.integer(range, wanted));
        value.and_then(|number| u32::try_from(number).ok())
    };
    let prefix = |key, longest, default| {
        let bits = number(key, 8..=longest, "a number of bits");
        bits.and_then(|bits| u8::try_from(bits).ok()).unwrap_or(default)
    };
    let enabled = table.optional("enabled").and_then(|value| value.boolean());
    let settings = RateLimit {
        enabled: enabled.unwrap_or(default.enabled),
        responses_per_second: number("responses_per_second", 1..=1_000_000, "a number of answers")
            .unwrap_or(default.responses_per_second),
        slip: number("slip", 0..=10, "a number of answers").unwrap_or(default.slip),
        ipv4_prefix: prefix("ipv4_prefix", 32, default.ipv4_prefix),
        ipv6_prefix: prefix("ipv6_prefix", 128, default.ipv6_prefix),
    };
    table.finish();
    settings
}
