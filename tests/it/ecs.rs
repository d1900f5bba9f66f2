//! EDNS client subnet (RFC 7871 and "ECS scope" of spec/steering.md): what is echoed, who is
//! located, how far an answer holds, and what is refused as malformed.
//!
//! A scope is tested for soundness, not for its value: whoever lies inside must be treated alike.
//! Exact values are expected only where the specification leaves a single one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::json;

use crate::harness::{Random, Server, Site, ZONE_HEAD};
use crate::mmdb;
use crate::wire::{ClientSubnet, Query, Reply, option, rcode, rtype};

const REGIONS: &str = r#"
[regions.weu]
countries = ["NL", "DE"]
[regions.enam]
countries = ["US"]
[regions.europe-west4]
parent = "weu"
"#;

/// Networks inside networks, so that most scopes have to go around a hole.
const SUBNETS: &str = r#"
[subnets."203.0.113.0/24"]
region = "weu"
[subnets."203.0.113.128/25"]
region = "enam"
[subnets."10.0.0.0/8"]
region = "weu"
[subnets."10.1.0.0/16"]
region = "europe-west4"
zone = "ew4-a"
[subnets."10.1.64.0/18"]
region = "europe-west4"
zone = "ew4-b"
[subnets."10.1.64.7/32"]
region = "enam"
[subnets."10.2.0.0/15"]
region = "enam"
[subnets."172.16.0.0/12"]
country = "US"
[subnets."127.0.0.0/8"]
region = "enam"
[subnets."2001:db8::/32"]
region = "weu"
[subnets."2001:db8:1::/48"]
region = "enam"
[subnets."2001:db8:1:8000::/49"]
region = "europe-west4"
zone = "ew4-a"
"#;

/// Where the interesting addresses lie: the subnets above, and those of the database below.
const NETWORKS: [&str; 16] = [
    "203.0.113.0",
    "203.0.113.128",
    "10.0.0.0",
    "10.1.0.0",
    "10.1.64.0",
    "10.1.64.7",
    "10.2.0.0",
    "172.16.0.0",
    "198.51.100.0",
    "198.51.101.0",
    "198.51.102.0",
    "2001:db8::",
    "2001:db8:1::",
    "2001:db8:1:8000::",
    "2001:db8:ffff::",
    "::ffff:203.0.113.0",
];

const ZONE: &str = r#"
[[records]]
name = "static"
type = "TXT"
data = ["hello"]

[[records]]
name = "alias"
type = "CNAME"
data = ["region"]

[[records]]
name = "sub"
type = "NS"
data = ["ns.elsewhere.test."]

[pools.w]
origins = [{ name = "w", address = ["192.0.2.1", "2001:db8::1"] }]
[pools.e]
origins = [{ name = "e", address = ["192.0.2.2", "2001:db8::2"] }]
[pools.x]
origins = [{ name = "x", address = ["192.0.2.3", "2001:db8::3"] }]
[pools.off]
enabled = false
origins = [{ name = "off", address = ["192.0.2.4", "2001:db8::4"] }]
[pools.v4]
origins = [{ name = "v4", address = "192.0.2.5" }]
[pools.z]
region = "europe-west4"
zonal_affinity = { mode = "stay_within_zone" }
origins = [
  { name = "za", zone = "ew4-a", address = ["192.0.2.6", "2001:db8::6"] },
  { name = "zb", zone = "ew4-b", address = ["192.0.2.7", "2001:db8::7"] },
]

[load_balancers.region]
steering = "geo"
pools = ["x"]
region_pools = { weu = ["w"], enam = ["e"] }

[load_balancers.country]
steering = "geo"
pools = ["x"]
country_pools = { NL = ["w"], US = ["e"] }

[load_balancers.rtt]
steering = "rtt"
pools = ["w", "e"]

[load_balancers.zonal]
pools = ["z"]
answers = "all"

[load_balancers.dead]
steering = "geo"
pools = ["x", "off"]
region_pools = { weu = ["off"], enam = ["e"] }

[load_balancers.plain]
pools = ["w"]

[load_balancers.resolver]
steering = "geo"
client = "resolver"
pools = ["x"]
region_pools = { weu = ["w"], enam = ["e"] }

[load_balancers.v4only]
steering = "geo"
pools = ["v4"]
region_pools = { weu = ["v4"], enam = ["e"] }
"#;

/// The load balancers whose answer depends on the client.
const DEPENDENT: [&str; 5] = ["region", "country", "rtt", "zonal", "dead"];

fn serve() -> Server {
    let site = Site::new();
    site.write("zones/example.test.toml", format!("{ZONE_HEAD}{ZONE}"));
    site.write("geo/regions.toml", REGIONS);
    site.write("geo/subnets.toml", SUBNETS);
    site.write("geo/rtt.toml", "[rtt.weu]\nw = 10\ne = 100\n[rtt.enam]\nw = 100\ne = 10\n");
    let country = |code: &str| json!({"country": {"iso_code": code}});
    let database = mmdb::database(&[
        ("198.51.100.0/24", country("NL")),
        ("198.51.101.0/24", country("US")),
        ("198.51.102.0/23", country("DE")),
        ("10.3.128.0/17", country("NL")),
        ("2001:db8:ffff::/48", country("US")),
    ]);
    site.write("geo/city.mmdb", database);
    Server::start(&site)
}

fn steered(name: &str, qtype: u16) -> Query {
    Query::new(&format!("{name}.example.test"), qtype)
}

fn both_transports(server: &Server, query: &Query) -> [Reply; 2] {
    [server.ask(query), server.ask_tcp(query)]
}

// ---------------------------------------------------------------------------------- Echo

// RFC 7871 7.2.1: family, source prefix and address come back as they were sent.
#[test]
fn family_source_prefix_and_address_are_echoed() {
    let server = serve();
    for name in ["region", "zonal", "plain", "static", "nope", "x.sub"] {
        for (address, prefix) in [
            ("203.0.113.0", 24),
            ("203.0.113.77", 32),
            ("10.1.0.0", 9),
            ("192.0.2.0", 1),
            ("0.0.0.0", 0),
            ("2001:db8:1::", 48),
            ("2001:db8:1:8000::1", 128),
            ("2001:db8::", 29),
            ("::", 0),
        ] {
            let query = steered(name, rtype::A).ecs(address, prefix);
            let sent = query.octets();
            for reply in both_transports(&server, &query) {
                let ecs = reply.ecs().unwrap_or_else(|| panic!("{name}: {address}/{prefix}"));
                let ClientSubnet { family, source_prefix, address: echoed, .. } = ecs;
                assert_eq!(source_prefix, prefix, "{name}: {address}/{prefix}");
                assert_eq!(family, if address.contains(':') { 2 } else { 1 }, "{address}");
                assert!(sent.ends_with(&echoed), "{name}: {address}/{prefix}: {echoed:?}");
                assert_eq!(echoed.len(), usize::from(prefix).div_ceil(8), "{address}/{prefix}");
            }
        }
    }
}

// RFC 7871 7.2.1: none asked, none given.
#[test]
fn without_the_option_there_is_none_in_the_reply() {
    let server = serve();
    for query in [steered("region", rtype::A), steered("region", rtype::A).edns(1232)] {
        for reply in both_transports(&server, &query) {
            assert!(reply.ecs().is_none());
            // The client is then the source address: 127.0.0.0/8 lies in enam.
            assert_eq!(reply.data(rtype::A), ["192.0.2.2"]);
        }
    }
}

// ---------------------------------------------------------------------------------- Location

// spec/steering.md: by the option's address, longest match of any length; the database fills gaps.
#[test]
fn the_client_is_located_by_the_option() {
    let server = serve();
    for (name, address, prefix, expected) in [
        ("region", "203.0.113.0", 24, "192.0.2.1"),
        ("region", "203.0.113.128", 25, "192.0.2.2"),
        ("region", "203.0.113.200", 32, "192.0.2.2"),
        // The bits beyond the source prefix are zero, and 10.0.0.0 lies in weu.
        ("region", "10.2.0.0", 8, "192.0.2.1"),
        ("region", "10.1.0.0", 16, "192.0.2.1"),
        ("region", "10.1.64.7", 32, "192.0.2.2"),
        ("region", "192.0.2.0", 24, "192.0.2.3"),
        // The region of a country that the database knows.
        ("region", "198.51.100.0", 24, "192.0.2.1"),
        ("region", "198.51.101.0", 24, "192.0.2.2"),
        ("region", "172.16.1.0", 24, "192.0.2.2"),
        ("country", "198.51.100.0", 24, "192.0.2.1"),
        ("country", "172.16.1.0", 24, "192.0.2.2"),
        // The subnet entry has a region and no country: the database gives the country alone.
        ("country", "10.3.200.0", 24, "192.0.2.1"),
        ("region", "10.3.200.0", 24, "192.0.2.2"),
        ("country", "198.51.102.0", 24, "192.0.2.3"),
        ("rtt", "203.0.113.0", 24, "192.0.2.1"),
        ("rtt", "203.0.113.128", 25, "192.0.2.2"),
        ("region", "2001:db8:7::", 48, "192.0.2.1"),
        ("region", "2001:db8:1::", 56, "192.0.2.2"),
        ("region", "2001:db8:1:8000::", 56, "192.0.2.1"),
        ("alias", "203.0.113.128", 25, "192.0.2.2"),
    ] {
        let reply = server.ask(&steered(name, rtype::A).ecs(address, prefix));
        assert_eq!(reply.data(rtype::A), [expected], "{name} for {address}/{prefix}");
    }
}

// RFC 7871 7.1.2, spec/dns.md: source prefix 0 = located by the resolver, scope 0.
#[test]
fn source_prefix_0_is_answered_for_the_resolver() {
    let server = serve();
    for address in ["0.0.0.0", "::"] {
        for reply in both_transports(&server, &steered("region", rtype::A).ecs(address, 0)) {
            assert_eq!(reply.data(rtype::A), ["192.0.2.2"], "{address}/0");
            assert_eq!(reply.scope(), 0, "{address}/0");
        }
    }
}

// spec/steering.md: client = "resolver" is always the source address, and the scope 0.
#[test]
fn a_load_balancer_that_steers_by_resolver_ignores_the_option() {
    let server = serve();
    for (address, prefix) in [("203.0.113.0", 24), ("10.0.0.0", 8), ("2001:db8::", 32)] {
        let reply = server.ask(&steered("resolver", rtype::A).ecs(address, prefix));
        assert_eq!(reply.data(rtype::A), ["192.0.2.2"], "{address}/{prefix}");
        assert_eq!(reply.scope(), 0, "{address}/{prefix}");
    }
}

// spec/steering.md: ::ffff:0:0/96 is treated as IPv4 with scope + 96.
#[test]
fn mapped_addresses_are_treated_as_ipv4() {
    let server = serve();
    let ask = |address: &str, prefix| server.ask(&steered("region", rtype::A).ecs(address, prefix));
    for (address, prefix, expected) in
        [("203.0.113.0", 24, "192.0.2.1"), ("203.0.113.128", 25, "192.0.2.2")]
    {
        let plain = ask(address, prefix);
        let mapped = ask(&format!("::ffff:{address}"), prefix + 96);
        assert_eq!(mapped.data(rtype::A), [expected], "{address}");
        assert_eq!(mapped.scope(), plain.scope() + 96, "{address}");
        assert_eq!(mapped.ecs().expect("an option").family, 2, "{address}");
    }
}

// ---------------------------------------------------------------------------------- Scope

// spec/steering.md: "at least" and "at most" meet where a network of another kind lies beside.
#[test]
fn the_scope_goes_around_more_specific_networks() {
    let server = serve();
    for (address, prefix, scope) in [
        // RFC 7871 7.2.1: longer than the source prefix where a longer prefix differs.
        ("203.0.113.0", 24, 25),
        ("203.0.113.200", 32, 25),
        ("10.5.0.0", 16, 14),
        ("10.1.64.7", 32, 32),
        ("10.1.64.6", 32, 32),
        ("10.1.64.5", 32, 31),
        ("2001:db8:1::", 48, 49),
        ("2001:db8:5::", 48, 46),
    ] {
        let reply = server.ask(&steered("region", rtype::A).ecs(address, prefix));
        assert_eq!(reply.scope(), scope, "{address}/{prefix}");
    }
}

// spec/steering.md: "the scope covers no address that this load balancer treats differently".
#[test]
fn everybody_inside_the_scope_is_treated_alike() {
    let server = serve();
    let mut random = Random(0x5eed);
    for name in DEPENDENT {
        for round in 0..80 {
            let network = NETWORKS[round % NETWORKS.len()].parse().expect("an address");
            let (client, width) = near(network, &mut random);
            let source = 1 + random.below(width);
            let client = masked(client, source, width);
            let reply = ask_as(&server, name, client, source, width);
            let scope = usize::from(reply.scope());
            assert!(scope <= width, "{name}: scope {scope}");
            for _ in 0..8 {
                let inside = masked(client, scope, width)
                    | u128::from(random.next()) << 64 & low_bits(width - scope)
                    | u128::from(random.next()) & low_bits(width - scope);
                let other = ask_as(&server, name, inside, width, width);
                assert_eq!(
                    treatment(&other),
                    treatment(&reply),
                    "{name}: {}/{source} has scope {scope}, but {} is treated differently",
                    address(client, width),
                    address(inside, width),
                );
            }
        }
    }
}

/// What a client gets: the rcode and all addresses, in any order.
fn treatment(reply: &Reply) -> (u16, Vec<&str>) {
    let mut addresses = reply.data(rtype::A);
    addresses.sort_unstable();
    (reply.rcode(), addresses)
}

fn ask_as(server: &Server, name: &str, client: u128, source: usize, width: usize) -> Reply {
    let source = u8::try_from(source).expect("a prefix length");
    let query = steered(name, rtype::A).ecs(&address(client, width).to_string(), source);
    server.ask(&query)
}

/// An address that shares a random number of leading bits with the network, and its width.
fn near(network: IpAddr, random: &mut Random) -> (u128, usize) {
    let (bits, width) = match network {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let flips = u128::from(random.next()) << 64 | u128::from(random.next());
    (bits ^ flips & low_bits(random.below(width + 1)), width)
}

fn low_bits(count: usize) -> u128 {
    if count == 128 { u128::MAX } else { (1 << count) - 1 }
}

fn masked(address: u128, prefix: usize, width: usize) -> u128 {
    address & !low_bits(width - prefix)
}

fn address(bits: u128, width: usize) -> IpAddr {
    match u32::try_from(bits) {
        Ok(bits) if width == 32 => Ipv4Addr::from(bits).into(),
        _ => Ipv6Addr::from(bits).into(),
    }
}

// RFC 7871 7.2.1: 0 where the answer cannot depend on the client.
#[test]
fn the_scope_is_0_where_the_client_does_not_matter() {
    let server = serve();
    for (name, qtype) in [("plain", rtype::A), ("plain", rtype::AAAA), ("static", rtype::TXT)] {
        for (address, prefix) in [("203.0.113.0", 24), ("10.1.64.7", 32), ("2001:db8:1::", 48)] {
            let reply = server.ask(&steered(name, qtype).ecs(address, prefix));
            assert!(!reply.answer.is_empty(), "{name}");
            assert_eq!(reply.scope(), 0, "{name} {qtype} for {address}/{prefix}");
        }
    }
}

// RFC 7871 7.4, spec/steering.md: NODATA, NXDOMAIN and referrals have scope 0.
#[test]
fn negative_answers_and_referrals_have_scope_0() {
    let server = serve();
    let questions = [
        ("region", rtype::MX, rcode::NOERROR),
        ("v4only", rtype::AAAA, rcode::NOERROR),
        ("static", rtype::A, rcode::NOERROR),
        ("nope", rtype::A, rcode::NXDOMAIN),
        ("x.region", rtype::A, rcode::NXDOMAIN),
        ("x.sub", rtype::A, rcode::NOERROR),
    ];
    for (name, qtype, expected) in questions {
        for reply in both_transports(&server, &steered(name, qtype).ecs("203.0.113.0", 24)) {
            assert_eq!(reply.rcode(), expected, "{name} {qtype}");
            assert!(reply.answer.is_empty(), "{name} {qtype}");
            assert_eq!(reply.scope(), 0, "{name} {qtype}");
        }
    }
}

// spec/steering.md: SERVFAIL has the ECS scope that a positive answer would have.
#[test]
fn servfail_has_the_scope_of_a_positive_answer() {
    let server = serve();
    let reply = server.ask(&steered("dead", rtype::A).ecs("203.0.113.0", 24));
    assert_eq!((reply.rcode(), reply.scope()), (rcode::SERVFAIL, 25));
    let reply = server.ask(&steered("dead", rtype::A).ecs("203.0.113.128", 25));
    assert_eq!((reply.rcode(), reply.scope()), (rcode::NOERROR, 25));
}

// spec/steering.md: a chain of CNAMEs has the longest scope of its parts.
#[test]
fn a_cname_to_a_steered_name_has_the_scope_of_that_name() {
    let server = serve();
    let reply = server.ask(&steered("alias", rtype::A).ecs("203.0.113.0", 24));
    assert_eq!(reply.answer.len(), 2);
    assert_eq!(reply.scope(), 25);
}

// ---------------------------------------------------------------------------------- Malformed

// RFC 7871 6, 7.2.1; spec/steering.md: "a non-zero scope or a wrong address length is FORMERR".
#[test]
fn malformed_options_are_format_errors() {
    let server = serve();
    let with = |data: &[u8]| steered("region", rtype::A).option(option::CLIENT_SUBNET, data);
    let readable: [(&str, &[u8]); 5] = [
        ("a scope in a query", &[0, 1, 24, 1, 203, 0, 113]),
        ("a scope in an IPv6 query", &[0, 2, 16, 16, 0x20, 0x01]),
        ("bits beyond the prefix", &[0, 1, 20, 0, 203, 0, 113]),
        ("an octet too many", &[0, 1, 24, 0, 203, 0, 113, 0]),
        ("an address with prefix 0", &[0, 1, 0, 0, 203]),
    ];
    for (why, data) in readable {
        for reply in both_transports(&server, &with(data)) {
            assert_eq!(reply.rcode(), rcode::FORMERR, "{why}");
            assert!(reply.answer.is_empty(), "{why}");
            // RFC 6891 7: an OPT in reply to a readable OPT.
            assert!(reply.opt.is_some(), "{why}");
        }
    }
    // These need not be decodable at all, so silence is allowed.
    let unreadable: [(&str, &[u8]); 7] = [
        ("an unknown family", &[0, 3, 24, 0, 203, 0, 113]),
        ("prefix 33", &[0, 1, 33, 0, 203, 0, 113, 1, 128]),
        ("prefix 129", &[0, 2, 129, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 128]),
        ("an octet too few", &[0, 1, 24, 0, 203, 0]),
        ("no address", &[0, 1, 24, 0]),
        ("half a header", &[0, 1, 24]),
        ("nothing", &[]),
    ];
    for (why, data) in unreadable {
        server.assert_formerr_or_silence(why, &with(data).octets());
    }
}
