//! The shortest TTL of a reply: for how long a cache in front of the server may keep it whole.

#![deny(clippy::indexing_slicing)]

use crate::query::HEADER;
use crate::rr::RecordType;

/// The shortest TTL of the records in answer and authority of a reply of ours, in seconds; none if it
/// has no records there.
pub fn shortest_ttl(reply: &[u8]) -> Option<u32> {
    let count = |at: usize| {
        let octets = reply.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_be_bytes(octets))
    };
    let (questions, records) = (count(4)?, u32::from(count(6)?) + u32::from(count(8)?));
    let mut at = HEADER;
    for _ in 0..questions {
        at = after_name(reply, at)? + 4;
    }
    let mut shortest = None;
    for _ in 0..records {
        at = after_name(reply, at)?;
        let fixed: [u8; 10] = reply.get(at..at + 10)?.try_into().ok()?;
        let [type_high, type_low, _, _, ttl @ .., length_high, length_low] = fixed;
        let ttl = u32::from_be_bytes(ttl);
        if RecordType(u16::from_be_bytes([type_high, type_low])) != RecordType::OPT {
            shortest = Some(shortest.map_or(ttl, |shortest: u32| shortest.min(ttl)));
        }
        at += 10 + usize::from(u16::from_be_bytes([length_high, length_low]));
    }
    shortest
}

/// Where what follows a name begins.
fn after_name(reply: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *reply.get(at)? {
            0 => return Some(at + 1),
            0xc0.. => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_all_records_counts() {
        let mut reply = vec![0, 0, 0x84, 0, 0, 1, 0, 2, 0, 1, 0, 0];
        reply.extend(b"\x01a\x04test\0\0\x01\0\x01");
        for ttl in [300u32, 30, 60] {
            reply.extend([0xc0, 12, 0, 1, 0, 1]);
            reply.extend(ttl.to_be_bytes());
            reply.extend([0, 4, 192, 0, 2, 1]);
        }
        assert_eq!(shortest_ttl(&reply), Some(30));
        reply.truncate(40);
        assert_eq!(shortest_ttl(&reply), None, "cut short");
        assert_eq!(shortest_ttl(&[0; 12]), None);
        assert_eq!(shortest_ttl(&[]), None);
    }
}
