//! An HTTP or HTTPS request, and whether its reply is as expected.
//!
//! A connection serves one request and is closed after it. The status decides first; the body is read
//! only where a text is expected in it, and only as far as that text or [`LIMIT`].

use std::net::IpAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;

use crate::config::monitors::HttpProbe;
use crate::probe::connect::Ending;
use crate::probe::failure::{Failure, Stage, plain_octets};
use crate::probe::redirect::Target;
use crate::probe::tls::{Alpn, ExpectedName, H2};
use crate::probe::{Deadline, LIMIT, Prober, Success, exchange};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;
/// What probes call themselves.
const AGENT: &str = concat!("meridian/", env!("CARGO_PKG_VERSION"));

/// What a response leads to.
enum Verdict {
    Good,
    Redirect(Target),
}

/// Sends the request, and follows redirects if the monitor says so. `host` is what the origin is given by.
pub(super) async fn probe(
    prober: &Prober,
    http: &HttpProbe,
    (address, host): (IpAddr, Option<&str>),
    deadline: Deadline,
) -> Result<Success, Failure> {
    let mut target = Target::new(http, address, host)?;
    let mut first_rtt = None;
    for _ in 0..=MAX_REDIRECTS {
        let ending = if target.is_secure { Ending::Orderly } else { Ending::Abort };
        let to = (address, target.port).into();
        let (stream, rtt) = prober.sources.connect(to, ending, deadline).await?;
        let rtt = *first_rtt.get_or_insert(rtt);
        let judge = async |response: Response<Incoming>| {
            judge(http, &target, address, response, deadline).await
        };
        let verdict = if target.is_secure {
            let name = ExpectedName::new(target.server_name.as_deref(), address)?;
            let verify = http.tls.as_ref().is_none_or(|tls| tls.verify);
            let stream = prober.tls.handshake(stream, verify, &name, Alpn::Http, deadline).await?;
            let version = match stream.get_ref().1.alpn_protocol() {
                Some(H2) => Version::HTTP_2,
                _ => Version::HTTP_11,
            };
            let request = request(http, &target, version)?;
            let io = TokioIo::new(stream);
            match version {
                Version::HTTP_2 => exchange::http2(io, request, deadline, judge).await?,
                _ => exchange::http1(io, request, deadline, judge).await?,
            }
        } else {
            let request = request(http, &target, Version::HTTP_11)?;
            exchange::http1(TokioIo::new(stream), request, deadline, judge).await?
        };
        match verdict {
            Verdict::Good => return Ok(Success { rtt: Some(rtt) }),
            Verdict::Redirect(next) => target = next,
        }
    }
    Err(Failure::Redirects)
}

fn request(
    http: &HttpProbe,
    target: &Target,
    version: Version,
) -> Result<Request<Full<Bytes>>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Request(error.to_string());
    let builder = Request::builder().method(target.method.clone());
    let (authority, path) = (&target.authority, &target.path);
    let is_http2 = version == Version::HTTP_2;
    // HTTP/2 has the host in the URI, HTTP/1.1 in a header.
    let uri = if is_http2 { format!("https://{authority}{path}") } else { path.clone() };
    let mut request = builder.uri(uri).body(Full::default()).map_err(|error| wrong(&error))?;
    let headers = request.headers_mut();
    if !is_http2 {
        let host = HeaderValue::from_str(authority).map_err(|error| wrong(&error))?;
        headers.insert(HOST, host);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    for (name, value) in &http.headers {
        let name: HeaderName = name.parse().map_err(|error| wrong(&error))?;
        let value = HeaderValue::from_str(value).map_err(|error| wrong(&error))?;
        if name == HOST || is_http2 && name == CONNECTION {
            continue;
        }
        headers.insert(name, value);
    }
    Ok(request)
}

async fn judge(
    http: &HttpProbe,
    target: &Target,
    address: IpAddr,
    response: Response<Incoming>,
    deadline: Deadline,
) -> Result<Verdict, Failure> {
    let status = response.status();
    let is_expected =
        http.expected_codes.iter().any(|&(low, high)| (low..=high).contains(&status.as_u16()));
    if is_expected {
        if let Some(expected) = &http.expected_body {
            find(response.into_body(), expected, deadline).await?;
        }
        return Ok(Verdict::Good);
    }
    if http.follow_redirects
        && is_redirect(status)
        && let Some(location) = response.headers().get(LOCATION)
    {
        let Ok(text) = std::str::from_utf8(location.as_bytes()) else {
            return Err(Failure::Redirect(plain_octets(location.as_bytes())));
        };
        return target.follow(status, text, address).map(Verdict::Redirect);
    }
    Err(Failure::Status { status: status.as_u16(), expected: show_codes(&http.expected_codes) })
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Reads the body until the text was in it, the body ends, or [`LIMIT`].
async fn find(mut body: Incoming, expected: &str, deadline: Deadline) -> Result<(), Failure> {
    let expected = expected.as_bytes();
    let missing = || Failure::Body(plain_octets(expected));
    if expected.is_empty() {
        return Ok(());
    }
    let mut text: Vec<u8> = Vec::new();
    while text.len() < LIMIT {
        let frame = deadline.within(Stage::Body, body.frame()).await?;
        let Some(frame) = frame else { return Err(missing()) };
        let frame = frame.map_err(|error| Failure::of_exchange(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        // What was searched is not searched again, but for what may be the text's beginning.
        let from = (text.len() + 1).saturating_sub(expected.len());
        let room = (LIMIT - text.len()).min(data.len());
        text.extend_from_slice(data.get(..room).unwrap_or_default());
        let fresh = text.get(from..).unwrap_or_default();
        if fresh.windows(expected.len()).any(|window| window == expected) {
            return Ok(());
        }
    }
    Err(missing())
}

/// Status codes as the configuration writes them.
fn show_codes(codes: &[(u16, u16)]) -> String {
    let show = |&(low, high): &(u16, u16)| match (low, high) {
        _ if low == high => low.to_string(),
        _ if low % 100 == 0 && high == low + 99 => format!("{}xx", low / 100),
        _ => format!("{low}-{high}"),
    };
    codes.iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_as_they_are_configured() {
        assert_eq!(show_codes(&[(200, 299), (301, 301), (400, 404)]), "2xx,301,400-404");
    }
}
