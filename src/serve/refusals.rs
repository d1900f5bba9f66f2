//! Tells in the log which zone transfers were refused, and why. Anybody may ask for a zone, so each reason is
//! told once in a while. What comes in a datagram is not told: its sender may be another than it says.

use std::array::from_fn;
use std::net::IpAddr;
use std::time::Instant;

use tracing::info;

use crate::name::Name;
use crate::query::Question;
use crate::serve::seldom::Seldom;
use crate::transfer::Refusal;
use crate::tsig::stamp::Stamp;

/// When each reason was told.
#[derive(Debug)]
pub struct Refusals {
    told: [Seldom; Refusal::ALL.len()],
}

impl Default for Refusals {
    fn default() -> Self {
        Self { told: from_fn(|_| Seldom::default()) }
    }
}

impl Refusals {
    /// Tells of a transfer that a client was refused, with the key that it named, if it was not told of
    /// another for the same reason before.
    pub fn tell(
        &self,
        client: IpAddr,
        question: &Question<'_>,
        stamp: Option<&Stamp>,
        refusal: Refusal,
    ) {
        let due = self.told.iter().zip(Refusal::ALL).find(|(_, of)| *of == refusal);
        let Some(refused) = due.and_then(|(told, _)| told.due(Instant::now())) else { return };
        let text = |wire| Name::from_wire(wire).map(|name| name.to_string()).unwrap_or_default();
        let client = client.to_canonical();
        let (zone, key) = (text(&question.key), stamp.map(|stamp| text(stamp.key_name())));
        let (key, reason) = (key.unwrap_or_default(), refusal.to_string());
        info!(%client, zone, key, reason, refused, "a zone transfer was refused");
    }
}
