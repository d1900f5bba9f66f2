//! DNS over HTTPS on HTTP/3 (RFC 8484, RFC 9114) against a client made of h3: the same answers as over the
//! versions before, limits, and the end.

use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use h3::client::SendRequest;
use hyper::body::{Buf as _, Bytes};
use hyper::{Request, Response};
use quinn::{Connection, TransportConfig};

use crate::harness::{Server, Site};
use crate::quic::{NAME, client, code_of, connect, settings};
use crate::streams::{address_of, site, write_certificate};
use crate::wire::{Query, Reply, rtype};

const TLS: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\ndoh = [\"127.0.0.1:0\"]\n";
const MESSAGE: &str = "application/dns-message";

// RFC 9114 section 8.1.
const H3_NO_ERROR: u64 = 0x100;
const H3_EXCESSIVE_LOAD: u64 = 0x107;

type Requests = SendRequest<h3_quinn::OpenStreams, Bytes>;

fn start(more: &str) -> (Site, Server, SocketAddr) {
    let site = site(&format!("{TLS}{more}"));
    write_certificate(&site, NAME);
    let mut server = Server::start(&site);
    let address = address_of(&mut server, "http3");
    assert_eq!(address, address_of(&mut server, "https"), "on the same port");
    (site, server, address)
}

/// A connection, and what sends requests over it.
async fn begin(site: &Site, to: SocketAddr) -> (Connection, Requests) {
    let mut settings = settings(site, b"h3");
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(Duration::from_millis(100)));
    settings.transport_config(Arc::new(transport));
    let connection = connect(to, settings).await;
    let carried = h3_quinn::Connection::new(connection.clone());
    let (mut driver, requests) = h3::client::new(carried).await.expect("HTTP/3");
    tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
    (connection, requests)
}

async fn send(requests: &mut Requests, request: Request<Bytes>) -> Response<Vec<u8>> {
    let (head, body) = request.into_parts();
    let mut stream =
        requests.send_request(Request::from_parts(head, ())).await.expect("a request sent");
    // A server may answer before it has all.
    let _sent = stream.send_data(body).await;
    let _finished = stream.finish().await;
    let response = stream.recv_response().await.expect("a response");
    let mut octets = Vec::new();
    while let Some(mut data) = stream.recv_data().await.expect("a body") {
        octets.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    response.map(|()| octets)
}

fn request(method: &str, path: &str, media: Option<&str>, body: &[u8]) -> Request<Bytes> {
    let mut request = Request::builder().method(method).uri(format!("https://{NAME}{path}"));
    if let Some(media) = media {
        request = request.header("content-type", media);
    }
    request.body(Bytes::copy_from_slice(body)).expect("a request")
}

fn query() -> Vec<u8> {
    Query::new("lb.example.test", rtype::A).octets()
}

fn assert_answers(response: &Response<Vec<u8>>) {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], MESSAGE);
    assert_eq!(response.headers()["cache-control"], "max-age=17");
    let reply = Reply::parse(response.body()).expect("a reply");
    assert_eq!(reply.data(rtype::A), ["192.0.2.7"]);
}

// RFC 8484: GET and POST, the media type, how long a cache may keep it, and what is no query.
#[test]
fn https_is_answered_over_http3_as_over_the_versions_before() {
    let (site, _server, address) = start("");
    client(async {
        let (_connection, mut requests) = begin(&site, address).await;
        let encoded = data_encoding::BASE64URL_NOPAD.encode(&query());
        let get = request("GET", &format!("/dns-query?dns={encoded}"), None, &[]);
        assert_answers(&send(&mut requests, get).await);
        let post = request("POST", "/dns-query", Some(MESSAGE), &query());
        assert_answers(&send(&mut requests, post).await);
        let large = vec![0; 70_000];
        let others = [
            (404, request("GET", &format!("/other?dns={encoded}"), None, &[])),
            (400, request("GET", "/dns-query", None, &[])),
            (400, request("GET", "/dns-query?dns=*", None, &[])),
            (400, request("POST", "/dns-query", Some(MESSAGE), &[1, 2, 3])),
            (405, request("PUT", "/dns-query", Some(MESSAGE), &query())),
            (415, request("POST", "/dns-query", Some("text/plain"), &query())),
            (413, request("POST", "/dns-query", Some(MESSAGE), &large)),
        ];
        for (status, request) in others {
            let what = format!("{} {:.40}", request.method(), request.uri());
            assert_eq!(send(&mut requests, request).await.status(), status, "{what}");
        }
        // And many at a time.
        let many: Vec<_> = (0..50)
            .map(|_| {
                let mut requests = requests.clone();
                let post = request("POST", "/dns-query", Some(MESSAGE), &query());
                tokio::spawn(async move { send(&mut requests, post).await })
            })
            .collect();
        for response in many {
            assert_answers(&response.await.expect("a response"));
        }
    });
}

#[test]
fn http3_can_be_turned_off() {
    let site = site(&format!("{TLS}doh3 = false\n"));
    write_certificate(&site, NAME);
    let mut server = Server::start(&site);
    let address = address_of(&mut server, "https");
    assert!(!server.log_so_far().iter().any(|line| line["fields"]["protocol"] == "http3"));
    UdpSocket::bind(address).expect("nothing is there");
}

#[test]
fn slow_clients_are_not_waited_for() {
    let (site, _server, address) = start("[tcp]\nidle_timeout = \"1s\"\n");
    client(async {
        let (silent, _requests) = begin(&site, address).await;
        let (half, mut requests) = begin(&site, address).await;
        let head = request("POST", "/dns-query", Some(MESSAGE), &[]).map(drop);
        let mut stream = requests.send_request(head).await.expect("sent");
        stream.send_data(Bytes::from_static(&[0; 9])).await.expect("sent");
        assert_eq!(code_of(&silent).await, H3_NO_ERROR);
        assert_eq!(code_of(&half).await, H3_NO_ERROR);
    });
}

// A frame that says it is large makes the server hold no more than is allowed.
#[test]
fn a_connection_does_not_make_the_server_hold_much() {
    let (site, _server, address) = start("");
    client(async {
        let headers = [&[0x01, 0x80, 0x40, 0, 0][..], &[0; 200_000]].concat();
        let (connection, _requests) = begin(&site, address).await;
        let (mut send, _recv) = connection.open_bi().await.expect("a stream");
        assert!(send.write_all(&headers).await.is_err());
        assert_eq!(code_of(&connection).await, H3_EXCESSIVE_LOAD);
        // On the control stream too: an unknown frame after the settings.
        let settings = settings(&site, b"h3");
        let connection = connect(address, settings).await;
        let mut control = connection.open_uni().await.expect("a stream");
        let frames = [&[0x00, 0x04, 0x00, 0x21, 0x80, 0x40, 0, 0][..], &[0; 400_000]].concat();
        assert!(control.write_all(&frames).await.is_err());
        assert_eq!(code_of(&connection).await, H3_EXCESSIVE_LOAD);
    });
}

#[test]
fn a_connection_is_ended_without_an_error_when_the_server_stops() {
    let (site, server, address) = start("");
    client(async {
        let (connection, mut requests) = begin(&site, address).await;
        let post = || request("POST", "/dns-query", Some(MESSAGE), &query());
        assert_answers(&send(&mut requests, post()).await);
        let (idle, _requests) = begin(&site, address).await;
        server.signal("TERM");
        assert_eq!(code_of(&connection).await, H3_NO_ERROR);
        assert_eq!(code_of(&idle).await, H3_NO_ERROR);
    });
    assert_eq!(server.exit_code(), Some(0));
}
