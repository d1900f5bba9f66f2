//! All that the server listens on: what a service manager passed, and for the rest of the settings what is
//! bound. It is opened before any thread starts, so that a mistake comes at once, and privileges can be
//! given up before anything is answered.

use std::net::{SocketAddr, TcpListener};

use tracing::{info, warn};

use crate::config::server::{Server, UdpSettings};
use crate::serve::activation::{Passed, PassedError, take};
use crate::serve::encrypted::EncryptedSockets;
use crate::serve::sockets::{BindError, Bound, bind, bind_tcp, bind_udp, share_udp};
use crate::serve::{ServeError, cores};

/// What is listened on. Nothing is received or accepted yet.
#[derive(Debug)]
pub struct Sockets {
    /// DNS over UDP and TCP.
    pub dns: Vec<Bound>,
    /// DNS that nobody else can read.
    pub encrypted: EncryptedSockets,
    /// The admin service.
    pub admin: Vec<(SocketAddr, TcpListener)>,
}

impl Sockets {
    /// Opens what the settings name and was not passed, and takes the rest as it was.
    ///
    /// # Errors
    /// [`ServeError`] if there is an address that cannot be listened on, or none.
    pub fn open(server: &Server, mut passed: Passed) -> Result<Self, ServeError> {
        let (tls, admin) = (&server.tls, &server.admin);
        let unused = [
            (passed.dot.first().filter(|_| tls.is_none()), "dot", "tls"),
            (passed.doh.first().filter(|_| tls.is_none()), "doh", "tls"),
            (passed.admin.first().filter(|_| admin.is_none()), "admin", "admin"),
        ];
        for (socket, name, table) in unused {
            if let Some((address, _)) = socket {
                return Err(PassedError::Unused(*address, name, table).into());
            }
        }
        let dns = open_dns(server, &mut passed)?;
        let admin = admin.iter().flat_map(|admin| &admin.listen);
        Ok(Self {
            dns,
            encrypted: EncryptedSockets::open(server, passed.dot, passed.doh)?,
            admin: with_passed(passed.admin, admin, server.freebind)?,
        })
    }
}

/// The sockets of DNS over UDP and TCP: of the addresses that were passed, and of those that are
/// configured. Of the default ones those that the machine has, and none if any was passed.
fn open_dns(server: &Server, passed: &mut Passed) -> Result<Vec<Bound>, ServeError> {
    let workers = match server.udp.workers {
        0 => cores(),
        workers => workers,
    };
    let settings = UdpSettings { workers, ..server.udp };
    let is_default = server.listen_is_default;
    let mut addresses: Vec<SocketAddr> = passed.dns_addresses().collect();
    let mut seen = Vec::new();
    addresses.retain(|address| {
        let is_new = !seen.contains(address);
        seen.push(*address);
        is_new
    });
    if !is_default || !passed.has_dns() {
        addresses.extend(server.listen.iter().filter(|address| !seen.contains(address)));
    }
    let mut sockets = Vec::new();
    for address in addresses {
        let udp = take(&mut passed.udp, address);
        let tcp = take(&mut passed.tcp, address).pop();
        let bound = if udp.is_empty() && tcp.is_none() {
            bind(address, server.freebind, &settings)
        } else {
            let (with_udp, with_tcp) = (!udp.is_empty(), tcp.is_some());
            info!(%address, udp = with_udp, tcp = with_tcp, "passed by the service manager");
            complete(address, udp, tcp, server.freebind, &settings)
        };
        match bound {
            Ok(bound) => sockets.push(bound),
            Err(error) if is_default && error.is_missing_address() => {
                warn!(%address, "this machine does not have the address; it is not listened on");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if sockets.is_empty() { Err(ServeError::NoAddress) } else { Ok(sockets) }
}

/// The sockets of an address of which some were passed: what is missing of UDP and TCP is bound.
fn complete(
    address: SocketAddr,
    udp: Vec<std::net::UdpSocket>,
    tcp: Option<TcpListener>,
    freebind: bool,
    settings: &UdpSettings,
) -> Result<Bound, BindError> {
    let tcp = match tcp {
        Some(tcp) => tcp,
        None => bind_tcp(address, freebind)?.1,
    };
    let udp = if udp.is_empty() {
        bind_udp(address, freebind, settings)
    } else {
        share_udp(udp, address, settings)
    };
    let udp = udp.map_err(|error| BindError::new(address, "UDP", error))?;
    Ok(Bound { address, udp, tcp })
}

/// The sockets that were passed, and those of the other addresses, for TCP alone.
///
/// # Errors
/// [`BindError`], which says what would help.
pub(super) fn with_passed<'a>(
    passed: Vec<(SocketAddr, TcpListener)>,
    addresses: impl Iterator<Item = &'a SocketAddr>,
    freebind: bool,
) -> Result<Vec<(SocketAddr, TcpListener)>, BindError> {
    let mut sockets = passed;
    for &(address, _) in &sockets {
        info!(%address, udp = false, tcp = true, "passed by the service manager");
    }
    let count = sockets.len();
    for &address in addresses {
        if !sockets.iter().take(count).any(|(other, _)| *other == address) {
            sockets.push(bind_tcp(address, freebind)?);
        }
    }
    Ok(sockets)
}
