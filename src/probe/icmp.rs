//! An ICMP echo, from a socket that needs no privilege: the kernel writes the identifier and the
//! checksum, and hands over the replies to this socket's identifier alone.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::probe::connect::{Sources, ask};
use crate::probe::failure::Failure;
use crate::probe::{Deadline, Success, random};

/// The header of an echo: type, code, checksum, identifier, sequence number (RFC 792, RFC 4443).
const HEADER: usize = 8;

/// Sends an echo, and waits for its reply.
pub(super) async fn probe(
    sources: &Sources,
    address: IpAddr,
    deadline: Deadline,
) -> Result<Success, Failure> {
    let (request, reply): (u8, u8) = if address.is_ipv4() { (8, 0) } else { (128, 129) };
    let socket = open(sources, address).map_err(|error| Failure::of_this_machine(&error))?;
    socket
        .connect(&SocketAddr::new(address, 0).into())
        .map_err(|error| Failure::of_connection(&error))?;
    let socket = UdpSocket::from_std(socket.into());
    let socket = socket.map_err(|error| Failure::of_this_machine(&error))?;
    // The octets after the header come back. Sixteen that cannot be guessed tell this echo's reply.
    let payload: [u8; 16] = random()?;
    let mut packet = vec![request, 0, 0, 0, 0, 0, 0, 1];
    packet.extend_from_slice(&payload);
    ask(&socket, &packet, deadline, |message| {
        let is_reply = message.first() == Some(&reply) && message.get(HEADER..) == Some(&payload);
        is_reply.then_some(Ok(()))
    })
    .await
}

/// Opens a socket for echoes, bound to the source of the address' family.
pub(super) fn open(sources: &Sources, address: IpAddr) -> io::Result<Socket> {
    let (domain, protocol) = if address.is_ipv4() {
        (Domain::IPV4, Protocol::ICMPV4)
    } else {
        (Domain::IPV6, Protocol::ICMPV6)
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if let Some(source) = sources.of_family(address) {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}
