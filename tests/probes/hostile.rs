//! Servers that hang, drip or flood: each costs its probe the timeout at most, and 64 KiB.

use std::time::Duration;

use meridian::config::monitors::{HttpProbe, Probe};
use tokio::io::AsyncWriteExt as _;

use crate::monitors::{
    check, http, https, impatient, monitor, probe, probe_http, probe_with, prober_with_root, words,
};
use crate::servers::{Identity, canned, read_head, serve, silent, wait_for_end};

/// Four thousand octets of short headers.
static MANY: [u8; 4000] = {
    let (line, mut lines, mut place) = (b"X: 45\r\nXY: 6789\r\n", [0; 4000], 0);
    while place < lines.len() {
        lines[place] = line[place % line.len()];
        place += 1;
    }
    lines
};

/// Sends a beginning, then the same piece for ever.
async fn endless(beginning: &'static str, piece: &'static [u8], pause: Duration) -> u16 {
    serve(move |mut stream| async move {
        read_head(&mut stream).await;
        if stream.write_all(beginning.as_bytes()).await.is_ok() {
            while stream.write_all(piece).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        }
    })
    .await
}

async fn impatient_http(http: HttpProbe) -> String {
    words(probe(&impatient(Probe::Http(Box::new(http)))).await)
}

#[tokio::test]
async fn silence_ends_with_the_timeout_and_the_stage_is_named() {
    let port = silent().await;
    let reply = "timed out after 300 ms waiting for the reply";
    assert_eq!(impatient_http(http(port)).await, reply);
    let handshake = "timed out after 300 ms in the TLS handshake";
    assert_eq!(impatient_http(https(port, None)).await, handshake);
    let tls = Probe::Tls { port, tls: check(None) };
    assert_eq!(words(probe(&impatient(tls)).await), handshake);
    let grpc = Probe::Grpc { port, service: String::new() };
    assert_eq!(words(probe(&impatient(grpc)).await), reply);
}

#[tokio::test]
async fn a_dripping_server_does_not_outlast_the_timeout() {
    let drip = Duration::from_millis(20);
    let headers = endless("HTTP/1.1 200 OK\r\nX-Slow: ", b"x", drip).await;
    assert_eq!(impatient_http(http(headers)).await, "timed out after 300 ms waiting for the reply");
    let body = endless("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x", drip).await;
    let expecting = HttpProbe { expected_body: Some("ok".to_owned()), ..http(body) };
    assert_eq!(impatient_http(expecting).await, "timed out after 300 ms reading the body");
    // Without a text to find, the status has decided.
    probe_http(http(body)).await.unwrap();
}

#[tokio::test]
async fn of_an_endless_body_64_kib_are_read() {
    let body = endless("HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096], Duration::ZERO).await;
    probe_http(http(body)).await.unwrap();
    let expecting = HttpProbe { expected_body: Some("ok".to_owned()), ..http(body) };
    assert_eq!(words(probe_http(expecting).await), "the body does not contain \"ok\"");
}

#[tokio::test]
async fn the_expected_text_must_stand_within_64_kib() {
    for (before, is_found) in [((64 << 10) - 2, true), ((64 << 10) - 1, false)] {
        let reply = format!("HTTP/1.1 200 OK\r\n\r\n{}ok", "x".repeat(before));
        let (port, _) = canned(reply).await;
        let expecting = HttpProbe { expected_body: Some("ok".to_owned()), ..http(port) };
        assert_eq!(probe_http(expecting).await.is_ok(), is_found, "after {before} octets");
    }
}

#[tokio::test]
async fn endless_headers_are_refused() {
    let refusal = "more than 64 KiB of headers, or more than 100 of them";
    let one = endless("HTTP/1.1 200 OK\r\nX-Long: ", &[b'x'; 4096], Duration::ZERO).await;
    assert_eq!(words(probe_http(http(one)).await), refusal);
    let many = endless("HTTP/1.1 200 OK\r\n", &MANY, Duration::ZERO).await;
    assert_eq!(words(probe_http(http(many)).await), refusal);
    let interim = endless("", b"HTTP/1.1 103 Early Hints\r\n\r\n", Duration::from_millis(1)).await;
    let interim = impatient_http(http(interim)).await;
    assert_eq!(interim, "timed out after 300 ms waiting for the reply");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_called_so() {
    let port = serve(|mut stream| async move {
        _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        wait_for_end(stream).await;
    })
    .await;
    let result = probe_http(https(port, None)).await;
    assert_eq!(words(result), "TLS: the server does not speak TLS on this port");
    let closing = serve(|_stream| async {}).await;
    let result = probe(&monitor(Probe::Tls { port: closing, tls: check(None) })).await;
    let words = words(result);
    let expected = [
        "TLS: the server closed the connection in the handshake",
        "the server reset the connection",
    ];
    assert!(expected.contains(&words.as_str()), "{words}");
}

/// Over HTTP/2: SETTINGS, then the HEADERS of the response, which so many CONTINUATIONs go on with.
async fn continued_headers(identity: &Identity, continuations: usize) -> u16 {
    let acceptor = identity.acceptor(&["h2"]);
    serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut octets = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
            octets.extend([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88]);
            // A literal header of 4096 + 127 + 1 octets: "x" and many "y".
            let literal =
                [&[0x00, 1, b'x', 0x7f, 0x81, 0x20][..], &[b'y'; 4096 + 128][..]].concat();
            let size = u32::try_from(literal.len()).unwrap().to_be_bytes();
            let mut is_open = stream.write_all(&octets).await.is_ok();
            for number in 1..=continuations {
                let is_last = u8::from(number == continuations);
                let frame = [&size[1..], &[9, 4 * is_last, 0, 0, 0, 1], &literal].concat();
                is_open = is_open && stream.write_all(&frame).await.is_ok();
                if !is_open {
                    return;
                }
            }
            wait_for_end(stream).await;
        }
    })
    .await
}

#[tokio::test]
async fn large_and_endless_headers_over_http2_are_refused() {
    let identity = Identity::good("a.example");
    let prober = prober_with_root(&identity.root);
    let result = async |continuations| {
        let port = continued_headers(&identity, continuations).await;
        let monitor = monitor(Probe::Http(Box::new(https(port, Some("a.example")))));
        probe_with(&prober, &monitor).await
    };
    result(3).await.unwrap();
    for continuations in [20, usize::MAX] {
        let words = words(result(continuations).await);
        assert!(words.starts_with("the reply is not valid HTTP: "), "{words}");
    }
}
