//! `[admin]`: where the admin service listens, and the token that it asks for.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

use crate::config::reader::{Place, Table, Value};
use crate::config::server::listen_address;

/// The port of the admin service by default, on the loopback address.
pub const DEFAULT_ADMIN_PORT: u16 = 5380;
/// How many load balancers, pools and zones each have metrics of their own by default.
pub const DEFAULT_METRICS_LIMIT: usize = 1000;
/// The fewest characters of a token: what is shorter could be guessed.
pub const SHORTEST_TOKEN: usize = 16;
/// The most characters of a token: more do not fit a header that is accepted.
pub const LONGEST_TOKEN: usize = 1024;

/// The settings of the admin service. Without the table there is no service.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// The file with the token, and where it is named; without one nothing can be changed.
    pub token_file: Option<(PathBuf, Place)>,
    /// How many load balancers, pools and zones each have metrics of their own; of more there are sums.
    pub metrics_limit: usize,
}

impl Admin {
    /// Reads the table; paths are relative to `folder`.
    pub(super) fn parse(table: &Table<'_, '_>, folder: &Path) -> Self {
        let token_file = table
            .optional("token_file")
            .and_then(|value| Some((folder.join(value.string("a path")?), value.place())));
        let has_token = table.optional("token_file").is_some();
        let listen = match table.optional("listen") {
            None => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_ADMIN_PORT))],
            Some(value) => {
                if value.is_empty_list() {
                    let help = "give an \"address:port\", or remove [admin]";
                    value.error("nothing is listened on", help);
                }
                let values = value.one_or_list();
                values.iter().filter_map(|value| admin_address(value, has_token)).collect()
            }
        };
        let limit = table.optional("metrics_limit");
        let limit = limit.and_then(|value| value.integer(0..=1_000_000, "a number of each kind"));
        let metrics_limit = limit.and_then(|limit| usize::try_from(limit).ok());
        table.finish();
        Self { listen, token_file, metrics_limit: metrics_limit.unwrap_or(DEFAULT_METRICS_LIMIT) }
    }
}

fn admin_address(value: &Value<'_, '_>, has_token: bool) -> Option<SocketAddr> {
    let address = listen_address(value)?;
    if !has_token && !is_loopback(address) {
        value.error(
            format!("{address} can be reached from other machines, and there is no token_file"),
            "add token_file = \"admin.token\" with a secret of at least 16 characters in that \
             file, or listen on a loopback address, as \"127.0.0.1:5380\"",
        );
    }
    Some(address)
}

/// True if only this machine can reach the address: reading then needs no token.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The secret that a change needs.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is too short.
    #[error("the token has {0} characters, and could be guessed")]
    Short(usize),
    /// It is too long for a header.
    #[error("the token has {0} characters, and does not fit a header")]
    Long(usize),
    /// It has characters that a header cannot have.
    #[error("the token has a character that is not printable ASCII, or a space")]
    Unprintable,
}

impl Token {
    /// Takes the content of a token's file: white space around it does not count.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let token = text.trim_ascii();
        if !token.bytes().all(|octet| octet.is_ascii_graphic()) {
            return Err(TokenError::Unprintable);
        }
        match token.len() {
            length if length < SHORTEST_TOKEN => Err(TokenError::Short(length)),
            length if length > LONGEST_TOKEN => Err(TokenError::Long(length)),
            _ => Ok(Self(token.as_bytes().into())),
        }
    }

    /// True if this is the token. It takes as long for a wrong one, wherever that differs.
    pub fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

/// A secret is not shown.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_whole_and_not_shown() {
        let token = Token::parse("0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef\n"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn what_is_no_token_is_said() {
        let error = |text: &str| Token::parse(text).unwrap_err();
        assert_eq!(error(""), TokenError::Short(0));
        assert_eq!(error("0123456789abcde\n"), TokenError::Short(15));
        assert_eq!(error("0123456789 abcdef"), TokenError::Unprintable);
        assert_eq!(error("0123456789äabcdef"), TokenError::Unprintable);
        assert_eq!(error(&"x".repeat(1025)), TokenError::Long(1025));
    }

    #[test]
    fn loopback_is_told_from_the_rest() {
        let loopback = |text: &str| is_loopback(text.parse().unwrap());
        assert!(
            ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]
                .map(loopback)
                .iter()
                .all(|&is| is)
        );
        assert!(!["0.0.0.0:1", "[::]:1", "192.0.2.1:1"].map(loopback).iter().any(|&is| is));
    }
}
