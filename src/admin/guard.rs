//! Who may do what, and for how long: before anything of a request is looked at.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::admin::Service;
use crate::admin::error::Refusal;

/// How long a request may take.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// What a request is judged by.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) service: Arc<Service>,
    /// Whether the listener is reached from this machine only.
    pub(super) is_local: bool,
}

/// Lets those through who may.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.judge(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Ends a request that takes too long. What it has begun may go on.
pub(super) async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(LONGEST_REQUEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = "the request was not done within 10 s; a reload goes on, and the log tells";
            Refusal::new(StatusCode::GATEWAY_TIMEOUT, error, "").into_response()
        }
    }
}

impl Guard {
    fn judge(&self, request: &Request) -> Result<(), Refusal> {
        let token = self.service.reloader.token();
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        match (bearer(request.headers()), token) {
            (Some(given), Some(token)) if token.is(given) => Ok(()),
            (Some(_), Some(_)) => {
                let help = "send the content of token_file as it is now: it is read at each reload";
                Err(Refusal::new(StatusCode::UNAUTHORIZED, "the token is wrong", help))
            }
            // Who is on this machine may look.
            (_, _) if reads && self.is_local => self.judge_host(request),
            (None, Some(_)) => {
                let error =
                    if reads { "reading needs the token" } else { "a change needs the token" };
                let help = "send the header \"Authorization: Bearer TOKEN\" with the content of \
                            token_file, or use meridian with --token-file FILE";
                Err(Refusal::new(StatusCode::UNAUTHORIZED, error, help))
            }
            (_, None) => {
                let error = "changes are refused, because no token is set";
                let help = "write a secret of at least 16 characters to a file, name it with \
                            token_file = \"FILE\" in [admin] of meridian.toml, and reload (SIGHUP)";
                Err(Refusal::new(StatusCode::FORBIDDEN, error, help))
            }
        }
    }

    /// A page of the web could have a name that leads to this machine, and read with it what only
    /// this machine may (DNS rebinding): then the request names that name.
    fn judge_host(&self, request: &Request) -> Result<(), Refusal> {
        let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().host().or(header).unwrap_or("localhost");
        if is_this_machine(host) {
            return Ok(());
        }
        let error = format!("{host:?} is not a name of this machine");
        let help = "name the server by its address or as localhost, or send the token";
        Err(Refusal::new(StatusCode::FORBIDDEN, error, help))
    }
}

/// True for `localhost` and addresses, with a port or without.
fn is_this_machine(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => host,
    };
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let plain = without_port.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let plain = plain.unwrap_or(without_port);
    plain.eq_ignore_ascii_case("localhost") || is_address(plain) || is_address(host)
}

/// The token that a request brings (RFC 6750).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        let hosts =
            ["localhost", "LOCALHOST:5380", "127.0.0.1", "127.0.0.1:80", "[::1]:5380", "::1"];
        for host in hosts {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["example.com", "example.com:5380", "127.0.0.1.example.com", "", "localhost.x"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn the_token_follows_the_scheme() {
        let given = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(given("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(given("bearer  abc"), Some(b"abc".to_vec()));
        assert_eq!(given("Basic abc"), None);
        assert_eq!(given("Bearer"), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
