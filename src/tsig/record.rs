//! Reading a TSIG record (RFC 8945 section 4.2).

use arrayvec::ArrayVec;

use crate::name::{MAX_NAME, wire_length};
use crate::query::Signature;
use crate::query::compressed::expand;

/// What a TSIG record says.
#[derive(Debug)]
pub(super) struct Record<'m> {
    /// The key's name in lower-case wire form.
    pub(super) key_name: ArrayVec<u8, MAX_NAME>,
    /// The algorithm's name in lower-case wire form.
    pub(super) algorithm: ArrayVec<u8, MAX_NAME>,
    /// When it was signed, in seconds since 1970.
    pub(super) time: u64,
    pub(super) fudge: u16,
    pub(super) mac: &'m [u8],
    pub(super) original_id: u16,
    pub(super) error: u16,
    pub(super) other: &'m [u8],
}

impl<'m> Record<'m> {
    /// Reads the record that a message ends with; none if it is malformed.
    pub(super) fn read(message: &[u8], signature: Signature<'m>) -> Option<Self> {
        let (key_name, _) = expand(message, signature.start)?;
        let rdata = signature.rdata;
        let (name, rest) = rdata.split_at_checked(wire_length(rdata)?)?;
        let mut algorithm = ArrayVec::new();
        algorithm.try_extend_from_slice(name).ok()?;
        algorithm.make_ascii_lowercase();
        let (time, rest) = rest.split_first_chunk::<6>()?;
        let [a, b, c, d, e, f] = *time;
        let (fudge, rest) = number(rest)?;
        let (length, rest) = number(rest)?;
        let (mac, rest) = rest.split_at_checked(usize::from(length))?;
        let (original_id, rest) = number(rest)?;
        let (error, rest) = number(rest)?;
        let (length, other) = number(rest)?;
        (other.len() == usize::from(length)).then_some(Self {
            key_name,
            algorithm,
            time: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            fudge,
            mac,
            original_id,
            error,
            other,
        })
    }
}

fn number(octets: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = octets.split_first_chunk()?;
    Some((u16::from_be_bytes(*number), rest))
}
