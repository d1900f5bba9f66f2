//! `meridian.toml`: the server's own settings. Every field has a default, and so has the file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::admin::Admin;
use crate::config::cookies::CookieSettings;
use crate::config::identity::{Identity, parse_chaos, parse_nsid};
use crate::config::log_filter;
use crate::config::privileges::Privileges;
use crate::config::query_log::parse_query_log;
use crate::config::rate_limit::parse_rate_limit;
use crate::config::reader::{File, Place, Table, Value};
use crate::config::report::{Report, Source};
use crate::config::sessions::{DEFAULT_MAX_SESSIONS, max_sessions};
use crate::config::tls::Tls;
use crate::config::tsig_keys::{TsigKey, parse_keys};
use crate::limit::RateLimit;
use crate::query_log::Settings as QueryLogSettings;

/// The port that is listened on by default: no privilege is needed for it.
pub const DEFAULT_PORT: u16 = 5300;
/// The port of DNS (RFC 1035 section 4.2).
pub(super) const DNS_PORT: u16 = 53;
/// How long `serve` waits for first probe results by default (health.md).
pub const DEFAULT_STARTUP_WAIT: Duration = Duration::from_secs(5);
/// How old a measured round-trip time may be by default (steering.md).
pub const DEFAULT_RTT_MAX_AGE: Duration = Duration::from_secs(600);
/// How long addresses of origins are kept by default while their names cannot be resolved.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(3600);
/// The most resolvers that are asked.
const MAX_RESOLVERS: usize = 8;
/// The most worker threads that can be asked for.
pub const MAX_WORKERS: u64 = 1024;

/// How UDP is served: the table `[udp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Threads, and sockets, for each address; 0 for one per core.
    pub workers: usize,
    /// The most queries that a worker takes at once.
    pub batch: usize,
    /// The receive buffer of each socket in octets: what a burst may pile up in.
    pub receive_buffer: usize,
    /// The send buffer of each socket in octets.
    pub send_buffer: usize,
    /// Whether each worker stays on a core of its own.
    pub pin: bool,
}

impl Default for UdpSettings {
    fn default() -> Self {
        Self { workers: 0, batch: 32, receive_buffer: 4 << 20, send_buffer: 4 << 20, pin: false }
    }
}

/// How host names of origins are resolved: the table `[resolver]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverSettings {
    /// The resolvers that are asked; empty for the system's.
    pub servers: Vec<SocketAddr>,
    /// How long addresses hold after their TTL while the name cannot be resolved.
    pub keep: Duration,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self { servers: Vec::new(), keep: DEFAULT_KEEP }
    }
}

/// How TCP is served: the table `[tcp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// The most connections in all.
    pub connections: usize,
    /// The most connections of one client address.
    pub connections_per_client: usize,
    /// How long a client may take for a query, and to take its replies.
    pub idle: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        // dns.md, "TCP".
        Self { connections: 8192, connections_per_client: 128, idle: Duration::from_secs(10) }
    }
}

/// The server's settings.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where DNS is answered over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// True if `listen` is the default: an address of it that the machine lacks is then passed over.
    pub listen_is_default: bool,
    /// The folder of the zone files.
    pub zones: PathBuf,
    /// The folder of the location data.
    pub geo: PathBuf,
    /// True if `geo` was named, and so must be there.
    pub geo_is_named: bool,
    /// The folder of what must outlast a restart.
    pub state: PathBuf,
    /// Threads that answer; 0 for one per core.
    pub workers: usize,
    /// How UDP is served.
    pub udp: UdpSettings,
    /// How host names of origins are resolved.
    pub resolver: ResolverSettings,
    /// How TCP is served.
    pub tcp: TcpSettings,
    /// How TLS is served, if it is.
    pub tls: Option<Tls>,
    /// The most sessions that are kept.
    pub max_sessions: usize,
    /// The point of presence of this node.
    pub pop: Option<String>,
    /// The name of the region of this node, and where it stands.
    pub region: Option<(String, Place)>,
    /// How long to wait for first probe results before answering.
    pub startup_wait: Duration,
    /// The log filter, as `tracing` directives.
    pub log: Option<String>,
    /// The source addresses of probes.
    pub probe_source: Vec<IpAddr>,
    /// How old a measured round-trip time may be.
    pub rtt_max_age: Duration,
    /// Whether a change of a file reloads.
    pub watch: bool,
    /// Whether monitors may run programs.
    pub allow_exec: bool,
    /// Whether addresses that the machine does not have (yet) may be listened on.
    pub freebind: bool,
    /// Who the server becomes once it listens.
    pub privileges: Option<Privileges>,
    /// The admin service; none without its table.
    pub admin: Option<Admin>,
    /// What the server says of itself.
    pub identity: Identity,
    /// DNS cookies.
    pub cookies: CookieSettings,
    /// Response rate limiting.
    pub rate_limit: RateLimit,
    /// The keys of transfers and notifications.
    pub tsig_keys: Vec<TsigKey>,
    /// False if one could not be read.
    pub tsig_keys_are_complete: bool,
    /// The log of queries, if there is one, and where it is said where that goes.
    pub query_log: Option<(QueryLogSettings, Place)>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: vec![
                SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
                SocketAddr::from((Ipv6Addr::LOCALHOST, DEFAULT_PORT)),
            ],
            listen_is_default: true,
            zones: PathBuf::from("zones"),
            geo: PathBuf::from("geo"),
            geo_is_named: false,
            state: PathBuf::from("state"),
            workers: 0,
            udp: UdpSettings::default(),
            resolver: ResolverSettings::default(),
            tcp: TcpSettings::default(),
            tls: None,
            max_sessions: DEFAULT_MAX_SESSIONS,
            pop: None,
            region: None,
            startup_wait: DEFAULT_STARTUP_WAIT,
            log: None,
            probe_source: Vec::new(),
            rtt_max_age: DEFAULT_RTT_MAX_AGE,
            watch: false,
            allow_exec: false,
            freebind: false,
            privileges: None,
            admin: None,
            identity: Identity::default(),
            cookies: CookieSettings::default(),
            rate_limit: RateLimit::default(),
            tsig_keys: Vec::new(),
            tsig_keys_are_complete: true,
            query_log: None,
        }
    }
}

impl Server {
    /// The defaults, with the default folders in this one.
    pub fn within(folder: &Path) -> Self {
        let mut server = Self::default();
        for path in [&mut server.zones, &mut server.geo, &mut server.state] {
            *path = folder.join(&*path);
        }
        server
    }

    /// Reads `meridian.toml`; paths in it are relative to the file. Mistakes are reported and the
    /// default stands in.
    pub fn parse(source: &Source, report: &Report) -> Self {
        let folder = source.path().parent().unwrap_or_else(|| Path::new("")).to_owned();
        let mut server = Self::within(&folder);
        let document = File::parse(source, report);
        let root = document.root();
        root.not_offered(&["cluster"]);
        if let Some(table) = root.optional("server").and_then(|value| value.table("a table")) {
            server.read(table, &folder);
        }
        if let Some(table) = root.optional("udp").and_then(|value| value.table("a table")) {
            server.udp = parse_udp(&table);
        }
        if let Some(table) = root.optional("resolver").and_then(|value| value.table("a table")) {
            server.resolver = parse_resolver(&table);
        }
        if let Some(table) = root.optional("tcp").and_then(|value| value.table("a table")) {
            server.tcp = parse_tcp(&table);
        }
        if let Some(table) = root.optional("tls").and_then(|value| value.table("a table")) {
            server.tls = Tls::parse(&table, &folder);
        }
        server.udp.workers = server.workers;
        if let Some(table) = root.optional("sessions").and_then(|value| value.table("a table")) {
            server.max_sessions = max_sessions(&table);
        }
        if let Some(table) = root.optional("privileges").and_then(|value| value.table("a table")) {
            server.privileges = Privileges::parse(&table);
        }
        if let Some(table) = root.optional("admin").and_then(|value| value.table("a table")) {
            server.admin = Some(Admin::parse(&table, &folder));
        }
        if let Some(table) = root.optional("chaos").and_then(|value| value.table("a table")) {
            server.identity.chaos = parse_chaos(&table);
        }
        if let Some(table) = root.optional("cookies").and_then(|value| value.table("a table")) {
            server.cookies = CookieSettings::parse(&table, &folder);
        }
        if let Some(table) = root.optional("rate_limit").and_then(|value| value.table("a table")) {
            server.rate_limit = parse_rate_limit(&table);
        }
        let errors = report.error_count();
        if let Some(table) = root.optional("tsig_keys").and_then(|value| value.table("tables")) {
            server.tsig_keys = parse_keys(&table, &folder);
        }
        server.tsig_keys_are_complete =
            report.error_count() == errors && !report.is_silenced(source.path());
        if let Some(table) = root.optional("query_log").and_then(|value| value.table("a table")) {
            server.query_log = parse_query_log(&table, &folder);
        }
        root.finish();
        server
    }

    fn read(&mut self, table: Table<'_, '_>, folder: &Path) {
        if let Some(value) = table.optional("listen") {
            self.listen = value.one_or_list().iter().filter_map(listen_address).collect();
            self.listen_is_default = false;
            if value.is_empty_list() {
                value.error("nothing is listened on", "give at least one \"address:port\"");
            }
        }
        let path =
            |key| table.optional(key).and_then(|value| Some(folder.join(value.string("a path")?)));
        if let Some(zones) = path("zones") {
            self.zones = zones;
        }
        if let Some(geo) = path("geo") {
            self.geo = geo;
            self.geo_is_named = true;
        }
        if let Some(state) = path("state") {
            self.state = state;
        }
        let workers = table.optional("workers");
        if let Some(workers) =
            workers.and_then(|v| v.integer(0..=MAX_WORKERS, "a number of threads"))
        {
            self.workers = usize::try_from(workers).unwrap_or(0);
        }
        if let Some(identity) = table.optional("identity").and_then(|value| value.table("a table"))
        {
            self.pop = identity.optional("pop").and_then(|v| v.string("a name")).map(str::to_owned);
            self.region = identity.optional("region").and_then(|value| {
                Some((value.string("a region's name")?.to_owned(), value.place()))
            });
            self.identity.nsid = identity.optional("nsid").and_then(|value| parse_nsid(&value));
            identity.finish();
        }
        let duration = |key, low, high| {
            let range = Duration::from_secs(low)..=Duration::from_secs(high);
            table.optional(key).and_then(|value| value.duration(range))
        };
        if let Some(wait) = duration("startup_wait", 0, 600) {
            self.startup_wait = wait;
        }
        if let Some(age) = duration("rtt_max_age", 1, 86_400) {
            self.rtt_max_age = age;
        }
        if let Some(value) = table.optional("log") {
            self.log = value.string("a log filter").and_then(|text| {
                let valid = log_filter::parse(text).is_some();
                if !valid {
                    value.error(format!("{text:?} is not a log filter"), log_filter::HELP);
                }
                valid.then(|| text.to_owned())
            });
        }
        if let Some(value) = table.optional("probe_source") {
            self.probe_source = value.one_or_list().iter().filter_map(Value::address).collect();
        }
        let flag = |key| table.optional(key).and_then(|value| value.boolean()).unwrap_or(false);
        self.watch = flag("watch");
        self.allow_exec = flag("allow_exec");
        self.freebind = flag("freebind");
        table.not_offered(&["reload_guard"]);
        table.finish();
    }
}

fn parse_udp(table: &Table<'_, '_>) -> UdpSettings {
    let default = UdpSettings::default();
    let number = |key, range, wanted: &str| {
        let value = table.optional(key).and_then(|value| value.integer(range, wanted));
        value.and_then(|number| usize::try_from(number).ok())
    };
    let buffer = |key| number(key, 4096..=1 << 30, "a number of octets");
    let settings = UdpSettings {
        workers: default.workers,
        batch: number("batch", 1..=1024, "a number of queries").unwrap_or(default.batch),
        receive_buffer: buffer("receive_buffer").unwrap_or(default.receive_buffer),
        send_buffer: buffer("send_buffer").unwrap_or(default.send_buffer),
        pin: table.optional("pin").and_then(|value| value.boolean()).unwrap_or(default.pin),
    };
    table.finish();
    settings
}

fn parse_resolver(table: &Table<'_, '_>) -> ResolverSettings {
    let mut settings = ResolverSettings::default();
    if let Some(value) = table.optional("servers") {
        let entries = value.one_or_list();
        if value.is_empty_list() || entries.len() > MAX_RESOLVERS {
            let help = "give the resolvers, or leave the key out for those of /etc/resolv.conf";
            value.error(format!("there are 1 to {MAX_RESOLVERS} resolvers"), help);
        }
        settings.servers = entries.iter().filter_map(resolver_address).collect();
    }
    let range = Duration::ZERO..=Duration::from_secs(7 * 86_400);
    if let Some(keep) = table.optional("keep").and_then(|value| value.duration(range)) {
        settings.keep = keep;
    }
    table.finish();
    settings
}

pub(super) fn parse_tcp(table: &Table<'_, '_>) -> TcpSettings {
    let default = TcpSettings::default();
    let number = |key| {
        let value = table.optional(key);
        let number =
            value.and_then(|value| value.integer(1..=1_000_000, "a number of connections"));
        number.and_then(|number| usize::try_from(number).ok())
    };
    let idle = table.optional("idle_timeout");
    let idle =
        idle.and_then(|value| value.duration(Duration::from_secs(1)..=Duration::from_secs(3600)));
    let settings = TcpSettings {
        connections: number("connections").unwrap_or(default.connections),
        connections_per_client: number("connections_per_client")
            .unwrap_or(default.connections_per_client),
        idle: idle.unwrap_or(default.idle),
    };
    table.finish();
    settings
}

/// The address of a resolver, with the port of DNS where none is given.
fn resolver_address(value: &Value<'_, '_>) -> Option<SocketAddr> {
    let text = value.string("an address, with or without a port")?;
    let alone = || Some(SocketAddr::from((text.parse::<IpAddr>().ok()?, DNS_PORT)));
    let address = text.parse().ok().or_else(alone);
    if address.is_none() {
        value.error(
            format!("{text:?} is not the address of a resolver"),
            "write \"192.0.2.53\" or \"192.0.2.53:53\", and \"[2001:db8::53]:53\" for IPv6",
        );
    }
    address
}

/// Reads `"address:port"`.
pub fn listen_address(value: &Value<'_, '_>) -> Option<SocketAddr> {
    let text = value.string("an address and a port")?;
    let address = text.parse().ok();
    if address.is_none() {
        value.error(
            format!("{text:?} is not an address and a port"),
            "write \"127.0.0.1:5300\", or \"[::1]:5300\" for IPv6",
        );
    }
    address
}
