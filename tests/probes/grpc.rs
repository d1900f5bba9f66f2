//! The gRPC health service: a server made of HTTP/2 and the octets that its protocol prescribes.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use meridian::config::monitors::Probe;
use meridian::probe::Success;

use crate::monitors::{monitor, probe, words};
use crate::servers::{canned, serve};

/// A server that knows the service "db", which has this status, and the whole server, which serves.
async fn health_server(status: u8) -> u16 {
    serve(move |stream| async move {
        let answer = service_fn(move |request: Request<Incoming>| async move {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            assert_eq!(request.method(), "POST");
            assert_eq!(request.headers()["content-type"], "application/grpc");
            assert_eq!(request.headers()["te"], "trailers");
            let body = request.into_body().collect().await.expect("a request").to_bytes();
            let (code, message) = match &body[..] {
                [0, 0, 0, 0, 0] => ("0", vec![0, 0, 0, 0, 2, 8, 1]),
                [0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b'] => ("0", vec![0, 0, 0, 0, 2, 8, status]),
                _ => ("5", Vec::new()),
            };
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            let body = Full::new(Bytes::from(message));
            let body = body.with_trailers(async { Some(Ok::<_, Infallible>(trailers)) });
            Ok::<_, Infallible>(Response::new(body))
        });
        let server = http2::Builder::new(TokioExecutor::new());
        // A probe ends its connection as it likes.
        _ = server.serve_connection(TokioIo::new(stream), answer).await;
    })
    .await
}

async fn ask(port: u16, service: &str) -> Result<Success, String> {
    probe(&monitor(Probe::Grpc { port, service: service.to_owned() })).await
}

#[tokio::test]
async fn a_serving_service_is_a_success() {
    let port = health_server(1).await;
    assert!(ask(port, "db").await.unwrap().rtt.is_some());
    ask(port, "").await.unwrap();
}

#[tokio::test]
async fn other_states_are_failures_by_name() {
    assert_eq!(words(ask(health_server(2).await, "db").await), "the service is NOT_SERVING");
    let unknown = words(ask(health_server(0).await, "db").await);
    assert_eq!(unknown, "the service's health is UNKNOWN");
    let missing = words(ask(health_server(1).await, "cache").await);
    assert_eq!(missing, "the server has no service \"cache\"");
}

#[tokio::test]
async fn a_server_of_http1_is_a_failure() {
    let (port, _) = canned("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    let words = words(ask(port, "").await);
    assert!(words.starts_with("the reply is not valid HTTP"), "{words}");
}
