//! DNS over QUIC (RFC 9250) against a client made of quinn: what it answers, what it does not take, limits,
//! and the end.

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadToEndError, TransportConfig, VarInt,
};
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{self, RootCertStore};

use crate::harness::{Server, Site, framed, is_missing};
use crate::streams::{address_of, run, site, text, write_certificate};
use crate::wire::{Query, Reply, bit, option, rcode, rtype};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const NAME: &str = "dns.example.test";
const TLS: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\ndoq = [\"127.0.0.1:0\"]\n";

// RFC 9250 section 8.4.
const NO_ERROR: u64 = 0;
const PROTOCOL_ERROR: u64 = 2;
const EXCESSIVE_LOAD: u64 = 4;

// ---------------------------------------------------------------------------------- Client

/// Runs a client to its end, in time.
pub(crate) fn client<R>(task: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let task = async { timeout(2 * PATIENCE, task).await.expect("an end in time") };
    runtime.expect("a runtime").block_on(task)
}

/// A client that trusts the certificate of a site, and speaks a protocol.
pub(crate) fn settings(site: &Site, protocol: &[u8]) -> ClientConfig {
    let pem = fs::read(site.path().join("cert.pem")).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).expect("a certificate")).expect("a root");
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("a cipher of QUIC")))
}

pub(crate) async fn connect_from(
    from: [u8; 4],
    to: SocketAddr,
    settings: ClientConfig,
) -> Result<Connection, ConnectionError> {
    let endpoint = Endpoint::client((Ipv4Addr::from(from), 0).into()).expect("a free port");
    endpoint.connect_with(settings, to, NAME).expect("an address").await
}

/// A connection from the usual address.
pub(crate) async fn connect(to: SocketAddr, settings: ClientConfig) -> Connection {
    connect_from([127, 0, 0, 1], to, settings).await.expect("a connection")
}

/// Sends octets on a stream of their own, to its end, and takes what comes back to the end.
async fn exchange(connection: &Connection, octets: &[u8]) -> Result<Vec<u8>, ReadToEndError> {
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    // A server that takes no more has said why on the connection.
    let _sent = send.write_all(octets).await.map(|()| send.finish());
    recv.read_to_end(1 << 20).await
}

async fn ask(connection: &Connection, query: &Query) -> Reply {
    let octets = exchange(connection, &framed(&query.octets())).await.expect("a reply");
    let (length, message) = octets.split_at(2);
    assert_eq!(usize::from(u16::from_be_bytes([length[0], length[1]])), message.len());
    let reply = Reply::parse(message).expect("a reply");
    assert_eq!(reply.id, 0);
    reply
}

fn query() -> Query {
    let mut query = Query::new("a.example.test", rtype::A);
    query.id = 0;
    query
}

/// The code that the server closes a connection with.
pub(crate) async fn code_of(connection: &Connection) -> u64 {
    code_of_error(timeout(PATIENCE, connection.closed()).await.expect("an end in time"))
}

fn code_of_error(error: ConnectionError) -> u64 {
    match error {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("closed by the server, not: {other}"),
    }
}

fn start(more: &str) -> (Site, Server, SocketAddr) {
    let site = site(&format!("{TLS}{more}"));
    write_certificate(&site, NAME);
    let mut server = Server::start(&site);
    let doq = address_of(&mut server, "quic");
    (site, server, doq)
}

// ---------------------------------------------------------------------------------- Answers

// RFC 9250 5.4, RFC 8467 4.1: padded as over TLS.
#[test]
fn kdig_is_answered_over_quic() {
    if is_missing("kdig", "-V", "knot-dnsutils") {
        return;
    }
    let (_site, _server, doq) = start("");
    let port = doq.port().to_string();
    for (padding, is_padded) in [("+padding=128", true), ("+nopadding", false)] {
        let output = text(&run(
            "kdig",
            &["@127.0.0.1", "-p", &port, "lb.example.test", "A", "+edns=0", "+quic", padding],
        ));
        assert!(output.contains("192.0.2.7"), "{output}");
        assert_eq!(output.contains("Received 468 B"), is_padded, "{padding}: {output}");
    }
}

#[test]
fn the_streams_of_a_connection_do_not_wait_for_one_another() {
    let (site, _server, doq) = start("");
    client(async {
        let connection = connect(doq, settings(&site, b"doq")).await;
        // One whose query does not go on, and 90 that are there at the same time.
        let (mut half, mut late) = connection.open_bi().await.expect("a stream");
        let message = framed(&query().octets());
        half.write_all(&message[..7]).await.expect("sent");
        let mut streams = Vec::new();
        for _ in 0..90 {
            let (mut send, recv) = connection.open_bi().await.expect("a stream");
            send.write_all(&message).await.expect("sent");
            send.finish().expect("the end of a query");
            streams.push(recv);
        }
        for mut recv in streams.into_iter().rev() {
            let reply = recv.read_to_end(65_537).await.expect("a reply");
            assert_eq!(Reply::parse(&reply[2..]).expect("a reply").data(rtype::A), ["192.0.2.1"]);
        }
        half.write_all(&message[7..]).await.expect("sent");
        half.finish().expect("the end of a query");
        late.read_to_end(65_537).await.expect("a reply");
        // The largest query is taken, and one that is malformed has its reply as over TCP.
        let large = query().edns(1232).option(option::PADDING, &[0; 65_000]);
        assert_eq!(ask(&connection, &large).await.data(rtype::A), ["192.0.2.1"]);
        let malformed = query().edns(1232).option(option::CLIENT_SUBNET, &[0, 9, 24, 0, 1, 2, 3]);
        assert_eq!(ask(&connection, &malformed).await.rcode(), rcode::FORMERR);
        // One that is cancelled is no matter for the others (section 4.3.1).
        let (mut send, _recv) = connection.open_bi().await.expect("a stream");
        send.write_all(&message[..7]).await.expect("sent");
        send.reset(VarInt::from_u32(3)).expect("cancelled");
        assert_eq!(ask(&connection, &query()).await.data(rtype::A), ["192.0.2.1"]);
    });
}

// RFC 9250 4.3.3: errors of the protocol end the connection.
#[test]
fn what_breaks_the_rules_ends_the_connection() {
    let (site, _server, doq) = start("");
    let message = framed(&query().octets());
    let mut with_id = query();
    with_id.id = 1;
    let cases = [
        ("a message id", framed(&with_id.octets())),
        ("an end before the end of the message", message[..message.len() - 1].to_vec()),
        ("no length", vec![0]),
        ("nothing", Vec::new()),
        ("two queries", message.repeat(2)),
        ("an octet after the query", [&message[..], &[0]].concat()),
        ("keepalive", framed(&query().edns(1232).option(option::TCP_KEEPALIVE, &[]).octets())),
        (
            "keepalive with a time",
            framed(&query().edns(1232).option(option::TCP_KEEPALIVE, &[0, 9]).octets()),
        ),
        ("a reply", framed(&query().flags(bit::QR).octets())),
        ("a scrap", framed(&[0, 0, 1])),
    ];
    client(async {
        for (what, octets) in cases {
            let connection = connect(doq, settings(&site, b"doq")).await;
            let nothing = exchange(&connection, &octets).await;
            assert!(nothing.is_err(), "{what}: {nothing:?}");
            assert_eq!(code_of(&connection).await, PROTOCOL_ERROR, "{what}");
        }
        // A stream in one direction cannot be opened at all (section 4.2).
        let connection = connect(doq, settings(&site, b"doq")).await;
        let opened = timeout(Duration::from_millis(200), connection.open_uni()).await;
        assert!(opened.is_err(), "there is no credit for it");
        // Another protocol is not spoken here, and the server lives on.
        let other = connect_from([127, 0, 0, 1], doq, settings(&site, b"h3")).await;
        assert!(matches!(other, Err(ConnectionError::ConnectionClosed(_))), "{other:?}");
        assert_eq!(ask(&connection, &query()).await.data(rtype::A), ["192.0.2.1"]);
    });
}

// ---------------------------------------------------------------------------------- Limits

/// A client that shows all the time that it is there, and takes so many octets of a reply.
fn lively(site: &Site, window: u32) -> ClientConfig {
    let mut settings = settings(site, b"doq");
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(Duration::from_millis(100)))
        .stream_receive_window(VarInt::from_u32(window));
    settings.transport_config(Arc::new(transport));
    settings
}

#[test]
fn slow_clients_are_not_waited_for() {
    let (site, _server, doq) = start("[tcp]\nidle_timeout = \"1s\"\n");
    client(async {
        let message = framed(&query().octets());
        let begin = Instant::now();
        let silent = connect(doq, lively(&site, 1 << 16)).await;
        let half = connect(doq, lively(&site, 1 << 16)).await;
        let (mut send, _recv) = half.open_bi().await.expect("a stream");
        send.write_all(&message[..9]).await.expect("sent");
        // One that begins a query again and again, and never ends one.
        let dripping = connect(doq, lively(&site, 1 << 16)).await;
        let drip = async {
            let mut begun = Vec::new();
            while dripping.close_reason().is_none() {
                if let Ok((mut send, recv)) = dripping.open_bi().await {
                    let _sent = send.write_all(&message[..3]).await;
                    begun.push((send, recv));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let deaf = connect(doq, lively(&site, 0)).await;
        let (mut asks, _never_read) = deaf.open_bi().await.expect("a stream");
        asks.write_all(&message).await.expect("sent");
        asks.finish().expect("the end of a query");
        drip.await;
        for connection in [silent, half, dripping, deaf] {
            assert_eq!(code_of(&connection).await, NO_ERROR);
        }
        assert!(begin.elapsed() > Duration::from_millis(900), "not before its time");
    });
}

// All unfinished queries of a connection have 128 KiB together.
#[test]
fn a_connection_does_not_make_the_server_hold_much() {
    let (site, _server, doq) = start("");
    client(async {
        let connection = connect(doq, settings(&site, b"doq")).await;
        let octets = [&60_000u16.to_be_bytes()[..], &[0; 59_000]].concat();
        let mut streams = Vec::new();
        for _ in 0..3 {
            let Ok((mut send, recv)) = connection.open_bi().await else { break };
            let _sent = send.write_all(&octets).await;
            streams.push((send, recv));
        }
        assert_eq!(code_of(&connection).await, EXCESSIVE_LOAD);
    });
}

// The limits of [tcp] are for the connections of all transports together.
#[test]
fn a_client_has_so_many_connections_and_no_more() {
    let (site, server, doq) = start("[tcp]\nconnections_per_client = 2\n");
    client(async {
        let first = connect(doq, lively(&site, 1 << 16)).await;
        let second = connect(doq, lively(&site, 1 << 16)).await;
        for connection in [&first, &second] {
            assert_eq!(ask(connection, &query()).await.data(rtype::A), ["192.0.2.1"]);
        }
        let third = connect_from([127, 0, 0, 1], doq, settings(&site, b"doq")).await;
        let code = match third {
            Ok(connection) => code_of(&connection).await,
            Err(error) => code_of_error(error),
        };
        assert_eq!(code, EXCESSIVE_LOAD);
        let mut tcp = server.connect();
        assert!(matches!(std::io::Read::read(&mut tcp, &mut [0]), Ok(0) | Err(_)));
        // Another client has its own.
        let other = connect_from([127, 0, 0, 9], doq, settings(&site, b"doq")).await;
        ask(&other.expect("a connection"), &query()).await;
        // And what is closed makes room.
        second.close(VarInt::from_u32(0), b"");
        let begin = Instant::now();
        loop {
            let connection = connect_from([127, 0, 0, 1], doq, settings(&site, b"doq")).await;
            if let Ok(connection) = connection
                && exchange(&connection, &framed(&query().octets())).await.is_ok()
            {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "there is room");
        }
    });
}

/// The ids of source and destination of a long header (RFC 8999 section 5.1).
fn ids(packet: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (length, rest) = packet[5..].split_first().expect("a length");
    let (destination, rest) = rest.split_at(usize::from(*length));
    let (length, rest) = rest.split_first().expect("a length");
    (rest[..usize::from(*length)].to_vec(), destination.to_vec())
}

/// The next datagram with a long header.
fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut packet = vec![0; 2048];
    loop {
        let length = socket.recv(&mut packet).expect("a packet in time");
        if packet[0] & 0x80 != 0 {
            return packet[..length].to_vec();
        }
    }
}

// RFC 9000 8.1.2. Handshakes that do not go on are begun by first packets which a client meant for another.
#[test]
fn addresses_are_validated_when_many_handshakes_are_pending() {
    let (site, _server, doq) = start("[tcp]\nidle_timeout = \"1m\"\n");
    let caught = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let raw = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    for socket in [&caught, &raw] {
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    }
    raw.connect(doq).expect("a local address");
    client(async {
        let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let to = caught.local_addr().expect("an address");
        let mut connecting = Vec::new();
        let mut seen = HashSet::new();
        let mut answered = HashSet::new();
        for number in 0..65 {
            let begun = endpoint.connect_with(settings(&site, b"doq"), to, NAME);
            connecting.push(begun.expect("an address"));
            let (first, source) = loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                caught.set_nonblocking(true).expect("a socket");
                let mut packet = vec![0; 2048];
                let Ok(length) = caught.recv(&mut packet) else { continue };
                packet.truncate(length);
                let (source, _) = ids(&packet);
                if seen.insert(source.clone()) {
                    break (packet, source);
                }
            };
            raw.send(&first).expect("sent");
            // Until the server has answered it, with a handshake at first.
            let reply = loop {
                let reply = next(&raw);
                let (_, to) = ids(&reply);
                answered.insert(to.clone());
                if to == source {
                    break reply;
                }
            };
            let is_retry = reply[0] & 0x30 == 0x30;
            assert_eq!(is_retry, number == 64, "{number}");
        }
        assert_eq!(answered.len(), 65);
        // Who is there gets its connection all the same, one round trip later.
        let connection = connect(doq, settings(&site, b"doq")).await;
        assert_eq!(ask(&connection, &query()).await.data(rtype::A), ["192.0.2.1"]);
    });
}

// ---------------------------------------------------------------------------------- Life

#[test]
fn a_reload_replaces_the_certificate() {
    let (site, mut server, doq) = start("");
    let old = settings(&site, b"doq");
    client(async {
        let before = connect(doq, old.clone()).await;
        write_certificate(&site, NAME);
        server.reload("reloaded");
        let after = connect(doq, settings(&site, b"doq")).await;
        assert_eq!(ask(&after, &query()).await.data(rtype::A), ["192.0.2.1"]);
        // A new client that trusts the old one only is not served; the old connection goes on.
        let fresh = {
            let other = site_with_certificate();
            connect_from([127, 0, 0, 1], doq, settings(&other, b"doq")).await
        };
        assert!(fresh.is_err());
        assert_eq!(ask(&before, &query()).await.data(rtype::A), ["192.0.2.1"]);
    });
}

/// A site with a certificate of its own, for the same name.
fn site_with_certificate() -> Site {
    let site = Site::new();
    write_certificate(&site, NAME);
    site
}

#[test]
fn what_has_arrived_is_answered_before_the_end() {
    let (site, server, doq) = start("");
    client(async {
        let connection = connect(doq, settings(&site, b"doq")).await;
        let idle = connect(doq, settings(&site, b"doq")).await;
        let (mut half, _never) = connection.open_bi().await.expect("a stream");
        half.write_all(&[0]).await.expect("sent");
        let mut streams = Vec::new();
        for _ in 0..50 {
            let (mut send, recv) = connection.open_bi().await.expect("a stream");
            send.write_all(&framed(&query().octets())).await.expect("sent");
            send.finish().expect("the end of a query");
            streams.push(recv);
        }
        let mut streams = streams.into_iter();
        let mut first = streams.next().expect("a stream");
        first.read_to_end(65_537).await.expect("a reply");
        server.signal("TERM");
        for mut recv in streams {
            let reply = recv.read_to_end(65_537).await.expect("a reply");
            assert_eq!(Reply::parse(&reply[2..]).expect("a reply").data(rtype::A), ["192.0.2.1"]);
        }
        assert_eq!(code_of(&connection).await, NO_ERROR);
        assert_eq!(code_of(&idle).await, NO_ERROR);
    });
    assert_eq!(server.exit_code(), Some(0));
}
