//! TLS towards clients. The certificate is looked up for each handshake, so that a reload replaces it
//! for the connections that come after.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, ServerConfig};

use crate::config::tls::Certificate;
use crate::serve::expiry::expires_at;

/// The certificate of the moment.
#[derive(Debug)]
pub struct CurrentCertificate {
    certified: ArcSwap<CertifiedKey>,
}

impl CurrentCertificate {
    /// Begins with a certificate.
    pub fn new(certificate: &Certificate) -> Self {
        Self { certified: ArcSwap::new(Arc::clone(certificate.certified())) }
    }

    /// Replaces it.
    pub fn replace(&self, certificate: &Certificate) {
        self.certified.store(Arc::clone(certificate.certified()));
    }

    /// When it expires, in seconds since 1970; none if that cannot be told.
    pub fn expires_at(&self) -> Option<u64> {
        let certified = self.certified.load();
        expires_at(certified.cert.first()?)
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified.load_full())
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
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(certificate) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
