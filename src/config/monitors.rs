//! Monitors: how origins are probed (health.md), as `probe`, `health` and `serve` read them. The table
//! `[monitors]` is read in `parse`.

mod parse;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::name::Name;
use crate::rr::RecordType;

pub use crate::config::monitors::parse::parse_monitor;

/// A monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// The name in the configuration.
    pub name: String,
    /// The zone whose file has it; none for one that all zones share.
    pub zone: Option<String>,
    /// What a probe does.
    pub probe: Probe,
    /// The time between two probes of one address.
    pub interval: Duration,
    /// How long a probe may take; less than the interval.
    pub timeout: Duration,
    /// Consecutive successes before an origin is up.
    pub rise: u32,
    /// Consecutive failures before an origin is down.
    pub fall: u32,
    /// The age at which a result is stale.
    pub max_age: Duration,
    /// More changes than this within `flap_window` are flapping; none for no damping.
    pub flap_threshold: Option<u32>,
    /// The window in which changes are counted.
    pub flap_window: Duration,
}

impl Monitor {
    /// The file that it reads, if it is one that does.
    pub fn file(&self) -> Option<&Path> {
        match &self.probe {
            Probe::File { path } => Some(path),
            _ => None,
        }
    }

    /// True if its origins are probed; the state of the others is pushed.
    pub fn is_probed(&self) -> bool {
        !matches!(self.probe, Probe::Push { .. })
    }
}

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// An HTTP or HTTPS request.
    Http(Box<HttpProbe>),
    /// A TCP connection.
    Tcp {
        /// The port.
        port: u16,
    },
    /// A TLS handshake.
    Tls {
        /// The port.
        port: u16,
        /// Whether the certificate is verified, and against which name.
        tls: TlsCheck,
    },
    /// An ICMP echo.
    Icmp,
    /// A datagram and its reply.
    Udp {
        /// The port.
        port: u16,
        /// What is sent.
        payload: String,
        /// What the reply must begin with; any reply if none.
        expected_reply: Option<String>,
    },
    /// The gRPC health service, version 1.
    Grpc {
        /// The port.
        port: u16,
        /// The service asked for; the empty name is the whole server.
        service: String,
    },
    /// A DNS query.
    Dns {
        /// The port.
        port: u16,
        /// The name asked for.
        query_name: Name,
        /// The type asked for.
        query_type: RecordType,
    },
    /// A program's exit status.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// The state in a watched file.
    File {
        /// The file.
        path: PathBuf,
    },
    /// A state set through the admin API.
    Push {
        /// How long a pushed state holds.
        ttl: Duration,
    },
}

impl Probe {
    /// True if the host name that an origin is given by makes a difference: the monitor asks by a name,
    /// and has none of its own.
    pub fn asks_by_origin(&self) -> bool {
        match self {
            Self::Http(http) => http.host.is_none(),
            Self::Tls { tls, .. } => tls.server_name.is_none(),
            _ => false,
        }
    }
}

/// True if a monitor checks certificates, and their names only where origins are given by host name.
pub fn is_without_name(monitor: &Monitor) -> bool {
    let is_named = match &monitor.probe {
        Probe::Http(http) => {
            http.host.is_some() || http.tls.as_ref().is_some_and(|tls| tls.server_name.is_some())
        }
        Probe::Tls { tls, .. } => tls.server_name.is_some(),
        _ => true,
    };
    !is_named && checks_certificates(&monitor.probe)
}

/// An HTTP or HTTPS request and what its reply must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProbe {
    /// Verification, with HTTPS.
    pub tls: Option<TlsCheck>,
    /// The port.
    pub port: u16,
    /// The path.
    pub path: String,
    /// The method.
    pub method: String,
    /// The Host header; the origin's host name or address if none.
    pub host: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// The status codes that are good, as inclusive ranges.
    pub expected_codes: Vec<(u16, u16)>,
    /// What the body must contain.
    pub expected_body: Option<String>,
    /// Whether redirects are followed.
    pub follow_redirects: bool,
}

/// How a certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCheck {
    /// Whether it is verified at all.
    pub verify: bool,
    /// The server name that is sent and verified.
    pub server_name: Option<String>,
}

/// True if the probe checks a certificate.
fn checks_certificates(probe: &Probe) -> bool {
    match probe {
        Probe::Http(http) => http.tls.as_ref().is_some_and(|tls| tls.verify),
        Probe::Tls { tls, .. } => tls.verify,
        _ => false,
    }
}
