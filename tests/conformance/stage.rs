//! The servers that the rows ask, each a running `meridian`, and in a network of their own the resolvers
//! too. A row names one as `@NAME`; without a name it is that of [`Stage::server`].

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::harness::{Server, Site};
use crate::own_file;
use crate::relay::Relay;
use crate::resolvers::{self, Resolver};
use crate::table::Transport;

/// One worker, so that replies keep the order of their queries.
const SETTINGS: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\n\
    identity = { nsid = \"conformance\" }\n\
    [tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\ndot = [\"127.0.0.1:0\"]\ndoh = [\"127.0.0.1:0\"]\n    doq = [\"127.0.0.1:0\"]\n";
/// The key of transfers.
const KEY: &str = "[tsig_keys.key]\nsecret = \"c2VjcmV0IG9mIDE2IG9jdGV0cw==\"\n";
/// What is off by default is on, and the other way round.
const OTHER: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\n\
    [chaos]\nversion = \"meridian\"\nhostname = \"host\"\nid = \"one\"\n\
    [cookies]\nrequire = true\n[tcp]\nidle_timeout = \"1s\"\n";
/// For clients that no rate limit exempts, on all addresses.
const EVERYWHERE: &str = "[server]\nworkers = 1\n";
/// What resolvers ask, by way of the relay.
const RELAYED: &str = "[server]\nworkers = 1\n[cookies]\nrequire = true\n\
    [admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"token\"\n";
const TOKEN: &str = "a-token-for-conformance";

/// Networks of clients: one inside another, so that a scope has to go around it.
const SUBNETS: &str = r#"
[subnets."198.51.100.0/24"]
region = "weu"
[subnets."203.0.113.0/24"]
region = "weu"
[subnets."203.0.113.128/25"]
region = "enam"
[subnets."2001:db8:1::/48"]
region = "weu"
[subnets."192.0.2.102/32"]
region = "enam"
[subnets."192.0.2.103/32"]
region = "weu"
"#;
const REGIONS: &str = "[regions.weu]\ncountries = [\"NL\"]\n[regions.enam]\ncountries = [\"US\"]\n";

/// Everything that runs.
pub(crate) struct Stage {
    server: Mutex<Server>,
    address: SocketAddr,
    tls: Option<SocketAddr>,
    https: Option<SocketAddr>,
    /// None as long as [`SETTINGS`] has no address for it.
    quic: Option<SocketAddr>,
    other: SocketAddr,
    /// The port of the server that listens on all addresses.
    everywhere: u16,
    pub(crate) resolution: Option<Resolution>,
    /// The servers that no row needs but by their address; they end with the stage.
    servers: Mutex<Vec<Server>>,
    sites: Vec<Site>,
}

/// What runs only in a network of its own.
pub(crate) struct Resolution {
    pub(crate) relay: Relay,
    pub(crate) resolvers: Vec<Resolver>,
    admin: SocketAddr,
    relayed_site: Site,
}

impl Stage {
    /// The servers alone.
    pub(crate) fn without_resolvers() -> Self {
        let main_site = site(SETTINGS);
        let mut server = Server::start(&main_site);
        let [tls, https, quic] =
            ["tls", "https", "quic"].map(|protocol| encrypted(&mut server, protocol));
        let other_site = site(OTHER);
        let other = Server::start(&other_site);
        let everywhere_site = site(EVERYWHERE);
        let everywhere = start(&everywhere_site, &["0.0.0.0:0"]);
        Self {
            address: server.address,
            tls,
            https,
            quic,
            other: other.address,
            everywhere: everywhere.address.port(),
            resolution: None,
            server: Mutex::new(server),
            servers: Mutex::new(vec![other, everywhere]),
            sites: vec![main_site, other_site, everywhere_site],
        }
    }

    /// The servers, a root, a zone below a delegation, and the resolvers that iterate among them.
    pub(crate) fn with_resolvers() -> Self {
        let mut stage = Self::without_resolvers();
        let relayed_site = site(RELAYED);
        relayed_site.write("token", TOKEN);
        let mut relayed = start(&relayed_site, &["0.0.0.0:0"]);
        let admin = relayed.admin_address();
        let relay = Relay::start(relayed.address.port());
        let zones = [
            (own_file("root.toml"), &["192.0.2.90:53"][..]),
            (own_file("sub.toml"), &["192.0.2.53:53", "192.0.2.54:53"][..]),
        ];
        let mut servers = vec![relayed];
        for (zone, listen) in zones {
            let site = Site::new();
            site.write("meridian.toml", EVERYWHERE);
            site.write("zones/zone.toml", zone);
            servers.push(start(&site, listen));
            stage.sites.push(site);
        }
        stage.servers.lock().expect("a list").append(&mut servers);
        let resolvers = resolvers::start();
        stage.resolution = Some(Resolution { relay, resolvers, admin, relayed_site });
        stage
    }

    /// The server that rows ask which name no other, for one row at a time.
    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a row's target answers over a transport; none if it does not run here.
    pub(crate) fn address(&self, target: &str, over: Transport) -> Option<SocketAddr> {
        match (target, over) {
            ("", Transport::Tls) => self.tls,
            ("", Transport::Https) => self.https,
            ("", Transport::Quic) => self.quic,
            ("", _) => Some(self.address),
            ("other", _) => Some(self.other),
            ("everywhere", _) => Some(self.everywhere(IpAddr::from([127, 0, 0, 2]))),
            (name, _) => {
                let resolvers = &self.resolution.as_ref()?.resolvers;
                let found = resolvers.iter().find(|resolver| resolver.name == name);
                found.map(|resolver| SocketAddr::from((resolver.address, 53)))
            }
        }
    }

    /// The server on all addresses, as a client of this address sees it.
    pub(crate) fn everywhere(&self, address: IpAddr) -> SocketAddr {
        SocketAddr::new(address, self.everywhere)
    }
}

impl Resolution {
    /// Runs a command of an operator against the server that the resolvers ask.
    pub(crate) fn operate(&self, arguments: &[&str]) {
        let at = format!("http://{}", self.admin);
        let run = [arguments, &["--at", &at, "--token-file", "token"]].concat();
        let run = self.relayed_site.run(&run);
        assert_eq!(run.code, Some(0), "{arguments:?}: {run:?}");
    }
}

fn site(settings: &str) -> Site {
    let site = Site::new();
    site.write("meridian.toml", format!("{settings}\n{KEY}"));
    site.write("zones/example.test.zone", own_file("../data/example.test.zone"));
    site.write("zones/example.test.toml", zone_file());
    site.write("geo/subnets.toml", SUBNETS);
    site.write("geo/regions.toml", REGIONS);
    let made = rcgen::generate_simple_self_signed(["dns.example.test".to_owned()]);
    let made = made.expect("a certificate");
    let pem = |label: &str, der: &[u8]| {
        let text = data_encoding::BASE64_MIME.encode(der);
        format!("-----BEGIN {label}-----\n{text}-----END {label}-----\n")
    };
    site.write("cert.pem", pem("CERTIFICATE", made.cert.der()));
    site.write("key.pem", pem("PRIVATE KEY", &made.signing_key.serialize_der()));
    site
}

/// The TOML of the zone, with a delegation whose glue no datagram holds.
fn zone_file() -> String {
    let servers = 1..=20;
    let names: Vec<_> = servers.clone().map(|number| format!("\"ns{number}.wide\"")).collect();
    let mut records =
        format!("[[records]]\nname = \"wide\"\ntype = \"NS\"\ndata = [{}]\n", names.join(", "));
    for (name, number) in names.iter().zip(servers) {
        let addresses =
            [("A", format!("192.0.2.{number}")), ("AAAA", format!("2001:db8::{number}"))];
        for (rtype, address) in addresses {
            records += &format!(
                "[[records]]\nname = {name}\ntype = \"{rtype}\"\ndata = [\"{address}\"]\n"
            );
        }
    }
    own_file("example.test.toml").replace("# WIDE\n", &records)
}

fn start(site: &Site, listen: &[&str]) -> Server {
    let listen: Vec<&str> = listen.iter().flat_map(|address| ["--listen", address]).collect();
    let mut server = Server::spawn(site, &[&["serve"], &listen[..]].concat());
    server.address = server.next_address();
    server.wait_for("ready");
    server
}

/// Where a server says that it answers over an encrypted protocol.
fn encrypted(server: &mut Server, protocol: &str) -> Option<SocketAddr> {
    let lines = server.log_so_far();
    let line = lines.iter().find(|line| line["fields"]["protocol"] == protocol)?;
    line["fields"]["address"].as_str()?.parse().ok()
}
