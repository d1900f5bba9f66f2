//! Plain HTTP: what is sent, and which replies are good.

use meridian::config::monitors::HttpProbe;

use crate::monitors::{http, probe_http, words};
use crate::servers::{canned, closed_port, read_head, serve, wait_for_end};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nall is ok\n";

#[tokio::test]
async fn a_reply_with_a_good_status_is_a_success() {
    let (port, requests) = canned(OK).await;
    let success = probe_http(http(port)).await.unwrap();
    assert!(success.rtt.is_some(), "the connection's time is a sample");
    let version = env!("CARGO_PKG_VERSION");
    let request = requests.all().pop().unwrap().to_lowercase();
    assert!(request.starts_with("get / http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nhost: 127.0.0.1:{port}\r\n")), "{request}");
    assert!(request.contains(&format!("\r\nuser-agent: meridian/{version}\r\n")), "{request}");
}

#[tokio::test]
async fn every_field_of_the_request_is_sent() {
    let (port, requests) = canned(OK).await;
    let headers = vec![
        ("X-Probe".to_owned(), "1 2".to_owned()),
        ("user-agent".to_owned(), "another".to_owned()),
    ];
    let probe = HttpProbe {
        path: "/health?full=1".to_owned(),
        method: "POST".to_owned(),
        host: Some("www.example:81".to_owned()),
        headers,
        ..http(port)
    };
    probe_http(probe).await.unwrap();
    let request = requests.all().pop().unwrap().to_lowercase();
    assert!(request.starts_with("post /health?full=1 http/1.1\r\n"), "{request}");
    for line in ["host: www.example:81", "x-probe: 1 2", "user-agent: another"] {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} in {request}");
    }
    assert_eq!(request.matches("user-agent").count(), 1, "{request}");
}

#[tokio::test]
async fn another_status_is_a_failure_that_names_both() {
    let (port, _) = canned("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(words(probe_http(http(port)).await), "status 503 instead of 2xx");
    let expected_codes = vec![(200, 204), (503, 503)];
    probe_http(HttpProbe { expected_codes, ..http(port) }).await.unwrap();
}

#[tokio::test]
async fn the_body_is_searched_for_the_expected_text() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                  3\r\nall\r\n4\r\n is \r\n2\r\nok\r\n0\r\n\r\n";
    for reply in [OK, chunks] {
        let (port, _) = canned(reply).await;
        let expecting =
            |text: &str| HttpProbe { expected_body: Some(text.to_owned()), ..http(port) };
        for text in ["all", "l is o", "ok", ""] {
            assert!(probe_http(expecting(text)).await.is_ok(), "{text:?}");
        }
        let missing = words(probe_http(expecting("okay")).await);
        assert_eq!(missing, "the body does not contain \"okay\"");
    }
}

#[tokio::test]
async fn a_refused_connection_is_called_so() {
    assert_eq!(words(probe_http(http(closed_port().await)).await), "connection refused");
}

#[tokio::test]
async fn a_connection_closed_without_a_reply_is_a_failure() {
    let port = serve(|mut stream| async move {
        read_head(&mut stream).await;
    })
    .await;
    let closed = "the server closed the connection before its reply was complete";
    assert_eq!(words(probe_http(http(port)).await), closed);
    let (port, _) = canned("SSH-2.0-OpenSSH_9\r\n\r\n").await;
    let other = words(probe_http(http(port)).await);
    assert!(other.starts_with("the reply is not valid HTTP: "), "{other}");
}

#[tokio::test]
async fn a_redirect_is_a_failure_unless_it_is_followed() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
    let (port, requests) = canned(redirect).await;
    assert_eq!(words(probe_http(http(port)).await), "status 302 instead of 2xx");
    let following = HttpProbe { follow_redirects: true, ..http(port) };
    assert_eq!(words(probe_http(following).await), "redirected more than 5 times");
    assert_eq!(requests.all().len(), 1 + 6, "the request and five redirects");
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: gopher://a.example/\r\n\r\n";
    let following = HttpProbe { follow_redirects: true, ..http(canned(elsewhere).await.0) };
    let refused = "redirected to \"gopher://a.example/\", which cannot be followed";
    assert_eq!(words(probe_http(following).await), refused);
}

#[tokio::test]
async fn a_redirect_to_another_host_asks_the_probed_address_for_it() {
    let (there, requests) = canned(OK).await;
    let redirect =
        format!("HTTP/1.1 301 Moved\r\nLocation: http://other.example:{there}/x?y#z\r\n\r\n");
    let (port, _) = canned(redirect).await;
    probe_http(HttpProbe { follow_redirects: true, ..http(port) }).await.unwrap();
    let request = requests.all().pop().unwrap().to_lowercase();
    assert!(request.starts_with("get /x?y http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nhost: other.example:{there}\r\n")), "{request}");
}

#[tokio::test]
async fn a_probe_leaves_no_connection_behind() {
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let port = serve(move |mut stream| {
        let sender = sender.clone();
        async move {
            read_head(&mut stream).await;
            _ = tokio::io::AsyncWriteExt::write_all(&mut stream, OK.as_bytes()).await;
            wait_for_end(stream).await;
            _ = sender.send(());
        }
    })
    .await;
    probe_http(http(port)).await.unwrap();
    let end = tokio::time::timeout(std::time::Duration::from_secs(20), ended.recv()).await;
    assert_eq!(end.unwrap(), Some(()));
}
