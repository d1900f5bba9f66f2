//! Which version of a zone a secondary has: the one SOA in the authority section of a query for what is newer
//! (IXFR, RFC 1995 section 3).

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use crate::query::Question;
use crate::query::compressed::expand;
use crate::rr::RecordType;

/// The octets of a SOA's data that follow its two names: five numbers, the serial first (RFC 1035 section
/// 3.3.13).
const NUMBERS: usize = 20;

/// What the SOA records of a query say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum KnownVersion {
    /// There is none.
    #[default]
    Unsaid,
    /// There is one, of the zone that is asked for.
    Serial(u32),
    /// There is one of something else, one that is malformed, or more than one.
    Malformed,
}

impl KnownVersion {
    /// Takes a SOA record of the authority section: where it begins, its class, and where its data is.
    pub(super) fn add(
        &mut self,
        message: &[u8],
        start: usize,
        class: u16,
        data: Range<usize>,
        question: &Question<'_>,
    ) {
        let is_of_zone = || {
            let (owner, _) = expand(message, start)?;
            Some(owner == question.key && class == question.class)
        };
        *self = match (*self, soa_serial(message, data)) {
            (Self::Unsaid, Some(serial)) if is_of_zone() == Some(true) => Self::Serial(serial),
            _ => Self::Malformed,
        };
    }

    /// The serial, if it is said as it must be.
    pub(super) fn serial(self) -> Option<u32> {
        match self {
            Self::Serial(serial) => Some(serial),
            Self::Unsaid | Self::Malformed => None,
        }
    }
}

/// True if a question is one that is asked with a SOA.
pub(super) fn is_asked_with_soa(question: &Question<'_>) -> bool {
    question.record_type == RecordType::IXFR
}

/// The serial of a SOA's data, if that is two names and five numbers.
fn soa_serial(message: &[u8], data: Range<usize>) -> Option<u32> {
    let (_primary, end) = expand(message, data.start)?;
    let (_mailbox, end) = expand(message, end)?;
    let numbers = message.get(end..data.end).filter(|numbers| numbers.len() == NUMBERS)?;
    Some(u32::from_be_bytes(*numbers.first_chunk()?))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "the tests' own messages")]
mod tests {
    use crate::query::{Request, parse};

    /// A query for IXFR of example.test with these records in the answer and the authority section; the
    /// serial that is read.
    fn serial(answers: &[&[u8]], authorities: &[&[u8]]) -> Option<u32> {
        let count = |records: &[&[u8]]| u8::try_from(records.len()).unwrap();
        let mut message =
            vec![0x12, 0x34, 0, 0, 0, 1, 0, count(answers), 0, count(authorities), 0, 0];
        message.extend(b"\x07eXample\x04test\x00\x00\xfb\x00\x01");
        message.extend(answers.concat());
        message.extend(authorities.concat());
        match parse(&message) {
            Request::Query(query) => query.serial,
            other => panic!("{other:?}"),
        }
    }

    fn record(owner: &[u8], class: u8, rdata: &[u8]) -> Vec<u8> {
        let length = u8::try_from(rdata.len()).unwrap();
        [owner, &[0, 6, 0, class, 0, 0, 0, 0, 0, length], rdata].concat()
    }

    /// A SOA's data with these names.
    fn data(names: &[u8]) -> Vec<u8> {
        [names, &7u32.to_be_bytes(), &[0; 16]].concat()
    }

    // Where the question's name is, and its last label.
    const ZONE: &[u8] = &[0xc0, 12];
    const ROOTS: &[u8] = &[0, 0];

    #[test]
    fn one_soa_of_the_zone_says_which_version_is_known() {
        let written: [(&[u8], &[u8]); 5] = [
            (ZONE, ROOTS),
            (b"\x07example\x04TEST\x00", ROOTS),
            (b"\x07Example\xc0\x14", b"\x03ns1\xc0\x0c\x0ahostmaster\xc0\x0c"),
            (ZONE, b"\x01a\x00\x01b\x00"),
            (ZONE, &[0xc0, 0x14, 0]),
        ];
        for (owner, names) in written {
            let soa = record(owner, 1, &data(names));
            assert_eq!(serial(&[], &[&soa]), Some(7), "{owner:?} {names:?}");
        }
        // What is no SOA is nobody's business.
        let mut other = record(ZONE, 1, &[192, 0, 2, 1]);
        other[3] = 1;
        assert_eq!(serial(&[], &[&other, &record(ZONE, 1, &data(ROOTS))]), Some(7));
    }

    #[test]
    fn nothing_else_says_which_version_is_known() {
        let good = record(ZONE, 1, &data(ROOTS));
        assert_eq!(serial(&[], &[]), None, "none");
        assert_eq!(serial(&[&good], &[]), None, "in another section");
        assert_eq!(serial(&[], &[&good, &good]), None, "two");
        let owners: [&[u8]; 3] = [b"\x05other\xc0\x0c", &[0xc0, 0x14], &[0]];
        for owner in owners {
            assert_eq!(serial(&[], &[&record(owner, 1, &data(ROOTS))]), None, "{owner:?}");
            let both = [&record(owner, 1, &data(ROOTS))[..], &good];
            assert_eq!(serial(&[], &both), None, "{owner:?}");
        }
        assert_eq!(serial(&[], &[&record(ZONE, 3, &data(ROOTS))]), None, "of another class");
        let long = [data(ROOTS), vec![0]].concat();
        let rows: [&[u8]; 8] = [
            &[],
            &data(&[]),
            &data(&[0]),
            &data(&[0, 0, 0]),
            &data(&[0xc0, 0xff, 0]),
            &data(&[0xc0, 0, 0]),
            &data(&[0x40, 0, 0]),
            &long,
        ];
        for rdata in rows {
            assert_eq!(serial(&[], &[&record(ZONE, 1, rdata)]), None, "{rdata:?}");
        }
    }
}
