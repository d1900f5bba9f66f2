//! Binding what is listened on: for each address one UDP socket and one TCP listener on the same
//! port.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// How many TCP connections may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How often another port is tried where any will do.
const PORT_TRIES: usize = 16;

/// The sockets of one address.
#[derive(Debug)]
pub struct Bound {
    /// The address, with the port that it got.
    pub address: SocketAddr,
    /// For UDP.
    pub udp: std::net::UdpSocket,
    /// For TCP.
    pub tcp: std::net::TcpListener,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({protocol}): {error}{hint}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// UDP or TCP.
    pub protocol: &'static str,
    /// What the system says.
    pub error: io::Error,
    /// What would help.
    pub hint: &'static str,
}

impl BindError {
    fn new(address: SocketAddr, protocol: &'static str, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program uses it: stop that, or choose another port"
            }
            io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need the capability CAP_NET_BIND_SERVICE"
            }
            io::ErrorKind::AddrNotAvailable => {
                "; this machine does not have the address: correct it, or set freebind = true"
            }
            _ => "",
        };
        Self { address, protocol, error, hint }
    }

    /// True if the machine lacks the address or its family.
    pub fn is_missing_address(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrNotAvailable
            || self.error.raw_os_error() == Some(AF_NOT_SUPPORTED)
    }
}

/// `EAFNOSUPPORT` on Linux: the kernel has no IPv6.
const AF_NOT_SUPPORTED: i32 = 97;

/// Binds an address. Port 0 is any port that is free for both protocols.
///
/// # Errors
/// [`BindError`], which says what would help.
pub fn bind(address: SocketAddr, freebind: bool) -> Result<Bound, BindError> {
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        let udp = open(address, Type::DGRAM, freebind)
            .map_err(|error| BindError::new(address, "UDP", error))?;
        let udp = std::net::UdpSocket::from(udp);
        let bound = udp.local_addr().map_err(|error| BindError::new(address, "UDP", error))?;
        match open(bound, Type::STREAM, freebind) {
            Ok(tcp) => return Ok(Bound { address: bound, udp, tcp: tcp.into() }),
            Err(error) if tries > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(BindError::new(bound, "TCP", error)),
        }
    }
}

fn open(address: SocketAddr, kind: Type, freebind: bool) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // Each family is listened on by its own socket.
        socket.set_only_v6(true)?;
    }
    if freebind {
        match address {
            SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
            SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
        }
    }
    if kind == Type::STREAM {
        // A listener can come back while connections of the one before are still closing.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    if kind == Type::STREAM {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}
