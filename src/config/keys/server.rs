//! The keys of `meridian.toml`.

use crate::config::keys::Form::{
    self, Boolean, Choice, Duration, Integer, Named, OneOrMore, Table, Text,
};
use crate::config::keys::Preset::{Nothing, Required, Value, Words};
use crate::config::keys::{Section, key, path};
use crate::config::query_log::MOST;
use crate::config::server::MAX_WORKERS;
use crate::config::sessions::MAX_SESSIONS;

/// An address to listen on.
const LISTEN: Form = Text { what: "`\"address:port\"`", example: "127.0.0.1:0" };
/// A text of class CH.
const CHAOS_TEXT: Form = Text { what: "1 to 255 octets", example: "meridian" };

pub(super) static FILE: Section = Section {
    id: "server_file",
    heading: "meridian.toml",
    about: "The settings of the server. The file is optional, and so is everything in it.",
    keys: &[
        key(
            "server",
            Table(&SERVER),
            Nothing,
            "where files are, what is listened on, and the rest",
        ),
        key("udp", Table(&UDP), Nothing, "how datagrams are received and sent"),
        key("tcp", Table(&TCP), Nothing, "the limits of connections"),
        key("tls", Table(&TLS), Nothing, "DNS over TLS, HTTPS and QUIC"),
        key("privileges", Table(&PRIVILEGES), Nothing, "who the server becomes once it listens"),
        key("admin", Table(&ADMIN), Nothing, "the admin service"),
        key("sessions", Table(&SESSIONS), Nothing, "session affinity on this node"),
        key("resolver", Table(&RESOLVER), Nothing, "how host names of origins are resolved"),
        key("cookies", Table(&COOKIES), Nothing, "DNS cookies"),
        key("rate_limit", Table(&RATE_LIMIT), Nothing, "response rate limiting"),
        key(
            "tsig_keys",
            Named { what: "domain names", example: "secondary", each: &Table(&TSIG_KEY) },
            Nothing,
            "the keys of transfers and notifications",
        ),
        key("query_log", Table(&QUERY_LOG), Nothing, "a log of queries and answers"),
        key("chaos", Table(&CHAOS), Nothing, "what the server says of itself"),
    ],
};

static SERVER: Section = Section {
    id: "server",
    heading: "[server]",
    about: "",
    keys: &[
        key(
            "listen",
            OneOrMore(&LISTEN),
            Value(r#"["127.0.0.1:5300", "[::1]:5300"]"#),
            "where DNS is answered, over UDP and TCP. Port 0 is any free port. Of the default \
             addresses, one that the machine lacks is passed over with a warning; one that you name \
             must be there",
        ),
        key(
            "zones",
            path("a folder", "zones"),
            Value(r#""zones""#),
            "the zone files: all `*.toml` in it, hidden files and sub-folders aside",
        ),
        key(
            "geo",
            path("a folder", "geo"),
            Value(r#""geo""#),
            "the location data. A folder that you name must be there",
        ),
        key(
            "state",
            path("a folder", "state"),
            Value(r#""state""#),
            "what must outlast a restart ([operating.md](operating.md#the-state-folder))",
        ),
        key(
            "watch",
            Boolean,
            Value("false"),
            "whether a change of a file [reloads](operating.md#reload-by-itself)",
        ),
        key(
            "workers",
            Integer(0, MAX_WORKERS),
            Value("0"),
            "threads that answer UDP, for each address of `listen`, and threads that carry TCP; 0 is \
             one per core",
        ),
        key("identity", Table(&IDENTITY), Nothing, "what this node is"),
        key(
            "log",
            Text { what: "a level, or `target=level` pairs", example: "info" },
            Words("`\"info\"`"),
            "what is logged ([operating.md](operating.md#logs))",
        ),
        key(
            "freebind",
            Boolean,
            Value("false"),
            "listen also on addresses that the machine does not have yet (anycast)",
        ),
        key(
            "startup_wait",
            Duration("0s", "10m"),
            Value(r#""5s""#),
            "how long to wait for first probe results before the first answer",
        ),
        key(
            "rtt_max_age",
            Duration("1s", "1d"),
            Value(r#""10m""#),
            "the age limit of [measured round-trip times](steering.md#round-trip-times)",
        ),
        key(
            "probe_source",
            OneOrMore(&Text { what: "an IP address", example: "192.0.2.1" }),
            Nothing,
            "the source addresses of probes, at most one of each family",
        ),
        key(
            "allow_exec",
            Boolean,
            Value("false"),
            "whether monitors of the type `exec` are accepted",
        ),
    ],
};

static IDENTITY: Section = Section {
    id: "identity",
    heading: "",
    about: "",
    keys: &[
        key(
            "pop",
            Text { what: "any name", example: "ams" },
            Nothing,
            "the point of presence of this node: picks `pop_pools` and the row `pop:NAME` of \
             `rtt.toml`",
        ),
        key(
            "region",
            Text { what: "a region", example: "weu" },
            Nothing,
            "the region of this node: its measured round-trip times are filed under it",
        ),
        key(
            "nsid",
            Text { what: "1 to 128 printable ASCII characters", example: "ams1" },
            Nothing,
            "the identifier of this server, for clients that ask for it with EDNS (NSID)",
        ),
    ],
};

static UDP: Section = Section {
    id: "udp",
    heading: "[udp]",
    about: "",
    keys: &[
        key("batch", Integer(1, 1024), Value("32"), "the most queries that a thread takes at once"),
        key(
            "receive_buffer",
            Integer(4096, 1 << 30),
            Value("4194304"),
            "octets that a socket asks for, for queries that wait. The system may give less",
        ),
        key("send_buffer", Integer(4096, 1 << 30), Value("4194304"), "likewise for replies"),
        key("pin", Boolean, Value("false"), "keep each thread on a core of its own"),
    ],
};

static TCP: Section = Section {
    id: "tcp",
    heading: "[tcp]",
    about: "The limits hold for all connections together, those of TLS and HTTPS too.",
    keys: &[
        key("connections", Integer(1, 1_000_000), Value("8192"), "the most connections in all"),
        key(
            "connections_per_client",
            Integer(1, 1_000_000),
            Value("128"),
            "the most connections of one client address",
        ),
        key(
            "idle_timeout",
            Duration("1s", "1h"),
            Value(r#""10s""#),
            "how long a client may take for a query, and to take its replies",
        ),
    ],
};

static TLS: Section = Section {
    id: "tls",
    heading: "[tls]",
    about: "Without the table nothing is answered over TLS, HTTPS and QUIC \
            ([dns.md](dns.md#tls-https-and-quic)). A reload reads both files again, for the connections that \
            come after. The limits of [`[tcp]`](#tcp) hold for all connections together, those of QUIC too. \
            The sockets of QUIC have the buffers of [`[udp]`](#udp).",
    keys: &[
        key(
            "cert",
            path("a file", "cert.pem"),
            Required,
            "the certificate, then those that lead from it to an authority, in PEM",
        ),
        key("key", path("a file", "key.pem"), Required, "its private key in PEM"),
        key(
            "dot",
            OneOrMore(&LISTEN),
            Nothing,
            "where DNS is answered over TLS; the usual port is 853",
        ),
        key(
            "doh",
            OneOrMore(&LISTEN),
            Nothing,
            "where DNS is answered over HTTPS; the usual port is 443",
        ),
        key(
            "doh_path",
            Text { what: "a path", example: "/dns-query" },
            Value(r#""/dns-query""#),
            "the path of DNS over HTTPS",
        ),
        key(
            "doh3",
            Boolean,
            Value("true"),
            "whether DNS over HTTPS is offered over HTTP/3 too, on the UDP ports of `doh`. Responses \
             over HTTP/1.1 and HTTP/2 tell clients so",
        ),
        key(
            "doq",
            OneOrMore(&LISTEN),
            Nothing,
            "where DNS is answered over QUIC; the usual port is 853, over UDP",
        ),
    ],
};

static PRIVILEGES: Section = Section {
    id: "privileges",
    heading: "[privileges]",
    about: "Without the table the server stays the user that started it \
            ([operating.md](operating.md#port-53-without-root)).",
    keys: &[
        key(
            "user",
            Text { what: "the name of a user", example: "nobody" },
            Required,
            "who the server becomes once it listens",
        ),
        key(
            "group",
            Text { what: "the name of a group", example: "nogroup" },
            Words("the user's"),
            "its group",
        ),
    ],
};

static TSIG_KEY: Section = Section {
    id: "tsig_key",
    heading: "[tsig_keys.\"NAME\"]",
    about: "A table for each key ([transfers.md](transfers.md#make-a-key)). The name is a domain name, with \
            or without the final dot, and the same on the other side. A secret of fewer than 16 octets is \
            warned of. A reload reads the secrets again.",
    keys: &[
        key(
            "algorithm",
            Choice(&["hmac-sha256", "hmac-sha512"]),
            Value(r#""hmac-sha256""#),
            "how messages are signed",
        ),
        key(
            "secret_file",
            path("a file", "secondary.key"),
            Words("one of both"),
            "the secret in base64, alone in the file. A warning if everyone on the machine can read \
             the file",
        ),
        key(
            "secret",
            Text { what: "base64", example: "c2VjcmV0IG9mIDE2IG9jdGV0cw==" },
            Words("is required"),
            "the secret itself. A warning if everyone on the machine can read `meridian.toml`",
        ),
    ],
};

static ADMIN: Section = Section {
    id: "admin",
    heading: "[admin]",
    about: "Without the table there is no admin service ([api.md](api.md)).",
    keys: &[
        key(
            "listen",
            OneOrMore(&LISTEN),
            Value(r#""127.0.0.1:5380""#),
            "where the service answers HTTP. An address that other machines reach needs `token_file`",
        ),
        key(
            "token_file",
            path("a file", "admin.token"),
            Nothing,
            "the token, of 16 to 1024 printable characters; white space around it does not count. It \
             is needed for every change, and for reading too where `listen` is no loopback address. A \
             warning if everyone on the machine can read the file",
        ),
        key(
            "metrics_limit",
            Integer(0, 1_000_000),
            Value("1000"),
            "how many zones, load balancers, pools and origins have \
             [metrics](metrics.md#how-many-series) of their own, each kind for itself; of more there \
             are sums. It is read at the start",
        ),
    ],
};

static SESSIONS: Section = Section {
    id: "sessions",
    heading: "[sessions]",
    about: "",
    keys: &[key(
        "max_sessions",
        Integer(1, MAX_SESSIONS),
        Value("1000000"),
        "the most [sessions](steering.md#session-affinity) that are kept, of all load balancers \
         together; 16 octets each. Takes effect at the start",
    )],
};

static RESOLVER: Section = Section {
    id: "resolver",
    heading: "[resolver]",
    about: "How the [host names](steering.md#host-names) of origins are resolved.",
    keys: &[
        key(
            "servers",
            OneOrMore(&Text {
                what: "at most 8 addresses, with or without a port",
                example: "192.0.2.53",
            }),
            Words("those of `/etc/resolv.conf`"),
            "resolvers, in the order in which they are asked. They must recurse",
        ),
        key(
            "keep",
            Duration("0s", "7d"),
            Value(r#""1h""#),
            "how long the last good addresses are kept after their TTL, while a name cannot be \
             resolved",
        ),
    ],
};

static COOKIES: Section = Section {
    id: "cookies",
    heading: "[cookies]",
    about: "See [dns.md](dns.md#cookies).",
    keys: &[
        key(
            "secret_file",
            path("a file", "cookies.secret"),
            Nothing,
            "the secret of DNS cookies, 32 hexadecimal digits, and on a second line the one before, if \
             there was one. Without it the server makes its own. A warning if everyone on the machine \
             can read the file",
        ),
        key(
            "require",
            Boolean,
            Value("false"),
            "whether clients that send cookies get data over UDP only with a valid one",
        ),
    ],
};

static RATE_LIMIT: Section = Section {
    id: "rate_limit",
    heading: "[rate_limit]",
    about: "See [dns.md](dns.md#response-rate-limiting).",
    keys: &[
        key("enabled", Boolean, Value("true"), "whether answers over UDP are limited"),
        key(
            "responses_per_second",
            Integer(1, 1_000_000),
            Value("200"),
            "how many equal answers a network gets in a second",
        ),
        key(
            "slip",
            Integer(0, 10),
            Value("2"),
            "every so many of the answers that are too many is an empty reply with TC; 1: each is; 0: \
             none is",
        ),
        key(
            "ipv4_prefix",
            Integer(8, 32),
            Value("24"),
            "how many bits of an IPv4 address are its network",
        ),
        key(
            "ipv6_prefix",
            Integer(8, 128),
            Value("56"),
            "how many bits of an IPv6 address are its network",
        ),
    ],
};

static QUERY_LOG: Section = Section {
    id: "query_log",
    heading: "[query_log]",
    about: "Without the table no query is logged ([operating.md](operating.md#log-queries)). It is read at \
            the start.",
    keys: &[
        key(
            "file",
            path("a file", "queries.log"),
            Words("one of both"),
            "where queries and answers are logged as lines of JSON",
        ),
        key(
            "socket",
            path("a Unix socket", "dnstap.sock"),
            Words("is required"),
            "where a reader of dnstap listens",
        ),
        key("one_in", Integer(1, MOST), Value("1"), "of so many answers one is logged"),
    ],
};

static CHAOS: Section = Section {
    id: "chaos",
    heading: "[chaos]",
    about: "What is not given is refused.",
    keys: &[
        key("version", CHAOS_TEXT, Nothing, "the answer to `version.bind` TXT in class CH"),
        key("hostname", CHAOS_TEXT, Nothing, "the answer to `hostname.bind`"),
        key("id", CHAOS_TEXT, Nothing, "the answer to `id.server`"),
    ],
};
