//! ISO 3166 codes as the configuration writes them, and the continents of countries.
//!
//! The list of assigned codes is here so that `UK` is a mistake with a remedy and not a country
//! that no client is ever in.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use crate::config::reader::Value;
use crate::locate::place::{Country, Subdivision};

/// A continent, as location databases divide the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Continent {
    /// AF
    Africa,
    /// AN
    Antarctica,
    /// AS
    Asia,
    /// EU
    Europe,
    /// NA, with Central America and the Caribbean
    NorthAmerica,
    /// OC
    Oceania,
    /// SA
    SouthAmerica,
}

/// What a code in the configuration means: a country, or a subdivision of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// An ISO 3166-1 code (`NL`).
    Country(Country),
    /// An ISO 3166-2 code (`US-CA`).
    Subdivision(Subdivision),
}

/// Why a text is no area.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AreaError {
    /// Neither two letters nor two letters, a hyphen and one to three letters or digits.
    #[error("{0:?} is not an ISO 3166 code")]
    Form(String),
    /// Two letters that are not a country's.
    #[error("{0} is not an assigned ISO 3166-1 code")]
    Unassigned(Country),
}

impl Continent {
    /// All of them with their codes.
    pub const ALL: [(&'static str, Self); 7] = [
        ("AF", Self::Africa),
        ("AN", Self::Antarctica),
        ("AS", Self::Asia),
        ("EU", Self::Europe),
        ("NA", Self::NorthAmerica),
        ("OC", Self::Oceania),
        ("SA", Self::SouthAmerica),
    ];

    /// Reads a code in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let same = |&&(code, _): &&(&str, Self)| code.eq_ignore_ascii_case(text);
        Self::ALL.iter().find(same).map(|&(_, continent)| continent)
    }

    /// The continent that a country is counted to where the database does not say.
    pub fn of(country: Country) -> Option<Self> {
        ASSIGNED.get(&country).copied()
    }
}

impl fmt::Display for Continent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = Self::ALL.iter().find(|(_, continent)| continent == self);
        f.write_str(code.map_or("", |&(code, _)| code))
    }
}

impl Area {
    /// Reads `NL` or `US-CA` in any case. The country must be assigned or user-assigned (`XK`).
    ///
    /// # Errors
    /// [`AreaError`] if it is neither.
    pub fn parse(text: &str) -> Result<Self, AreaError> {
        let area = match (Country::parse(text), Subdivision::parse(text)) {
            (Some(country), _) => Self::Country(country),
            (None, Some(subdivision)) => Self::Subdivision(subdivision),
            (None, None) => return Err(AreaError::Form(text.to_owned())),
        };
        if is_known(area.country()) { Ok(area) } else { Err(AreaError::Unassigned(area.country())) }
    }

    /// Reads a configuration value, and reports what is wrong with it.
    pub fn read(value: &Value<'_, '_>) -> Option<Self> {
        let text = value.string("an ISO 3166 code, as \"NL\" or \"US-CA\"")?;
        match Self::parse(text) {
            Ok(area) => Some(area),
            Err(error) => {
                value.error(error.to_string(), error.help());
                None
            }
        }
    }

    /// The country, or the one that the subdivision is a part of.
    pub fn country(self) -> Country {
        match self {
            Self::Country(country) => country,
            Self::Subdivision(subdivision) => subdivision.country,
        }
    }

    /// The subdivision, if it is one.
    pub fn subdivision(self) -> Option<Subdivision> {
        match self {
            Self::Country(_) => None,
            Self::Subdivision(subdivision) => Some(subdivision),
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Country(country) => country.fmt(f),
            Self::Subdivision(subdivision) => subdivision.fmt(f),
        }
    }
}

impl AreaError {
    /// What would be right.
    pub fn help(&self) -> String {
        let Self::Unassigned(country) = self else {
            return "give two letters, as \"NL\", or a subdivision, as \"US-CA\"".to_owned();
        };
        let country = country.to_string();
        let usual = MISTAKEN.iter().find(|(wrong, _)| *wrong == country);
        match (usual, Continent::parse(&country)) {
            (Some((_, right)), _) => format!("the code is {right}"),
            (None, Some(_)) => {
                format!("{country} is a continent: in regions.toml, list it in `continents`")
            }
            (None, None) => "give the country's two-letter code, as \"NL\"".to_owned(),
        }
    }
}

/// True for assigned codes, and for those that ISO 3166-1 leaves to its users (AA, QM to QZ, XA to
/// XZ, ZZ).
fn is_known(country: Country) -> bool {
    let text = country.to_string();
    let user_assigned =
        text == "AA" || text == "ZZ" || text.starts_with('X') || ("QM"..="QZ").contains(&&*text);
    user_assigned || ASSIGNED.contains_key(&country)
}

/// Every assigned country (and XK) with its continent.
static ASSIGNED: LazyLock<HashMap<Country, Continent>> = LazyLock::new(|| {
    let codes = |&(continent, codes): &(Continent, &'static str)| {
        let countries = codes.split_ascii_whitespace().filter_map(Country::parse);
        countries.map(move |country| (country, continent))
    };
    COUNTRIES.iter().flat_map(codes).collect()
});

/// Codes that are often written and are not assigned.
const MISTAKEN: [(&str, &str); 5] =
    [("UK", "GB"), ("EL", "GR"), ("EN", "GB"), ("AN", "BQ, CW or SX"), ("TP", "TL")];

const COUNTRIES: [(Continent, &str); 7] = [
    (
        Continent::Africa,
        "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY \
         MA MG ML MR MU MW MZ NA NE NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA \
         ZM ZW",
    ),
    (Continent::Antarctica, "AQ BV GS HM TF"),
    (
        Continent::Asia,
        "AE AF AM AZ BD BH BN BT CC CN CX GE HK ID IL IN IO IQ IR JO JP KG KH KP KR KW KZ LA \
         LB LK MM MN MO MV MY NP OM PH PK PS QA SA SG SY TH TJ TL TM TR TW UZ VN YE",
    ),
    (
        Continent::Europe,
        "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT \
         JE LI LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK",
    ),
    (
        Continent::NorthAmerica,
        "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS \
         MX NI PA PM PR SV SX TC TT US VC VG VI",
    ),
    (
        Continent::Oceania,
        "AS AU CK FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS",
    ),
    (Continent::SouthAmerica, "AR BO BR CL CO EC FK GF GY PE PY SR UY VE"),
];

#[cfg(test)]
pub(super) fn assigned_countries() -> impl Iterator<Item = Country> {
    let codes = COUNTRIES.iter().map(|&(_, codes)| codes);
    codes.flat_map(str::split_ascii_whitespace).filter_map(Country::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_countries_have_one_continent() {
        assert_eq!(assigned_countries().count(), 250);
        assert_eq!(ASSIGNED.len(), 250);
        let continent = |code| Continent::of(Country::parse(code).unwrap());
        assert_eq!(continent("NL"), Some(Continent::Europe));
        assert_eq!(continent("MX"), Some(Continent::NorthAmerica));
        assert_eq!(continent("ZZ"), None);
    }

    #[test]
    fn continents_are_read_and_written() {
        for (code, continent) in Continent::ALL {
            assert_eq!(Continent::parse(&code.to_lowercase()), Some(continent));
            assert_eq!(continent.to_string(), code);
        }
        assert_eq!(Continent::parse("XX"), None);
    }

    #[test]
    fn usual_mistakes_have_a_remedy() {
        for (code, help) in [
            ("UK", "the code is GB"),
            ("EU", "EU is a continent: in regions.toml, list it in `continents`"),
            ("UK-LND", "the code is GB"),
            ("AP", "give the country's two-letter code, as \"NL\""),
            ("Netherlands", "give two letters, as \"NL\", or a subdivision, as \"US-CA\""),
        ] {
            assert_eq!(Area::parse(code).unwrap_err().help(), help, "{code}");
        }
        for code in ["nl", "US-CA", "XK", "ZZ", "QM"] {
            assert_eq!(Area::parse(code).unwrap().to_string(), code.to_uppercase());
        }
    }
}
