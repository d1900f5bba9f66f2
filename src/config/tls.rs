//! `[tls]`: the certificate, and where DNS is answered over TLS and HTTPS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::config::reader::{Place, Table};
use crate::config::server::listen_address;

/// The path of DNS over HTTPS where none is given (RFC 8484 section 4.1).
pub const DEFAULT_DOH_PATH: &str = "/dns-query";

/// The table `[tls]`.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The file with the certificate and those that lead from it to an authority, in PEM.
    pub cert: (PathBuf, Place),
    /// The file with its private key, in PEM.
    pub key: (PathBuf, Place),
    /// Where DNS is answered over TLS (RFC 7858).
    pub dot: Vec<SocketAddr>,
    /// Where DNS is answered over HTTPS (RFC 8484).
    pub doh: Vec<SocketAddr>,
    /// The path of DNS over HTTPS.
    pub doh_path: String,
}

impl Tls {
    /// Reads the table; paths in it are relative to `folder`. None if the certificate is missing.
    pub(super) fn parse(table: &Table<'_, '_>, folder: &Path) -> Option<Self> {
        let file = |key, help| {
            let value = table.required(key, help)?;
            Some((folder.join(value.string("a path")?), value.place()))
        };
        let cert = file("cert", "give the file with the certificate chain in PEM");
        let key = file("key", "give the file with the private key in PEM");
        let addresses = |key| -> Vec<SocketAddr> {
            let value = table.optional(key);
            value.iter().flat_map(|v| v.one_or_list()).filter_map(|v| listen_address(&v)).collect()
        };
        let (dot, doh) = (addresses("dot"), addresses("doh"));
        let doh_path = table.optional("doh_path").and_then(|value| {
            let path = value.string("a path")?;
            let is_path = path.starts_with('/')
                && path.bytes().all(|octet| octet.is_ascii_graphic() && !b"?#%{}".contains(&octet));
            if !is_path {
                value.error(format!("{path:?} is not a path"), "give one as \"/dns-query\"");
            }
            is_path.then(|| path.to_owned())
        });
        table.not_offered(&["doq"]);
        table.finish();
        let doh_path = doh_path.unwrap_or_else(|| DEFAULT_DOH_PATH.to_owned());
        Some(Self { cert: cert?, key: key?, dot, doh, doh_path })
    }
}

/// A certificate with its key, ready to be shown.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<CertifiedKey>);

/// Why files are no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate's file has none.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// It cannot be read.
    #[error("it is not PEM: {0}")]
    NotPem(String),
    /// The key cannot be used, or is that of another certificate.
    #[error("the key does not go with the certificate: {0}")]
    Key(String),
}

impl Certificate {
    /// Reads a chain of certificates in PEM.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(|error| CertificateError::NotPem(error.to_string()))?;
        if chain.is_empty() { Err(CertificateError::NoCertificate) } else { Ok(chain) }
    }

    /// A chain with its key in PEM.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn new(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<Self, CertificateError> {
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| CertificateError::NotPem(error.to_string()))?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let certified = certified.map_err(|error| CertificateError::Key(error.to_string()))?;
        Ok(Self(Arc::new(certified)))
    }

    /// What rustls shows to clients.
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.0
    }
}
