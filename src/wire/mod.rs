//! Between answers and octets. `write` puts a reply straight into the buffer that is sent; `opt` is
//! what goes into its OPT record; `page` is for the messages of a zone transfer.

pub mod opt;
pub mod page;
pub mod ttl;
pub mod write;

use crate::query::{Edns, HEADER, PLAIN_UDP};

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram: the reply is bounded by the client's size and ours.
    Datagram,
    /// In a stream: the reply is bounded by its 16-bit length.
    Stream,
    /// In a stream that nobody else can read: what is padded comes back padded (RFC 7830 section 6).
    Encrypted,
}

impl Transport {
    /// The largest reply, in octets.
    pub fn limit(self, edns: Option<Edns>) -> usize {
        match (self, edns) {
            (Self::Stream | Self::Encrypted, _) => usize::from(u16::MAX),
            (Self::Datagram, Some(edns)) => usize::from(edns.reply_size()),
            (Self::Datagram, None) => usize::from(PLAIN_UDP),
        }
    }
}

/// What of a query's header the reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The id.
    pub id: u16,
    /// The opcode.
    pub opcode: u8,
    /// RD.
    pub recursion_desired: bool,
}

impl Repeated {
    /// Reads them from a message that has a header.
    pub fn read(message: &[u8]) -> Option<Self> {
        let [id_high, id_low, flags, ..] = *message.first_chunk::<HEADER>()?;
        Some(Self {
            id: u16::from_be_bytes([id_high, id_low]),
            opcode: flags >> 3 & 0x0f,
            recursion_desired: flags & 1 != 0,
        })
    }
}
