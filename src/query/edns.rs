//! The EDNS of a query: its options, each as its RFC has it (RFC 6891, 7828, 7830, 7871, 7873).

#![deny(clippy::indexing_slicing)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;

use crate::cookies::Cookie;
use crate::query::{MAX_UDP, PLAIN_UDP};

/// The EDNS option of the server's identifier (RFC 5001).
pub const OPTION_NSID: u16 = 3;
/// The EDNS option of the client subnet (RFC 7871).
pub const OPTION_CLIENT_SUBNET: u16 = 8;
/// The EDNS option of cookies (RFC 7873).
pub const OPTION_COOKIE: u16 = 10;
/// The EDNS option of the time that a connection may be idle (RFC 7828).
pub const OPTION_KEEPALIVE: u16 = 11;
/// The EDNS option of padding (RFC 7830).
pub const OPTION_PADDING: u16 = 12;
/// The EDNS option of extended errors (RFC 8914).
pub const OPTION_EXTENDED_ERROR: u16 = 15;

/// The octets of an option's code and length.
pub const OPTION: usize = 4;
/// The most octets of data that the option of a client subnet has.
pub const MAX_SUBNET: usize = 20;

/// The EDNS of a query (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The size of reply that the client takes over UDP.
    pub udp_size: u16,
    /// The version.
    pub version: u8,
    /// The DO bit (RFC 3225).
    pub dnssec_ok: bool,
    /// The client subnet (RFC 7871).
    pub client_subnet: Option<ClientSubnet>,
    /// The cookie (RFC 7873).
    pub cookie: Option<Cookie>,
    /// True if the server's identifier is asked for (RFC 5001).
    pub wants_nsid: bool,
    /// Whether the time that a connection may be idle is asked for (RFC 7828).
    pub keepalive: Keepalive,
    /// True if the query is padded (RFC 7830).
    pub is_padded: bool,
}

/// The keepalive option of a query. It has a meaning in streams only: elsewhere it is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keepalive {
    /// There is none.
    #[default]
    Absent,
    /// It is empty, as it must be.
    Asked,
    /// It has data.
    Malformed,
}

/// An EDNS Client Subnet option of a query (RFC 7871 section 6), valid and with scope 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    /// Where the client is; none in family 0, which goes with prefix 0 only.
    pub address: Option<IpAddr>,
    /// How many bits of the address are given.
    pub source_prefix: u8,
}

/// An option is malformed: FORMERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedOption;

impl Edns {
    /// EDNS of version 0 without options.
    pub fn new(udp_size: u16, dnssec_ok: bool) -> Self {
        Self {
            udp_size,
            version: 0,
            dnssec_ok,
            client_subnet: None,
            cookie: None,
            wants_nsid: false,
            keepalive: Keepalive::Absent,
            is_padded: false,
        }
    }

    /// Takes an option in; one that is not known is ignored.
    ///
    /// # Errors
    /// [`MalformedOption`].
    #[inline]
    pub fn take_option(&mut self, code: u16, data: &[u8]) -> Result<(), MalformedOption> {
        match code {
            OPTION_CLIENT_SUBNET => {
                let subnet = ClientSubnet::parse(data).ok_or(MalformedOption)?;
                if self.client_subnet.replace(subnet).is_some() {
                    return Err(MalformedOption);
                }
            }
            // Of several the first counts (RFC 7873 section 5.2).
            OPTION_COOKIE if self.cookie.is_none() => {
                self.cookie = Some(Cookie::parse(data).ok_or(MalformedOption)?);
            }
            OPTION_NSID => self.wants_nsid = true,
            OPTION_KEEPALIVE if data.is_empty() && self.keepalive == Keepalive::Absent => {
                self.keepalive = Keepalive::Asked;
            }
            OPTION_KEEPALIVE if !data.is_empty() => self.keepalive = Keepalive::Malformed,
            OPTION_PADDING => self.is_padded = true,
            _ => {}
        }
        Ok(())
    }

    /// Without its options.
    pub(super) fn bare(self) -> Self {
        Self { version: self.version, ..Self::new(self.udp_size, self.dnssec_ok) }
    }

    /// The largest reply over UDP that this client gets: its own size, 512 at least, and 1232 at
    /// most (RFC 6891 section 6.2.3, RFC 9715).
    pub fn reply_size(&self) -> u16 {
        self.udp_size.clamp(PLAIN_UDP, MAX_UDP)
    }
}

impl ClientSubnet {
    /// The address that locates the client; none if the client asks that its address is not used
    /// (source prefix 0, RFC 7871 section 7.1.2).
    pub fn locating_address(&self) -> Option<IpAddr> {
        self.address.filter(|_| self.source_prefix > 0)
    }

    /// Reads the option's data. None if it is malformed: another family, a prefix that is too long,
    /// an address of another length than the prefix needs, bits beyond the prefix, or a scope in a
    /// query.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let mut subnet = None;
        if Self::read(data, &mut subnet) { subnet } else { None }
    }

    /// The same in place; false if it is malformed.
    #[inline]
    pub fn read(data: &[u8], to: &mut Option<Self>) -> bool {
        let Some((&[0, family, source_prefix, 0], given)) = data.split_first_chunk::<4>() else {
            return false;
        };
        if given.len() != usize::from(source_prefix).div_ceil(8) {
            return false;
        }
        match family {
            1 if source_prefix <= 32 => {
                let bits = match *given {
                    [a, b, c] => u32::from(a) << 24 | u32::from(b) << 16 | u32::from(c) << 8,
                    _ => u32::from_be_bytes(padded(given)),
                };
                let address = Some(IpAddr::V4(Ipv4Addr::from_bits(bits)));
                *to = Some(Self { address, source_prefix });
                bits.unbounded_shl(source_prefix.into()) == 0
            }
            2 if source_prefix <= 128 => {
                let bits = u128::from_be_bytes(padded(given));
                let address = Some(IpAddr::V6(Ipv6Addr::from_bits(bits)));
                *to = Some(Self { address, source_prefix });
                bits.unbounded_shl(source_prefix.into()) == 0
            }
            0 if source_prefix == 0 => {
                *to = Some(Self { address: None, source_prefix });
                true
            }
            _ => false,
        }
    }

    /// The option's data for a reply with this scope prefix: family, source prefix and address as in
    /// the query (RFC 7871 section 7.2.1).
    pub fn reply(&self, scope_prefix: u8) -> ArrayVec<u8, MAX_SUBNET> {
        let mut option = [0; OPTION + MAX_SUBNET];
        let length = self.write_reply(scope_prefix, &mut option);
        let mut data = ArrayVec::new();
        data.extend(option.into_iter().take(length).skip(OPTION));
        data
    }

    /// Writes the same with the option's code and length before it; gives the length of the whole. What is
    /// behind that has no meaning.
    #[inline(always)]
    pub fn write_reply(&self, scope_prefix: u8, to: &mut [u8; OPTION + MAX_SUBNET]) -> usize {
        let Self { address, source_prefix } = self;
        let octets = source_prefix.div_ceil(8);
        let [code_high, code_low] = OPTION_CLIENT_SUBNET.to_be_bytes();
        let head =
            |family| [code_high, code_low, 0, 4 + octets, 0, family, *source_prefix, scope_prefix];
        let [to_head @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = to;
        match address {
            Some(IpAddr::V4(ip)) => {
                *to_head = head(1);
                let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = to;
                [*a, *b, *c, *d] = ip.octets();
            }
            Some(IpAddr::V6(ip)) => {
                *to_head = head(2);
                let (_, address) = to.split_at_mut(OPTION + 4);
                address.copy_from_slice(&ip.octets());
            }
            None => *to_head = head(0),
        }
        OPTION + 4 + usize::from(octets)
    }
}

/// Octets, filled up with zeros.
fn padded<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    for (to, from) in padded.iter_mut().zip(octets) {
        *to = *from;
    }
    padded
}
