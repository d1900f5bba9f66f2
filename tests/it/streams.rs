//! DNS over streams (spec/dns.md, "TCP"; RFC 7766, 7858, 8484): limits, slow clients, TLS, HTTPS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Server, Site, framed, is_missing, read_framed};
use crate::wire::{Query, rtype};

const BODY: &str = "[[records]]\nname = \"a\"\ntype = \"A\"\ndata = [\"192.0.2.1\"]\n\
    [pools.p]\norigins = [{ name = \"o\", address = \"192.0.2.7\" }]\n\
    [load_balancers.lb]\npools = [\"p\"]\nttl = 17\n";
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn site(settings: &str) -> Site {
    let site = Site::with_zone(BODY);
    site.write(
        "meridian.toml",
        format!("[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\n{settings}"),
    );
    site
}

fn query() -> Vec<u8> {
    framed(&Query::new("a.example.test", rtype::A).octets())
}

/// True if the other side ends the connection.
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_))
}

#[test]
fn a_client_has_so_many_connections_and_no_more() {
    let server = Server::start(&site("[tcp]\nconnections_per_client = 3\n"));
    let mut open: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut open {
        stream.write_all(&query()).expect("sent");
        assert_eq!(read_framed(stream).data(rtype::A), ["192.0.2.1"]);
    }
    assert!(is_ended(&mut server.connect()), "the fourth is closed");
    // Another client has its own.
    let from = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    from.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).expect("a loopback address");
    from.connect(&server.address.into()).expect("a connection");
    let mut other = TcpStream::from(from);
    other.write_all(&query()).expect("sent");
    assert_eq!(read_framed(&mut other).data(rtype::A), ["192.0.2.1"]);
    // And what is closed makes room.
    open.pop();
    let start = Instant::now();
    loop {
        let mut stream = server.connect();
        let answered = stream.write_all(&query()).is_ok() && {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.read(&mut [0; 2]).is_ok_and(|read| read > 0)
        };
        if answered {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "there is room");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn there_are_so_many_connections_in_all() {
    let server = Server::start(&site("[tcp]\nconnections = 2\n"));
    let mut open = [server.connect(), server.connect()];
    for stream in &mut open {
        stream.write_all(&query()).expect("sent");
        assert_eq!(read_framed(stream).data(rtype::A), ["192.0.2.1"]);
    }
    assert!(is_ended(&mut server.connect()));
}

#[test]
fn slow_clients_are_not_waited_for() {
    let server = Server::start(&site("[tcp]\nidle_timeout = \"1s\"\n"));
    let mut idle = server.connect();
    let mut dripping = server.connect();
    let start = Instant::now();
    let drip = thread::spawn(move || {
        // An octet every 200 ms: never idle, and never done within the second.
        for octet in query() {
            if dripping.write_all(&[octet]).is_err() {
                return true;
            }
            thread::sleep(Duration::from_millis(200));
        }
        is_ended(&mut dripping)
    });
    assert!(is_ended(&mut idle));
    assert!(start.elapsed() > Duration::from_millis(900), "not before its time");
    assert!(drip.join().expect("the dripping client"));
    // One that never reads: its replies fill its window, and then it is let go.
    let mut deaf = server.connect();
    deaf.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    let many: Vec<u8> = query().repeat(1000);
    let start = Instant::now();
    while deaf.write_all(&many).is_ok() {
        assert!(start.elapsed() < PATIENCE, "it is let go");
    }
}

#[test]
fn a_connection_is_for_many_queries_and_what_is_no_query_does_not_end_it() {
    let server = Server::start(&site(""));
    let mut stream = server.connect();
    let reply_of_ours = {
        let mut octets = Query::new("a.example.test", rtype::A).octets();
        octets[2] |= 0x80;
        octets
    };
    // A reply, and a scrap: no answer. Then queries in one piece and in two.
    let mut sent = framed(&reply_of_ours);
    sent.extend(framed(&[1, 2, 3]));
    sent.extend(query());
    sent.extend(query());
    let (first, second) = sent.split_at(sent.len() - 7);
    stream.write_all(first).expect("sent");
    assert_eq!(read_framed(&mut stream).data(rtype::A), ["192.0.2.1"]);
    stream.write_all(second).expect("sent");
    assert_eq!(read_framed(&mut stream).data(rtype::A), ["192.0.2.1"]);
    // What cannot be read is FORMERR, with the question and OPT as over UDP.
    let mut broken = Query::new("a.example.test", rtype::A).octets();
    broken.push(0);
    stream.write_all(&framed(&broken)).expect("sent");
    assert_eq!(read_framed(&mut stream).rcode(), 1);
}

#[test]
fn what_has_arrived_is_answered_before_the_end() {
    let server = Server::start(&site(""));
    let mut stream = server.connect();
    stream.write_all(&query().repeat(50)).expect("sent");
    server.signal("TERM");
    for _ in 0..50 {
        assert_eq!(read_framed(&mut stream).data(rtype::A), ["192.0.2.1"]);
    }
    assert!(is_ended(&mut stream));
    assert_eq!(server.exit_code(), Some(0));
}

// ---------------------------------------------------------------------------------- TLS

/// A self-signed certificate for a name, with its key, written where `[tls]` looks for them.
pub(crate) fn write_certificate(site: &Site, name: &str) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let pem = |label: &str, der: &[u8]| {
        let text = data_encoding::BASE64_MIME.encode(der);
        format!("-----BEGIN {label}-----\n{text}-----END {label}-----\n")
    };
    site.write("cert.pem", pem("CERTIFICATE", made.cert.der()));
    site.write("key.pem", pem("PRIVATE KEY", &made.signing_key.serialize_der()));
}

/// The address that a running server says it listens on with a protocol.
pub(crate) fn address_of(server: &mut Server, protocol: &str) -> SocketAddr {
    let lines = server.log_so_far();
    let line = lines.iter().find(|line| line["fields"]["protocol"] == protocol);
    let address = line.expect("a line")["fields"]["address"].as_str().expect("an address");
    address.parse().expect("an address")
}

/// A server with TLS and HTTPS, and their addresses.
pub(crate) fn encrypted(site: &Site) -> (Server, SocketAddr, SocketAddr) {
    let mut server = Server::start(site);
    let (dot, doh) = (address_of(&mut server, "tls"), address_of(&mut server, "https"));
    (server, dot, doh)
}

/// Both, on free ports.
pub(crate) const TLS: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\ndot = [\"127.0.0.1:0\"]\n\
    doh = [\"127.0.0.1:0\"]\n";

pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("a program")
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn kdig_is_answered_over_tls_and_https() {
    if is_missing("kdig", "-V", "knot-dnsutils") {
        return;
    }
    let site = site(TLS);
    write_certificate(&site, "dns.example.test");
    let (server, dot, doh) = encrypted(&site);
    let ca = site.path().join("cert.pem");
    let ca = format!("+tls-ca={}", ca.display());
    for (address, how) in [(dot, "+tls"), (doh, "+https"), (doh, "+https-get")] {
        let port = address.port().to_string();
        let name = ["+tls-hostname=dns.example.test", how, &ca];
        let mut arguments = vec!["@127.0.0.1", "-p", &port, "lb.example.test", "A", "+short"];
        arguments.extend(name);
        if how == "+https-get" {
            arguments.push("+https");
        }
        let output = run("kdig", &arguments);
        assert_eq!(text(&output).trim(), "192.0.2.7", "{how}");
    }
    // Another certificate is shown after a reload, and one that cannot be read is refused.
    let mut server = server;
    write_certificate(&site, "other.example.test");
    server.reload("reloaded");
    let port = dot.port().to_string();
    let other = ["@127.0.0.1", "-p", &port, "lb.example.test", "+short", "+tls", &ca];
    let shown = run("kdig", &[&other[..], &["+tls-hostname=other.example.test"]].concat());
    assert_eq!(text(&shown).trim(), "192.0.2.7");
    site.write("key.pem", "no key");
    server.reload("reload refused");
    let shown = run("kdig", &[&other[..], &["+tls-hostname=other.example.test"]].concat());
    assert_eq!(text(&shown).trim(), "192.0.2.7");
}

// RFC 8467 4.1: what is padded comes back in blocks of 468 octets; RFC 7830 3: what is not, does not.
#[test]
fn padded_queries_have_padded_replies() {
    if is_missing("kdig", "-V", "knot-dnsutils") {
        return;
    }
    let site = site(TLS);
    write_certificate(&site, "dns.example.test");
    let (_server, dot, doh) = encrypted(&site);
    for (address, how) in [(dot, "+tls"), (doh, "+https")] {
        let port = address.port().to_string();
        for (padding, is_padded) in [("+padding=128", true), ("+nopadding", false)] {
            let arguments = ["@127.0.0.1", "-p", &port, "lb.example.test", "+edns=0", how, padding];
            let output = text(&run("kdig", &arguments));
            assert!(output.contains("192.0.2.7"), "{how} {padding}: {output}");
            let is_block = output.contains("Received 468 B");
            assert_eq!(is_block, is_padded, "{how} {padding}: {output}");
        }
    }
}

// RFC 8484: GET and POST, the media type, and how long a cache may keep it.
#[test]
fn https_is_answered_as_its_rfc_says() {
    if is_missing("curl", "--version", "curl") {
        return;
    }
    let site = site(TLS);
    write_certificate(&site, "dns.example.test");
    let (_server, _, doh) = encrypted(&site);
    let url = format!("https://127.0.0.1:{}", doh.port());
    let message = Query::new("lb.example.test", rtype::A).octets();
    let encoded = data_encoding::BASE64URL_NOPAD.encode(&message);
    let body = site.path().join("query");
    std::fs::write(&body, &message).expect("a file");
    let body = format!("@{}", body.display());
    let curl = |arguments: &[&str]| {
        text(&run("curl", &[&["-ksi", "--max-time", "10"][..], arguments].concat()))
    };
    for version in ["--http1.1", "--http2"] {
        let got = curl(&[version, &format!("{url}/dns-query?dns={encoded}")]);
        let posted = curl(&[
            version,
            "-H",
            "content-type: application/dns-message",
            "--data-binary",
            &body,
            &format!("{url}/dns-query"),
        ]);
        for reply in [got, posted] {
            let head = reply.to_lowercase();
            assert!(head.contains(" 200"), "{version}: {reply}");
            assert!(head.contains("content-type: application/dns-message"), "{reply}");
            assert!(head.contains("cache-control: max-age=17"), "{reply}");
            // RFC 7838: the same is on the same port over HTTP/3.
            let alternative = format!("alt-svc: h3=\":{}\"", doh.port());
            assert!(head.contains(&alternative), "{reply}");
        }
    }
    let status = |arguments: &[&str]| {
        let reply = curl(arguments);
        reply.split_whitespace().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(status(&[&format!("{url}/other?dns={encoded}")]), "404");
    assert_eq!(status(&[&format!("{url}/dns-query")]), "400");
    assert_eq!(status(&[&format!("{url}/dns-query?dns=%%%")]), "400");
    assert_eq!(status(&["-X", "PUT", &format!("{url}/dns-query")]), "405");
    assert_eq!(status(&["--data-binary", &body, &format!("{url}/dns-query")]), "415");
}
