//! Resource records as the zone and the answer hold them: type and TTL as numbers, RDATA as the
//! octets that go on the wire.

use std::fmt;
use std::sync::Arc;

use crate::name::Name;

/// A record type (RFC 1035 section 3.2.2 and the IANA registry), unknown ones included (RFC 3597).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordType(pub u16);

macro_rules! record_types {
    ($($name:ident = $code:literal),* $(,)?) => {
        impl RecordType {
            $(#[doc = concat!("The type ", stringify!($name), ".")] pub const $name: Self = Self($code);)*

            /// The mnemonic; none for types that are written `TYPE65400`.
            pub fn mnemonic(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Reads a mnemonic or `TYPE65400` (RFC 3597 section 5), in any case.
            pub fn parse(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case(stringify!($name)) { return Some(Self($code)); })*
                let (prefix, digits) = text.split_at_checked(4)?;
                let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                if prefix.eq_ignore_ascii_case("TYPE") && plain {
                    digits.parse().ok().map(Self)
                } else {
                    None
                }
            }
        }
    };
}

record_types! {
    A = 1, NS = 2, CNAME = 5, SOA = 6, NULL = 10, PTR = 12, HINFO = 13, MINFO = 14, MX = 15, TXT = 16,
    RP = 17, AFSDB = 18, SIG = 24, KEY = 25, AAAA = 28, LOC = 29, SRV = 33, NAPTR = 35, KX = 36,
    CERT = 37, DNAME = 39, OPT = 41, APL = 42, DS = 43, SSHFP = 44, IPSECKEY = 45, RRSIG = 46,
    NSEC = 47, DNSKEY = 48, DHCID = 49, NSEC3 = 50, NSEC3PARAM = 51, TLSA = 52, SMIMEA = 53,
    HIP = 55, CDS = 59, CDNSKEY = 60, OPENPGPKEY = 61, CSYNC = 62, ZONEMD = 63, SVCB = 64,
    HTTPS = 65, SPF = 99, TKEY = 249, TSIG = 250, IXFR = 251, AXFR = 252, MAILB = 253,
    MAILA = 254, ANY = 255, URI = 256, CAA = 257,
}

impl RecordType {
    /// True for types that stand in queries or messages only and are never data of a zone:
    /// OPT, and the meta and query types 128 to 255 (RFC 6895 section 3.1).
    pub fn is_meta(self) -> bool {
        self == Self::OPT || (128..=255).contains(&self.0) || self.0 == 0
    }

    /// True for A, AAAA and CNAME: the types that a load balancer's name owns (config.md).
    pub fn is_steered(self) -> bool {
        matches!(self, Self::A | Self::AAAA | Self::CNAME)
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic() {
            Some(mnemonic) => f.write_str(mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

impl fmt::Debug for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A time to live in seconds, at most 2^31 - 1 (RFC 2181 section 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The largest TTL (RFC 2181 section 8).
    pub const MAX: u32 = 0x7fff_ffff;

    /// A TTL of so many seconds; none above [`Ttl::MAX`].
    pub fn new(seconds: u32) -> Option<Self> {
        (seconds <= Self::MAX).then_some(Self(seconds))
    }

    /// A TTL of so many seconds; values above [`Ttl::MAX`] become it.
    pub const fn saturating(seconds: u32) -> Self {
        Self(if seconds > Self::MAX { Self::MAX } else { seconds })
    }

    /// The number of seconds.
    pub fn seconds(self) -> u32 {
        self.0
    }
}

/// The RDATA of one record: its octets on the wire, names in it uncompressed.
pub type Rdata = Arc<[u8]>;

/// The records of one owner name and type: one TTL, at least one record (RFC 2181 section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrSet {
    /// The type of all its records.
    pub record_type: RecordType,
    /// The TTL of all its records.
    pub ttl: Ttl,
    /// The RDATA of each record, no two equal.
    pub rdata: Vec<Rdata>,
}

/// One record as a source gave it, before the records of a zone are sorted into sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner name.
    pub owner: Name,
    /// The type.
    pub record_type: RecordType,
    /// The TTL.
    pub ttl: Ttl,
    /// The data.
    pub rdata: Rdata,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_and_written_by_mnemonic_or_number() {
        assert_eq!(RecordType::parse("aaaa"), Some(RecordType::AAAA));
        assert_eq!(RecordType::parse("TYPE65400"), Some(RecordType(65400)));
        assert_eq!(RecordType::parse("type1"), Some(RecordType::A));
        for wrong in ["TYPE", "TYPE65536", "TYPE+1", "AA", ""] {
            assert_eq!(RecordType::parse(wrong), None, "{wrong}");
        }
        assert_eq!(RecordType(65400).to_string(), "TYPE65400");
        assert_eq!(RecordType::HTTPS.to_string(), "HTTPS");
    }

    #[test]
    fn a_ttl_has_31_bits() {
        assert!(Ttl::new(Ttl::MAX).is_some());
        assert!(Ttl::new(Ttl::MAX + 1).is_none());
        assert_eq!(Ttl::saturating(u32::MAX).seconds(), Ttl::MAX);
    }
}
