//! UDP and DNS.

use meridian::config::monitors::Probe;
use meridian::name::Name;
use meridian::rr::RecordType;
use tokio::net::UdpSocket;

use crate::monitors::{impatient, monitor, probe, words};

/// Answers each datagram with what a function makes of it.
async fn answering(reply: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok((size, peer)) = socket.recv_from(&mut buffer).await {
            for reply in reply(&buffer[..size]) {
                // The probe may be over.
                _ = socket.send_to(&reply, peer).await;
            }
        }
    });
    port
}

async fn closed_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn udp(port: u16, expected: Option<&str>) -> Probe {
    let expected_reply = expected.map(str::to_owned);
    Probe::Udp { port, payload: "ping".to_owned(), expected_reply }
}

fn dns(port: u16) -> Probe {
    let query_name = Name::parse_absolute("www.example.com").unwrap();
    Probe::Dns { port, query_name, query_type: RecordType::AAAA }
}

#[tokio::test]
async fn a_reply_must_begin_with_the_expected_text() {
    let port = answering(|payload| vec![[payload, b"/pong"].concat()]).await;
    for expected in [None, Some("ping/"), Some("ping/pong")] {
        let success = probe(&monitor(udp(port, expected))).await.unwrap();
        assert!(success.rtt.is_some());
    }
    let wrong = words(probe(&monitor(udp(port, Some("pong")))).await);
    assert_eq!(wrong, "the reply is \"ping/pong\" and does not begin with \"pong\"");
}

#[tokio::test]
async fn no_reply_and_a_closed_port_are_failures() {
    let port = answering(|_| Vec::new()).await;
    let none = "timed out after 300 ms waiting for the reply";
    let closed = "the port is closed (ICMP port unreachable)";
    assert_eq!(words(probe(&impatient(udp(port, None))).await), none);
    assert_eq!(words(probe(&impatient(dns(port))).await), none);
    let port = closed_port().await;
    assert_eq!(words(probe(&monitor(udp(port, None))).await), closed);
    assert_eq!(words(probe(&monitor(dns(port))).await), closed);
}

/// A reply to a query: its id and question, these flags and this code.
fn reply(query: &[u8], flags: u8, rcode: u8) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80 | flags;
    reply[3] = rcode;
    reply
}

#[tokio::test]
async fn a_query_asks_what_the_monitor_says() {
    let question = b"\x03www\x07example\x03com\x00\x00\x1c\x00\x01";
    let port = answering(move |query| {
        assert_eq!(&query[2..12], [1, 0, 0, 1, 0, 0, 0, 0, 0, 0], "RD, one question");
        assert_eq!(&query[12..], question);
        vec![reply(query, 0, 0)]
    })
    .await;
    assert!(probe(&monitor(dns(port))).await.unwrap().rtt.is_some());
}

#[tokio::test]
async fn the_response_code_decides() {
    let truncated = answering(|query| vec![reply(query, 0x02, 0)]).await;
    probe(&monitor(dns(truncated))).await.unwrap();
    for (rcode, expected) in [
        (2, "the DNS reply is SERVFAIL (it failed to answer)"),
        (3, "the DNS reply is NXDOMAIN (the name does not exist)"),
        (5, "the DNS reply is REFUSED"),
        (9, "the DNS reply has the code 9"),
    ] {
        let port = answering(move |query| vec![reply(query, 0, rcode)]).await;
        assert_eq!(words(probe(&monitor(dns(port))).await), expected);
    }
}

#[tokio::test]
async fn a_reply_to_another_query_does_not_count() {
    let port = answering(|query| {
        let mut other_id = reply(query, 0, 2);
        other_id[0] ^= 1;
        let mut other_name = reply(query, 0, 2);
        other_name[13] = b'x';
        vec![other_id, other_name, b"?".to_vec(), reply(query, 0, 0)]
    })
    .await;
    probe(&monitor(dns(port))).await.unwrap();
}
