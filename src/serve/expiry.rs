//! When a certificate expires, read from its DER (RFC 5280 section 4.1.2.5). Nothing in the tree tells it:
//! rustls checks times without showing them.

use crate::timestamp::parse_time;

/// The tags of what is passed on the way.
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// When a certificate expires, in seconds since 1970; none if that cannot be read.
pub fn expires_at(der: &[u8]) -> Option<u64> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    // The version is left out in version 1.
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    // Serial number, algorithm, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, rest) = element(rest, tag)?;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, not_after) = time(validity)?;
    let (expiry, _) = time(not_after)?;
    expiry
}

/// The time at the start, if it can be told, and what follows it.
fn time(der: &[u8]) -> Option<(Option<u64>, &[u8])> {
    if let Some((text, rest)) = element(der, UTC_TIME) {
        let text = std::str::from_utf8(text).ok()?;
        // "Where YY is greater than or equal to 50, the year SHALL be interpreted as 19YY."
        let century = if text.as_bytes().first()? < &b'5' { "20" } else { "19" };
        return Some((seconds(&format!("{century}{text}")), rest));
    }
    let (text, rest) = element(der, GENERALIZED_TIME)?;
    Some((seconds(std::str::from_utf8(text).ok()?), rest))
}

/// Reads YYYYMMDDHHMMSSZ.
fn seconds(text: &str) -> Option<u64> {
    let part = |from, to| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, rest) = (part(8, 10)?, part(10, 12)?, part(12, text.len())?);
    parse_time(&format!("{year}-{month}-{day}T{hour}:{minute}:{rest}"))
}

/// The content of the element at the start, if it has this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], mut rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let (octets, after) = rest.split_at_checked(usize::from(first & 0x7f).min(5))?;
        length = octets.iter().try_fold(0usize, |length, &octet| {
            length.checked_mul(256).map(|length| length + usize::from(octet))
        })?;
        rest = after;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn certificate(year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["ns.example.test".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 11, 30);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_expiry_is_read_in_both_forms() {
        // The second is beyond what two digits can tell.
        for (year, seconds) in [(2026, 1_795_996_800), (2051, 2_584_915_200)] {
            assert_eq!(expires_at(&certificate(year)), Some(seconds), "{year}");
        }
    }

    proptest! {
        #[test]
        fn what_is_no_certificate_is_not_read(at in 0usize..400, octet: u8, length in 0usize..400) {
            let mut der = certificate(2026);
            der[at % 300] = octet;
            let _whatever = expires_at(&der);
            let _nothing = expires_at(&der[..length.min(der.len())]);
        }
    }
}
