//! Binding what is listened on. DNS has for each address a TCP listener, and a UDP socket for each worker,
//! on the same port; TLS has a listener alone, QUIC one UDP socket, and HTTPS with HTTP/3 both.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::server::UdpSettings;
use crate::serve::{mmsg, udp};

/// How many TCP connections may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How often another port is tried where any will do.
const PORT_TRIES: usize = 16;

/// The sockets of one address.
#[derive(Debug)]
pub struct Bound {
    /// The address, with the port that it got.
    pub address: SocketAddr,
    /// For UDP, one a worker; the kernel spreads the clients over them.
    pub udp: Vec<std::net::UdpSocket>,
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
    pub(super) fn new(address: SocketAddr, protocol: &'static str, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program uses it: stop that, or choose another port"
            }
            io::ErrorKind::PermissionDenied => {
                "; a port below 1024 needs the capability CAP_NET_BIND_SERVICE: give it to the program \
                 (setcap cap_net_bind_service=+ep FILE) or to its unit (AmbientCapabilities=), have \
                 systemd pass the socket, or start as root with a user in [privileges]"
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
pub fn bind(address: SocketAddr, freebind: bool, udp: &UdpSettings) -> Result<Bound, BindError> {
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        // TCP first: its port cannot be shared, so that another server on it is noticed.
        let tcp = open(address, Type::STREAM, freebind)
            .map_err(|error| BindError::new(address, "TCP", error))?;
        let tcp = std::net::TcpListener::from(tcp);
        let bound = tcp.local_addr().map_err(|error| BindError::new(address, "TCP", error))?;
        match bind_udp(bound, freebind, udp) {
            Ok(udp) => return Ok(Bound { address: bound, udp, tcp }),
            Err(error) if tries > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(BindError::new(bound, "UDP", error)),
        }
    }
}

/// Binds an address for TCP alone; nothing is accepted yet.
///
/// # Errors
/// [`BindError`], which says what would help.
pub fn bind_tcp(
    address: SocketAddr,
    freebind: bool,
) -> Result<(SocketAddr, std::net::TcpListener), BindError> {
    let bind = || {
        let tcp = std::net::TcpListener::from(open(address, Type::STREAM, freebind)?);
        Ok((tcp.local_addr()?, tcp))
    };
    bind().map_err(|error| BindError::new(address, "TCP", error))
}

/// Binds an address for QUIC: one UDP socket, which nobody shares.
///
/// # Errors
/// [`BindError`], which says what would help.
pub fn bind_quic(
    address: SocketAddr,
    freebind: bool,
    settings: &UdpSettings,
) -> Result<(SocketAddr, std::net::UdpSocket), BindError> {
    let bind = || {
        let socket = std::net::UdpSocket::from(open(address, Type::DGRAM, freebind)?);
        set_buffers(&socket, settings)?;
        Ok((socket.local_addr()?, socket))
    };
    bind().map_err(|error| BindError::new(address, "UDP", error))
}

/// Binds an address for HTTPS over TCP, and on the same port for HTTP/3. Port 0 is any port that is free
/// for both protocols.
///
/// # Errors
/// [`BindError`], which says what would help.
pub fn bind_https(
    address: SocketAddr,
    freebind: bool,
    settings: &UdpSettings,
) -> Result<(SocketAddr, std::net::TcpListener, std::net::UdpSocket), BindError> {
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        let (bound, tcp) = bind_tcp(address, freebind)?;
        match bind_quic(bound, freebind, settings) {
            Ok((bound, udp)) => return Ok((bound, tcp, udp)),
            Err(error) if tries > 0 && error.error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Binds an address for UDP alone: a socket for each worker.
///
/// # Errors
/// What the system says.
pub(super) fn bind_udp(
    address: SocketAddr,
    freebind: bool,
    settings: &UdpSettings,
) -> io::Result<Vec<std::net::UdpSocket>> {
    // Another program's socket would share the clients if it allowed that too; one that does not
    // is found out by a socket that does not either.
    drop(open(address, Type::DGRAM, freebind)?);
    let one = |_| {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_port(true)?;
        prepare(&socket, address, freebind)?;
        socket.bind(&SockAddr::from(address))?;
        let socket = std::net::UdpSocket::from(socket);
        set_options(&socket, address, settings)?;
        Ok(socket)
    };
    (0..settings.workers.max(1)).map(one).collect()
}

/// Shares the sockets that were passed for an address among its workers. The kernel does not spread the
/// clients over them then: a query goes to whichever worker waits for one, and each socket has one at least.
///
/// # Errors
/// What the system says.
pub(super) fn share_udp(
    passed: Vec<std::net::UdpSocket>,
    address: SocketAddr,
    settings: &UdpSettings,
) -> io::Result<Vec<std::net::UdpSocket>> {
    for socket in &passed {
        socket.set_nonblocking(false)?;
        set_options(socket, address, settings)?;
    }
    let copies = settings.workers.saturating_sub(passed.len());
    let copies: io::Result<Vec<_>> =
        passed.iter().cycle().take(copies).map(std::net::UdpSocket::try_clone).collect();
    let copies = copies?;
    Ok(passed.into_iter().chain(copies).collect())
}

/// Makes a socket wait no longer than a worker may, and sets what it needs for replies.
fn set_options(
    socket: &std::net::UdpSocket,
    address: SocketAddr,
    settings: &UdpSettings,
) -> io::Result<()> {
    socket.set_read_timeout(Some(udp::WAIT))?;
    set_buffers(socket, settings)?;
    mmsg::never_fragment(socket, address)?;
    if address.ip().is_unspecified() {
        mmsg::report_arrival(socket, address)?;
    }
    Ok(())
}

fn set_buffers(socket: &std::net::UdpSocket, settings: &UdpSettings) -> io::Result<()> {
    let options = socket2::SockRef::from(socket);
    options.set_send_buffer_size(settings.send_buffer)?;
    if mmsg::force_receive_buffer(socket, settings.receive_buffer).is_err() {
        // Not privileged: as much as the system's limit (net.core.rmem_max) allows.
        options.set_recv_buffer_size(settings.receive_buffer)?;
    }
    Ok(())
}

fn open(address: SocketAddr, kind: Type, freebind: bool) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    prepare(&socket, address, freebind)?;
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

fn prepare(socket: &Socket, address: SocketAddr, freebind: bool) -> io::Result<()> {
    if address.is_ipv6() {
        // Each family is listened on by its own socket.
        socket.set_only_v6(true)?;
    }
    match address {
        SocketAddr::V4(_) if freebind => socket.set_freebind_v4(true),
        SocketAddr::V6(_) if freebind => socket.set_freebind_v6(true),
        _ => Ok(()),
    }
}
