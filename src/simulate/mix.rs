//! A mix of clients that is made up: shares by region, availability zone or country.

use crate::config::decimal::{Decimal, DecimalError};
use crate::locate::codes::Area;
use crate::locate::place::Place;
use crate::simulate::quoted::Quoted;
use crate::state::State;
use crate::steer::choose::Chooser;

/// How many queries of a mix every load balancer is asked.
pub const MIX_QUERIES: u32 = 10_000;

/// Clients by where they are, with their shares.
#[derive(Clone, Debug)]
pub struct Mix {
    entries: Vec<(String, u32)>,
}

/// What is wrong with a mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// No entry at all, or only shares of 0.
    #[error("the mix has no share above 0: give it as weu=0.6,nam=0.4")]
    Empty,
    /// Not `NAME=SHARE`.
    #[error("{0} is not a region and its share, as weu=0.6")]
    Form(Quoted),
    /// The share is none.
    #[error("the share of {0}: {1}; give a number from 0 to 1 with at most 6 decimals")]
    Share(Quoted, DecimalError),
    /// One stands twice.
    #[error("{0} is in the mix twice")]
    Twice(Quoted),
    /// Nothing has the name.
    #[error(
        "there is no region {name}{}; give a region, a region/zone, or a country as \"NL\"",
        .nearest.as_ref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
    )]
    Unknown {
        /// The name.
        name: Quoted,
        /// A region that is near.
        nearest: Option<String>,
    },
    /// Nothing has the zone's name.
    #[error("{0}: no origin and no subnet is in the zone {1}")]
    Zone(Quoted, Quoted),
}

impl Mix {
    /// Reads `weu=0.6,nam=0.4`, or the same on lines of their own, where `#` begins a comment. The
    /// shares are relative: they need not sum to 1.
    ///
    /// # Errors
    /// [`MixError`]
    pub fn parse(text: &str) -> Result<Self, MixError> {
        let without_comments = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let mut entries: Vec<(String, u32)> = Vec::new();
        for entry in without_comments.flat_map(|line| line.split(',')).map(str::trim) {
            if entry.is_empty() {
                continue;
            }
            let (name, share) =
                entry.split_once('=').ok_or_else(|| MixError::Form(Quoted::new(entry)))?;
            let name = name.trim().to_owned();
            let share = Decimal::parse(share.trim())
                .map_err(|error| MixError::Share(Quoted::new(&name), error))?;
            if entries.iter().any(|(other, _)| *other == name) {
                return Err(MixError::Twice(Quoted::new(&name)));
            }
            entries.push((name, share.micros()));
        }
        entries.retain(|&(_, share)| share > 0);
        if entries.is_empty() { Err(MixError::Empty) } else { Ok(Self { entries }) }
    }

    /// The places of the entries in a configuration.
    ///
    /// # Errors
    /// [`MixError`] if it does not know one.
    pub fn places(&self, state: &State) -> Result<Vec<Place>, MixError> {
        self.entries.iter().map(|(name, _)| place(name, state)).collect()
    }

    /// The entry of each of the mix's queries, in their order.
    pub fn turns(&self) -> impl Iterator<Item = usize> {
        let shares: Vec<u32> = self.entries.iter().map(|&(_, share)| share).collect();
        let chooser = Chooser::new(&shares);
        (0..MIX_QUERIES).filter_map(move |turn| chooser.choose(turn).map(usize::from))
    }
}

fn place(name: &str, state: &State) -> Result<Place, MixError> {
    let regions = state.locator.regions();
    let (region_name, zone_name) =
        name.split_once('/').map_or((name, None), |(region, zone)| (region, Some(zone)));
    if let Some(region) = regions.find(region_name) {
        let zone = match zone_name {
            Some(zone) => {
                let found = state.availability_zones.find(zone);
                let error = || MixError::Zone(Quoted::new(name), Quoted::new(zone));
                Some(found.ok_or_else(error)?)
            }
            None => None,
        };
        return Ok(Place { region: Some(region), zone, ..Place::default() });
    }
    match (Area::parse(name), zone_name) {
        (Ok(area), None) => {
            let (country, subdivision) = (Some(area.country()), area.subdivision());
            let region = regions.region_of(country, subdivision, None);
            Ok(Place { region, country, subdivision, ..Place::default() })
        }
        _ => Err(MixError::Unknown {
            name: Quoted::new(name),
            nearest: regions.nearest(region_name).map(str::to_owned),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_kept() {
        let mix = Mix::parse("weu=0.6, nam = 0.4\n# nobody\nsas=0 # none yet\n").unwrap();
        assert_eq!(mix.entries, [("weu".to_owned(), 600_000), ("nam".to_owned(), 400_000)]);
        let turns: Vec<usize> = mix.turns().collect();
        assert_eq!(turns.len(), MIX_QUERIES as usize);
        assert_eq!(turns.iter().filter(|&&turn| turn == 0).count(), 6_000);
    }

    #[test]
    fn mistakes_are_told() {
        for (text, error) in [
            ("", MixError::Empty),
            ("weu=0", MixError::Empty),
            ("weu", MixError::Form(Quoted::new("weu"))),
            ("weu=60", MixError::Share(Quoted::new("weu"), DecimalError::Above)),
            ("weu=0.1,weu=0.2", MixError::Twice(Quoted::new("weu"))),
        ] {
            assert_eq!(Mix::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
