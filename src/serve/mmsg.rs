//! Batches of datagrams: `recvmmsg` and `sendmmsg`, and three socket options that no crate in the
//! tree sets.
//!
//! One of two modules with `unsafe` code; `heap` is the other. nix wraps both calls, but its receive borrows the buffers for
//! as long as the headers, does not reset the lengths that the kernel overwrites, and its send
//! takes the addresses from elsewhere; here a reply leaves by the very header that its query came
//! in, with nothing copied. What is unsafe about it: the kernel reads and writes through the
//! pointers in the headers. They point into boxed slices that [`Batch`] owns and never resizes or
//! moves, and every call is given lengths that were taken from those slices.

#![allow(unsafe_code, reason = "the kernel takes arrays of headers with pointers in them")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use libc::{c_int, c_uint, c_void, iovec, mmsghdr, sockaddr_in6, socklen_t};

/// The largest query that is read; what is longer is cut, and so malformed.
pub const MAX_QUERY: usize = 1536;
/// Room for the largest reply.
pub const MAX_REPLY: usize = 1280;
/// Room for one address of arrival, in either family, with its header.
const CONTROL: usize = 64;
/// The flag for a datagram that did not fit its buffer.
const CUT: c_int = libc::MSG_TRUNC;

/// A control buffer, aligned as its headers are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// A datagram and its reply.
#[repr(C, align(64))]
struct Slot {
    query: [u8; MAX_QUERY],
    reply: [u8; MAX_REPLY],
    query_part: iovec,
    /// Its length is that of the reply; 0 if there is none.
    reply_part: iovec,
    name: sockaddr_in6,
    control: Control,
}

/// Buffers for a number of datagrams, and their replies.
pub struct Batch {
    slots: Box<[Slot]>,
    received: Box<[mmsghdr]>,
    sent: Box<[mmsghdr]>,
    with_control: bool,
    count: usize,
}

/// A received query, and room for its reply.
pub struct Exchange<'b> {
    slot: &'b mut Slot,
    /// Of what was received; more than a buffer has for what did not fit it.
    length: usize,
}

// SAFETY: the pointers in the headers point into boxed slices that move with the batch.
unsafe impl Send for Batch {}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("size", &self.slots.len()).finish_non_exhaustive()
    }
}

impl Exchange<'_> {
    /// What was received, and where its reply is written.
    #[inline]
    pub fn parts(&mut self) -> (&[u8], &mut [u8; MAX_REPLY]) {
        (self.slot.query.get(..self.length).unwrap_or_default(), &mut self.slot.reply)
    }

    /// Where it came from; none for one that did not fit its buffer, or has no address that could be
    /// replied to.
    pub fn source(&self) -> Option<IpAddr> {
        if self.length <= MAX_QUERY { address(&self.slot.name) } else { None }
    }

    /// The port that it came from.
    pub fn port(&self) -> u16 {
        // At the same place in both families' addresses.
        u16::from_be(self.slot.name.sin6_port)
    }

    /// Has the first octets of the reply sent with the batch, so many.
    #[inline]
    pub fn send(self, length: usize) {
        self.slot.reply_part.iov_len = length.min(MAX_REPLY);
    }
}

impl Batch {
    /// Buffers for up to `size` datagrams, 1 at least. `with_control` where the sockets tell the
    /// address that a query came to ([`report_arrival`]): replies then leave from it.
    pub fn new(size: usize, with_control: bool) -> Self {
        let size = size.max(1);
        // SAFETY: all of these are plain C structures for which zeros are a valid value.
        let (name, part, header) =
            unsafe { (zeroed::<sockaddr_in6>(), zeroed::<iovec>(), zeroed::<mmsghdr>()) };
        let slot = |_| Slot {
            query: [0; MAX_QUERY],
            reply: [0; MAX_REPLY],
            query_part: part,
            reply_part: part,
            name,
            control: Control([0; CONTROL]),
        };
        let mut batch = Self {
            slots: (0..size).map(slot).collect(),
            received: vec![header; size].into(),
            sent: vec![header; size].into(),
            with_control,
            // All headers are to be set before the first datagrams.
            count: size,
        };
        let headers = batch.received.iter_mut().zip(&mut batch.sent);
        for (slot, (received, sent)) in batch.slots.iter_mut().zip(headers) {
            slot.query_part =
                iovec { iov_base: slot.query.as_mut_ptr().cast(), iov_len: MAX_QUERY };
            slot.reply_part.iov_base = slot.reply.as_mut_ptr().cast();
            let header = &mut received.msg_hdr;
            header.msg_name = (&raw mut slot.name).cast();
            header.msg_iov = &raw mut slot.query_part;
            header.msg_iovlen = 1;
            sent.msg_hdr.msg_iovlen = 1;
        }
        batch
    }

    /// Waits for queries, and takes as many as have come, as long as the socket's timeout. Gives
    /// their number; 0 after the timeout.
    ///
    /// # Errors
    /// What the system says.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let used = std::mem::take(&mut self.count);
        for (header, slot) in self.received.iter_mut().zip(&mut self.slots).take(used) {
            slot.reply_part.iov_len = 0;
            // The kernel overwrote these with what the datagrams before had.
            let header = &mut header.msg_hdr;
            header.msg_namelen = size_as_socklen::<sockaddr_in6>();
            header.msg_flags = 0;
            if self.with_control {
                header.msg_control = (&raw mut slot.control).cast();
                header.msg_controllen = CONTROL as _;
            }
        }
        let length = c_uint::try_from(self.received.len()).unwrap_or(1);
        // SAFETY: `received` has `length` headers, whose pointers are into this batch's slots.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.received.as_mut_ptr(),
                length,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(count) {
            Ok(count) => {
                self.count = count.min(self.received.len());
                Ok(self.count)
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }

    /// The received queries, each with where it came from. None for one that did not fit its buffer or
    /// has no address that could be replied to.
    #[inline]
    pub fn received(&self) -> impl Iterator<Item = Option<(&[u8], IpAddr)>> {
        let received = self.received.get(..self.count).unwrap_or_default();
        received
            .iter()
            .zip(&self.slots)
            .map(|(header, slot)| Some((slot.query.get(..length(header))?, address(&slot.name)?)))
    }

    /// Where query `i` came from; none if that is nothing that could be replied to.
    pub fn source(&self, i: usize) -> Option<IpAddr> {
        address(&self.slots.get(i)?.name)
    }

    /// The same from one of them on, with room for their replies.
    #[inline]
    pub fn exchanges(&mut self, first: usize) -> impl Iterator<Item = Exchange<'_>> {
        let received = self.received.get(first..self.count).unwrap_or_default();
        let slots = self.slots.get_mut(first..).unwrap_or_default();
        received.iter().zip(slots).map(|(header, slot)| Exchange { slot, length: length(header) })
    }

    /// Sends the replies that were written. One that cannot be sent (its client's address is
    /// unreachable) is passed over. Gives the number that were sent.
    pub fn send(&mut self, socket: &UdpSocket) -> usize {
        let written = self.line_up();
        let (mut next, mut sent) = (0, 0);
        while next < written {
            let rest = &mut self.sent[next..written];
            let length = c_uint::try_from(rest.len()).unwrap_or(1);
            // SAFETY: `rest` has `length` headers, whose pointers are into this batch's slots.
            let count = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), length, 0) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => {
                    next += count;
                    sent += count;
                }
                // The first of the rest failed.
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => next += 1,
            }
        }
        sent
    }

    /// Puts the headers of the replies that were written one after the other; gives their number.
    fn line_up(&mut self) -> usize {
        let mut written = 0;
        let mut sent = self.sent.iter_mut();
        for (received, slot) in self.received.iter().zip(&mut self.slots).take(self.count) {
            if slot.reply_part.iov_len == 0 {
                continue;
            }
            let Some(sent) = sent.next() else { break };
            let (received, sent) = (&received.msg_hdr, &mut sent.msg_hdr);
            sent.msg_name = received.msg_name;
            sent.msg_namelen = received.msg_namelen;
            sent.msg_iov = &raw mut slot.reply_part;
            if self.with_control {
                sent.msg_control = std::ptr::null_mut();
                sent.msg_controllen = received.msg_controllen;
                if received.msg_controllen > 0 {
                    #[allow(clippy::unnecessary_cast, reason = "C libraries differ in its type")]
                    leave_from_arrival(&mut slot.control, received.msg_controllen as usize);
                    sent.msg_control = received.msg_control;
                }
            }
            written += 1;
        }
        written
    }
}

/// The length of what was received; more than a buffer has for what did not fit it.
#[inline]
fn length(header: &mmsghdr) -> usize {
    if header.msg_hdr.msg_flags & CUT == 0 { header.msg_len as usize } else { usize::MAX }
}

/// The address in a header's name; none for another family, or port 0, which nothing listens on.
fn address(name: &sockaddr_in6) -> Option<IpAddr> {
    match c_int::from(name.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a `sockaddr_in`, which is smaller.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            (name.sin_port != 0)
                .then(|| IpAddr::V4(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            (name.sin6_port != 0).then(|| IpAddr::V6(Ipv6Addr::from(name.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// Makes the control message that told the address of arrival say the address to leave from.
fn leave_from_arrival(control: &mut Control, length: usize) {
    let header_size = size_of::<libc::cmsghdr>();
    if length < header_size || length > CONTROL {
        return;
    }
    // SAFETY: the buffer is aligned as `cmsghdr` is, and holds a whole one by the check above.
    let header = unsafe { control.0.as_ptr().cast::<libc::cmsghdr>().read() };
    let data = control.0.as_mut_ptr().wrapping_add(header_size);
    if header.cmsg_level == libc::IPPROTO_IP
        && header.cmsg_type == libc::IP_PKTINFO
        && length >= header_size + size_of::<libc::in_pktinfo>()
    {
        // SAFETY: the data is a whole `in_pktinfo` by the check above.
        unsafe {
            let info = data.cast::<libc::in_pktinfo>();
            // The interface is the routing table's choice: a reply may leave by another one.
            (*info).ipi_ifindex = 0;
            (*info).ipi_spec_dst = (*info).ipi_addr;
        }
    } else if header.cmsg_level == libc::IPPROTO_IPV6
        && header.cmsg_type == libc::IPV6_PKTINFO
        && length >= header_size + size_of::<libc::in6_pktinfo>()
    {
        // SAFETY: the data is a whole `in6_pktinfo` by the check above.
        unsafe {
            let info = data.cast::<libc::in6_pktinfo>();
            let link_local =
                (*info).ipi6_addr.s6_addr[0] == 0xfe && (*info).ipi6_addr.s6_addr[1] & 0xc0 == 0x80;
            if !link_local {
                (*info).ipi6_ifindex = 0;
            }
        }
    }
}

/// Asks the system to tell the address that each datagram came to.
///
/// # Errors
/// What the system says.
pub fn report_arrival(socket: &UdpSocket, local: SocketAddr) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        SocketAddr::V6(_) => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Sends datagrams whole or not at all, and takes no word of strangers on the path's size: replies
/// are small enough for every path (RFC 9715 section 3.1).
///
/// # Errors
/// What the system says.
pub fn never_fragment(socket: &UdpSocket, local: SocketAddr) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => {
            let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
            set_option(socket, level, name, libc::IP_PMTUDISC_PROBE)
        }
        SocketAddr::V6(_) => {
            let (level, name) = (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
            set_option(socket, level, name, libc::IPV6_PMTUDISC_PROBE)
        }
    }
}

/// Sets the receive buffer beyond the system's limit for ordinary users, where that is allowed.
///
/// # Errors
/// What the system says.
pub fn force_receive_buffer(socket: &UdpSocket, octets: usize) -> io::Result<()> {
    let octets = c_int::try_from(octets).unwrap_or(c_int::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)
}

fn set_option(socket: &UdpSocket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the option is an integer, and the pointer and length are those of one.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            size_as_socklen::<c_int>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn size_as_socklen<T>() -> socklen_t {
    socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}
