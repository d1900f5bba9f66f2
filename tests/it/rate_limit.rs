//! Response rate limiting. Clients of the loopback address are exempt, so the test starts itself again in a
//! network namespace with public addresses, which needs root.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Server, Site, is_missing, is_required};
use crate::wire::{Query, Reply, bit, option, rcode, rtype};

/// Makes the network: the loopback interface with the addresses of a server and its clients.
const NETWORK: &str = "ip link set lo up && ip addr add 203.0.113.1/24 dev lo && \
                       ip addr add 198.51.100.7/24 dev lo && ip addr add 10.9.9.9/24 dev lo && \
                       exec \"$0\" \"$@\"";
const SERVER: &str = "203.0.113.1";
const CLIENT: &str = "198.51.100.7";
const NEIGHBOUR: &str = "203.0.113.1";
const PRIVATE: &str = "10.9.9.9";

const ZONE: &str = r#"
[[records]]
name = "*.wild"
type = "TXT"
data = ["hello"]

[pools]
p = { origins = [{ name = "a", address = "192.0.2.100" }] }

[load_balancers.lb]
pools = ["p"]

[load_balancers.other]
pools = ["p"]
"#;

#[test]
fn equal_answers_to_a_network_are_limited() {
    let possible = Command::new("unshare").args(["-n", "ip", "link", "set", "lo", "up"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        assert!(!is_required(), "no network namespace can be made (root, unshare, iproute2)");
        eprintln!("skipped: no network namespace can be made (root, unshare, iproute2)");
        return;
    }
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", NETWORK])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "rate_limit::inside_the_namespace", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

/// What came of many queries.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    answered: usize,
    truncated: usize,
    silent: usize,
}

/// Sends queries as fast as they are answered, and counts what comes back.
fn tally(server: &Server, from: &str, queries: &[Query]) -> Tally {
    let [socket, marker] = [from, PRIVATE].map(|from| client(server, from));
    let mut tally = Tally { silent: queries.len(), ..Tally::default() };
    let mut buffer = [0; 2000];
    // Some at a time, so that no buffer overflows.
    for queries in queries.chunks(50) {
        for query in queries {
            socket.send(&query.octets()).expect("a query sent");
        }
        // There is one worker, so what it sends to others has all come when it answers this one, which is
        // never limited.
        let last = Query::new("example.test", rtype::SOA);
        marker.send(&last.octets()).expect("a query sent");
        marker.recv(&mut buffer).expect("a reply in time");
        socket.set_nonblocking(true).expect("a socket");
        while let Ok(length) = socket.recv(&mut buffer) {
            let reply = Reply::parse(&buffer[..length]).expect("a reply");
            tally.silent -= 1;
            if reply.has(bit::TC) {
                assert!(reply.answer.is_empty() && !reply.question.is_empty());
                tally.truncated += 1;
            } else {
                tally.answered += 1;
            }
        }
        socket.set_nonblocking(false).expect("a socket");
    }
    tally
}

/// A socket of a client.
fn client(server: &Server, address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).expect("a free port");
    socket.connect(server.address).expect("an address");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    socket
}

fn equal(count: usize, query: impl Fn(usize) -> Query) -> Vec<Query> {
    (0..count).map(query).collect()
}

#[test]
#[ignore = "run by the test above, in a network namespace"]
fn inside_the_namespace() {
    let site = Site::with_zone(ZONE);
    let write = |limits: &str| {
        let server = format!("[server]\nlisten = [\"{SERVER}:0\"]\nworkers = 1\n");
        site.write("meridian.toml", format!("{server}[rate_limit]\n{limits}\n"));
    };
    write("responses_per_second = 100");
    let mut server = Server::spawn(&site, &["serve"]);
    server.address = server.next_address();
    server.wait_for("ready");

    let lb = |_| Query::new("lb.example.test", rtype::A);
    // A hundred at once; time gives some more.
    let limited = |what: &str, tally: Tally| {
        assert!((100..900).contains(&tally.answered), "{what}: {tally:?}");
        assert!(tally.truncated > 20, "{what}: {tally:?}");
        assert!(tally.truncated.abs_diff(tally.silent) <= 1, "{what}: every second one: {tally:?}");
    };
    let all = |count| Tally { answered: count, ..Tally::default() };
    // The short way, the long way by a wildcard, and names that do not exist.
    limited("equal", tally(&server, CLIENT, &equal(1000, lb)));
    let wild = |n| Query::new(&format!("n{n}.wild.example.test"), rtype::TXT);
    limited("a wildcard", tally(&server, CLIENT, &equal(1000, wild)));
    let missing = |n| Query::new(&format!("n{n}.example.test"), rtype::A);
    limited("NXDOMAIN", tally(&server, CLIENT, &equal(1000, missing)));
    let refused = |n| Query::new(&format!("n{n}.elsewhere.test"), rtype::A);
    limited("REFUSED", tally(&server, CLIENT, &equal(1000, refused)));
    // Another answer and another network have limits of their own.
    let other = |_| Query::new("other.example.test", rtype::A);
    assert_eq!(tally(&server, CLIENT, &equal(100, other)), all(100));
    assert_eq!(tally(&server, NEIGHBOUR, &equal(100, lb)), all(100));
    // Who can be nobody else is exempt: private addresses, and holders of a cookie.
    assert_eq!(tally(&server, PRIVATE, &equal(1000, lb)), all(1000));
    // Of two replies that are too many, one comes, with TC and a cookie.
    let learning = lb(0).option(option::COOKIE, &[7; 8]);
    let socket = client(&server, CLIENT);
    let mut buffer = [0; 2000];
    for _ in 0..2 {
        socket.send(&learning.octets()).expect("a query sent");
    }
    let length = socket.recv(&mut buffer).expect("a reply in time");
    let reply = Reply::parse(&buffer[..length]).expect("a reply");
    let cookie = reply.option(option::COOKIE).expect("a cookie").to_vec();
    let proven = |_| lb(0).option(option::COOKIE, &cookie);
    assert_eq!(tally(&server, CLIENT, &equal(1000, proven)), all(1000));
    let wild = |n| wild(n).option(option::COOKIE, &cookie);
    assert_eq!(tally(&server, CLIENT, &equal(1000, wild)), all(1000));
    // TCP is not limited.
    for _ in 0..150 {
        assert_eq!(server.ask_tcp(&lb(0)).rcode(), rcode::NOERROR);
    }
    // A reply to a signed query is signed, also if it is too many (RFC 8945 section 5.3).
    if !is_missing("dig", "-v", "bind9-dnsutils") {
        write("responses_per_second = 1\n[tsig_keys.k]\nsecret = \"AAECAwQFBgcICQoLDA0ODw==\"");
        server.reload("reloaded");
        let port = server.address.port().to_string();
        // Every second one of those that are too many is not sent: by turns one more goes before.
        let truncated = (0..20).find_map(|turn| {
            tally(&server, CLIENT, &equal(50 + turn % 2, lb));
            let output = Command::new("dig")
                .args([&format!("@{SERVER}"), "-p", &port, "-b", CLIENT])
                .args(["-y", "hmac-sha256:k:AAECAwQFBgcICQoLDA0ODw==", "lb.example.test", "A"])
                .args(["+notcp", "+ignore", "+nocookie", "+tries=1", "+timeout=1"])
                .output()
                .expect("a program");
            let text = [output.stdout, output.stderr].concat();
            Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| text.contains(" tc"))
        });
        let truncated = truncated.expect("a reply with TC");
        assert!(truncated.contains("TSIG PSEUDOSECTION"), "{truncated}");
        assert!(!truncated.contains("erify"), "{truncated}");
    }
    // The settings can be changed while it runs.
    write("enabled = false");
    server.reload("reloaded");
    assert_eq!(tally(&server, CLIENT, &equal(1000, lb)), all(1000));
}
