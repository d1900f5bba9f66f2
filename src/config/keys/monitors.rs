//! The keys of monitors.

use crate::config::keys::Form::{
    self, Boolean, Choice, Duration, Integer, List, Named, Table, Text,
};
use crate::config::keys::Preset::{Nothing, Required, Value, Words};
use crate::config::keys::{Section, key};

/// What a string is where any will do.
const ANY: Form = Text { what: "a text", example: "up" };
/// A name in a certificate or a Host header.
const HOST: Form =
    Text { what: "a host name or an address; a port may follow", example: "www.example.com" };
/// The types that speak HTTP.
const HTTP: &[&str] = &["http", "https"];

/// `[monitors.NAME]`.
pub(super) const MONITORS: Form =
    Named { what: "names of monitors", example: "m", each: &Table(&MONITOR) };

static MONITOR: Section = Section {
    id: "monitor",
    heading: "[monitors.NAME]",
    about: "What each type takes for up is in [configuration.md](configuration.md#monitors), what \
            follows from it in [health.md](health.md). A key of another type is an error.",
    keys: &[
        key(
            "type",
            Choice(&[
                "http", "https", "tcp", "tls", "icmp", "udp", "grpc", "dns", "exec", "file", "push",
            ]),
            Required,
            "what a probe does",
        ),
        key(
            "interval",
            Duration("1s", "1h"),
            Value(r#""10s""#),
            "time between two probes of one address",
        ),
        key(
            "timeout",
            Duration("1ms", "1h"),
            Words("the smaller of 3 s and 0.8 × `interval`"),
            "how long a probe may take: less than `interval`",
        ),
        key(
            "rise",
            Integer(1, 1000),
            Words("2; 1 for `file` and `push`"),
            "successes in a row before an address is up",
        ),
        key(
            "fall",
            Integer(1, 1000),
            Words("3; 1 for `file` and `push`"),
            "failures in a row before it is down",
        ),
        key("max_age", Duration("1s", "1d"), Words("5 × `interval`"), "when a result is stale"),
        key(
            "flap_threshold",
            Integer(1, 1000),
            Nothing,
            "more changes than this within `flap_window` are flapping",
        ),
        key(
            "flap_window",
            Duration("1s", "1d"),
            Words("`\"10m\"`"),
            "the time for `flap_threshold`, without which it is an error",
        ),
        key(
            "port",
            Integer(1, 65_535),
            Words("80 for `http`, 443 for `https` and `tls`, 53 for `dns`"),
            "the port that is probed",
        )
        .only("type", &["http", "https", "tcp", "tls", "udp", "grpc", "dns"])
        .and_required_for(&["tcp", "udp", "grpc"]),
        key(
            "path",
            Text {
                what: "for HTTP it begins with `/`, without spaces; for `file` it is a file",
                example: "/healthz",
            },
            Words("`\"/\"` for HTTP"),
            "what is asked for; of `file`, the file that is watched",
        )
        .only("type", &["http", "https", "file"])
        .and_required_for(&["file"]),
        key(
            "method",
            Text { what: "capital letters", example: "GET" },
            Words("`\"GET\"`"),
            "the method",
        )
        .only("type", HTTP),
        key("host", HOST, Words("the origin's host name or address"), "the header `Host`")
            .only("type", HTTP),
        key(
            "headers",
            Named { what: "names of headers", example: "X-Probe", each: &ANY },
            Nothing,
            "more headers, as `{ \"X-Probe\" = \"meridian\" }`",
        )
        .only("type", HTTP),
        key(
            "expected_codes",
            Text { what: "codes from 100 to 599: `\"2xx\"`, `\"200-204,301\"`", example: "2xx" },
            Words("`\"2xx\"`"),
            "the status codes that are good",
        )
        .only("type", HTTP),
        key("expected_body", ANY, Nothing, "a text that the body contains").only("type", HTTP),
        key("follow_redirects", Boolean, Words("false"), "whether redirects are followed")
            .only("type", HTTP),
        key("verify_tls", Boolean, Words("true"), "whether the certificate must be good")
            .only("type", &["https", "tls"]),
        key(
            "sni",
            HOST,
            Words("`host`"),
            "the name that is asked for and that the certificate must have",
        )
        .only("type", &["https", "tls"]),
        key(
            "payload",
            ANY,
            Nothing,
            "what is sent, as UTF-8; TOML's escapes (`\"\\u0000\"`) give any character",
        )
        .required_for("type", &["udp"]),
        key("expected_reply", ANY, Words("any reply"), "what the reply begins with")
            .only("type", &["udp"]),
        key("service", ANY, Words("the whole server"), "the service that is asked for")
            .only("type", &["grpc"]),
        key(
            "query_name",
            Text { what: "a domain name", example: "example.com" },
            Nothing,
            "the name that is asked for; it is absolute with or without the final dot",
        )
        .required_for("type", &["dns"]),
        key(
            "query_type",
            Text { what: "a record type", example: "A" },
            Words("`\"A\"`"),
            "the type that is asked for",
        )
        .only("type", &["dns"]),
        key(
            "command",
            List(&ANY),
            Nothing,
            "a program, which is found by `PATH`, and its arguments; needs `allow_exec = true`",
        )
        .required_for("type", &["exec"]),
        key(
            "ttl",
            Duration("1s", "1d"),
            Nothing,
            "how long a [pushed state](api.md#pushed-states) holds",
        )
        .required_for("type", &["push"]),
    ],
};
