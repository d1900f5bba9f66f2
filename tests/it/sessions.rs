//! Session affinity (spec/steering.md, "Session affinity" and the scope of answers with sessions), over
//! the wire: who keeps an origin, who is moved, and how long a prefix an answer is for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{SERVER, Server, Site, ZONE_HEAD, strings};
use crate::wire::{Query, rcode, rtype};

const ZONE: &str = "zones/example.test.toml";
const WWW: &str = "www.example.test";
/// The subnet of the client that the tests watch.
const CLIENT: (&str, u8) = ("10.1.2.0", 24);
/// How long a change of health may take to show.
const PATIENCE: Duration = Duration::from_secs(20);

/// Every origin's health stands in the file zones/health.
const MONITOR: &str =
    "[monitors.file]\ntype = \"file\"\npath = \"health\"\ninterval = \"1s\"\ntimeout = \"800ms\"\n";
const AFFINITY: &str = "session_affinity = { ttl = \"30m\" }\n";
const MOVING: &str = "session_affinity = { ttl = \"30m\", failback = \"move\" }\n";

/// A pool of origins with these numbers and weights.
fn pool(name: &str, origins: &[(u8, &str)]) -> String {
    let mut text = format!("[pools.{name}]\nmonitor = \"file\"\norigins = [\n");
    for (number, weight) in origins {
        let addresses = format!("[\"192.0.2.{number}\", \"2001:db8::{number}\"]");
        writeln!(text, "  {{ name = \"o{number}\", address = {addresses}, weight = {weight} }},")
            .unwrap();
    }
    text.push_str("]\n");
    text
}

/// The load balancer `www` with these keys.
fn www(keys: &str) -> String {
    format!("[load_balancers.www]\n{keys}")
}

fn site(parts: &[String]) -> Site {
    let site = Site::new();
    rewrite(&site, parts);
    site.write("zones/health", "* up\n");
    site
}

fn rewrite(site: &Site, parts: &[String]) {
    site.write(ZONE, format!("{ZONE_HEAD}{MONITOR}{}", parts.concat()));
}

/// One pool of three origins with sessions.
fn one_pool() -> Vec<String> {
    vec![
        pool("p", &[(1, "0.4"), (2, "0.3"), (3, "0.3")]),
        www(&format!("pools = [\"p\"]\n{AFFINITY}")),
    ]
}

/// Two pools of two origins, the first preferred.
fn two_pools(affinity: &str) -> Vec<String> {
    vec![
        pool("p", &[(1, "1"), (2, "1")]),
        pool("q", &[(11, "1"), (12, "1")]),
        www(&format!("pools = [\"p\", \"q\"]\n{affinity}")),
    ]
}

/// The number of the origin that a client subnet is answered.
fn origin(server: &Server, subnet: (&str, u8)) -> u8 {
    let found = server.addresses(WWW, rtype::A, subnet);
    assert_eq!(found.len(), 1, "{found:?}");
    number(&found[0])
}

fn number(address: &str) -> u8 {
    address.rsplit(['.', ':']).next().unwrap().parse().unwrap()
}

/// The /24 subnet with a number.
fn subnet(number: usize) -> String {
    format!("10.{}.{}.0", 100 + number / 256, number % 256)
}

/// What a number of new client subnets are answered.
fn spread(server: &Server, subnets: std::ops::Range<usize>) -> BTreeMap<u8, usize> {
    let mut found = BTreeMap::new();
    for number in subnets {
        *found.entry(origin(server, (&subnet(number), 24))).or_default() += 1;
    }
    found
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until new clients are answered these origins only. Each look uses up new subnets.
fn until_new_get(server: &Server, next: &mut usize, wanted: &[u8]) {
    until("the change of health", || {
        *next += 12;
        let found = spread(server, *next - 12..*next);
        found.keys().all(|origin| wanted.contains(origin))
    });
}

// ---------------------------------------------------------------------------------- Stickiness

// "A client subnet keeps its origin while the session lives": all addresses of the subnet, over both
// transports, for both types.
#[test]
fn a_client_subnet_keeps_its_origin() {
    let server = Server::start(&site(&one_pool()));
    let first = origin(&server, CLIENT);
    for query in 0..1000 {
        let client = format!("10.1.2.{}", query % 256);
        assert_eq!(origin(&server, (&client, 32)), first, "query {query}");
    }
    let over_tcp = server.ask_tcp(&Query::new(WWW, rtype::A).ecs(CLIENT.0, CLIENT.1));
    assert_eq!(number(over_tcp.data(rtype::A)[0]), first);
    let v6 = server.addresses(WWW, rtype::AAAA, CLIENT);
    assert_eq!(v6, [format!("2001:db8::{first}")]);
}

// What is placed over TCP is kept over UDP, and by every worker.
#[test]
fn workers_and_transports_share_sessions() {
    let site = site(&one_pool());
    site.write("meridian.toml", SERVER.replace("workers = 1", "workers = 4"));
    let mut server = Server::start(&site);
    let place = |number: usize| {
        let query = Query::new(WWW, rtype::A).ecs(&subnet(number), 24);
        number_of(&server.ask_tcp(&query).data(rtype::A))
    };
    let placed: Vec<u8> = (0..100).map(place).collect();
    // Drained, so that only the sessions lead there.
    let mut text = pool("p", &[(1, "0"), (2, "0"), (3, "0"), (9, "1")]);
    text.push_str(&one_pool()[1]);
    rewrite(&site, &[text]);
    server.reload("reloaded");
    for (number, placed) in placed.iter().enumerate() {
        // A socket of its own for each, so that the kernel takes them to different workers.
        assert_eq!(origin(&server, (&subnet(number), 24)), *placed, "subnet {number}");
    }
    assert_eq!(spread(&server, 100..140), BTreeMap::from([(9, 40)]));
}

fn number_of(addresses: &[&str]) -> u8 {
    assert_eq!(addresses.len(), 1);
    number(addresses[0])
}

// "New sessions are placed by weighted rendezvous hashing of (load balancer, client subnet), so that
// nodes with the same health agree without talking."
#[test]
fn new_sessions_are_placed_by_weight_and_alike_on_every_node() {
    let site_a = site(&one_pool());
    let a = Server::start(&site_a);
    // The other node has the same in another order.
    let mut parts = one_pool();
    parts[0] = pool("p", &[(3, "0.3"), (1, "0.4"), (2, "0.3")]);
    parts.insert(0, pool("another", &[(77, "1")]));
    let site_b = site(&parts);
    let b = Server::start(&site_b);
    let found = spread(&a, 0..3000);
    for (origin, share) in [(1, 0.4), (2, 0.3), (3, 0.3)] {
        let share = share * 3000.0;
        assert!((found[&origin] as f64 - share).abs() < 120.0, "{found:?}");
    }
    for number in 0..200 {
        let client = subnet(number);
        assert_eq!(origin(&a, (&client, 24)), origin(&b, (&client, 24)), "{client}");
    }
}

// Two load balancers place the same client apart.
#[test]
fn load_balancers_have_sessions_of_their_own() {
    let mut parts = one_pool();
    parts.push(parts[1].replace("www", "api"));
    let server = Server::start(&site(&parts));
    let differs = (0..50).any(|number| {
        let client = subnet(number);
        let of = |name: &str| server.addresses(name, rtype::A, (&client, 24));
        of(WWW) != of("api.example.test")
    });
    assert!(differs);
}

// ---------------------------------------------------------------------------------- Who is moved

// "Setting an origin's weight to 0 drains it: no new sessions, existing ones keep it until they end."
#[test]
fn a_drained_origin_keeps_its_clients_and_gets_no_new_ones() {
    let site = site(&one_pool());
    let mut server = Server::start(&site);
    let before: Vec<u8> = (0..60).map(|n| origin(&server, (&subnet(n), 24))).collect();
    assert!(before.contains(&1));
    let mut parts = one_pool();
    parts[0] = pool("p", &[(1, "0"), (2, "0.3"), (3, "0.3")]);
    rewrite(&site, &parts);
    server.reload("reloaded");
    for (n, &before) in before.iter().enumerate() {
        assert_eq!(origin(&server, (&subnet(n), 24)), before, "subnet {n}");
    }
    assert!(!spread(&server, 100..200).contains_key(&1), "no new sessions");
    // The whole pool is drained: nobody new is answered, and whoever was still is.
    parts[0] = pool("p", &[(1, "0"), (2, "0"), (3, "0")]);
    rewrite(&site, &parts);
    server.reload("reloaded");
    assert_eq!(origin(&server, (&subnet(0), 24)), before[0]);
    let new = server.ask(&Query::new(WWW, rtype::A).ecs(&subnet(300), 24));
    assert_eq!(new.rcode(), rcode::SERVFAIL);
}

// "if that origin is still enabled and healthy": and it is not moved back when it recovers.
#[test]
fn a_client_leaves_an_unhealthy_origin_for_good() {
    for affinity in [AFFINITY, MOVING] {
        let mut parts = one_pool();
        parts[1] = www(&format!("pools = [\"p\"]\n{affinity}"));
        let site = site(&parts);
        let server = Server::start(&site);
        let first = origin(&server, CLIENT);
        let others: Vec<u8> = [1, 2, 3].into_iter().filter(|&other| other != first).collect();
        site.write("zones/health", format!("192.0.2.{first} down\n2001:db8::{first} down\n* up\n"));
        let v6 = || server.addresses(WWW, rtype::AAAA, CLIENT)[0].clone();
        // While one family is healthy the origin is, and the session only waits.
        until("the move", || origin(&server, CLIENT) != first && number(&v6()) != first);
        let second = origin(&server, CLIENT);
        assert!(others.contains(&second));
        site.write("zones/health", "* up\n");
        let mut next = 0;
        // New clients get the first again; this one stays, also with failback = "move", which is a
        // matter of pools.
        until("the recovery", || {
            next += 20;
            spread(&server, next - 20..next).contains_key(&first)
        });
        assert_eq!(origin(&server, CLIENT), second, "{affinity}");
    }
}

// "It is not moved back when a better pool recovers (`failback = "move"` changes that)."
#[test]
fn a_client_goes_back_to_a_better_pool_only_if_told_to() {
    let down = "192.0.2.1 down\n192.0.2.2 down\n2001:db8::1 down\n2001:db8::2 down\n* up\n";
    for (affinity, goes_back) in [(AFFINITY, false), (MOVING, true)] {
        let site = site(&two_pools(affinity));
        let server = Server::start(&site);
        let first = origin(&server, CLIENT);
        assert!([1, 2].contains(&first));
        site.write("zones/health", down);
        until("the failover", || [11, 12].contains(&origin(&server, CLIENT)));
        let second = origin(&server, CLIENT);
        let mut next = 0;
        until_new_get(&server, &mut next, &[11, 12]);
        site.write("zones/health", "* up\n");
        until_new_get(&server, &mut next, &[1, 2]);
        let expected = if goes_back { first } else { second };
        for _ in 0..5 {
            assert_eq!(origin(&server, CLIENT), expected, "{affinity}");
        }
    }
}

// "in a pool that is still enabled"; "a session whose origin left them ends".
#[test]
fn a_session_ends_with_its_origin_or_pool() {
    let site = site(&two_pools(AFFINITY));
    let mut server = Server::start(&site);
    let first = origin(&server, CLIENT);
    let other = 3 - first;
    let line = |number: u8| format!("  {{ name = \"o{number}\"");
    // The origin is disabled.
    let mut parts = two_pools(AFFINITY);
    parts[0] =
        parts[0].replace(&line(first), &format!("  {{ enabled = false, name = \"o{first}\""));
    rewrite(&site, &parts);
    server.reload("reloaded");
    assert_eq!(origin(&server, CLIENT), other);
    // The origin is gone.
    parts[0] = pool("p", &[(first, "1")]);
    rewrite(&site, &parts);
    server.reload("reloaded");
    assert_eq!(origin(&server, CLIENT), first);
    // The pool is disabled.
    parts[0] = parts[0].replace("[pools.p]\n", "[pools.p]\nenabled = false\n");
    rewrite(&site, &parts);
    server.reload("reloaded");
    let away = origin(&server, CLIENT);
    assert!([11, 12].contains(&away));
    // The pool is no longer one of the load balancer's.
    let mut parts = two_pools(AFFINITY);
    parts[2] = www(&format!("pools = [\"p\"]\n{AFFINITY}"));
    rewrite(&site, &parts);
    server.reload("reloaded");
    assert!([1, 2].contains(&origin(&server, CLIENT)));
}

// The table "survives a reload", also one that numbers pools and origins otherwise.
#[test]
fn sessions_survive_reloads() {
    let site = site(&two_pools(AFFINITY));
    let mut server = Server::start(&site);
    let before: Vec<u8> = (0..60).map(|n| origin(&server, (&subnet(n), 24))).collect();
    // The other pool is preferred now, so that a new session would be elsewhere.
    let turned = [
        pool("another", &[(77, "1")]),
        pool("q", &[(11, "1"), (12, "1")]),
        pool("p", &[(5, "1"), (2, "1"), (1, "1")]),
        www(&format!("pools = [\"q\", \"another\", \"p\"]\n{AFFINITY}")),
    ];
    for parts in [turned.to_vec(), two_pools(AFFINITY), turned.to_vec()] {
        rewrite(&site, &parts);
        server.reload("reloaded");
        for (n, &before) in before.iter().enumerate() {
            assert_eq!(origin(&server, (&subnet(n), 24)), before, "subnet {n}");
        }
    }
    assert!(spread(&server, 100..130).keys().all(|new| [11, 12].contains(new)));
}

// A server that began without sessions has them from the reload on that asks for them, and none after
// one that does not; what a longer or shorter ttl asks for holds from then on.
#[test]
fn sessions_begin_and_end_with_what_a_reload_says() {
    let plain = |keys: &str| {
        let mut parts = one_pool();
        parts[1] = www(&format!("pools = [\"p\"]\n{keys}"));
        parts
    };
    let site = site(&plain(""));
    let mut server = Server::start(&site);
    let varies = |server: &Server| {
        let found: Vec<u8> = (0..10).map(|_| origin(server, CLIENT)).collect();
        found.iter().any(|other| *other != found[0])
    };
    assert!(varies(&server));
    rewrite(&site, &plain(AFFINITY));
    server.reload("reloaded");
    let first = origin(&server, CLIENT);
    assert!(!varies(&server));
    let mut drained = plain("session_affinity = { ttl = \"2h\", ipv6_prefix = 48 }\n");
    drained[0] =
        pool("p", &[1, 2, 3, 4].map(|number| (number, if number == 4 { "1" } else { "0" })));
    rewrite(&site, &drained);
    let told = server.reload("reloaded");
    assert!(told["fields"]["names"].as_str().unwrap().contains("www"), "{told}");
    assert_eq!(origin(&server, CLIENT), first, "other settings, the same session");
    rewrite(&site, &plain(""));
    server.reload("reloaded");
    assert!(varies(&server));
}

// No client is bound to an origin that is answered for want of better only.
#[test]
fn no_session_begins_in_last_resort() {
    let site = site(&one_pool());
    site.write("zones/health", "* down\n");
    let server = Server::start(&site);
    until("the first results", || {
        let explored = (0..12).map(|_| origin(&server, CLIENT)).collect::<Vec<_>>();
        [1, 2, 3].iter().all(|origin| explored.contains(origin))
    });
    site.write("zones/health", "192.0.2.2 up\n2001:db8::2 up\n* down\n");
    until("the recovery of one", || (0..12).all(|_| origin(&server, CLIENT) == 2));
}

// "A live session-affinity entry wins over zonal affinity" (zonal-affinity.md, "Interactions").
#[test]
fn a_session_wins_over_zonal_affinity() {
    let zonal = "[pools.z]\nregion = \"weu\"\nzonal_affinity = { mode = \"stay_within_zone\" }\n\
                 origins = [\n\
                 { name = \"a\", address = \"192.0.2.1\", zone = \"za\" },\n\
                 { name = \"b\", address = \"192.0.2.2\", zone = \"zb\" },\n]\n";
    let site = site(&[zonal.to_owned(), www(&format!("pools = [\"z\"]\n{AFFINITY}"))]);
    let client_in = |zone: &str| {
        let subnet = format!("[subnets.\"10.0.0.0/8\"]\nregion = \"weu\"\nzone = \"{zone}\"\n");
        site.write("geo/subnets.toml", subnet);
    };
    client_in("za");
    let mut server = Server::start(&site);
    assert_eq!(origin(&server, CLIENT), 1);
    client_in("zb");
    server.reload("reloaded");
    assert_eq!(origin(&server, CLIENT), 1, "the session");
    assert_eq!(origin(&server, (&subnet(0), 24)), 2, "a new client");
}

// ---------------------------------------------------------------------------------- Answers

// "A hit is the first of `answers`"; the rest is drawn without it.
#[test]
fn the_sessions_origin_leads_an_answer_of_several() {
    for (answers, count) in [("2", 2), ("\"all\"", 3), ("9", 3)] {
        let mut parts = one_pool();
        parts[1] = www(&format!("pools = [\"p\"]\nanswers = {answers}\n{AFFINITY}"));
        let site = site(&parts);
        let mut server = Server::start(&site);
        let ask = |server: &Server| -> Vec<u8> {
            let found = server.addresses(WWW, rtype::A, CLIENT);
            let numbers: Vec<u8> = found.iter().map(|address| number(address)).collect();
            let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
            assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
            numbers
        };
        let first = ask(&server)[0];
        let mut seconds = Vec::new();
        for _ in 0..50 {
            let numbers = ask(&server);
            assert_eq!((numbers[0], numbers.len()), (first, count));
            seconds.push(numbers[1]);
        }
        assert!(seconds.iter().any(|second| *second != seconds[0]), "the rest varies");
        // Drained, it still leads.
        let weight = |number| if number == first { "0" } else { "0.3" };
        parts[0] = pool("p", &[1, 2, 3].map(|number| (number, weight(number))));
        rewrite(&site, &parts);
        server.reload("reloaded");
        let numbers = ask(&server);
        assert_eq!((numbers[0], numbers.len()), (first, count));
    }
}

// A family that the session's origin has no address of is answered as without a session, and the
// session stays.
#[test]
fn a_family_that_the_origin_lacks_is_answered_by_others() {
    let pools = "[pools.p]\norigins = [\n\
                 { name = \"four\", address = \"192.0.2.4\" },\n\
                 { name = \"six\", address = \"2001:db8::6\" },\n]\n";
    let server =
        Server::start(&site(&[pools.to_owned(), www(&format!("pools = [\"p\"]\n{AFFINITY}"))]));
    for _ in 0..3 {
        assert_eq!(server.addresses(WWW, rtype::A, CLIENT), ["192.0.2.4"]);
        assert_eq!(server.addresses(WWW, rtype::AAAA, CLIENT), ["2001:db8::6"]);
    }
}

// "min(source prefix, affinity prefix) of the option, or the affinity prefix of the source address
// where there is no option"; "always 0 with `client = "resolver"`".
#[test]
fn the_scope_is_at_least_the_session_key() {
    let mut parts = one_pool();
    parts.push(parts[1].replace("www", "own").replace("pools =", "client = \"resolver\"\npools ="));
    parts.push(
        parts[1]
            .replace("www", "wide")
            .replace("\"30m\" }", "\"30m\", ipv4_prefix = 16, ipv6_prefix = 40 }"),
    );
    let server = Server::start(&site(&parts));
    let scope = |name: &str, address: &str, source| {
        let query = Query::new(&format!("{name}.example.test"), rtype::A).ecs(address, source);
        // The first has no session, the second has one, which must not matter.
        let scopes = [(); 2].map(|()| server.ask(&query).scope());
        assert_eq!(scopes[0], scopes[1]);
        scopes[0]
    };
    assert_eq!(scope("www", "10.1.2.0", 24), 24);
    assert_eq!(scope("www", "10.1.2.3", 32), 24);
    assert_eq!(scope("www", "10.0.0.0", 8), 8);
    assert_eq!(scope("www", "2001:db8::", 56), 56);
    assert_eq!(scope("www", "2001:db8::", 64), 56);
    assert_eq!(scope("www", "2001:db8::", 32), 32);
    assert_eq!(scope("www", "::ffff:10.1.2.0", 120), 120);
    assert_eq!(scope("www", "::ffff:10.1.2.3", 128), 120);
    assert_eq!(scope("wide", "10.1.2.3", 32), 16);
    assert_eq!(scope("wide", "2001:db8::", 56), 40);
    assert_eq!(scope("own", "10.1.2.0", 24), 0);
    let nothing = server.ask(&Query::new(WWW, rtype::A).ecs("0.0.0.0", 0));
    assert_eq!(nothing.scope(), 0, "the client asks that its address is not used");
}

// The mapped form of an IPv4 address is the same client.
#[test]
fn who_the_client_is_follows_the_option_or_the_source() {
    let mut parts = one_pool();
    parts.push(parts[1].replace("www", "own").replace("pools =", "client = \"resolver\"\npools ="));
    let site = site(&parts);
    let server = Server::start(&site);
    let mapped = server.addresses(WWW, rtype::A, ("::ffff:10.1.2.0", 120));
    assert_eq!(mapped, server.addresses(WWW, rtype::A, CLIENT));
    // Without an option, and with one that says nothing, the source is the client: all of ours.
    let of = |query: &Query| server.ask(query).data(rtype::A).concat();
    let own = of(&Query::new(WWW, rtype::A));
    assert_eq!(own, of(&Query::new(WWW, rtype::A).ecs("0.0.0.0", 0)));
    assert_eq!(server.addresses(WWW, rtype::A, ("127.0.0.0", 24)).concat(), own);
    let mut origins: Vec<_> =
        (0..20).map(|n| server.addresses("own.example.test", rtype::A, (&subnet(n), 24))).collect();
    origins.dedup();
    assert_eq!(origins.len(), 1, "the resolver is the client");
}

// Random steering would be another pool at each query: with sessions it is a matter of hashing too.
#[test]
fn random_steering_places_by_hashing() {
    let weights = "steering = \"random\"\npool_weights = { p = 0.7, q = 0.3 }\n";
    for affinity in [AFFINITY, MOVING] {
        let mut parts = two_pools(affinity);
        parts[2] = www(&format!("pools = [\"p\", \"q\"]\n{weights}{affinity}"));
        let server = Server::start(&site(&parts));
        let first = origin(&server, CLIENT);
        assert!((0..100).all(|_| origin(&server, CLIENT) == first), "{affinity}");
        let found = spread(&server, 0..1000);
        let of_p = found[&1] + found[&2];
        assert!((640..760).contains(&of_p), "{found:?}");
    }
}

// ---------------------------------------------------------------------------------- Words

#[test]
fn explain_shows_what_a_new_session_gets() {
    let site = site(&one_pool());
    let shown = site.explain(&[WWW, "A", "--client", "10.1.2.3/32"]);
    let session = &shown["session"];
    assert_eq!(session["key"], "10.1.2.0/24");
    assert_eq!(session["ttl"], 1800);
    let placed = session["placed"].as_str().unwrap();
    assert!(!session["reason"].as_str().unwrap().is_empty());
    assert_eq!(shown["choice"]["by"], "session");
    assert_eq!(shown["answer"]["ecs_scope"], 24);
    let server = Server::start(&site);
    let served = origin(&server, CLIENT);
    assert_eq!(placed, format!("o{served}"));
    assert_eq!(shown["answer"]["records"][0]["data"], format!("192.0.2.{served}"));
    let without = site.explain(&[WWW, "A", "--client", "10.1.2.3", "--down", placed]);
    let elsewhere = &without["session"]["placed"];
    assert!(elsewhere.is_string() && elsewhere != placed);
    let down = site.explain(&[WWW, "A", "--client", "10.1.2.3", "--down", "p"]);
    assert_eq!(down["session"]["placed"], Value::Null, "{down:#}");
    let text = site.run(&["explain", WWW, "--client", "10.1.2.3/32"]).stdout;
    assert!(text.contains(&format!("session        10.1.2.0/24, 1800 s, {placed}")), "{text}");
}

// A simulation answers a client as its session would be placed.
#[test]
fn simulate_places_clients_as_a_server_does() {
    let site = site(&one_pool());
    let log = format!("10.1.2.0/24 {WWW} A\n10.1.2.7 {WWW} AAAA\n").repeat(5);
    site.write("queries.log", log);
    let run = site.run(&["simulate", "--queries", "queries.log", "--json"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let server = Server::start(&site);
    let served = format!("o{}", origin(&server, CLIENT));
    let placed: Vec<&str> =
        ["o1", "o2", "o3"].into_iter().filter(|name| run.stdout.contains(*name)).collect();
    assert_eq!(placed, [served.as_str()], "{}", run.stdout);
}

#[test]
fn without_affinity_there_is_no_session() {
    let mut parts = one_pool();
    parts[1] = www("pools = [\"p\"]\n");
    let site = site(&parts);
    let shown = site.explain(&[WWW, "A", "--client", "10.1.2.3/32"]);
    assert_eq!(shown["session"], Value::Null);
    assert_eq!(shown["choice"], json!({"share": {"o1": 0.4, "o2": 0.3, "o3": 0.3}, "answers": 1}));
    assert_eq!(strings(&shown["failover"]["original_eligible"]), ["o1", "o2", "o3"]);
}

// Records that resolvers keep for longer than a session lives leave nothing of it.
#[test]
fn check_warns_of_sessions_that_resolvers_outlive() {
    for (ttl, warned) in [(59, false), (60, true), (61, true)] {
        let mut parts = one_pool();
        parts[1] =
            www(&format!("pools = [\"p\"]\nttl = {ttl}\nsession_affinity = {{ ttl = \"1m\" }}\n"));
        let run = site(&parts).check();
        assert_eq!(run.code, Some(0), "{run:?}");
        let text = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(text.contains("session_affinity.ttl"), warned, "ttl {ttl}: {text}");
    }
}

// The room for sessions is made at the start, and so cannot change later.
#[test]
fn the_room_for_sessions_takes_effect_at_the_next_start() {
    let site = site(&one_pool());
    site.write("meridian.toml", format!("{SERVER}\n[sessions]\nmax_sessions = 2\n"));
    let mut server = Server::start(&site);
    let first = origin(&server, CLIENT);
    assert_eq!(origin(&server, CLIENT), first);
    site.write("meridian.toml", format!("{SERVER}\n[sessions]\nmax_sessions = 3\n"));
    server.signal("HUP");
    let line = server.wait_for("the setting takes effect at the next start");
    assert_eq!(line["fields"]["key"], "max_sessions");
}

// A full table gives up the oldest sessions; the others stay.
#[test]
fn a_full_table_gives_up_the_oldest() {
    let site = site(&two_pools(AFFINITY));
    site.write("meridian.toml", format!("{SERVER}\n[sessions]\nmax_sessions = 4\n"));
    let mut server = Server::start(&site);
    let before = origin(&server, CLIENT);
    for number in 0..3 {
        origin(&server, (&subnet(number), 24));
    }
    // From now on new sessions are elsewhere.
    let mut parts = two_pools(AFFINITY);
    parts[0] = pool("p", &[(1, "0"), (2, "0")]);
    rewrite(&site, &parts);
    server.reload("reloaded");
    assert_eq!(origin(&server, CLIENT), before, "four have room");
    for number in 10..14 {
        // So that their ages can be told apart.
        std::thread::sleep(Duration::from_millis(20));
        origin(&server, (&subnet(number), 24));
    }
    let clients = [CLIENT.0.to_owned(), subnet(0), subnet(1), subnet(2)];
    let kept = clients.iter().filter(|client| origin(&server, (client, 24)) < 10).count();
    assert_eq!(kept, 0, "four others came");
}
