//! How far a certificate is checked, and in which words it is refused.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::probe::failure::{Failure, plain};

/// What of a certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Chain, expiry and name.
    Name,
    /// Chain and expiry: there is no name to compare.
    Chain,
    /// Nothing; the handshake must be valid for whatever certificate is shown.
    Nothing,
}

/// A check of that extent, with rustls' own functions.
#[derive(Debug)]
pub(super) struct CertificateCheck {
    extent: Extent,
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl CertificateCheck {
    /// A check against these authorities.
    pub(super) fn new(
        extent: Extent,
        roots: Arc<RootCertStore>,
        provider: &CryptoProvider,
    ) -> Self {
        Self { extent, roots, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for CertificateCheck {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.extent == Extent::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        if self.extent == Extent::Name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Why TLS failed, in plain words.
pub(super) fn failure(error: &Error) -> Failure {
    let words = match error {
        Error::InvalidCertificate(error) => return Failure::Certificate(refusal(error)),
        Error::InvalidMessage(_) => "the server does not speak TLS on this port".to_owned(),
        Error::AlertReceived(alert) => {
            format!("the server ended the handshake: {}", spaced(&format!("{alert:?}")))
        }
        Error::PeerIncompatible(_) => {
            "the server offers neither TLS 1.2 nor TLS 1.3 with a known cipher suite".to_owned()
        }
        Error::NoCertificatesPresented => "the server shows no certificate".to_owned(),
        other => other.to_string(),
    };
    Failure::Tls(plain(&words))
}

/// `HandshakeFailure` as "handshake failure".
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn refusal(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "certificate expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("certificate expired on {}", date(*not_after))
        }
        CertificateError::NotValidYet => "certificate not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("certificate not valid before {}", date(*not_before))
        }
        CertificateError::NotValidForName => {
            "the certificate is for another name than the expected one".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| plain(bare_name(name))).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            plain(&format!("the certificate is for {names}, not for {}", expected.to_str()))
        }
        CertificateError::UnknownIssuer => "unknown certificate authority".to_owned(),
        CertificateError::Revoked => "the certificate is revoked".to_owned(),
        CertificateError::BadSignature => "the certificate's signature is wrong".to_owned(),
        CertificateError::BadEncoding => "the certificate cannot be read".to_owned(),
        other => plain(&format!("the certificate is not accepted: {other}")),
    }
}

/// The name in `DnsName("a.example")`, as rustls shows those of a certificate.
fn bare_name(shown: &str) -> &str {
    let inner = shown.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(shown).trim_matches('"')
}

/// The day of a time, in UTC.
fn date(time: UnixTime) -> String {
    let days = time.as_secs() / 86_400;
    // Years begin in March here, so that the leap day is the last; an era has 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_793_491_200, "2026-11-01"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
        ];
        for (seconds, day) in cases {
            assert_eq!(date(UnixTime::since_unix_epoch(Duration::from_secs(seconds))), day);
        }
    }

    #[test]
    fn names_are_shown_bare() {
        assert_eq!(spaced("HandshakeFailure"), "handshake failure");
        assert_eq!(bare_name("DnsName(\"a.example\")"), "a.example");
        assert_eq!(bare_name("IpAddress(192.0.2.1)"), "192.0.2.1");
        assert_eq!(bare_name("a.example"), "a.example");
    }
}
