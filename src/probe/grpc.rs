//! The gRPC health service, version 1: `grpc.health.v1.Health/Check` over HTTP/2 without TLS.
//!
//! Request and response are messages of one field each, so they are written and read here, over the
//! HTTP/2 that other probes use. A gRPC library would bring a code generator, a server and a router.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, TE, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use crate::probe::connect::{Ending, Sources};
use crate::probe::failure::{Failure, Stage, plain_octets};
use crate::probe::{Deadline, LIMIT, Success, exchange};

/// The method that is called.
const PATH: &str = "/grpc.health.v1.Health/Check";
/// What comes before a message: whether it is compressed, and four octets of length.
const PREFIX: usize = 5;

/// Asks for the health of a service.
pub(super) async fn probe(
    sources: &Sources,
    to: SocketAddr,
    service: &str,
    deadline: Deadline,
) -> Result<Success, Failure> {
    let (stream, rtt) = sources.connect(to, Ending::Orderly, deadline).await?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{to}{PATH}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, concat!("meridian/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(write_request(service)))
        .map_err(|error| Failure::Request(error.to_string()))?;
    let judge = async |response| judge(response, service, deadline).await;
    exchange::http2(TokioIo::new(stream), request, deadline, judge).await?;
    Ok(Success { rtt: Some(rtt) })
}

/// A `HealthCheckRequest`, framed: the field 1 is the service's name.
fn write_request(service: &str) -> Bytes {
    let mut message = Vec::with_capacity(service.len() + 8);
    if !service.is_empty() {
        message.push(1 << 3 | 2);
        let mut length = service.len();
        while length > 0x7f {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(&message);
    framed.into()
}

async fn judge(
    response: Response<Incoming>,
    service: &str,
    deadline: Deadline,
) -> Result<(), Failure> {
    if response.status() != StatusCode::OK {
        let status = response.status().as_u16();
        return Err(Failure::Status { status, expected: "200".to_owned() });
    }
    // Where there is no message, the status stands in the headers.
    if let Some(status) = status(response.headers()) {
        check_status(status, response.headers(), service)?;
    }
    let mut body = response.into_body();
    let mut message: Vec<u8> = Vec::new();
    while let Some(frame) = deadline.within(Stage::Body, body.frame()).await? {
        let frame = frame.map_err(|error| Failure::of_exchange(&error))?;
        if let Some(data) = frame.data_ref() {
            message.extend_from_slice(data);
            if message.len() > LIMIT {
                return Err(Failure::Reply("the gRPC reply has more than 64 KiB".to_owned()));
            }
        } else if let Some(trailers) = frame.trailers_ref() {
            let found = status(trailers);
            check_status(found.unwrap_or(b"2"), trailers, service)?;
            return check_health(&message);
        }
    }
    Err(Failure::Reply("the gRPC reply has no status".to_owned()))
}

fn status(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get("grpc-status").map(|value| value.as_bytes())
}

/// A call's status: 0 is a success.
fn check_status(status: &[u8], headers: &HeaderMap, service: &str) -> Result<(), Failure> {
    let words = match status {
        b"0" => return Ok(()),
        b"5" => format!("the server has no service {service:?}"),
        b"12" => "the server does not offer the gRPC health service".to_owned(),
        _ => {
            let detail = headers.get("grpc-message").map(|value| value.as_bytes());
            let detail = detail.map(plain_octets).filter(|detail| !detail.is_empty());
            let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
            format!("gRPC status {}{detail}", plain_octets(status))
        }
    };
    Err(Failure::Reply(words))
}

/// The `HealthCheckResponse`: the field 1 is the serving status.
fn check_health(framed: &[u8]) -> Result<(), Failure> {
    let words = match serving_status(framed) {
        Some(1) => return Ok(()),
        Some(0) => "the service's health is UNKNOWN",
        Some(2) => "the service is NOT_SERVING",
        Some(3) => "the service is unknown to the server",
        Some(_) | None => "the reply is no message of the gRPC health service",
    };
    Err(Failure::Reply(words.to_owned()))
}

/// The value of the field 1; 0 where it is left out. Other fields are passed over.
fn serving_status(framed: &[u8]) -> Option<u64> {
    let (prefix, rest) = framed.split_at_checked(PREFIX)?;
    let (&compressed, length) = prefix.split_first()?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    let mut rest = rest.get(..usize::try_from(length).ok()?)?;
    if compressed != 0 {
        return None;
    }
    let mut status = 0;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let skipped = match tag & 7 {
            0 => {
                let value = varint(&mut rest)?;
                if tag >> 3 == 1 {
                    status = value;
                }
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        rest = rest.get(skipped..)?;
    }
    Some(status)
}

/// A number in groups of seven bits, the lowest first.
fn varint(octets: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&octet, rest) = octets.split_first()?;
        *octets = rest;
        value |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serving_status_is_found_among_other_fields() {
        assert_eq!(serving_status(&[0, 0, 0, 0, 2, 8, 1]), Some(1));
        assert_eq!(serving_status(&[0, 0, 0, 0, 0]), Some(0), "the default is left out");
        assert_eq!(serving_status(&[0, 0, 0, 0, 6, 0x12, 2, 8, 1, 8, 2]), Some(2));
    }

    #[test]
    fn what_is_no_message_has_no_status() {
        let bad: [&[u8]; 6] = [
            &[],
            &[0, 0, 0, 0, 2, 8],
            &[1, 0, 0, 0, 2, 8, 1],
            &[0, 0, 0, 0, 1, 8],
            &[0, 0, 0, 0, 3, 0x12, 200, 1],
            &[0, 255, 255, 255, 255, 8, 1],
        ];
        for framed in bad {
            assert_eq!(serving_status(framed), None, "{framed:?}");
        }
    }

    #[test]
    fn a_service_is_named_in_the_request() {
        assert_eq!(write_request("").as_ref(), [0; PREFIX]);
        assert_eq!(write_request("ab").as_ref(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = write_request(&"x".repeat(300));
        assert_eq!(long.get(PREFIX..PREFIX + 3), Some([0x0a, 0xac, 2].as_slice()));
    }
}
