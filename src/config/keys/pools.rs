//! The keys of pools, origins and load balancers.

use crate::config::keys::Form::{
    self, Boolean, Choice, Coordinates, Duration, Either, Integer, List, Named, OneOrMore, Ratio,
    Table, Tables, Text, Ttl,
};
use crate::config::keys::Preset::{Nothing, Required, Value, Words};
use crate::config::keys::{Section, key};
use crate::steer::load_balancer::MAX_ANSWERS;
use crate::steer::pool::MAX_ORIGINS;

/// The name of a pool.
const POOL_NAME: Form = Text { what: "a pool", example: "p" };
/// Pools in order of preference.
const POOL_LIST: Form = List(&POOL_NAME);
/// What several keys of load balancers depend on.
const STEERING: &str = "steering";

/// `[pools.NAME]`.
pub(super) const POOLS: Form = Named { what: "names of pools", example: "p", each: &Table(&POOL) };

static POOL: Section = Section {
    id: "pool",
    heading: "[pools.NAME]",
    about: "",
    keys: &[
        key(
            "enabled",
            Boolean,
            Value("true"),
            "a disabled pool is never answered, not even as the fallback pool",
        ),
        key(
            "region",
            Text { what: "a [region](location.md#regions)", example: "weu" },
            Nothing,
            "where the pool is; none is \"the world\"",
        ),
        key(
            "location",
            Coordinates,
            Nothing,
            "where it is on the globe, for [`\"proximity\"`](steering.md#3-candidates)",
        ),
        key(
            "monitor",
            Text { what: "a monitor", example: "m" },
            Nothing,
            "how its origins are probed; without one they count as healthy",
        ),
        key(
            "minimum_origins",
            Integer(0, MAX_ORIGINS as u64),
            Value("1"),
            "how many enabled origins must be healthy for the pool to be; at most as many as it has",
        ),
        key(
            "zonal_affinity",
            Table(&ZONAL_AFFINITY),
            Nothing,
            "whether clients stay in their zone",
        ),
        key("failover_policy", Table(&FAILOVER_POLICY), Nothing, "when failover origins answer"),
        key("origins", Tables(&ORIGIN), Required, "the members, 1 to 1024"),
    ],
};

static ZONAL_AFFINITY: Section = Section {
    id: "zonal_affinity",
    heading: "",
    about: "",
    keys: &[
        key(
            "mode",
            Choice(&["disabled", "stay_within_zone", "spill_cross_zone"]),
            Required,
            "whether a client meets origins of its own zone \
             ([steering.md](steering.md#6-zonal-affinity)). Without the table it does not",
        ),
        key(
            "spillover_ratio",
            Ratio,
            Value("0"),
            "the share of a zone's origins below which its clients meet others too",
        )
        .only("mode", &["spill_cross_zone"]),
    ],
};

static FAILOVER_POLICY: Section = Section {
    id: "failover_policy",
    heading: "",
    about: "",
    keys: &[
        key(
            "failover_ratio",
            Ratio,
            Value("0"),
            "fail over when less than this share of the primaries is healthy",
        ),
        key(
            "drop_traffic_if_unhealthy",
            Boolean,
            Value("false"),
            "answer nothing, instead of everything, when nothing is healthy",
        ),
    ],
};

static ORIGIN: Section = Section {
    id: "origin",
    heading: "[[pools.NAME.origins]]",
    about: "See [configuration.md](configuration.md#origins).",
    keys: &[
        key("name", Text { what: "a name", example: "o" }, Required, "its own within the pool"),
        key(
            "address",
            OneOrMore(&Text { what: "an IP address, or one host name", example: "192.0.2.10" }),
            Required,
            "without a port. An answer carries all addresses of the family that is asked for. \
             Unspecified, multicast and broadcast addresses are errors",
        ),
        key(
            "zone",
            Text { what: "a name", example: "weu-a" },
            Nothing,
            "the availability zone that it stands in; no relation to DNS zones",
        ),
        key(
            "weight",
            Ratio,
            Value("1"),
            "its share, relative to the others; 0 takes no new clients",
        ),
        key(
            "role",
            Choice(&["primary", "failover"]),
            Value(r#""primary""#),
            "a failover answers only when too few primaries are healthy",
        ),
        key("enabled", Boolean, Value("true"), "a disabled origin is as if it were not there"),
    ],
};

pub(super) static LOAD_BALANCER: Section = Section {
    id: "load_balancer",
    heading: "[load_balancers.\"NAME\"]",
    about: "A steered name ([configuration.md](configuration.md#load-balancers)).",
    keys: &[
        key(
            "enabled",
            Boolean,
            Value("true"),
            "a disabled load balancer is as if it were not there",
        ),
        key("pools", POOL_LIST, Required, "in order of preference, none twice"),
        key(
            "fallback_pool",
            POOL_NAME,
            Words("the last of `pools`"),
            "answered, whatever its health, when no candidate is available",
        ),
        key(
            STEERING,
            Choice(&["failover", "geo", "rtt", "proximity", "random"]),
            Value(r#""failover""#),
            "the [policy](steering.md#3-candidates)",
        ),
        key(
            "client",
            Choice(&["ecs", "resolver"]),
            Value(r#""ecs""#),
            "whose address steers: the client subnet of the query, or the resolver's",
        ),
        key("ttl", Ttl, Value("30"), "the TTL of the records"),
        key(
            "answers",
            Either(&[Integer(1, MAX_ANSWERS as u64), Choice(&["all"])]),
            Value("1"),
            "how many origins one answer carries; a CNAME is always one",
        ),
        key(
            "flatten",
            Boolean,
            Value("false"),
            "answer the addresses of [host names](steering.md#host-names) instead of a CNAME. `check` \
             warns where there are none",
        ),
        key(
            "pop_pools",
            Named { what: "pops", example: "ams", each: &POOL_LIST },
            Nothing,
            "the pools of clients of a node",
        )
        .only(STEERING, &["geo"]),
        key(
            "country_pools",
            Named { what: "ISO 3166 codes: `GB`, `\"US-CA\"`", example: "GB", each: &POOL_LIST },
            Nothing,
            "the pools of clients in a country",
        )
        .only(STEERING, &["geo"]),
        key(
            "region_pools",
            Named { what: "regions", example: "weu", each: &POOL_LIST },
            Nothing,
            "the pools of clients in a region",
        )
        .only(STEERING, &["geo"]),
        key(
            "rtt_tolerance",
            List(&Text { what: "a duration, a percentage, or both", example: "5ms" }),
            Words("`[\"5ms\", \"10%\"]`"),
            "by how much a pool may be slower than the fastest; what you leave out is 0. A percentage \
             has at most four decimals",
        )
        .only(STEERING, &["rtt"]),
        key(
            "pool_weights",
            Named { what: "`pools`", example: "p", each: &Ratio },
            Words("1 each"),
            "the share of each pool: `{ eu = 0.7, us = 0.3 }`",
        )
        .only(STEERING, &["random"]),
        key(
            "session_affinity",
            Table(&SESSION_AFFINITY),
            Nothing,
            "clients keep their origin ([steering.md](steering.md#session-affinity))",
        ),
    ],
};

static SESSION_AFFINITY: Section = Section {
    id: "session_affinity",
    heading: "",
    about: "",
    keys: &[
        key("ttl", Duration("1m", "1d"), Required, "how long a session lives after its last query"),
        key(
            "ipv4_prefix",
            Integer(1, 32),
            Value("24"),
            "how many bits of an IPv4 address are the client subnet",
        ),
        key("ipv6_prefix", Integer(1, 128), Value("56"), "the same of an IPv6 address"),
        key(
            "failback",
            Choice(&["keep", "move"]),
            Value(r#""keep""#),
            "whether a session is placed anew when another pool than its own is chosen",
        ),
    ],
};
