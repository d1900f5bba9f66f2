//! The keys of the files in `geo/`.

use crate::config::keys::Form::{self, Choice, Coordinates, List, Named, Number, Table, Text};
use crate::config::keys::Preset::Nothing;
use crate::config::keys::{Section, key};

/// The name of a region.
const REGION_NAME: Form = Text { what: "a region", example: "weu" };
/// A part of the world.
const AREA: Form = Text { what: "an ISO 3166 code, as `NL` or `US-CA`", example: "NL" };

pub(super) static REGIONS: Section = Section {
    id: "regions_file",
    heading: "regions.toml",
    about: "`geo/regions.toml` replaces the regions that ship ([location.md](location.md#regions)).",
    keys: &[key(
        "regions",
        Named { what: "names of regions", example: "weu", each: &Table(&REGION) },
        Nothing,
        "the region tree",
    )],
};

static REGION: Section = Section {
    id: "region",
    heading: "[regions.NAME]",
    about: "Subdivision beats country beats continent. A code in two regions is an error.",
    keys: &[
        key("parent", REGION_NAME, Nothing, "the region that it lies in"),
        key("countries", List(&AREA), Nothing, "countries and subdivisions"),
        key(
            "continents",
            List(&Choice(&["AF", "AN", "AS", "EU", "NA", "OC", "SA"])),
            Nothing,
            "whole continents",
        ),
    ],
};

pub(super) static SUBNETS: Section = Section {
    id: "subnets_file",
    heading: "subnets.toml",
    about: "`geo/subnets.toml` says what you know of subnets ([location.md](location.md#subnetstoml)).",
    keys: &[key(
        "subnets",
        Named {
            what: "networks, as `\"10.1.0.0/16\"`",
            example: "10.1.0.0/16",
            each: &Table(&SUBNET),
        },
        Nothing,
        "the longest prefix wins",
    )],
};

static SUBNET: Section = Section {
    id: "subnet",
    heading: "[subnets.\"NETWORK\"]",
    about: "",
    keys: &[
        key("region", REGION_NAME, Nothing, "where its clients are"),
        key(
            "zone",
            Text { what: "a name", example: "weu-a" },
            Nothing,
            "their availability zone; needs `region`",
        ),
        key("country", AREA, Nothing, "their country"),
        key("location", Coordinates, Nothing, "where they are on the globe"),
    ],
};

pub(super) static RTT: Section = Section {
    id: "rtt_file",
    heading: "rtt.toml",
    about: "`geo/rtt.toml` has round-trip times that you give \
            ([steering.md](steering.md#round-trip-times)).",
    keys: &[key(
        "rtt",
        Named {
            what: "regions, or pops as `\"pop:ams\"`",
            example: "weu",
            each: &Named { what: "pools", example: "p", each: &Number(0, 60_000) },
        },
        Nothing,
        "milliseconds with at most six decimals, by pool",
    )],
};
