//! Properties of the pure core over random configurations, health and clients: the decision against
//! an independent model of the specification, the choice, the scope of answers, and the octets of
//! replies. `world` makes configurations, `model` says what should come of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

use proptest::prelude::ProptestConfig;

mod message;
mod model;
mod strict;
mod world;

mod choice;
mod decision;
mod defaults;
mod hostnames;
mod proximity;
mod random;
mod replies;
mod scope;
mod sessions;
mod simulate;

/// How many random cases a property is tried with: so many times `MERIDIAN_PROPERTY_FACTOR`, which
/// is 1 where it is not set.
fn cases(number: u32) -> ProptestConfig {
    let factor = std::env::var("MERIDIAN_PROPERTY_FACTOR").ok().and_then(|text| text.parse().ok());
    ProptestConfig::with_cases(number * factor.unwrap_or(1))
}
