//! Names of a message that may be compressed (RFC 1035 section 4.1.4). Only few are looked at: those of
//! signatures and of what a secondary has.

#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::name::MAX_NAME;
use crate::query::HEADER;

/// The name that begins here, in lower-case wire form, its compression pointers followed; and where it ends.
pub(crate) fn expand(message: &[u8], start: usize) -> Option<(ArrayVec<u8, MAX_NAME>, usize)> {
    let mut name = ArrayVec::new();
    let (mut at, mut before, mut end) = (start, start, None);
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0..=63 => {
                name.try_extend_from_slice(message.get(at..=at + length)?).ok()?;
                at += 1 + length;
                if length == 0 {
                    name.make_ascii_lowercase();
                    return Some((name, end.unwrap_or(at)));
                }
            }
            0xc0.. => {
                end.get_or_insert(at + 2);
                at = (length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                // Each points to what stands before all of them, so that they end.
                if !(HEADER..before).contains(&at) {
                    return None;
                }
                before = at;
            }
            _ => return None,
        }
    }
}
