//! Origins that are given by host name ("Choice within a pool" in spec/steering.md): CNAME answers,
//! flattened ones, how names are resolved, their monitors; and the hints of HTTPS records at steered
//! names. What names are resolved by is a second server of this program.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{SERVER, Server, Site, ZONE_HEAD};
use crate::wire::{Query, Reply, rcode, rtype};

/// How long to wait for what happens in the background. A name is asked for again after 5 s at the
/// soonest.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
const ZONE: &str = "zones/example.test.toml";
const ORIGINS: &str = "zones/origins.test.toml";
const MX: u16 = rtype::MX;

// ---------------------------------------------------------------------------------- Setting

/// A server that names are resolved by: `records` are `NAME TYPE TTL DATA` lines of origins.test.
struct Upstream {
    site: Site,
    server: Server,
}

impl Upstream {
    fn start(records: &str) -> Self {
        let site = Site::new();
        site.write(ORIGINS, upstream_zone(records));
        let server = Server::start(&site);
        Self { site, server }
    }

    fn change(&mut self, records: &str) {
        self.site.write(ORIGINS, upstream_zone(records));
        self.server.reload("reloaded");
    }

    /// The settings of a server that resolves by this one.
    fn settings(&self, further: &str) -> String {
        settings(self.server.address, further)
    }
}

fn settings(resolver: SocketAddr, further: &str) -> String {
    format!("{SERVER}{further}\n[resolver]\nservers = [\"{resolver}\"]\n")
}

fn upstream_zone(records: &str) -> String {
    let mut zone = ZONE_HEAD.replace("example.test", "origins.test");
    for line in records.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().expect("NAME TYPE TTL DATA");
        let (name, rtype, ttl, data) = (word(), word(), word(), word());
        zone += &format!(
            "[[records]]\nname = \"{name}\"\ntype = \"{rtype}\"\nttl = {ttl}\ndata = [\"{data}\"]\n"
        );
    }
    zone
}

/// A server of the zone example.test, with these settings.
fn start(body: &str, settings: &str) -> (Site, Server) {
    let site = Site::with_zone(body);
    site.write("meridian.toml", settings);
    let server = Server::start(&site);
    (site, server)
}

fn pool(name: &str, origins: &[(&str, &str)]) -> String {
    pool_with(name, "", origins)
}

fn pool_with(name: &str, keys: &str, origins: &[(&str, &str)]) -> String {
    let origin = |(name, address): &(&str, &str)| {
        format!("[[pools.POOL.origins]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    };
    let origins: String = origins.iter().map(origin).collect();
    format!("[pools.{name}]\n{keys}\n{}", origins.replace("POOL", name))
}

fn balancer(name: &str, keys: &str) -> String {
    format!("[load_balancers.\"{name}\"]\n{keys}\n")
}

fn ask(server: &Server, name: &str, qtype: u16) -> Reply {
    server.ask(&Query::new(name, qtype))
}

/// The records of an answer, as `OWNER TYPE DATA`.
fn records(reply: &Reply) -> Vec<String> {
    let show =
        |record: &crate::wire::Record| format!("{} {} {}", record.owner, record.rtype, record.data);
    reply.answer.iter().map(show).collect()
}

fn addresses(server: &Server, name: &str, qtype: u16) -> Vec<String> {
    let mut found: Vec<_> =
        ask(server, name, qtype).data(qtype).into_iter().map(str::to_owned).collect();
    found.sort();
    found
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(LOOK);
    }
}

// A secondary gets the CNAME, or the addresses last resolved.
#[test]
fn a_transfer_has_the_cname_or_the_addresses_last_resolved() {
    let upstream = Upstream::start("a A 60 192.0.2.1\na AAAA 60 2001:db8::1");
    let body = [
        "[transfer]\nallow = [\"127.0.0.1\"]\n".to_owned(),
        pool("hosts", &[("a", "a.origins.test")]),
        balancer("www", "pools = [\"hosts\"]"),
        balancer("flat", "pools = [\"hosts\"]\nflatten = true"),
    ];
    let (_site, server) = start(&body.concat(), &upstream.settings(""));
    until("resolved", || !addresses(&server, "flat.example.test", rtype::AAAA).is_empty());
    let reply = server.ask_tcp(&Query::new("example.test", rtype::AXFR));
    let all = records(&reply);
    for expected in [
        "www.example.test. 5 a.origins.test.",
        "flat.example.test. 1 192.0.2.1",
        "flat.example.test. 28 2001:db8::1",
    ] {
        assert!(all.iter().any(|record| record == expected), "{expected}: {all:#?}");
    }
}

// What the log says is so: who reads that a name is resolved can ask for it.
#[test]
fn a_name_is_said_to_be_resolved_when_it_is_answered() {
    let upstream = Upstream::start("a A 60 192.0.2.1\nb A 60 192.0.2.2");
    let body = |host: &str| {
        pool("hosts", &[("o", host)]) + &balancer("flat", "pools = [\"hosts\"]\nflatten = true")
    };
    let (site, mut server) = start(&body("a.origins.test"), &upstream.settings(""));
    site.write(ZONE, format!("{ZONE_HEAD}{}", body("b.origins.test")));
    // The name may be resolved before the log says that the files were read.
    server.signal("HUP");
    while server.wait_for("resolved")["fields"]["name"] != "b.origins.test." {}
    assert_eq!(addresses(&server, "flat.example.test", rtype::A), ["192.0.2.2"]);
}

// ---------------------------------------------------------------------------------- CNAME

// "A CNAME answer is exactly one CNAME, for every type."
#[test]
fn a_host_name_is_answered_as_one_cname_for_every_type() {
    let body = [
        pool("hosts", &[("a", "a.elsewhere.test"), ("b", "b.elsewhere.test.")]),
        balancer("www", "pools = [\"hosts\"]\nttl = 45\nanswers = \"all\""),
        balancer("*.apps", "pools = [\"hosts\"]"),
    ];
    let (_site, server) = start(&body.concat(), SERVER);
    for qtype in [rtype::A, rtype::AAAA, rtype::CNAME, rtype::TXT, MX, rtype::HTTPS, rtype::ANY] {
        for reply in [
            ask(&server, "www.example.test", qtype),
            server.ask_tcp(&Query::new("www.example.test", qtype)),
        ] {
            assert_eq!(reply.rcode(), rcode::NOERROR, "{qtype}");
            let [record] = &reply.answer[..] else { panic!("{qtype}: {:?}", reply.answer) };
            assert_eq!((record.rtype, record.ttl), (rtype::CNAME, 45), "{qtype}");
            assert!(record.data.ends_with(".elsewhere.test."), "{qtype}: {record:?}");
            assert!(reply.authority.is_empty(), "{qtype}: {:?}", reply.authority);
        }
    }
    let mut shares: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..100 {
        let reply = ask(&server, "www.example.test", rtype::A);
        *shares.entry(reply.answer[0].data.clone()).or_default() += 1;
    }
    let even = [("a.elsewhere.test.".to_owned(), 50), ("b.elsewhere.test.".to_owned(), 50)];
    assert_eq!(shares, BTreeMap::from(even));
    let reply = ask(&server, "x.apps.example.test", rtype::A);
    assert_eq!((reply.answer[0].rtype, reply.answer[0].ttl), (rtype::CNAME, 30));
    assert_eq!(reply.answer[0].owner, "x.apps.example.test.");
}

// "A client subnet keeps its origin while the session lives": by host name as by address.
#[test]
fn a_session_keeps_its_host_name_and_its_flattened_addresses() {
    let upstream = Upstream::start("a A 60 192.0.2.1\nb A 60 192.0.2.2\nc A 60 192.0.2.3");
    let origins = [("a", "a.origins.test"), ("b", "b.origins.test"), ("c", "c.origins.test")];
    let sessions = "session_affinity = { ttl = \"1m\" }";
    let body = [
        "[[records]]\nname = \"flat\"\ntype = \"HTTPS\"\ndata = [\"1 .\"]\nsteered_hints = true\n"
            .to_owned(),
        pool("hosts", &origins),
        balancer("www", &format!("pools = [\"hosts\"]\n{sessions}")),
        balancer("flat", &format!("pools = [\"hosts\"]\nttl = 600\n{sessions}")),
    ];
    let (_site, server) = start(&body.concat(), &upstream.settings(""));
    let ask = |name: &str, qtype, subnet: u8| {
        let subnet = format!("10.0.{subnet}.0");
        server.ask(&Query::new(name, qtype).ecs(&subnet, 24)).answer.remove(0)
    };
    let mut met = std::collections::BTreeSet::new();
    for subnet in 0..40 {
        let first = ask("www.example.test", rtype::A, subnet);
        assert_eq!(first.rtype, rtype::CNAME);
        for qtype in [rtype::A, rtype::AAAA, rtype::TXT, rtype::CNAME] {
            assert_eq!(ask("www.example.test", qtype, subnet).data, first.data);
        }
        met.insert(first.data);
        let address = ask("flat.example.test", rtype::A, subnet);
        assert!(address.ttl <= 60, "capped by the record's own: {address:?}");
        let again = ask("flat.example.test", rtype::A, subnet);
        assert_eq!((&again.data, again.ttl <= 60), (&address.data, true));
        let hints = parameters(&ask("flat.example.test", rtype::HTTPS, subnet).rdata);
        let hint = Ipv4Addr::from(<[u8; 4]>::try_from(&hints[0].1[..]).unwrap());
        assert_eq!(hint.to_string(), address.data);
    }
    assert_eq!(met.len(), 3, "{met:?}");
}

// "A target inside the zone is followed, also if steered, 8 steps at most; one outside never is."
#[test]
fn a_target_inside_the_zone_is_followed_and_one_outside_is_not() {
    let mut body = String::from(
        "[[records]]\nname = \"web\"\ntype = \"A\"\ndata = [\"192.0.2.80\"]\n\
         [[records]]\nname = \"alias\"\ntype = \"CNAME\"\ndata = [\"static\"]\n",
    );
    body += &pool("static", &[("a", "web.example.test")]);
    body += &pool("steered", &[("a", "static.example.test")]);
    body += &pool("missing", &[("a", "nothing.example.test")]);
    body += &pool("outside", &[("a", "www.other.test")]);
    body += &pool("loop", &[("a", "loop.example.test")]);
    for name in ["static", "steered", "missing", "outside", "loop"] {
        body += &balancer(name, &format!("pools = [\"{name}\"]"));
    }
    for step in 0..12 {
        body += &pool(&format!("step{step}"), &[("a", &format!("s{}.example.test", step + 1))]);
        body += &balancer(&format!("s{step}"), &format!("pools = [\"step{step}\"]"));
    }
    let site = Site::with_zone(&body);
    // A zone of this server, but another one.
    let other = "[[records]]\nname = \"www\"\ntype = \"A\"\ndata = [\"192.0.2.99\"]\n";
    site.write("zones/other.test.toml", ZONE_HEAD.replace("example.test", "other.test") + other);
    let server = Server::start(&site);

    let found = records(&ask(&server, "steered.example.test", rtype::A));
    let expected = [
        "steered.example.test. 5 static.example.test.",
        "static.example.test. 5 web.example.test.",
        "web.example.test. 1 192.0.2.80",
    ];
    assert_eq!(found, expected);
    let found = records(&ask(&server, "alias.example.test", rtype::A));
    assert_eq!(found.len(), 3, "{found:?}");
    let reply = ask(&server, "static.example.test", rtype::AAAA);
    assert_eq!(records(&reply), ["static.example.test. 5 web.example.test."]);
    assert_eq!(reply.authority.len(), 1, "no data at the target: {:?}", reply.authority);
    let reply = ask(&server, "missing.example.test", rtype::A);
    assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NXDOMAIN, 1));
    let found = records(&ask(&server, "outside.example.test", rtype::A));
    assert_eq!(found, ["outside.example.test. 5 www.other.test."]);
    let found = records(&ask(&server, "loop.example.test", rtype::A));
    assert_eq!(found, ["loop.example.test. 5 loop.example.test."]);
    let reply = ask(&server, "s0.example.test", rtype::A);
    assert_eq!(reply.answer.len(), 9, "8 steps: {:?}", reply.answer);
}

#[test]
fn a_pool_of_addresses_beside_one_of_host_names_answers_as_ever() {
    let site = Site::with_zone(
        &[
            "[monitors.word]\ntype = \"file\"\npath = \"../health\"\ninterval = \"1s\"\n"
                .to_owned(),
            pool_with("addresses", "monitor = \"word\"", &[("a", "192.0.2.1")]),
            pool("hosts", &[("b", "b.elsewhere.test")]),
            balancer("www", "pools = [\"addresses\", \"hosts\"]"),
        ]
        .concat(),
    );
    site.write("health", "192.0.2.1 up\n");
    let server = Server::start(&site);
    assert_eq!(
        records(&ask(&server, "www.example.test", rtype::A)),
        ["www.example.test. 1 192.0.2.1"]
    );
    for qtype in [rtype::CNAME, rtype::TXT] {
        let reply = ask(&server, "www.example.test", qtype);
        assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 0), "{qtype}");
        assert_eq!(reply.authority[0].ttl, 30, "no longer than the load balancer's TTL");
    }
    site.write("health", "192.0.2.1 down\n");
    let cname = ["www.example.test. 5 b.elsewhere.test."];
    until("the other pool", || records(&ask(&server, "www.example.test", rtype::A)) == cname);
    assert_eq!(records(&ask(&server, "www.example.test", rtype::TXT)), cname);
}

// ---------------------------------------------------------------------------------- Flattening

const TWO: &str = "
    a A 600 192.0.2.1
    a AAAA 600 2001:db8::1
    b A 7 192.0.2.2
    alias CNAME 9 a.origins.test.
";

#[test]
fn a_flattened_host_name_is_answered_as_its_addresses() {
    let upstream = Upstream::start(TWO);
    let mixed = [("a", "a.origins.test"), ("b", "b.origins.test"), ("c", "192.0.2.3")];
    let body = [
        pool("mixed", &mixed),
        pool("alias", &[("a", "alias.origins.test")]),
        balancer("www", "pools = [\"mixed\"]\nflatten = true\nanswers = \"all\""),
        balancer("alias", "pools = [\"alias\"]\nflatten = true"),
    ];
    let (_site, server) = start(&body.concat(), &upstream.settings(""));
    // The first resolution is waited for.
    assert_eq!(
        addresses(&server, "www.example.test", rtype::A),
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    );
    assert_eq!(addresses(&server, "www.example.test", rtype::AAAA), ["2001:db8::1"]);
    let reply = ask(&server, "www.example.test", rtype::CNAME);
    assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 0));
    // "their TTL capped by the record's own"; a set has one TTL.
    for record in &ask(&server, "www.example.test", rtype::A).answer {
        assert!((5..=7).contains(&record.ttl), "{record:?}");
    }
    assert_eq!(ask(&server, "www.example.test", rtype::AAAA).answer[0].ttl, 30);
    let alias = ask(&server, "alias.example.test", rtype::A);
    assert_eq!(records(&alias), ["alias.example.test. 1 192.0.2.1"]);
    assert!((5..=9).contains(&alias.answer[0].ttl), "the alias holds for 9 s: {alias:?}");
}

// "Where a CNAME may not stand (the apex, or a name with other records)"
#[test]
fn at_the_apex_and_beside_other_records_addresses_are_answered() {
    let upstream = Upstream::start(TWO);
    let body = [
        "[[records]]\nname = \"text\"\ntype = \"TXT\"\ndata = ['\"beside\"']\n".to_owned(),
        pool("hosts", &[("a", "a.origins.test")]),
        balancer("@", "pools = [\"hosts\"]"),
        balancer("text", "pools = [\"hosts\"]"),
        balancer("www", "pools = [\"hosts\"]"),
    ];
    let (_site, server) = start(&body.concat(), &upstream.settings(""));
    assert_eq!(records(&ask(&server, "example.test", rtype::A)), ["example.test. 1 192.0.2.1"]);
    assert_eq!(ask(&server, "example.test", rtype::NS).data(rtype::NS).len(), 1);
    assert_eq!(addresses(&server, "text.example.test", rtype::AAAA), ["2001:db8::1"]);
    assert_eq!(ask(&server, "text.example.test", rtype::TXT).answer[0].rtype, rtype::TXT);
    assert_eq!(ask(&server, "www.example.test", rtype::A).answer[0].rtype, rtype::CNAME);
}

#[test]
fn a_change_of_addresses_is_followed_and_told_once() {
    let mut upstream = Upstream::start("a A 5 192.0.2.1");
    let body = [
        pool("hosts", &[("a", "a.origins.test")]),
        balancer("www", "pools = [\"hosts\"]\nflatten = true"),
    ];
    let (_site, mut server) = start(&body.concat(), &upstream.settings(""));
    assert_eq!(addresses(&server, "www.example.test", rtype::A), ["192.0.2.1"]);
    upstream.change("a A 5 192.0.2.7\na AAAA 5 2001:db8::7");
    until("the new address", || addresses(&server, "www.example.test", rtype::A) == ["192.0.2.7"]);
    assert_eq!(addresses(&server, "www.example.test", rtype::AAAA), ["2001:db8::7"]);
    let told: Vec<_> = server
        .log_so_far()
        .iter()
        .map(|line| &line["fields"])
        .filter(|fields| fields["message"] == "resolved")
        .map(|fields| format!("{} {}", fields["name"], fields["addresses"]).replace('"', ""))
        .collect();
    assert_eq!(told, ["a.origins.test. 192.0.2.1", "a.origins.test. 192.0.2.7 2001:db8::7"]);
}

#[test]
fn while_a_name_cannot_be_resolved_the_last_good_addresses_are_kept() {
    let mut upstream = Upstream::start("a A 5 192.0.2.1");
    let body = [
        pool("hosts", &[("a", "a.origins.test")]),
        balancer("www", "pools = [\"hosts\"]\nflatten = true"),
    ]
    .concat();
    let (_site, mut server) = start(&body, &upstream.settings(""));
    let (_other_site, brief) = start(&body, &(upstream.settings("") + "keep = \"0s\"\n"));
    upstream.change("");
    let line = server.wait_for("cannot resolve");
    assert_eq!(line["fields"]["name"], "a.origins.test.");
    assert_eq!(line["fields"]["addresses"], "192.0.2.1");
    assert_eq!(line["fields"]["reason"], "the name does not exist");
    let reply = ask(&server, "www.example.test", rtype::A);
    assert_eq!(records(&reply), ["www.example.test. 1 192.0.2.1"]);
    assert_eq!(reply.answer[0].ttl, 5);
    // Where they are not kept there is no data.
    until("no address", || addresses(&brief, "www.example.test", rtype::A).is_empty());
    assert_eq!(ask(&brief, "www.example.test", rtype::A).rcode(), rcode::NOERROR);
    upstream.change("a A 5 192.0.2.2");
    until("the new address", || addresses(&server, "www.example.test", rtype::A) == ["192.0.2.2"]);
}

#[test]
fn without_a_resolver_the_server_starts_and_says_what_is_missing() {
    // Nothing listens there: TCP is refused, and so is UDP.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let body = [
        pool("hosts", &[("a", "a.origins.test")]),
        balancer("www", "pools = [\"hosts\"]"),
        balancer("flat", "pools = [\"hosts\"]\nflatten = true"),
    ];
    let site = Site::with_zone(&body.concat());
    site.write("meridian.toml", settings(unused, "startup_wait = \"1s\"\n"));
    let mut server = Server::start(&site);
    let reply = ask(&server, "flat.example.test", rtype::A);
    assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 0));
    assert_eq!(reply.authority[0].ttl, 30, "no longer than the load balancer's TTL");
    let reply = ask(&server, "www.example.test", rtype::A);
    assert_eq!(records(&reply), ["www.example.test. 5 a.origins.test."]);
    let told = |lines: &[serde_json::Value]| {
        lines.iter().any(|line| line["fields"]["message"] == "cannot resolve")
    };
    until("a line in the log", || told(server.log_so_far()));
    // A reload with a resolver that is there asks at once.
    let upstream = Upstream::start("a A 600 192.0.2.1");
    site.write("meridian.toml", upstream.settings("startup_wait = \"1s\"\n"));
    server.reload("reloaded");
    until("an address", || addresses(&server, "flat.example.test", rtype::A) == ["192.0.2.1"]);
}

#[test]
fn a_reload_resolves_what_is_new_at_once() {
    let upstream = Upstream::start("a A 600 192.0.2.1\nb A 600 192.0.2.2");
    let body =
        |origin: &str| pool("hosts", &[("o", origin)]) + &balancer("@", "pools = [\"hosts\"]");
    let (site, mut server) = start(&body("a.origins.test"), &upstream.settings(""));
    assert_eq!(addresses(&server, "example.test", rtype::A), ["192.0.2.1"]);
    site.write(ZONE, format!("{ZONE_HEAD}{}", body("b.origins.test")));
    server.reload("reloaded");
    until("the new name", || addresses(&server, "example.test", rtype::A) == ["192.0.2.2"]);
    // And what is still there holds without a gap.
    site.write(ZONE, format!("{ZONE_HEAD}{}# the same\n", body("b.origins.test")));
    server.reload("reloaded");
    assert_eq!(addresses(&server, "example.test", rtype::A), ["192.0.2.2"]);
}

// ---------------------------------------------------------------------------------- Monitors

/// An HTTP server on a loopback address that answers 200 while it is well, and notes Host headers.
struct Web {
    port: u16,
    hosts: Arc<Mutex<Vec<String>>>,
    is_well: Arc<Mutex<bool>>,
}

impl Web {
    fn start(address: Ipv4Addr, port: u16) -> Self {
        let listener = TcpListener::bind((address, port)).expect("a free port");
        let port = listener.local_addr().unwrap().port();
        let (hosts, is_well) = (Arc::default(), Arc::new(Mutex::new(true)));
        let web = Self { port, hosts: Arc::clone(&hosts), is_well: Arc::clone(&is_well) };
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = Vec::new();
                let mut buffer = [0; 1024];
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(size) if size > 0 => head.extend_from_slice(&buffer[..size]),
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let host = head.lines().find_map(|line| line.strip_prefix("host: "));
                hosts.lock().unwrap().extend(host.map(str::to_owned));
                let status = if *is_well.lock().unwrap() { "200 OK" } else { "503 Ill" };
                // A probe may have ended: nobody is left to tell.
                let _gone = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            }
        });
        web
    }

    fn set(&self, well: bool) {
        *self.is_well.lock().unwrap() = well;
    }

    fn hosts(&self) -> Vec<String> {
        let mut hosts = self.hosts.lock().unwrap().clone();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

#[test]
fn monitors_probe_the_addresses_of_a_host_name_and_ask_by_it() {
    let first = Web::start(Ipv4Addr::new(127, 23, 0, 1), 0);
    let second = Web::start(Ipv4Addr::new(127, 23, 0, 2), first.port);
    let upstream = Upstream::start("a A 600 127.23.0.1\na2 A 600 127.23.0.1\nb A 600 127.23.0.2");
    let port = first.port;
    let monitor = format!(
        "[monitors.web]\ntype = \"http\"\nport = {port}\ninterval = \"1s\"\nfall = 1\nrise = 1\n\
         [monitors.named]\ntype = \"http\"\nport = {port}\nhost = \"named.test\"\ninterval = \"1s\"\n"
    );
    let body = [
        monitor,
        pool_with(
            "main",
            "monitor = \"web\"",
            &[("a", "a.origins.test"), ("a2", "a2.origins.test")],
        ),
        pool_with("spare", "monitor = \"web\"", &[("b", "b.origins.test")]),
        pool_with("named", "monitor = \"named\"", &[("b", "b.origins.test")]),
        balancer("www", "pools = [\"main\", \"spare\"]"),
        balancer("flat", "pools = [\"main\", \"spare\"]\nflatten = true\nanswers = \"all\""),
        balancer("named", "pools = [\"named\"]"),
    ];
    let (_site, server) = start(&body.concat(), &upstream.settings(""));
    // The host names have one address, and each is asked for by its own name.
    let named = |name: &str| format!("{name}:{port}");
    assert_eq!(first.hosts(), [named("a.origins.test"), named("a2.origins.test")]);
    assert_eq!(second.hosts(), [named("b.origins.test"), "named.test".to_owned()]);
    // A record stands in an answer once.
    assert_eq!(addresses(&server, "flat.example.test", rtype::A), ["127.23.0.1"]);
    let target = |name: &str| ask(&server, name, rtype::A).answer[0].data.clone();
    assert!(target("www.example.test").starts_with('a'));
    first.set(false);
    until("failover", || target("www.example.test") == "b.origins.test.");
    assert_eq!(addresses(&server, "flat.example.test", rtype::A), ["127.23.0.2"]);
    first.set(true);
    until("recovery", || target("www.example.test").starts_with('a'));
}

#[test]
fn a_new_address_is_probed_at_once_and_does_not_reset_the_others() {
    let web = Web::start(Ipv4Addr::new(127, 23, 1, 1), 0);
    let mut upstream = Upstream::start("a A 5 127.23.1.1");
    let body = [
        format!(
            "[monitors.web]\ntype = \"tcp\"\nport = {}\ninterval = \"1s\"\nfall = 1\n",
            web.port
        ),
        pool_with("main", "monitor = \"web\"", &[("a", "a.origins.test")]),
        balancer("www", "pools = [\"main\"]\nflatten = true"),
    ];
    let (_site, mut server) = start(&body.concat(), &upstream.settings(""));
    assert_eq!(addresses(&server, "www.example.test", rtype::A), ["127.23.1.1"]);
    // Nothing listens on the second address.
    upstream.change("a A 5 127.23.1.1\na A 5 127.23.1.2");
    let is_down = |line: &serde_json::Value| {
        let fields = &line["fields"];
        fields["address"] == "127.23.1.2" && fields["to"] == "unhealthy"
    };
    until("the new address is down", || server.log_so_far().iter().any(is_down));
    assert_eq!(addresses(&server, "www.example.test", rtype::A), ["127.23.1.1"]);
    let changes = server.log_so_far().iter().filter(|line| {
        line["fields"]["message"] == "health changed" && line["fields"]["address"] == "127.23.1.1"
    });
    assert_eq!(changes.count(), 1, "the first result alone");
}

// ---------------------------------------------------------------------------------- Explain, check

#[test]
fn explain_shows_the_cname_or_that_addresses_come_from_resolution() {
    let site = Site::with_zone(
        &[
            "[monitors.web]\ntype = \"http\"\n".to_owned(),
            pool_with("hosts", "monitor = \"web\"", &[("a", "a.origins.test")]),
            balancer("www", "pools = [\"hosts\"]"),
            balancer("flat", "pools = [\"hosts\"]\nflatten = true"),
        ]
        .concat(),
    );
    let shown = site.explain(&["www.example.test", "--client", "192.0.2.1"]);
    assert_eq!(shown["answer"]["records"][0]["type"], "CNAME");
    assert_eq!(shown["answer"]["records"][0]["data"], "a.origins.test.");
    assert_eq!(shown["choice"]["share"]["a"], 1.0);
    let reason = shown["origins"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("answered as CNAME a.origins.test."), "{reason}");
    let shown = site.explain(&["flat.example.test", "--client", "192.0.2.1"]);
    assert_eq!(shown["answer"]["rcode"], "NOERROR");
    let reason = shown["origins"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("resolution"), "{reason}");
    let down = site.explain(&["www.example.test", "--client", "192.0.2.1", "--down", "a"]);
    assert_eq!(down["origins"][0]["health"], "unhealthy");
}

#[test]
fn simulate_counts_origins_given_by_host_name() {
    let site = Site::with_zone(
        &[
            pool("hosts", &[("a", "a.origins.test"), ("b", "b.origins.test")]),
            balancer("www", "pools = [\"hosts\"]"),
            balancer("flat", "pools = [\"hosts\"]\nflatten = true"),
        ]
        .concat(),
    );
    let run = site.run(&["simulate", "--mix", "weu=1"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout.matches("50.0 %").count(), 4, "two origins of two names: {run:?}");
}

// ---------------------------------------------------------------------------------- Hints

/// The parameters of an HTTPS record in wire form, by key.
fn parameters(rdata: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let number = |at: usize| u16::from_be_bytes([rdata[at], rdata[at + 1]]);
    assert_eq!(rdata[2], 0, "the target is .");
    let (mut at, mut found) = (3, Vec::new());
    while at < rdata.len() {
        let length = usize::from(number(at + 2));
        found.push((number(at), rdata[at + 4..at + 4 + length].to_vec()));
        at += 4 + length;
    }
    found
}

// "A/AAAA/CNAME and HTTPS/SVCB can be steered"
#[test]
fn https_records_get_the_addresses_of_the_client_as_hints() {
    let body = "
[[records]]
name = \"www\"
type = \"HTTPS\"
ttl = 600
data = [\"1 . alpn=h2 ech=AAAA\", \"2 . port=8443\"]
steered_hints = true

[pools.eu]
region = \"weu\"
origins = [
    { name = \"a\", address = [\"192.0.2.1\", \"2001:db8::1\"] },
    { name = \"b\", address = \"192.0.2.2\" },
]

[pools.us]
region = \"enam\"
origins = [{ name = \"c\", address = \"192.0.2.3\" }]

[load_balancers.www]
pools = [\"eu\", \"us\"]
steering = \"geo\"
";
    let site = Site::with_zone(body);
    site.write(
        "geo/subnets.toml",
        "[subnets.\"10.1.0.0/16\"]\nregion = \"weu\"\n[subnets.\"10.2.0.0/16\"]\nregion = \"enam\"\n",
    );
    let server = Server::start(&site);
    let ask = |qtype, subnet| server.ask(&Query::new("www.example.test", qtype).ecs(subnet, 24));
    let mut hints: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..50 {
        let https = ask(rtype::HTTPS, "10.1.2.0");
        let [first, second] = &https.answer[..] else { panic!("{:?}", https.answer) };
        assert_eq!((first.rtype, first.ttl), (rtype::HTTPS, 30));
        let found = parameters(&first.rdata);
        let keys: Vec<u16> = found.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [1, 4, 5, 6], "alpn, ipv4hint, ech, ipv6hint");
        assert_eq!(found[3].1, "2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        assert_eq!(parameters(&second.rdata).len(), 3, "port and hints");
        *hints.entry(found[1].1.clone()).or_default() += 1;
        // Asked in turn, as browsers do: the shares of both stay even.
        let a = ask(rtype::A, "10.1.2.0");
        *answers.entry(a.answer[0].data.clone()).or_default() += 1;
        assert_eq!(https.scope(), a.scope());
        assert!(a.scope() >= 16);
    }
    assert_eq!(hints, BTreeMap::from([(vec![192, 0, 2, 1], 25), (vec![192, 0, 2, 2], 25)]));
    assert_eq!(answers.into_values().collect::<Vec<_>>(), [25, 25]);
    let https = ask(rtype::HTTPS, "10.2.2.0");
    let found = parameters(&https.answer[0].rdata);
    assert_eq!(found.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(found[1].1, [192, 0, 2, 3]);
    let over_tcp =
        server.ask_tcp(&Query::new("www.example.test", rtype::HTTPS).ecs("10.2.2.0", 24));
    assert_eq!(over_tcp.answer[0].rdata, https.answer[0].rdata);
}

// "nothing is accepted and ignored": without the key a record stays as it is.
#[test]
fn https_records_without_the_key_stay_as_they_are() {
    let body = "
[[records]]
name = \"www\"
type = \"HTTPS\"
data = [\"1 . alpn=h2\"]

[pools.eu]
origins = [{ name = \"a\", address = \"192.0.2.1\" }]

[load_balancers.www]
pools = [\"eu\"]
";
    let (_site, server) = start(body, SERVER);
    let reply = ask(&server, "www.example.test", rtype::HTTPS);
    assert_eq!(parameters(&reply.answer[0].rdata), [(1, b"\x02h2".to_vec())]);
    assert_eq!(reply.answer[0].ttl, 300);
}
