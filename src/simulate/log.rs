//! A query log as text: a line a query, `client[/len] name [type]`.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::name::NameError;
use crate::query::ClientSubnet;
use crate::respond::Client;
use crate::rr::RecordType;
use crate::simulate::quoted::Quoted;

/// The most octets of a line that are read, its end included.
pub const MAX_LINE: usize = 64 * 1024;

/// One query of a log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedQuery<'l> {
    /// Who asks.
    pub client: Client,
    /// The name, as it is written.
    pub name: &'l str,
    /// The type.
    pub record_type: RecordType,
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Octets that are no text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// The first word is no address.
    #[error("{0} is not an address, as 192.0.2.1, or a subnet, as 192.0.2.0/24")]
    Client(Quoted),
    /// There is nothing behind the client.
    #[error("there is no name behind the client")]
    NoName,
    /// The third word is no type.
    #[error("{0} is not a record type, as A or AAAA")]
    Type(Quoted),
    /// There is more behind the type.
    #[error("there is more than a client, a name and a type")]
    More,
    /// The name is none.
    #[error("{0} is not a domain name: {1}")]
    Name(Quoted, NameError),
    /// It is longer than any query.
    #[error("it has more than {MAX_LINE} octets")]
    Long,
}

/// Reads a line; none for an empty one or a comment (`#`).
///
/// An address alone is a query from there; with a prefix length it is the client subnet of a query
/// from a resolver without a location. Where a load balancer goes by the resolver, it is that.
///
/// # Errors
/// [`LineError`] if it is no query.
pub fn parse_line(line: &[u8]) -> Result<Option<LoggedQuery<'_>>, LineError> {
    if line.len() > MAX_LINE {
        return Err(LineError::Long);
    }
    let line = std::str::from_utf8(line).map_err(|_| LineError::NotText)?;
    let mut words = line.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
    let Some(client_word) = words.next() else { return Ok(None) };
    let client =
        parse_client(client_word).ok_or_else(|| LineError::Client(Quoted::new(client_word)))?;
    let name = words.next().ok_or(LineError::NoName)?;
    let record_type = match words.next() {
        None => RecordType::A,
        Some(word) => RecordType::parse(word).ok_or_else(|| LineError::Type(Quoted::new(word)))?,
    };
    if words.next().is_some() {
        return Err(LineError::More);
    }
    Ok(Some(LoggedQuery { client, name, record_type }))
}

fn parse_client(word: &str) -> Option<Client> {
    if !word.contains('/') {
        let address: IpAddr = word.parse().ok()?;
        return Some(Client { resolver: Some(address), subnet: None });
    }
    let subnet = word.parse::<IpNet>().ok()?.trunc();
    let (address, source_prefix) = (subnet.addr(), subnet.prefix_len());
    let resolver = (source_prefix > 0).then_some(address);
    Some(Client { resolver, subnet: Some(ClientSubnet { address: Some(address), source_prefix }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_a_client_a_name_and_perhaps_a_type() {
        let query = |line: &'static str| parse_line(line.as_bytes()).unwrap().unwrap();
        let plain = query("192.0.2.1 www.example.com");
        assert_eq!((plain.name, plain.record_type), ("www.example.com", RecordType::A));
        assert_eq!(plain.client.resolver, Some("192.0.2.1".parse().unwrap()));
        let subnet = query("  2001:db8:1::7/48\twww.example.com. aaaa   # seen twice\r\n");
        assert_eq!((subnet.name, subnet.record_type), ("www.example.com.", RecordType::AAAA));
        let ecs = subnet.client.subnet.unwrap();
        assert_eq!((ecs.address, ecs.source_prefix), (Some("2001:db8:1::".parse().unwrap()), 48));
        assert_eq!(query("10.0.0.0/0 x").client.resolver, None);
        for nothing in ["", "  \t", "# 192.0.2.1 www.example.com", "#"] {
            assert!(parse_line(nothing.as_bytes()).unwrap().is_none(), "{nothing:?}");
        }
    }

    #[test]
    fn other_lines_are_refused_with_the_reason() {
        for (line, error) in [
            ("www.example.com A", LineError::Client(Quoted::new("www.example.com"))),
            ("192.0.2.0/33 www.example.com", LineError::Client(Quoted::new("192.0.2.0/33"))),
            ("192.0.2.1", LineError::NoName),
            ("192.0.2.1 # www", LineError::NoName),
            ("192.0.2.1 www.example.com IN", LineError::Type(Quoted::new("IN"))),
            ("192.0.2.1 www.example.com A +", LineError::More),
        ] {
            assert_eq!(parse_line(line.as_bytes()).unwrap_err(), error, "{line}");
        }
        assert_eq!(parse_line(&[b'x'; MAX_LINE + 1]).unwrap_err(), LineError::Long);
        assert_eq!(parse_line(b"192.0.2.1 \xff").unwrap_err(), LineError::NotText);
    }
}
