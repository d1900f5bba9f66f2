//! Rows that no single command can show. Each is a function, which fails by a panic.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{framed, receive};
use crate::relay::Exchange;
use crate::resolvers::Resolver;
use crate::stage::{Resolution, Stage};
use crate::table::Transport;
use crate::wire::{Query, Reply, bit, option, rcode, rtype};

/// How long what has no bound of its own may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The octets of a client cookie alone.
const CLIENT_COOKIE: usize = 8;

/// Runs a row; false if it needs a network of its own and there is none, or a resolver that is missing.
pub(crate) fn run(row: &str, stage: &Stage) -> Result<bool, String> {
    let (name, target) = row.split_once(" @").unwrap_or((row, ""));
    match name {
        "slow clients beside others" => slow_clients(stage),
        "connections of one client" => connections_of_one_client(stage),
        "an idle connection ends" => an_idle_connection_ends(stage),
        "replies out of a wildcard bind" => replies_from_the_address_asked(stage),
        _ => {
            let Some(resolution) = &stage.resolution else {
                return Ok(false);
            };
            if name == "equal answers to a network" {
                equal_answers(stage);
                return Ok(true);
            }
            let mut resolvers = resolution.resolvers.iter();
            let Some(resolver) = resolvers.find(|resolver| resolver.name == target) else {
                return Ok(false);
            };
            return asked_by(name, resolver, resolution);
        }
    }
    Ok(true)
}

// ---------------------------------------------------------------------------------- Streams

/// A connection from one of the addresses of this machine.
fn connect_from(address: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket.bind(&SocketAddr::from((address, 0)).into()).expect("a loopback address");
    socket.connect(&to.into()).expect("a connection");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn is_answered(stream: &mut TcpStream) -> bool {
    let query = Query::new("example.test", rtype::SOA);
    let mut size = [0; 2];
    stream.write_all(&framed(&query.octets())).is_ok()
        && std::io::Read::read_exact(stream, &mut size).is_ok()
}

fn slow_clients(stage: &Stage) {
    let to = stage.server().address;
    let half = |from| {
        let mut stream = connect_from(from, to);
        stream.write_all(&[0, 40, 1]).expect("the beginning of a query");
        stream
    };
    let idle: Vec<_> = (0..100).map(|_| connect_from(Ipv4Addr::new(127, 0, 0, 3), to)).collect();
    let half: Vec<_> = (0..50).map(|_| half(Ipv4Addr::new(127, 0, 0, 4))).collect();
    let reply = stage.server().ask(&Query::new("example.test", rtype::SOA));
    assert_eq!(reply.rcode(), rcode::NOERROR, "over UDP");
    assert!(is_answered(&mut stage.server().connect()), "over TCP");
    drop((idle, half));
}

fn connections_of_one_client(stage: &Stage) {
    let (busy, other) = (Ipv4Addr::new(127, 0, 0, 5), Ipv4Addr::new(127, 0, 0, 6));
    let to = stage.server().address;
    let mut open: Vec<_> = (0..128).map(|_| connect_from(busy, to)).collect();
    for stream in &mut open {
        assert!(is_answered(stream), "one of the 128");
    }
    assert!(!is_answered(&mut connect_from(busy, to)), "the 129th");
    assert!(is_answered(&mut connect_from(other, to)), "another client's");
    // What is closed makes room.
    drop(open);
    wait_for("room for the client again", || is_answered(&mut connect_from(busy, to)));
}

fn an_idle_connection_ends(stage: &Stage) {
    let address = stage.address("other", Transport::Tcp).expect("a server");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(is_answered(&mut stream), "before it is idle");
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).expect("the end of the connection");
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

// ---------------------------------------------------------------------------------- Datagrams

fn replies_from_the_address_asked(stage: &Stage) {
    for number in 1..=9 {
        let asked = stage.everywhere(IpAddr::from([127, 0, 0, number]));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let query = Query::new("example.test", rtype::SOA);
        socket.send_to(&query.octets(), asked).expect("a query sent");
        let (_, from) = socket.recv_from(&mut [0; 512]).expect("a reply");
        assert_eq!(from, asked);
    }
}

fn equal_answers(stage: &Stage) {
    let socket = UdpSocket::bind("198.51.100.7:0").expect("an address of the network");
    socket.connect(stage.everywhere(IpAddr::from([192, 0, 2, 1]))).expect("a local address");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let first = Query::new("mail.example.test", rtype::A).option(option::COOKIE, &[7; 8]);
    socket.send(&first.octets()).expect("a query sent");
    let cookie = receive(&socket).option(option::COOKIE).expect("a cookie").to_vec();
    let query = || Query::new("static.example.test", rtype::TXT);
    let with_cookie = query().option(option::COOKIE, &cookie);
    let (whole, cut) = burst(&socket, &query(), &with_cookie);
    assert!(whole >= 200 && cut > 20, "{whole} whole, {cut} cut");
    // A client that shows a cookie of the server is exempt.
    let again = query().option(option::COOKIE, &cookie);
    assert_eq!(burst(&socket, &again, &with_cookie), (QUERIES, 0));
}

/// How many equal queries are a burst.
const QUERIES: usize = 2_000;
/// So many that any receive buffer holds them and their replies.
const PORTION: usize = 20;

/// How many whole replies, and how many that are cut, a burst of a query gets. After each portion comes a
/// query that is always answered, so that silence is known without waiting.
fn burst(socket: &UdpSocket, query: &Query, answered: &Query) -> (usize, usize) {
    let (mut whole, mut cut) = (0, 0);
    for _ in 0..QUERIES / PORTION {
        for _ in 0..PORTION {
            socket.send(&query.octets()).expect("a query sent");
        }
        socket.send(&answered.octets()).expect("a query sent");
        loop {
            let reply = receive(socket);
            if reply.id == answered.id {
                break;
            }
            if reply.has(bit::TC) {
                assert!(reply.answer.is_empty(), "nothing beside TC");
                cut += 1;
            } else {
                whole += 1;
            }
        }
    }
    (whole, cut)
}

// ---------------------------------------------------------------------------------- Resolvers

fn asked_by(name: &str, resolver: &Resolver, by: &Resolution) -> Result<bool, String> {
    let address = IpAddr::from(resolver.address);
    let seen = || by.relay.of(address);
    match name {
        "EDNS is never given up" => {
            let seen = seen();
            assert!(seen.len() > 10, "only {} queries came", seen.len());
            for exchange in &seen {
                let (query, reply) = (exchange.query(), exchange.reply());
                assert!(query.opt.is_some(), "a query without EDNS: {query:02x?}");
                let refusals = [rcode::FORMERR, rcode::NOTIMP, rcode::BADVERS, rcode::REFUSED];
                assert!(!refusals.contains(&reply.rcode()), "{reply:02x?}");
            }
        }
        "names are spelled at random" => {
            let seen = seen();
            assert!(seen.iter().any(has_capitals), "no query has a capital letter");
            for exchange in seen {
                assert_eq!(exchange.query().question, exchange.reply().question);
            }
        }
        "names are minimised" => {
            resolver.dig(&["p.q.wild.example.test", "TXT"]);
            let whole = Query::new("p.q.wild.example.test", rtype::TXT).question().len();
            let is_part = |exchange: &Exchange| {
                let name = String::from_utf8_lossy(&exchange.query().question).to_lowercase();
                name.contains("\u{4}wild\u{7}example\u{4}test") && name.len() < whole
            };
            assert!(seen().iter().any(is_part), "no query for a part of the name");
        }
        "client subnets are sent" => {
            let scoped = seen().into_iter().filter(|exchange| exchange.query().ecs().is_some());
            let scoped: Vec<_> = scoped.collect();
            assert!(!scoped.is_empty(), "no query has a client subnet");
            for exchange in scoped {
                let (asked, told) = (exchange.query().ecs(), exchange.reply().ecs());
                let (asked, told) =
                    (asked.expect("just seen"), told.expect("a client subnet back"));
                assert_eq!((asked.family, asked.source_prefix), (told.family, told.source_prefix));
                assert_eq!(asked.address, told.address);
            }
        }
        "no client subnet is told unasked" => {
            for exchange in seen() {
                assert!(exchange.query().ecs().is_none() && exchange.reply().ecs().is_none());
            }
        }
        "cookies come back" => {
            let of = |reply: &Reply| reply.option(option::COOKIE).map(<[u8]>::to_vec);
            let seen = seen();
            let given: Vec<_> = seen.iter().filter_map(|exchange| of(&exchange.reply())).collect();
            let shown = seen.iter().filter_map(|exchange| of(&exchange.query()));
            let shown: Vec<_> = shown.filter(|cookie| cookie.len() > CLIENT_COOKIE).collect();
            assert!(!shown.is_empty(), "no query has a server cookie");
            assert!(shown.iter().all(|cookie| given.contains(cookie)), "a cookie of another make");
            let refused = |exchange: &Exchange| exchange.reply().rcode() == rcode::BADCOOKIE;
            assert!(seen.iter().any(refused), "BADCOOKIE was never needed");
        }
        "TCP after TC" => {
            let is_big = |exchange: &&Exchange| {
                let name = String::from_utf8_lossy(&exchange.query().question).to_lowercase();
                name.contains("\u{3}big\u{7}example")
            };
            let big: Vec<_> = seen().iter().filter(is_big).cloned().collect();
            assert!(big.iter().any(|it| !it.over_tcp && it.reply().has(bit::TC)), "TC over UDP");
            assert!(big.iter().any(|it| it.over_tcp && !it.reply().has(bit::TC)), "whole over TCP");
        }
        "a drained pool leaves with the TTL" => drained(resolver, by),
        _ => return Err(format!("no test is called {name:?}")),
    }
    Ok(true)
}

fn has_capitals(exchange: &Exchange) -> bool {
    exchange.query().question.iter().any(u8::is_ascii_uppercase)
}

/// The TTL of `moving.example.test`.
const MOVING_TTL: u32 = 2;

fn drained(resolver: &Resolver, by: &Resolution) {
    by.operate(&["enable", "leaving"]);
    let answer = || {
        let text = resolver.dig(&["moving.example.test", "A", "+noall", "+answer"]);
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let [_, ttl, _, _, address] = &words[..] else {
            panic!("not one address: {text}");
        };
        assert!(ttl.parse::<u32>().expect("a TTL") <= MOVING_TTL, "{text}");
        address.clone()
    };
    wait_for("the pool before it is drained", || answer() == "192.0.2.140");
    by.operate(&["drain", "leaving"]);
    wait_for("the pool after it", || answer() == "192.0.2.141");
    by.operate(&["enable", "leaving"]);
}
