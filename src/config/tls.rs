//! `[tls]`: the certificate, and where DNS is answered over TLS, HTTPS and QUIC.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::config::reader::{Place, Table, Value};
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
    /// Whether DNS over HTTPS is offered over HTTP/3 too, on the UDP ports of `doh`.
    pub doh3: bool,
    /// Where DNS is answered over QUIC (RFC 9250).
    pub doq: Vec<SocketAddr>,
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
        let doh3 = table.optional("doh3").and_then(|value| value.boolean()).unwrap_or(true);
        let quic = |value: Value<'_, '_>| {
            let address = listen_address(&value)?;
            if doh3 && address.port() != 0 && doh.contains(&address) {
                let help = "give another port, or doh3 = false";
                value.error("HTTP/3 has this address, as one of tls.doh", help);
            }
            Some(address)
        };
        let doq = table.optional("doq");
        let doq = doq.iter().flat_map(|value| value.one_or_list()).filter_map(quic).collect();
        let doh_path = table.optional("doh_path").and_then(|value| {
            let path = value.string("a path")?;
            let is_path = path.starts_with('/')
                && path.bytes().all(|octet| octet.is_ascii_graphic() && !b"?#%{}".contains(&octet));
            if !is_path {
                value.error(format!("{path:?} is not a path"), "give one as \"/dns-query\"");
            }
            is_path.then(|| path.to_owned())
        });
        table.finish();
        let doh_path = doh_path.unwrap_or_else(|| DEFAULT_DOH_PATH.to_owned());
        Some(Self { cert: cert?, key: key?, dot, doh, doh_path, doh3, doq })
    }
}

/// A certificate with its key, ready to be shown.
#[derive(Clone, Debug)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    not_after: Arc<[i64]>,
}

/// Why files are no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate's file has none.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// It cannot be read.
    #[error("it is not PEM: {0}")]
    NotPem(String),
    /// What is in the PEM is not a certificate.
    #[error("what it holds is not an X.509 certificate: {0}")]
    NotX509(String),
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
        chain.iter().try_for_each(|certificate| not_after(certificate).map(drop))?;
        if chain.is_empty() { Err(CertificateError::NoCertificate) } else { Ok(chain) }
    }

    /// A chain with its key in PEM.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn new(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<Self, CertificateError> {
        let not_after = chain.iter().map(not_after).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| CertificateError::NotPem(error.to_string()))?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let certified = certified.map_err(|error| CertificateError::Key(error.to_string()))?;
        Ok(Self { certified: Arc::new(certified), not_after })
    }

    /// What rustls shows to clients.
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Until when each certificate of the chain is valid, in Unix seconds; that of the server is the first.
    pub fn not_after(&self) -> &Arc<[i64]> {
        &self.not_after
    }
}

/// Until when a certificate is valid, in Unix seconds.
fn not_after(certificate: &CertificateDer<'_>) -> Result<i64, CertificateError> {
    let parsed = X509Certificate::from_der(certificate);
    let (_, parsed) = parsed.map_err(|error| CertificateError::NotX509(error.to_string()))?;
    Ok(parsed.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn each_certificate_of_a_chain_tells_until_when_it_is_valid() {
        let until = |year| {
            let key = KeyPair::generate().unwrap();
            let mut parameters = CertificateParams::new(["dns.example.test".to_owned()]).unwrap();
            parameters.not_after = date_time_ymd(year, 1, 1);
            (parameters.self_signed(&key).unwrap().der().clone(), key)
        };
        // 2030 is within UTCTime; 2051 is not, and in GeneralizedTime (RFC 5280 section 4.1.2.5).
        let ((own, key), (authority, _)) = (until(2030), until(2051));
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n",
            data_encoding::BASE64_MIME.encode(&key.serialize_der())
        );
        let certificate = Certificate::new(vec![own, authority], pem.as_bytes()).unwrap();
        assert_eq!(certificate.not_after()[..], [1_893_456_000, 2_556_144_000]);
        let scrap = CertificateDer::from(vec![0x30, 0x03, 1, 2, 3]);
        let error = Certificate::new(vec![scrap], pem.as_bytes()).unwrap_err();
        assert!(matches!(error, CertificateError::NotX509(_)), "{error}");
    }
}
