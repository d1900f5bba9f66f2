//! The keys of zone files and of `shared.toml`.

use crate::config::keys::Form::{
    self, Boolean, Either, Integer, List, Named, OneOrMore, Table, Tables, Text, Ttl,
};
use crate::config::keys::Preset::{Nothing, Required, Value, Words};
use crate::config::keys::monitors::MONITORS;
use crate::config::keys::pools::{LOAD_BALANCER, POOLS};
use crate::config::keys::{Key, Section, key, path};

/// A name of the zone.
const NAME: Form = Text { what: "a domain name", example: "ns1" };
/// The monitors and pools of a file.
const MONITORS_KEY: Key = key("monitors", MONITORS, Nothing, "how origins are probed");
const POOLS_KEY: Key = key("pools", POOLS, Nothing, "sets of origins");

pub(super) static FILE: Section = Section {
    id: "zone_file",
    heading: "Zone files",
    about: "`zones/*.toml`: one file is one zone ([configuration.md](configuration.md#a-zone)).",
    keys: &[
        key(
            "zone",
            Text { what: "a domain name", example: "example.com" },
            Required,
            "the zone's name",
        ),
        key("ttl", Ttl, Value("300"), "the TTL of records that have none of their own"),
        key(
            "zonefile",
            path("a file", "example.com.zone"),
            Nothing,
            "a [master file](configuration.md#a-master-file) with records of the zone",
        ),
        key(
            "transfer",
            Table(&TRANSFER),
            Nothing,
            "who may have the zone, and who is told of new versions",
        ),
        key("soa", Table(&SOA), Nothing, "the start of authority"),
        key("records", Tables(&RECORD), Nothing, "static records"),
        MONITORS_KEY,
        POOLS_KEY,
        key(
            "load_balancers",
            Named {
                what: "names relative to the zone; `\"@\"` is the apex, `\"*\"` or `\"*.apps\"` a \
                       wildcard",
                example: "www",
                each: &Table(&LOAD_BALANCER),
            },
            Nothing,
            "steered names",
        ),
    ],
};

pub(super) static SHARED: Section = Section {
    id: "shared_file",
    heading: "shared.toml",
    about: "`zones/shared.toml`: [monitors](#monitorsname) and [pools](#poolsname) that every zone can \
            use. A zone's own pool or monitor of the same name is an error.",
    keys: &[MONITORS_KEY, POOLS_KEY],
};

static SOA: Section = Section {
    id: "soa",
    heading: "[soa]",
    about: "",
    keys: &[
        key("mname", NAME, Words("the first NS"), "the primary name server"),
        key(
            "rname",
            Text { what: "a domain name", example: "hostmaster" },
            Value(r#""hostmaster""#),
            "the mailbox of the person in charge, written as a name: without `@`",
        ),
        key("ttl", Ttl, Value("3600"), "the TTL of the SOA record"),
        key(
            "serial",
            Integer(0, 4_294_967_295),
            Words("derived"),
            "if you leave it out, see [operating.md](operating.md#serials)",
        ),
        key("refresh", Ttl, Value("7200"), "how often secondaries look for changes"),
        key("retry", Ttl, Value("900"), "how soon they try again"),
        key(
            "expire",
            Ttl,
            Value("1209600"),
            "how long they answer without having seen the primary",
        ),
        key(
            "minimum",
            Ttl,
            Value("60"),
            "how long a negative answer is kept. Negative answers have the TTL min(`ttl`, `minimum`)",
        ),
    ],
};

static TRANSFER: Section = Section {
    id: "transfer",
    heading: "transfer",
    about: "Who may have the zone as a whole, and who is told that there is a new version: \
            [transfers.md](transfers.md). Without it nobody may, and nobody is told. With both `allow` and \
            `keys` a query must meet both; with neither nobody may have the zone.",
    keys: &[
        key(
            "allow",
            OneOrMore(&Text { what: "addresses or networks", example: "192.0.2.0/24" }),
            Words("any, if there are `keys`"),
            "the query must come from one of them",
        ),
        key(
            "keys",
            OneOrMore(&Text { what: "names of `[tsig_keys]`", example: "secondary" }),
            Words("none asked for, if there is `allow`"),
            "the query must be signed with one of them",
        ),
        key(
            "notify",
            OneOrMore(&Either(&[
                Text {
                    what: "`\"192.0.2.53\"` (port 53), `\"192.0.2.53:5353\"`, `\"[2001:db8::53]:53\"`",
                    example: "192.0.2.53",
                },
                Table(&SECONDARY),
            ])),
            Nothing,
            "who is told of a new serial. A table `{ address = \"192.0.2.53\", key = \"NAME\" }` has its \
             messages signed",
        ),
    ],
};

static SECONDARY: Section = Section {
    id: "secondary",
    heading: "",
    about: "",
    keys: &[
        key(
            "address",
            Text { what: "an address, with or without a port", example: "192.0.2.53" },
            Required,
            "where it listens",
        ),
        key(
            "key",
            Text { what: "a name of `[tsig_keys]`", example: "secondary" },
            Nothing,
            "signs the messages to it",
        ),
    ],
};

static RECORD: Section = Section {
    id: "record",
    heading: "[[records]]",
    about: "See [configuration.md](configuration.md#records).",
    keys: &[
        key(
            "name",
            NAME,
            Required,
            "the owner: `@`, a relative name, or an absolute one in the zone. `*` as the first label \
             is a wildcard",
        ),
        key(
            "type",
            Text { what: "a mnemonic such as `A`, or `TYPE65400`", example: "A" },
            Required,
            "the record type",
        ),
        key("ttl", Ttl, Words("the zone's `ttl`"), "the TTL"),
        key(
            "data",
            List(&Text { what: "strings in master-file form", example: "192.0.2.1" }),
            Required,
            "one string a record",
        ),
        key(
            "steered_hints",
            Boolean,
            Value("false"),
            "only in HTTPS and SVCB records: give the load balancer's addresses as \
             [hints](configuration.md#hints)",
        ),
    ],
};
