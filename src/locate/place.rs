//! Where a client is: the record that the location table yields and the steering decision reads.
//!
//! Names are interned while loading, so that the decision compares numbers. Region and availability
//! zone numbers are meaningful within one loaded state only.

use std::collections::HashMap;
use std::fmt;

/// A region of the region tree, by its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u16);

/// An availability zone (the configuration's `zone` of an origin or a subnet), by its index among
/// the names that the configuration mentions. Two regions may use one name: the decision compares
/// the region too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AvailabilityZoneId(pub u16);

/// An ISO 3166-1 alpha-2 code in upper case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

/// An ISO 3166-2 code: a country, and one to three letters or digits in upper case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subdivision {
    /// The country that it is a part of.
    pub country: Country,
    code: [u8; 3],
}

/// A point on the globe in millionths of a degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinates {
    /// -90,000,000 (south) to 90,000,000 (north).
    pub latitude_micros: i32,
    /// -180,000,000 (west) to 180,000,000 (east).
    pub longitude_micros: i32,
}

/// All that is known of where a client is. `Default` is a client without a location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The most specific region.
    pub region: Option<RegionId>,
    /// The availability zone within `region`.
    pub zone: Option<AvailabilityZoneId>,
    /// The country.
    pub country: Option<Country>,
    /// The subdivision of `country`.
    pub subdivision: Option<Subdivision>,
    /// The coordinates.
    pub coordinates: Option<Coordinates>,
}

impl Country {
    /// Reads two letters in any case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.as_bytes() {
            &[a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Some(Self([a.to_ascii_uppercase(), b.to_ascii_uppercase()]))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&octet| write!(f, "{}", char::from(octet)))
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Subdivision {
    /// Reads `US-CA`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let (country, code) = text.split_once('-')?;
        Self::new(Country::parse(country)?, code)
    }

    /// The subdivision with the code that follows the country's (`CA`), in any case.
    pub fn new(country: Country, code: &str) -> Option<Self> {
        let valid =
            (1..=3).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphanumeric());
        let mut padded = [0; 3];
        for (to, from) in padded.iter_mut().zip(code.bytes()) {
            *to = from.to_ascii_uppercase();
        }
        valid.then_some(Self { country, code: padded })
    }
}

impl fmt::Display for Subdivision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.country)?;
        let letters = self.code.iter().filter(|&&octet| octet != 0);
        letters.into_iter().try_for_each(|&octet| write!(f, "{}", char::from(octet)))
    }
}

impl fmt::Debug for Subdivision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Coordinates {
    /// Latitude and longitude in degrees; none if out of range or not a number.
    pub fn from_degrees(latitude: f64, longitude: f64) -> Option<Self> {
        let micros = |degrees: f64, limit: f64| {
            // In range by the comparison, so the conversion loses nothing but the seventh decimal.
            #[allow(clippy::cast_possible_truncation, reason = "checked against the limit")]
            (degrees.abs() <= limit).then(|| (degrees * 1e6).round() as i32)
        };
        Some(Self {
            latitude_micros: micros(latitude, 90.0)?,
            longitude_micros: micros(longitude, 180.0)?,
        })
    }

    /// Latitude and longitude in degrees.
    pub fn to_degrees(self) -> [f64; 2] {
        [f64::from(self.latitude_micros) / 1e6, f64::from(self.longitude_micros) / 1e6]
    }
}

/// The names of the availability zones, numbered in the order they were first mentioned.
#[derive(Clone, Debug, Default)]
pub struct AvailabilityZones {
    names: Vec<String>,
    by_name: HashMap<String, AvailabilityZoneId>,
}

impl AvailabilityZones {
    /// The number of a name, a new one if it is new. None after 65,535 names.
    pub fn intern(&mut self, name: &str) -> Option<AvailabilityZoneId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let id =
            AvailabilityZoneId(u16::try_from(self.names.len()).ok().filter(|&id| id < u16::MAX)?);
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    /// The number of a name, if it was mentioned.
    pub fn find(&self, name: &str) -> Option<AvailabilityZoneId> {
        self.by_name.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, id: AvailabilityZoneId) -> &str {
        self.names.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_in_any_case_and_written_in_upper_case() {
        assert_eq!(Country::parse("nl").unwrap().to_string(), "NL");
        assert_eq!(Subdivision::parse("us-ca").unwrap().to_string(), "US-CA");
        assert_eq!(Subdivision::parse("FR-75C").unwrap().to_string(), "FR-75C");
        for wrong in ["", "N", "NLD", "1L", "NL-ABCD", "NL-"] {
            assert!(Country::parse(wrong).is_none() && Subdivision::parse(wrong).is_none());
        }
    }

    #[test]
    fn coordinates_outside_the_globe_are_none() {
        let point = Coordinates::from_degrees(52.4, 4.9).unwrap();
        assert_eq!(point.to_degrees(), [52.4, 4.9]);
        assert!(Coordinates::from_degrees(90.1, 0.0).is_none());
        assert!(Coordinates::from_degrees(0.0, -180.1).is_none());
        assert!(Coordinates::from_degrees(f64::NAN, 0.0).is_none());
    }

    #[test]
    fn zones_are_numbered_once() {
        let mut zones = AvailabilityZones::default();
        let a = zones.intern("a").unwrap();
        assert_ne!(zones.intern("b"), Some(a));
        assert_eq!(zones.intern("a"), Some(a));
        assert_eq!(zones.name(a), "a");
    }
}
