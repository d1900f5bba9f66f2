//! Who asks: a resolver, or a client whose subnet a resolver passes on.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::query::ClientSubnet;
use crate::respond::Client;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A query from this address, without a client subnet.
    Address(IpAddr),
    /// A client subnet, from this resolver, or from one without a location.
    Subnet(IpNet, Option<IpAddr>),
}

/// A client as it is written: IP or IP/LEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientText {
    /// IP.
    Address(IpAddr),
    /// IP/LEN.
    Subnet(IpNet),
}

impl FromStr for ClientText {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "give an address, as 192.0.2.1, or a subnet, as 192.0.2.0/24";
        if text.contains('/') {
            text.parse().map(|subnet: IpNet| Self::Subnet(subnet.trunc())).map_err(|_| wrong)
        } else {
            text.parse().map(Self::Address).map_err(|_| wrong)
        }
    }
}

impl Asker {
    /// A client, and the resolver that it asks.
    ///
    /// # Errors
    /// What is wrong, if the client is an address: that is the resolver then.
    pub fn new(client: ClientText, resolver: Option<IpAddr>) -> Result<Self, &'static str> {
        match (client, resolver) {
            (ClientText::Subnet(subnet), resolver) => Ok(Self::Subnet(subnet, resolver)),
            (ClientText::Address(ip), None) => Ok(Self::Address(ip)),
            (ClientText::Address(_), Some(_)) => {
                Err("a resolver goes with a client IP/LEN: an address alone is the resolver")
            }
        }
    }

    pub(super) fn client(self) -> Client {
        match self {
            Self::Address(ip) => Client { resolver: Some(ip), subnet: None },
            Self::Subnet(subnet, resolver) => {
                let source_prefix = subnet.prefix_len();
                let address = Some(subnet.addr());
                Client { resolver, subnet: Some(ClientSubnet { address, source_prefix }) }
            }
        }
    }
}
