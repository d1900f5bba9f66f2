//! Sockets towards a probed address: from the configured source, and with what the kernel says turned
//! into a [`Failure`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::probe::failure::{Failure, Stage};
use crate::probe::{Deadline, Success};

/// The source addresses of probes.
#[derive(Debug, Default)]
pub(super) struct Sources {
    ipv4: Option<IpAddr>,
    ipv6: Option<IpAddr>,
}

/// How a TCP connection ends when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By a reset: neither side keeps anything of it, so that thousands of probes leave no ports in
    /// TIME_WAIT.
    Abort,
    /// In the usual way.
    Orderly,
}

impl Sources {
    /// The source for addresses of a family.
    pub(super) fn of_family(&self, address: IpAddr) -> Option<IpAddr> {
        if address.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }

    /// The place of that.
    pub(super) fn of_family_mut(&mut self, address: IpAddr) -> &mut Option<IpAddr> {
        if address.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 }
    }

    /// Opens a TCP connection, and says how long that took.
    pub(super) async fn connect(
        &self,
        to: SocketAddr,
        ending: Ending,
        deadline: Deadline,
    ) -> Result<(TcpStream, Duration), Failure> {
        let socket = self.tcp(to, ending).map_err(|error| Failure::of_this_machine(&error))?;
        let start = Instant::now();
        let connected = deadline.within(Stage::Connecting, socket.connect(to)).await?;
        let stream = connected.map_err(|error| Failure::of_connection(&error))?;
        Ok((stream, start.elapsed()))
    }

    fn tcp(&self, to: SocketAddr, ending: Ending) -> io::Result<TcpSocket> {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if ending == Ending::Abort {
            socket.set_zero_linger()?;
        }
        if let Some(source) = self.of_family(to.ip()) {
            socket.bind((source, 0).into())?;
        }
        Ok(socket)
    }

    /// Opens a UDP socket that sends to an address, and receives from there only.
    pub(super) async fn datagrams(&self, to: SocketAddr) -> Result<UdpSocket, Failure> {
        let any = if to.is_ipv4() {
            IpAddr::from(Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::from(Ipv6Addr::UNSPECIFIED)
        };
        let source = self.of_family(to.ip()).unwrap_or(any);
        let socket = UdpSocket::bind((source, 0)).await;
        let socket = socket.map_err(|error| Failure::of_this_machine(&error))?;
        socket.connect(to).await.map_err(|error| Failure::of_connection(&error))?;
        Ok(socket)
    }
}

/// Sends a datagram, and receives until one is the reply: `judge` gives no result for one that is not.
pub(super) async fn ask(
    socket: &UdpSocket,
    datagram: &[u8],
    deadline: Deadline,
    mut judge: impl FnMut(&[u8]) -> Option<Result<(), Failure>>,
) -> Result<Success, Failure> {
    let start = Instant::now();
    let exchange = async {
        socket.send(datagram).await?;
        // The largest datagram there is, less than what a probe may hold.
        let mut buffer = vec![0; super::LIMIT];
        loop {
            let size = socket.recv(&mut buffer).await?;
            let rtt = start.elapsed();
            if let Some(verdict) = judge(buffer.get(..size).unwrap_or_default()) {
                return Ok(verdict.map(|()| Success { rtt: Some(rtt) }));
            }
        }
    };
    let result: io::Result<_> = deadline.within(Stage::Reply, exchange).await?;
    result.unwrap_or_else(|error| {
        Err(match error.kind() {
            // What ICMP said to an earlier datagram comes as the error of the next call.
            io::ErrorKind::ConnectionRefused => {
                Failure::Connection("the port is closed (ICMP port unreachable)".to_owned())
            }
            _ => Failure::of_connection(&error),
        })
    })
}
