//! What is logged: a level, or pairs of a target and a level, with commas between them.

use std::str::FromStr as _;

use tracing_subscriber::filter::{LevelFilter, Targets};

/// What a filter looks like.
pub const HELP: &str = "give a level (off, error, warn, info, debug, trace) or target=level pairs with commas \
                        between them, as \"info\" or \"warn,meridian::probe=debug\"";

/// Reads a filter; none of what is not one. `tracing` would take any words for the name of a target.
pub fn parse(text: &str) -> Option<Targets> {
    let is_level = |text: &str| LevelFilter::from_str(text).is_ok();
    let is_name = |text: &str| {
        let may_be = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
        !text.is_empty() && text.chars().all(may_be)
    };
    let is_part = |part: &str| match part.split_once('=') {
        Some((target, level)) => is_name(target) && is_level(level),
        None => is_level(part),
    };
    text.split(',').all(is_part).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_pairs_are_filters() {
        for text in ["info", "OFF", "warn,meridian::serve=debug", "meridian=trace,hickory_net=off"]
        {
            assert!(parse(text).is_some(), "{text}");
        }
        for text in
            ["not a filter", "inof", "meridian", "meridian=loud", "=info", "a b=info", "info;warn"]
        {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
