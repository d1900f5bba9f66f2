//! Hostile traffic: random octets, mutated queries and half-open connections. Whatever comes, the
//! server lives, answers no more than the rules allow, and goes on answering good queries.

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;

use crate::harness::{Random, Server, Site, ZONE_HEAD, framed};
use crate::wire::{Query, Reply, bit, name_octets, opt_record, rcode, rtype};

/// How many bad packets are sent, and how many at a time.
const PACKETS: u16 = 20_000;
const BATCH: u16 = 50;

/// spec/dns.md: UDP replies have at most 1232 octets.
const LIMIT: usize = 1232;

/// RFC 1035 4.1.1: no message is shorter than its header.
const HEADER: usize = 12;

fn serve() -> Server {
    let site = Site::new();
    site.write("zones/example.test.zone", include_str!("../data/example.test.zone"));
    site.write(
        "zones/example.test.toml",
        "zone = \"example.test\"\nttl = 300\nzonefile = \"example.test.zone\"\n\
         [pools.p]\norigins = [{ name = \"a\", address = [\"192.0.2.100\", \"2001:db8::100\"] }]\n\
         [load_balancers.lb]\npools = [\"p\"]\n",
    );
    let other = ZONE_HEAD.replace("example.test", "other.test");
    site.write("zones/other.test.toml", other);
    Server::start(&site)
}

/// Queries worth damaging: they reach every part of the server.
fn seeds() -> Vec<Vec<u8>> {
    let names = ["lb", "www", "alias", "big", "a.b.wild", "x.sub", "nope", "f.*.we", "intosub"];
    let mut seeds = Vec::new();
    for name in names {
        let name = format!("{name}.example.test");
        for qtype in [rtype::A, rtype::TXT, rtype::ANY, rtype::DS] {
            let query = Query::new(&name, qtype);
            seeds.push(query.octets());
            seeds
                .push(query.clone().edns(4096).ecs("203.0.113.0", 24).option(10, &[7; 8]).octets());
            seeds
                .push(query.further(opt_record(&name_octets("a"), 512, 0, &[0, 3, 0, 0])).octets());
        }
    }
    seeds
}

/// Damages a packet in one to four places.
fn mutate(packet: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(packet.len().max(1));
        let any = random.next() as u8;
        let value = *random.pick(&[0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff, any]);
        match random.below(6) {
            0 => packet.truncate(at),
            1 => packet.insert(at.min(packet.len()), value),
            2 => packet.extend((0..random.below(40)).map(|_| value)),
            _ => {
                if let Some(octet) = packet.get_mut(at) {
                    *octet = value;
                }
            }
        }
    }
}

/// The next bad packet: damaged or wholly random, with this id where it has room for one.
fn bad_packet(id: u16, seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut packet = if random.below(5) == 0 {
        (0..random.below(600)).map(|_| random.next() as u8).collect()
    } else {
        random.pick(seeds).clone()
    };
    mutate(&mut packet, random);
    for (octet, value) in packet.iter_mut().zip(id.to_be_bytes()) {
        *octet = value;
    }
    packet
}

fn next_reply(socket: &UdpSocket) -> Reply {
    let mut buffer = [0; 65_535];
    let size = socket.recv(&mut buffer).expect("the server answers good queries in time");
    let octets = &buffer[..size];
    assert!(size <= LIMIT, "{size} octets");
    Reply::parse(octets).unwrap_or_else(|error| panic!("{error}: {octets:02x?}"))
}

fn assert_serves(server: &Server) {
    for reply in [
        server.ask(&Query::new("lb.example.test", rtype::A)),
        server.ask_tcp(&Query::new("lb.example.test", rtype::A)),
    ] {
        assert_eq!(reply.rcode(), rcode::NOERROR);
        assert_eq!(reply.data(rtype::A), ["192.0.2.100"]);
    }
}

// spec/dns.md: "FORMERR if there is a header; never a crash, never a reply larger than the rules
// allow"; QR=1 and what is shorter than a header are dropped in silence.
#[test]
fn bad_packets_do_no_harm() {
    let server = serve();
    let socket = server.socket();
    let seeds = seeds();
    let mut random = Random(0xbad_5eed);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    while sent.len() < usize::from(PACKETS) {
        for _ in 0..BATCH {
            let id = u16::try_from(sent.len()).expect("fewer packets than ids");
            let packet = bad_packet(id, &seeds, &mut random);
            socket.send(&packet).expect("a packet sent");
            sent.push(packet);
        }
        // A good query ends the batch: its reply says that the server is still there.
        let mut good = Query::new("lb.example.test", rtype::AAAA);
        good.id = PACKETS + u16::try_from(sent.len()).expect("fewer packets than ids");
        socket.send(&good.octets()).expect("a query sent");
        loop {
            let reply = next_reply(&socket);
            assert!(reply.has(bit::QR), "{:04x}", reply.flags);
            if reply.id == good.id {
                assert_eq!(reply.data(rtype::AAAA), ["2001:db8::100"]);
                break;
            }
            let query = sent.get(usize::from(reply.id)).expect("the id of a packet that was sent");
            assert!(query.len() >= HEADER, "a reply to a scrap: {query:02x?}");
            assert_eq!(query[2] & 0x80, 0, "a reply to a response: {query:02x?}");
        }
    }
    assert_serves(&server);
}

// RFC 7766 6.2.3, RFC 9210 4: idle and half-sent connections do not starve others.
#[test]
fn idle_and_half_sent_connections_do_not_starve_others() {
    let server = serve();
    let query = Query::new("lb.example.test", rtype::A).octets();
    let idle: Vec<_> = (0..30).map(|_| server.connect()).collect();
    let half: Vec<_> = (1..30)
        .map(|size| {
            let mut stream = server.connect();
            stream.write_all(&framed(&query)[..size]).expect("half a query sent");
            stream
        })
        .collect();
    assert_serves(&server);
    drop((idle, half));
    assert_serves(&server);
}

// RFC 7766 8: garbage in the place of a message ends the connection or is answered, no more.
#[test]
fn garbage_over_tcp_does_no_harm() {
    let server = serve();
    let mut random = Random(0x7c9);
    let seeds = seeds();
    for round in 0..100_u16 {
        let packet = bad_packet(round, &seeds, &mut random);
        let mut octets = framed(&packet);
        if round % 4 == 0 {
            octets.splice(..2, [random.next() as u8 & 3, random.next() as u8]);
        }
        let mut stream = server.connect();
        stream.write_all(&octets).expect("octets sent");
        stream.shutdown(std::net::Shutdown::Write).expect("half a close");
        // The server closes in its turn; a reset is as good as an end.
        let mut replies = Vec::new();
        let _end = stream.read_to_end(&mut replies);
        if let Some((size, reply)) = replies.split_first_chunk::<2>()
            && usize::from(u16::from_be_bytes(*size)) == reply.len()
        {
            let reply = Reply::parse(reply).unwrap_or_else(|error| panic!("{error}"));
            assert!(reply.has(bit::QR), "{:04x}", reply.flags);
        }
    }
    assert_serves(&server);
}
