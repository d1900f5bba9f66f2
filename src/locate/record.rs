//! What is used of a database's record: country, subdivision, continent, coordinates.
//!
//! Databases differ in form. GeoIP2 and GeoLite2 nest (`country.iso_code`, `location.latitude`);
//! others are flat (`country_code`, `latitude`). A field of another form than expected is as good as
//! absent: only damage is an error, and the decoder finds that.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::locate::codes::Continent;
use crate::locate::place::{Coordinates, Country, Subdivision};

/// What a database knows of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The country.
    pub country: Option<Country>,
    /// The largest subdivision of `country`.
    pub subdivision: Option<Subdivision>,
    /// The continent.
    pub continent: Option<Continent>,
    /// The coordinates.
    pub coordinates: Option<Coordinates>,
}

impl From<&Datum<'_>> for Record {
    fn from(datum: &Datum<'_>) -> Self {
        let nested = |outer, inner| datum.field(outer).and_then(|datum| datum.field(inner));
        // Where `country` is itself text it is a code in some databases and a name in others, which
        // then have the code beside it.
        let country = nested("country", "iso_code")
            .or_else(|| datum.field("country_code"))
            .or_else(|| datum.field("country"))
            .and_then(Datum::text)
            .and_then(Country::parse)
            // ZZ is how some say that they do not know.
            .filter(|country| Some(*country) != Country::parse("ZZ"));
        let subdivision = datum
            .field("subdivisions")
            .and_then(Datum::first)
            .and_then(|datum| datum.field("iso_code"))
            .or_else(|| datum.field("region_code"))
            .and_then(Datum::text)
            .and_then(|code| Subdivision::new(country?, code));
        let continent = nested("continent", "code")
            .or_else(|| datum.field("continent_code"))
            .or_else(|| datum.field("continent"))
            .and_then(Datum::text)
            .and_then(Continent::parse);
        let degrees = |name| {
            let field = nested("location", name).or_else(|| datum.field(name));
            field.and_then(Datum::number)
        };
        let coordinates = match (degrees("latitude"), degrees("longitude")) {
            (Some(latitude), Some(longitude)) => Coordinates::from_degrees(latitude, longitude),
            _ => None,
        };
        Self { country, subdivision, continent, coordinates }
    }
}

/// A value of a record, as far as it can matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Datum<'a> {
    /// Text.
    Text(&'a str),
    /// A number of any kind.
    Number(f64),
    /// Values by their names.
    Fields(Vec<(&'a str, Self)>),
    /// A list.
    List(Vec<Self>),
    /// Anything else.
    #[default]
    Other,
}

impl<'a> Datum<'a> {
    fn field(&self, name: &str) -> Option<&Self> {
        let Self::Fields(fields) = self else {
            return None;
        };
        let named = fields.iter().find(|(field, _)| *field == name);
        named.map(|(_, datum)| datum)
    }

    fn first(&self) -> Option<&Self> {
        match self {
            Self::List(list) => list.first(),
            _ => None,
        }
    }

    fn text(&self) -> Option<&'a str> {
        match *self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number, also one that is written as text.
    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// How many values it is made of, to measure the work of decoding it; long text counts more.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Fields(fields) => fields
                .iter()
                .map(|(name, datum)| 1 + name.len() / 64 + datum.size())
                .fold(1, usize::saturating_add),
            Self::List(list) => list.iter().map(Self::size).fold(1, usize::saturating_add),
            Self::Text(text) => 1 + text.len() / 64,
            Self::Number(_) | Self::Other => 1,
        }
    }
}

impl<'de> Deserialize<'de> for Datum<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Inside(0).deserialize(deserializer)
    }
}

/// How deep values may nest. Records nest four deep; the decoder would go so deep that a thread's
/// stack ends before.
const MAX_DEPTH: u8 = 16;

/// Reads a value that lies inside so many others.
struct Inside(u8);

impl Inside {
    /// For the values inside this one.
    fn deeper<E: Error>(&self) -> Result<Self, E> {
        if self.0 < MAX_DEPTH {
            Ok(Self(self.0 + 1))
        } else {
            Err(E::custom("the values of a record nest too deep"))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Inside {
    type Value = Datum<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Datum<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inside {
    type Value = Datum<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a record")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Datum<'de>, E> {
        Ok(Datum::Text(text))
    }

    fn visit_str<E>(self, _: &str) -> Result<Datum<'de>, E> {
        Ok(Datum::Other)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Datum<'de>, E> {
        Ok(Datum::Number(number))
    }

    fn visit_f32<E>(self, number: f32) -> Result<Datum<'de>, E> {
        Ok(Datum::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Datum<'de>, E> {
        Ok(u32::try_from(number).map_or(Datum::Other, |number| Datum::Number(number.into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Datum<'de>, E> {
        Ok(i32::try_from(number).map_or(Datum::Other, |number| Datum::Number(number.into())))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Datum<'de>, E> {
        Ok(Datum::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Datum<'de>, E> {
        Ok(Datum::Other)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Datum<'de>, E> {
        Ok(Datum::Other)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Datum<'de>, S::Error> {
        let mut data = Vec::new();
        while let Some(datum) = list.next_element_seed(self.deeper()?)? {
            data.push(datum);
        }
        Ok(Datum::List(data))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Datum<'de>, M::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key()? {
            fields.push((name, map.next_value_seed(self.deeper()?)?));
        }
        Ok(Datum::Fields(fields))
    }
}
