//! DNS over HTTPS (RFC 8484): a message in the body of a POST, or in the query of a GET, and its reply
//! in the body of the response. What carries the requests is not known here: they are alike over HTTP/1.1,
//! HTTP/2 and HTTP/3.

use std::net::IpAddr;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use crate::serve::live::Live;
use crate::serve::reply::{MAX_MESSAGE, answer_alone};
use crate::served::Protocol;
use crate::wire::ttl::shortest_ttl;

/// The media type of a message (RFC 8484 section 6).
const MESSAGE: HeaderValue = HeaderValue::from_static("application/dns-message");

/// What may be wrong with a body.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a request asks, whose client has `patience` to send its body; or the status that says what is
/// wrong with it.
///
/// # Errors
/// The status.
pub async fn asked(
    request: Request<impl Body<Data = Bytes, Error: Into<BoxError>>>,
    path: &str,
    patience: Duration,
) -> Result<Bytes, StatusCode> {
    match timeout(patience, query(request, path)).await {
        Ok(asked) => asked,
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// The response to what a client asks.
pub fn respond(
    asked: Result<Bytes, StatusCode>,
    client: IpAddr,
    protocol: Protocol,
    live: &Live,
) -> Response<Full<Bytes>> {
    match asked {
        Ok(message) => reply(&message, client, protocol, live),
        Err(status) => refusal(status),
    }
}

/// The message of a request, or the status that says what is wrong with it.
async fn query(
    request: Request<impl Body<Data = Bytes, Error: Into<BoxError>>>,
    path: &str,
) -> Result<Bytes, StatusCode> {
    let (request, body) = request.into_parts();
    // Taken whole whatever comes of it: a client may not listen before it has sent all.
    let body = Limited::new(body, MAX_MESSAGE).collect().await;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes();
    if request.uri.path() != path {
        return Err(StatusCode::NOT_FOUND);
    }
    match request.method {
        Method::GET => {
            let query = request.uri.query().unwrap_or_default();
            let mut values = query.split('&').filter_map(|pair| pair.strip_prefix("dns="));
            let value = values.next().ok_or(StatusCode::BAD_REQUEST)?;
            // Base64url without padding (RFC 8484 section 6).
            let message = BASE64URL_NOPAD.decode(value.as_bytes());
            message.map(Bytes::from).map_err(|_| StatusCode::BAD_REQUEST)
        }
        Method::POST => {
            let is_message = request.headers.get(CONTENT_TYPE) == Some(&MESSAGE);
            if is_message { Ok(body) } else { Err(StatusCode::UNSUPPORTED_MEDIA_TYPE) }
        }
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn reply(message: &[u8], client: IpAddr, protocol: Protocol, live: &Live) -> Response<Full<Bytes>> {
    let reply = answer_alone(message, client, protocol, live, Bytes::copy_from_slice);
    // What is no query gets no reply, and a request of HTTP must have one.
    let Some(reply) = reply else { return refusal(StatusCode::BAD_REQUEST) };
    let mut response = Response::new(Full::new(Bytes::new()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, MESSAGE);
    // "the freshness lifetime … MUST be less than or equal to the smallest TTL" (section 5.1).
    let lifetime = format!("max-age={}", shortest_ttl(&reply).unwrap_or(0));
    if let Ok(lifetime) = HeaderValue::from_str(&lifetime) {
        headers.insert(CACHE_CONTROL, lifetime);
    }
    *response.body_mut() = Full::new(reply);
    response
}

fn refusal(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}
