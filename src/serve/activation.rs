//! Sockets that a service manager opened and passed on when it started the server (sd_listen_fds(3)).
//! Their names say what they are for; the server needs no privilege then, and no query is lost while it is
//! restarted.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use listenfd::ListenFd;
use rustix::process::{Resource, getrlimit};
use socket2::SockRef;

/// The variable with the number of sockets, and the one with the process that they are for.
const COUNT: &str = "LISTEN_FDS";
const PROCESS: &str = "LISTEN_PID";
/// The variable with the names, with colons between them.
const NAMES: &str = "LISTEN_FDNAMES";
/// The most sockets where the system does not limit open files: its own default for all that can be open.
const MOST: u64 = 1 << 20;

/// Passed sockets, each with its address, by what they are for.
#[derive(Debug, Default)]
pub struct Passed {
    /// DNS over UDP; several of one address share its clients.
    pub udp: Vec<(SocketAddr, UdpSocket)>,
    /// DNS over TCP.
    pub tcp: Vec<(SocketAddr, TcpListener)>,
    /// DNS over TLS.
    pub dot: Vec<(SocketAddr, TcpListener)>,
    /// DNS over HTTPS.
    pub doh: Vec<(SocketAddr, TcpListener)>,
    /// The admin service.
    pub admin: Vec<(SocketAddr, TcpListener)>,
}

/// A passed socket that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    /// There cannot be so many.
    #[error(
        "LISTEN_FDS says that the service manager passed {given:?} sockets, which is no number from 0 to \
         {most}, the most files that this process may have open; correct it, or start the server without \
         LISTEN_FDS and LISTEN_PID"
    )]
    Count {
        /// What the variable says.
        given: String,
        /// The most that it could be.
        most: u64,
    },
    /// Its name says nothing.
    #[error(
        "the service manager passed a socket with the name {0:?}; set FileDescriptorName= of its socket \
         unit to dns, dot, doh or admin"
    )]
    Name(String),
    /// It is of another kind.
    #[error(
        "the service manager passed as {name} what cannot be used: {error}; dns takes ListenDatagram= and \
         ListenStream= with an address and a port, the others ListenStream= alone"
    )]
    Kind {
        /// What it is for.
        name: String,
        /// What is wrong with it.
        error: io::Error,
    },
    /// It is a connection.
    #[error(
        "the service manager passed a connection for {0}, not what accepts them; set Accept=no in the \
         socket unit"
    )]
    Connection(SocketAddr),
    /// It takes IPv4 too.
    #[error(
        "the service manager passed {0}, which takes IPv4 too; set BindIPv6Only=ipv6-only in the socket \
         unit, and give IPv4 addresses lines of their own"
    )]
    BothFamilies(SocketAddr),
    /// There is another one.
    #[error("the service manager passed two TCP sockets for {0}; one is enough")]
    Twice(SocketAddr),
    /// Nothing in the settings would use it.
    #[error(
        "the service manager passed {0} as {1}, and meridian.toml has no table [{2}]; add it, or remove \
         the socket"
    )]
    Unused(SocketAddr, &'static str, &'static str),
}

impl Passed {
    /// Takes what was passed; nothing if nothing was. Programs that monitors run do not get it too.
    ///
    /// # Errors
    /// [`PassedError`].
    pub fn from_environment() -> Result<Self, PassedError> {
        check_count()?;
        let names = std::env::var(NAMES).unwrap_or_default();
        let mut sockets = ListenFd::from_env();
        let mut names = names.split(':').filter(|_| !names.is_empty());
        let mut passed = Self::default();
        for i in 0..sockets.len() {
            // Without names they are for what a DNS server is there for.
            let name = names.next().unwrap_or("dns");
            let kind = |error| PassedError::Kind { name: name.to_owned(), error };
            if name == "dns"
                && let Ok(Some(socket)) = sockets.take_udp_socket(i)
            {
                let address = socket.local_addr().map_err(kind)?;
                check_family(&SockRef::from(&socket), address).map_err(kind)??;
                passed.udp.push((address, socket));
                continue;
            }
            let place = match name {
                "dns" => &mut passed.tcp,
                "dot" => &mut passed.dot,
                "doh" => &mut passed.doh,
                "admin" => &mut passed.admin,
                _ => return Err(PassedError::Name(name.to_owned())),
            };
            let Some(listener) = sockets.take_tcp_listener(i).map_err(kind)? else { continue };
            let address = listener.local_addr().map_err(kind)?;
            let socket = SockRef::from(&listener);
            check_family(&socket, address).map_err(kind)??;
            if !socket.is_listener().map_err(kind)? {
                return Err(PassedError::Connection(address));
            }
            if place.iter().any(|(other, _)| *other == address) {
                return Err(PassedError::Twice(address));
            }
            listener.set_nonblocking(true).map_err(kind)?;
            place.push((address, listener));
        }
        Ok(passed)
    }

    /// True if there is a socket for DNS over UDP or TCP.
    pub fn has_dns(&self) -> bool {
        !self.udp.is_empty() || !self.tcp.is_empty()
    }

    /// The addresses of DNS over UDP and TCP.
    pub fn dns_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let udp = self.udp.iter().map(|(address, _)| *address);
        udp.chain(self.tcp.iter().map(|(address, _)| *address))
    }
}

/// Checks the number of sockets that are said to be passed to this process. It is taken at its word later, and
/// room is made for as many.
fn check_count() -> Result<(), PassedError> {
    let Some(given) = std::env::var_os(COUNT) else { return Ok(()) };
    // Without a process they are for whoever reads this.
    let process = std::env::var(PROCESS).unwrap_or_default();
    if !process.is_empty() && process.parse() != Ok(std::process::id()) {
        return Ok(());
    }
    let given = given.to_string_lossy().into_owned();
    let most = getrlimit(Resource::Nofile).current.map_or(MOST, |limit| limit.min(MOST));
    match given.parse::<u64>() {
        Ok(count) if count <= most => Ok(()),
        _ => Err(PassedError::Count { given, most }),
    }
}

/// An IPv6 address takes IPv6 only, as it does where the server binds it.
fn check_family(socket: &SockRef<'_>, address: SocketAddr) -> io::Result<Result<(), PassedError>> {
    let takes_both = address.is_ipv6() && address.ip().is_unspecified() && !socket.only_v6()?;
    Ok(if takes_both { Err(PassedError::BothFamilies(address)) } else { Ok(()) })
}

/// Takes the sockets of an address out.
pub fn take<T>(sockets: &mut Vec<(SocketAddr, T)>, address: SocketAddr) -> Vec<T> {
    sockets.extract_if(.., |(other, _)| *other == address).map(|(_, socket)| socket).collect()
}
