//! One probe of one address, for every type of monitor: a monitor and an address in, [`Success`] or
//! [`Failure`] out.
//!
//! When to probe, and what results make of an address, is decided elsewhere; nothing here remembers
//! a result. A probe ends within the monitor's timeout, and nothing that a probed server sends makes
//! it hold more than [`LIMIT`] octets. A file a type; `connect` opens sockets, `exchange` carries
//! HTTP over a connection, `tls` checks certificates, and `failure` has the words for what went wrong.

mod certificate;
mod connect;
mod dns;
mod exchange;
mod exec;
mod failure;
mod file;
mod grpc;
mod http;
mod icmp;
mod redirect;
mod setup;
mod tls;
mod udp;

use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::monitors::{Monitor, Probe};
use crate::probe::connect::{Ending, Sources};
use crate::probe::tls::{Alpn, TlsClients};

pub use crate::probe::failure::{Failure, Stage};
pub use crate::probe::setup::{ProberError, ProberSettings};

/// The most octets of headers, and of a body, that are taken from a server.
pub const LIMIT: usize = 64 << 10;

/// What probes share: source addresses and TLS client configurations.
#[derive(Debug)]
pub struct Prober {
    sources: Sources,
    tls: TlsClients,
}

/// A probe that found what its monitor wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success {
    /// The round trip: of the TCP connection's opening, of the echo, or of the datagram and its reply;
    /// none where the probe does not go over the network.
    pub rtt: Option<Duration>,
}

impl Prober {
    /// Prepares what the probes of these monitors share, and finds out whether they can work at all.
    ///
    /// # Errors
    /// [`ProberError`] if the machine lacks a source address or does not allow ICMP echoes, or if the
    /// authorities that certificates are checked with cannot be read.
    pub fn new(settings: &ProberSettings, monitors: &[Monitor]) -> Result<Self, ProberError> {
        let sources = setup::sources(&settings.source)?;
        if monitors.iter().any(|monitor| monitor.probe == Probe::Icmp) {
            setup::check_ping(&sources)?;
        }
        let roots = setup::roots(settings, monitors)?;
        let tls = TlsClients::new(roots).map_err(|error| ProberError::Tls(error.to_string()))?;
        Ok(Self { sources, tls })
    }

    /// Probes an address once, within the monitor's timeout. `host` is the host name that its origin is
    /// given by: what is asked for where the monitor has no name.
    ///
    /// A `push` monitor has no probe, since its state comes through the admin API: for one, this
    /// waits for ever. [`Monitor::is_probed`] tells them apart.
    ///
    /// # Errors
    /// [`Failure`]: why the address counts as failed.
    pub async fn probe(
        &self,
        monitor: &Monitor,
        address: IpAddr,
        host: Option<&str>,
    ) -> Result<Success, Failure> {
        let deadline = Deadline::after(monitor.timeout);
        match &monitor.probe {
            Probe::Http(http) => http::probe(self, http, (address, host), deadline).await,
            Probe::Tcp { port } => {
                let to = (address, *port).into();
                let (_stream, rtt) = self.sources.connect(to, Ending::Abort, deadline).await?;
                Ok(Success { rtt: Some(rtt) })
            }
            Probe::Tls { port, tls } => {
                let to = (address, *port).into();
                let (stream, rtt) = self.sources.connect(to, Ending::Orderly, deadline).await?;
                let name = tls.server_name.as_deref().or(host);
                let name = tls::ExpectedName::new(name, address)?;
                let stream =
                    self.tls.handshake(stream, tls.verify, &name, Alpn::None, deadline).await?;
                tls::close(stream).await;
                Ok(Success { rtt: Some(rtt) })
            }
            Probe::Icmp => icmp::probe(&self.sources, address, deadline).await,
            Probe::Udp { port, payload, expected_reply } => {
                let to = (address, *port).into();
                udp::probe(&self.sources, to, payload, expected_reply.as_deref(), deadline).await
            }
            Probe::Grpc { port, service } => {
                grpc::probe(&self.sources, (address, *port).into(), service, deadline).await
            }
            Probe::Dns { port, query_name, query_type } => {
                let to = (address, *port).into();
                dns::probe(&self.sources, to, query_name, *query_type, deadline).await
            }
            Probe::Exec { command } => exec::probe(monitor, command, address, deadline).await,
            Probe::File { path } => file::probe(path, address, deadline).await,
            Probe::Push { .. } => pending().await,
        }
    }
}

/// The end of a probe's time.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self { at: Instant::now() + timeout, timeout }
    }

    /// Waits for a stage of the probe, as long as there is time.
    async fn within<T>(self, stage: Stage, work: impl Future<Output = T>) -> Result<T, Failure> {
        let timeout = self.timeout;
        tokio::time::timeout_at(self.at, work)
            .await
            .map_err(|_elapsed| Failure::TimedOut { timeout, stage })
    }
}

/// Random octets from the system: what a reply must repeat is not to be guessed.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut octets = [0; N];
    rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::of_this_machine(&error.into()))?;
    Ok(octets)
}
