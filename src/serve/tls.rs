//! TLS towards clients, over TCP and in QUIC. The certificate is looked up for each handshake, so that a
//! reload replaces it for the connections that come after.

use std::sync::Arc;

use arc_swap::ArcSwap;
use quinn::crypto::rustls::QuicServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{Error, ServerConfig, SupportedProtocolVersion};

use crate::config::tls::Certificate;

/// The certificate of the moment.
#[derive(Debug)]
pub struct CurrentCertificate {
    certificate: ArcSwap<Certificate>,
}

impl CurrentCertificate {
    /// Begins with a certificate.
    pub fn new(certificate: &Certificate) -> Self {
        Self { certificate: ArcSwap::from_pointee(certificate.clone()) }
    }

    /// Replaces it.
    pub fn replace(&self, certificate: &Certificate) {
        self.certificate.store(Arc::new(certificate.clone()));
    }

    /// Until when each certificate of the chain that is shown now is valid, in Unix seconds; that of the
    /// server is the first.
    pub fn not_after(&self) -> Arc<[i64]> {
        Arc::clone(self.certificate.load().not_after())
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.certificate.load().certified()))
    }
}

/// What makes TLS of accepted connections, for one of these application protocols (RFC 7301).
///
/// # Errors
/// What rustls says.
pub fn acceptor(
    certificate: &Arc<CurrentCertificate>,
    protocols: &[&[u8]],
) -> Result<TlsAcceptor, Error> {
    let config = config(certificate, protocols, &[&TLS13, &TLS12])?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The cryptography of QUIC (RFC 9001), for one application protocol. There is no early data: a replay of
/// it would be answered, too.
///
/// # Errors
/// What rustls says.
pub fn quic(
    certificate: &Arc<CurrentCertificate>,
    protocol: &[u8],
) -> Result<QuicServerConfig, Error> {
    let config = config(certificate, &[protocol], &[&TLS13])?;
    QuicServerConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
}

fn config(
    certificate: &Arc<CurrentCertificate>,
    protocols: &[&[u8]],
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(certificate) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.max_early_data_size = 0;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn what_replaces_a_certificate_tells_until_when_it_is_valid() {
        let until = |year| {
            let key = KeyPair::generate().unwrap();
            let mut parameters = CertificateParams::new(["dns.example.test".to_owned()]).unwrap();
            parameters.not_after = date_time_ymd(year, 1, 1);
            let chain = vec![parameters.self_signed(&key).unwrap().der().clone()];
            let key = data_encoding::BASE64_MIME.encode(&key.serialize_der());
            let key = format!("-----BEGIN PRIVATE KEY-----\n{key}-----END PRIVATE KEY-----\n");
            Certificate::new(chain, key.as_bytes()).unwrap()
        };
        let current = CurrentCertificate::new(&until(2030));
        assert_eq!(current.not_after()[..], [1_893_456_000]);
        current.replace(&until(2031));
        assert_eq!(current.not_after()[..], [1_924_992_000]);
    }
}
