//! Speaks to a running server: the commands' side of the admin service.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use axum::http::{Method, Request, Response, StatusCode, Uri, header};
use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::error::Failure;
use crate::cli::terminal::harmless;
use crate::cli::{EXIT_NO, EXIT_UNREACHABLE, EXIT_USAGE, print_text};
use crate::config::admin::{Admin, DEFAULT_ADMIN_PORT, Token};
use crate::config::files::{Paths, read_regular, read_server};
use crate::config::report::Report;

/// How long to wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait for an answer: longer than the server takes to say that it takes too long.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// The most octets of an answer.
const LONGEST_ANSWER: usize = 256 << 20;

/// How long a server that is followed may be silent: longer than it takes to say that it lives.
const SILENCE_WITHIN: Duration = Duration::from_secs(60);
/// The most octets of a line of an event.
const LONGEST_LINE: usize = 1 << 20;

/// Which server, and with which token.
#[derive(Args, Clone, Debug)]
pub(super) struct ServerArguments {
    /// The server's admin address
    #[arg(long, value_name = "URL", env = "MERIDIAN_AT", default_value = "http://127.0.0.1:5380")]
    at: String,
    #[command(flatten)]
    token: TokenArguments,
}

/// Which token.
#[derive(Args, Clone, Debug)]
pub(super) struct TokenArguments {
    /// The file with the server's token [default: for this machine's server the token_file of
    /// meridian.toml]
    #[arg(long, value_name = "FILE", env = "MERIDIAN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// A server that is spoken to.
#[derive(Debug)]
pub(super) struct Client {
    /// As it was named.
    at: String,
    host: String,
    port: u16,
    token: Option<Token>,
}

/// Why there is no answer to use.
#[derive(Debug)]
pub(super) enum Problem {
    /// The command line is wrong.
    Usage(String),
    /// The server cannot be reached, or does not speak as one.
    Unreachable(String),
    /// The server says no.
    Refused(StatusCode, Failure),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Unreachable(text) => f.write_str(text),
            Self::Refused(_, Failure { error, help }) if help.is_empty() => f.write_str(error),
            Self::Refused(_, Failure { error, help }) => write!(f, "{error}\n    help: {help}"),
        }
    }
}

/// The exit code of a command that asked a server: whether it is good, or what went wrong, which is
/// told.
pub(super) fn exit_code(outcome: Result<bool, Problem>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_NO),
        Err(problem) => problem.tell(),
    }
}

impl Problem {
    /// Says what is wrong; the exit code.
    pub(super) fn tell(&self) -> ExitCode {
        eprintln!("meridian: {}", harmless(&self.to_string()));
        ExitCode::from(match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Unreachable(_) => EXIT_UNREACHABLE,
            Self::Refused(status, _) => match *status {
                StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT => {
                    EXIT_USAGE
                }
                _ => EXIT_NO,
            },
        })
    }
}

impl ServerArguments {
    /// The server that is meant.
    pub(super) fn client(&self) -> Result<Client, Problem> {
        Client::new(&self.at, &self.token)
    }
}

impl Client {
    /// The server at a URL.
    pub(super) fn new(at: &str, token: &TokenArguments) -> Result<Self, Problem> {
        let wrong = |why: &str| {
            Problem::Usage(format!("--at {at:?}: {why}; write it as http://127.0.0.1:5380"))
        };
        let uri: Uri = at.parse().map_err(|_| wrong("it is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("the admin service has no TLS: tunnel it")),
            _ => return Err(wrong("it does not begin with http://")),
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(wrong("it has a path"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it names no server"))?;
        let after = authority.as_str().strip_prefix(authority.host());
        let after = after.ok_or_else(|| wrong("it has more than a host and a port"))?;
        let port = match after.strip_prefix(':') {
            None => DEFAULT_ADMIN_PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let token = match &token.token_file {
            Some(path) => Some(named_token(path)?),
            None => own_token(&host),
        };
        Ok(Self { at: at.trim_end_matches('/').to_owned(), host, port, token })
    }

    /// As it was named.
    pub(super) fn at(&self) -> &str {
        &self.at
    }

    /// Asks for a document.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Problem> {
        self.call(Method::GET, path, &())
    }

    /// Sends a request; anything but success is a problem.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Problem> {
        let (status, text) = self.exchange(method, path, body)?;
        if !status.is_success() {
            return Err(self.refused(status, &text));
        }
        let document = serde_json::from_slice(&text).map_err(|_| self.is_other(status))?;
        Ok(Answer { document, text })
    }

    /// Sends a request; gives whatever comes back.
    pub(super) fn exchange(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let body = match method {
            Method::GET => Vec::new(),
            _ => serde_json::to_vec(body).map_err(|error| Problem::Usage(error.to_string()))?,
        };
        let request = self.request(method, path, body)?;
        self.runtime()?.block_on(async {
            let exchange = async { self.whole(self.send(request).await?).await };
            let exchange = tokio::time::timeout(ANSWER_WITHIN, exchange);
            exchange.await.unwrap_or_else(|_| Err(self.unreachable("it does not answer in time")))
        })
    }

    /// Reads server-sent events until the server ends them (then true) or `told` wants no more; it is
    /// given the data of each.
    pub(super) fn follow(
        &self,
        path: &str,
        mut told: impl FnMut(&str) -> bool,
    ) -> Result<bool, Problem> {
        let request = self.request(Method::GET, path, Vec::new())?;
        self.runtime()?.block_on(async {
            let answered = tokio::time::timeout(ANSWER_WITHIN, self.send(request)).await;
            let late = || self.unreachable("it does not answer in time");
            let mut exchange = answered.map_err(|_| late())??;
            if !exchange.response.status().is_success() {
                let (status, text) = self.whole(exchange).await?;
                return Err(self.refused(status, &text));
            }
            let mut events = EventReader::default();
            loop {
                let body = exchange.response.body_mut();
                let frame = tokio::time::timeout(SILENCE_WITHIN, body.frame()).await;
                let silent =
                    |_| self.unreachable("it is silent, where it should tell that it lives");
                // One that breaks off is asked for again.
                let Some(Ok(frame)) = frame.map_err(silent)? else { return Ok(true) };
                if let Ok(octets) = frame.into_data() {
                    match events.read(&octets, &mut told) {
                        Ok(true) => {}
                        Ok(false) => return Ok(false),
                        Err(()) => return Err(self.is_other(StatusCode::OK)),
                    }
                }
            }
        })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, Problem> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.authority())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.as_str()));
        }
        request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Problem::Usage(error.to_string()))
    }

    fn runtime(&self) -> Result<tokio::runtime::Runtime, Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| self.unreachable(error))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Exchange, Problem> {
        let address = (self.host.as_str(), self.port);
        let stream = tokio::time::timeout(CONNECT_WITHIN, tokio::net::TcpStream::connect(address));
        let stream = match stream.await {
            Ok(stream) => stream.map_err(|error| self.unreachable(error))?,
            Err(_) => return Err(self.unreachable("no connection within 5 s")),
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(error))?;
        // It ends with the runtime.
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|e| self.unreachable(e))?;
        Ok(Exchange { response, _sender: sender })
    }

    /// Reads an answer to its end.
    async fn whole(&self, exchange: Exchange) -> Result<(StatusCode, Bytes), Problem> {
        let (head, body) = exchange.response.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.unreachable(error))?.to_bytes();
        Ok((head.status, body))
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn unreachable(&self, why: impl fmt::Display) -> Problem {
        Problem::Unreachable(format!(
            "cannot reach the server at {}: {why}\n    help: does it run, with [admin] in its \
             meridian.toml? Name it with --at URL",
            self.at
        ))
    }

    /// The server says no: why, and what the user of a command can do, where the server says it to programs.
    pub(super) fn refused(&self, status: StatusCode, text: &[u8]) -> Problem {
        let Ok(Failure { error, help }) = serde_json::from_slice(text) else {
            return self.is_other(status);
        };
        let help = match status {
            StatusCode::UNAUTHORIZED if self.token.is_some() => {
                "the token that was sent is not the one that the server read from its token_file; name \
                 the right file with --token-file FILE"
            }
            StatusCode::UNAUTHORIZED => {
                "name the file with the server's token with --token-file FILE. In the folder of the \
                 server's meridian.toml it is found by itself, if you may read it"
            }
            StatusCode::NOT_FOUND => "meridian status lists all pools with their zones and origins",
            _ => &help,
        };
        Problem::Refused(status, Failure { error, help: help.to_owned() })
    }

    /// What answers is something else.
    pub(super) fn is_other(&self, status: StatusCode) -> Problem {
        let at = &self.at;
        Problem::Unreachable(format!(
            "what answers at {at} ({status}) is not this version's server"
        ))
    }
}

/// An answer whose body may still come.
struct Exchange {
    response: Response<Incoming>,
    /// Without it the connection would end.
    _sender: SendRequest<Full<Bytes>>,
}

/// Takes server-sent events out of the octets that come.
#[derive(Debug, Default)]
struct EventReader {
    /// What has come of a line.
    line: Vec<u8>,
    data: String,
}

impl EventReader {
    /// Takes octets in, until `told` wants no more (then false); an error if they cannot be what the
    /// server sends.
    fn read(&mut self, octets: &[u8], told: &mut impl FnMut(&str) -> bool) -> Result<bool, ()> {
        for &octet in octets {
            if octet != b'\n' {
                self.line.push(octet);
                if self.line.len() > LONGEST_LINE {
                    return Err(());
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            match line.split_once(": ") {
                Some(("data", data)) => data.clone_into(&mut self.data),
                _ if line.is_empty() && !self.data.is_empty() => {
                    if !told(&self.data) {
                        return Ok(false);
                    }
                    self.data.clear();
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

/// A document, as it came and read.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) document: T,
    text: Bytes,
}

impl<T> Answer<T> {
    /// Prints it as it came.
    pub(super) fn print_json(&self) {
        print_text(&harmless(&String::from_utf8_lossy(&self.text)));
    }
}

/// The token of a file that was named.
fn named_token(path: &std::path::Path) -> Result<Token, Problem> {
    let shown = path.display();
    let text = read_regular(path).map_err(|error| {
        Problem::Usage(format!("--token-file {shown}: cannot be read: {error}"))
    })?;
    Token::parse(&String::from_utf8_lossy(&text))
        .map_err(|error| Problem::Usage(format!("--token-file {shown}: {error}")))
}

/// The token of this machine's server, if it may be read. It is not sent to any other machine.
fn own_token(host: &str) -> Option<Token> {
    let server = read_server(&Paths::default(), &Report::default());
    let Admin { listen, token_file, .. } = server.admin?;
    let address = host.parse::<IpAddr>().ok();
    let is_own = address.is_some_and(|ip| {
        ip.to_canonical().is_loopback() || listen.iter().any(|own| own.ip() == ip)
    });
    if !is_own && !host.eq_ignore_ascii_case("localhost") {
        return None;
    }
    let (path, _) = token_file?;
    Token::parse(&String::from_utf8_lossy(&read_regular(&path).ok()?)).ok()
}

/// A value within the query of a URL.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            encoded.push(char::from(octet));
        } else {
            encoded.push_str(&format!("%{octet:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked() {
        let none = TokenArguments { token_file: None };
        let client = |at: &str| Client::new(at, &none);
        assert_eq!(client("http://192.0.2.1").unwrap().authority(), "192.0.2.1:5380");
        assert_eq!(client("http://[2001:db8::1]:80/").unwrap().authority(), "[2001:db8::1]:80");
        let ports =
            ["http://a:", "http://a:0", "http://a:65536", "http://[::1]:99999", "http://a:x"];
        let others =
            ["", "192.0.2.1:5380", "https://192.0.2.1", "http://", "http://a/b", "http://u@a"];
        for wrong in ports.into_iter().chain(others) {
            assert!(matches!(client(wrong), Err(Problem::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = b": hello\n\nid: 1\nevent: pool\ndata: {\"a\": \"b: c\"}\n\n:\n\ndata: x\n\n";
        for size in [1, 2, 7, 1000] {
            let (mut reader, mut told) = (EventReader::default(), Vec::new());
            for part in text.chunks(size) {
                let mut tell = |data: &str| {
                    told.push(data.to_owned());
                    true
                };
                assert_eq!(reader.read(part, &mut tell), Ok(true));
            }
            assert_eq!(told, ["{\"a\": \"b: c\"}", "x"]);
        }
    }

    #[test]
    fn values_are_encoded() {
        assert_eq!(encode("a.example-1"), "a.example-1");
        assert_eq!(encode("2001:db8::/32 é"), "2001%3Adb8%3A%3A%2F32%20%C3%A9");
    }
}
