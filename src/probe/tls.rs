//! TLS towards a probed address. The configurations are made once; a probe picks one.
//!
//! Sessions are not resumed: a resumed session shows no certificate, and to see that the certificate
//! is still good is what these probes are for.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use crate::probe::Deadline;
use crate::probe::certificate::{CertificateCheck, Extent};
use crate::probe::failure::{Failure, Stage, plain};

/// HTTP/2 and HTTP/1.1, as ALPN calls them (RFC 7301).
pub(super) const H2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// The protocols that are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alpn {
    /// None.
    None,
    /// HTTP of either version.
    Http,
}

/// The name that a server is asked for and its certificate is checked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedName {
    name: ServerName<'static>,
    is_checked: bool,
}

impl ExpectedName {
    /// The host of `name`, which may have a port. Without a name none is sent and none is checked.
    pub(super) fn new(name: Option<&str>, address: IpAddr) -> Result<Self, Failure> {
        let Some(text) = name else {
            // TLS sends no address as a server name (RFC 6066 section 3).
            return Ok(Self { name: ServerName::from(address), is_checked: false });
        };
        let host = host_of(text);
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_error| {
            Failure::Request(format!("{:?} is no name for a certificate", plain(host)))
        })?;
        Ok(Self { name, is_checked: true })
    }
}

/// The host of an authority, without port and brackets.
pub(super) fn host_of(authority: &str) -> &str {
    let without_port = match authority.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => authority,
        Some((host, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => host,
        _ => authority,
    };
    without_port.trim_start_matches('[').trim_end_matches([']', '.'])
}

/// The client configurations: for each extent of the check, and with and without ALPN.
#[derive(Debug)]
pub(super) struct TlsClients {
    configurations: Vec<(Extent, Alpn, Arc<ClientConfig>)>,
}

impl TlsClients {
    /// Prepares them for these authorities.
    pub(super) fn new(roots: RootCertStore) -> Result<Self, Error> {
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let mut configurations = Vec::new();
        for extent in [Extent::Name, Extent::Chain, Extent::Nothing] {
            for alpn in [Alpn::None, Alpn::Http] {
                let configuration = configuration(extent, alpn, &roots, &provider)?;
                configurations.push((extent, alpn, Arc::new(configuration)));
            }
        }
        Ok(Self { configurations })
    }

    /// Makes the handshake over a connection.
    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
        verify: bool,
        expected: &ExpectedName,
        alpn: Alpn,
        deadline: Deadline,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let wanted = match (verify, expected.is_checked) {
            (true, true) => Extent::Name,
            (true, false) => Extent::Chain,
            (false, _) => Extent::Nothing,
        };
        let mut configurations = self.configurations.iter();
        let found =
            configurations.find(|(extent, offered, _)| (*extent, *offered) == (wanted, alpn));
        let Some((_, _, configuration)) = found else {
            return Err(Failure::Tls("there is no configuration for it".to_owned()));
        };
        let connector = TlsConnector::from(Arc::clone(configuration));
        let handshake = connector.connect(expected.name.clone(), stream);
        let shaken = deadline.within(Stage::Handshake, handshake).await?;
        shaken.map_err(|error| match Failure::of_stream(&error) {
            Failure::Closed => {
                Failure::Tls("the server closed the connection in the handshake".to_owned())
            }
            failure => failure,
        })
    }
}

fn configuration(
    extent: Extent,
    alpn: Alpn,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientConfig, Error> {
    let check = CertificateCheck::new(extent, Arc::clone(roots), provider);
    let mut configuration = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(check))
        .with_no_client_auth();
    configuration.resumption = Resumption::disabled();
    if alpn == Alpn::Http {
        configuration.alpn_protocols = vec![H2.to_vec(), HTTP_1.to_vec()];
    }
    Ok(configuration)
}

/// Says goodbye, so that the server does not log a broken connection. It does not matter whether the
/// server hears it.
pub(super) async fn close(mut stream: TlsStream<TcpStream>) {
    _ = tokio::time::timeout(std::time::Duration::ZERO, stream.shutdown()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_without_port_brackets_and_final_dot() {
        let cases = [
            ("www.example", "www.example"),
            ("www.example:8443", "www.example"),
            ("www.example.", "www.example"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
        ];
        for (authority, host) in cases {
            assert_eq!(host_of(authority), host, "{authority}");
        }
    }
}
