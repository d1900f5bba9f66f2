//! The middle of each country, for clients of whom no more than the country is known. Where the figures
//! are from stands in `centroids.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::locate::place::{Coordinates, Country};

/// The middle of a country; none for codes that are not a country's.
pub fn of(country: Country) -> Option<Coordinates> {
    CENTROIDS.get(&country).copied()
}

/// Every country with its middle, in the order of their codes.
pub fn all() -> impl Iterator<Item = (Country, Coordinates)> {
    CENTROIDS.iter().map(|(&country, &middle)| (country, middle))
}

static CENTROIDS: LazyLock<BTreeMap<Country, Coordinates>> = LazyLock::new(|| {
    let entry = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let country = Country::parse(fields.next()?)?;
        let latitude = fields.next()?.parse().ok()?;
        Some((country, Coordinates::from_degrees(latitude, fields.next()?.parse().ok()?)?))
    };
    include_str!("centroids.txt").lines().filter_map(entry).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate::codes::assigned_countries;

    #[test]
    fn every_assigned_country_has_a_middle() {
        let missing: Vec<_> =
            assigned_countries().filter(|&country| of(country).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(all().count(), assigned_countries().count());
        let lines = include_str!("centroids.txt").lines();
        assert_eq!(lines.filter(|line| !line.starts_with('#')).count(), all().count());
    }

    #[test]
    fn middles_are_where_the_countries_are() {
        for (code, degrees) in [("CD", [0.0, 25.0]), ("NL", [52.52, 5.77]), ("NZ", [-41.0, 174.0])]
        {
            let middle = of(Country::parse(code).unwrap()).unwrap();
            assert_eq!(middle.to_degrees(), degrees, "{code}");
        }
        assert_eq!(of(Country::parse("ZZ").unwrap()), None);
    }
}
