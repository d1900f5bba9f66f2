//! Why a probe failed, in words for the operator who reads the log or the API.
//!
//! Texts that come from the probed side are cut and freed of control characters before they get in.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// The most characters of a foreign text that are repeated.
const MAX_TEXT: usize = 200;

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The monitor's timeout passed.
    #[error("timed out after {} {stage}", Seconds(*.timeout))]
    TimedOut {
        /// The monitor's timeout.
        timeout: Duration,
        /// What was waited for.
        stage: Stage,
    },
    /// The system says that the connection, or the datagram, did not get through.
    #[error("{0}")]
    Connection(String),
    /// The fault is on this machine, not with the origin.
    #[error("the probe could not be made: {0}")]
    ThisMachine(String),
    /// The connection ended before the reply, or within it.
    #[error("the server closed the connection before its reply was complete")]
    Closed,
    /// The TLS handshake failed for another reason than the certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// The certificate is not accepted.
    #[error("{0}")]
    Certificate(String),
    /// The status code is none of those expected.
    #[error("status {status} instead of {expected}")]
    Status {
        /// The code.
        status: u16,
        /// Those expected, as the configuration writes them.
        expected: String,
    },
    /// The body ended, or went beyond what is read of it, without the expected text.
    #[error("the body does not contain {0:?}")]
    Body(String),
    /// The headers are too large.
    #[error("more than 64 KiB of headers, or more than 100 of them")]
    Headers,
    /// The exchange breaks the protocol.
    #[error("the reply is not valid HTTP: {0}")]
    NotHttp(String),
    /// Too many redirects.
    #[error("redirected more than 5 times")]
    Redirects,
    /// A redirect to something that cannot be followed.
    #[error("redirected to {0:?}, which cannot be followed")]
    Redirect(String),
    /// The request cannot be written.
    #[error("the monitor's request cannot be made: {0}")]
    Request(String),
    /// A reply came, and it is not a good one.
    #[error("{0}")]
    Reply(String),
    /// A program ended with another status than 0, or a signal; with its first line of output.
    #[error("{status}{}", Reason(.reason))]
    Exit {
        /// How it ended.
        status: String,
        /// What it said.
        reason: Option<String>,
    },
    /// The watched file says that the address is down.
    #[error("the file says down{}", Reason(.0))]
    Down(Option<String>),
    /// The watched file says nothing usable.
    #[error("{0}")]
    File(String),
}

/// What a probe waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The TCP connection.
    Connecting,
    /// The TLS handshake.
    Handshake,
    /// The reply's beginning, or a datagram.
    Reply,
    /// The body.
    Body,
    /// A program's end.
    Program,
    /// A file's content.
    File,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Handshake => "in the TLS handshake",
            Self::Reply => "waiting for the reply",
            Self::Body => "reading the body",
            Self::Program => "waiting for the program to end",
            Self::File => "reading the file",
        })
    }
}

impl Failure {
    /// True if the probe could not be made, for a reason on this machine: it says nothing of the server.
    pub fn is_of_this_machine(&self) -> bool {
        matches!(self, Self::ThisMachine(_))
    }

    /// What the system says of a connection or of a datagram's way.
    pub(super) fn of_connection(error: &io::Error) -> Self {
        use io::ErrorKind;
        let words = match error.kind() {
            ErrorKind::ConnectionRefused => "connection refused",
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                "the server reset the connection"
            }
            ErrorKind::HostUnreachable => "no route to the host",
            ErrorKind::NetworkUnreachable => "the network is unreachable",
            // The kernel gave up on the connection before the monitor did.
            ErrorKind::TimedOut => "the host does not answer",
            ErrorKind::UnexpectedEof => return Self::Closed,
            ErrorKind::AddrNotAvailable => {
                return Self::ThisMachine(
                    "no source port is free, or the source address is missing".to_owned(),
                );
            }
            ErrorKind::PermissionDenied => {
                return Self::ThisMachine("a local packet filter does not let it out".to_owned());
            }
            _ if is_exhausted(error) => return Self::of_this_machine(error),
            _ => return Self::Connection(system_text(error)),
        };
        Self::Connection(words.to_owned())
    }

    /// What the system says, where the origin has no part in it.
    pub(super) fn of_this_machine(error: &io::Error) -> Self {
        Self::ThisMachine(system_text(error))
    }

    /// What hyper says of an exchange.
    pub(super) fn of_exchange(error: &hyper::Error) -> Self {
        if error.is_parse_too_large() {
            return Self::Headers;
        }
        if let Some(error) = cause::<io::Error>(error) {
            return Self::of_stream(error);
        }
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            return Self::Closed;
        }
        if error.is_user() {
            return Self::Request(plain(&error.to_string()));
        }
        let detail = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        Self::NotHttp(plain(&detail))
    }

    /// What the system, or TLS below a stream, says.
    pub(super) fn of_stream(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(error) => super::certificate::failure(error),
            None => Self::of_connection(error),
        }
    }
}

/// Whether the machine has come to a limit: descriptors or memory.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    let limits = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| limits.contains(&code))
}

/// The system's words, without the number.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    plain(&first.into_iter().chain(letters).collect::<String>())
}

/// The first cause of a type.
fn cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// A foreign text as it may stand in a line of log: short, without control characters.
pub(super) fn plain(text: &str) -> String {
    let kept = text.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT + 1);
    let mut kept: String = kept.collect();
    if kept.chars().count() > MAX_TEXT {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// Foreign octets likewise.
pub(super) fn plain_octets(octets: &[u8]) -> String {
    // A character has at most four octets.
    let head = octets.get(..MAX_TEXT * 4 + 4).unwrap_or(octets);
    plain(&String::from_utf8_lossy(head))
}

/// A duration in seconds where it has whole ones.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        if milliseconds.is_multiple_of(1000) {
            write!(f, "{} s", milliseconds / 1000)
        } else {
            write!(f, "{milliseconds} ms")
        }
    }
}

/// A reason after a colon, where there is one.
struct Reason<'a>(&'a Option<String>);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}
