//! What a prober needs before the first probe, and whether the machine has it.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::config::monitors::{Monitor, Probe};
use crate::probe::connect::Sources;
use crate::probe::icmp;

/// The variables that name the certificate authorities in place of the system's.
const ROOT_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// Which groups may send echoes; for IPv6 too.
const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";

/// How probes are made.
#[derive(Clone, Debug, Default)]
pub struct ProberSettings {
    /// The addresses that probes come from: at most one of each family.
    pub source: Vec<IpAddr>,
    /// Certificate authorities beside the system's, in DER.
    pub extra_roots: Vec<Vec<u8>>,
}

/// Why nothing can be probed as configured.
#[derive(Debug, thiserror::Error)]
pub enum ProberError {
    /// Two source addresses of one family.
    #[error(
        "probe_source has two addresses of one family, {0} and {1}: give at most one of IPv4 and one of IPv6"
    )]
    TwoSources(IpAddr, IpAddr),
    /// A source address cannot be used.
    #[error(
        "cannot probe from {address}: {error}; give an address of this machine under probe_source, or leave it out"
    )]
    Source {
        /// The address.
        address: IpAddr,
        /// What the system says.
        error: io::Error,
    },
    /// Echoes are not allowed.
    #[error(
        "there are monitors of the type icmp, and the system does not let this process send echoes over {family}: {error}; allow its group to, as root: sysctl -w net.ipv4.ping_group_range=\"0 2147483647\" (it is \"{groups}\" now)"
    )]
    Ping {
        /// IPv4 or IPv6.
        family: &'static str,
        /// The groups that are allowed now.
        groups: String,
        /// What the system says.
        error: io::Error,
    },
    /// The authorities cannot be read.
    #[error("the certificate authorities that {variable} names cannot be read: {error}")]
    Roots {
        /// The environment's variable.
        variable: &'static str,
        /// What is wrong.
        error: String,
    },
    /// A given authority is no certificate.
    #[error("a certificate authority is not usable: {0}")]
    ExtraRoot(String),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// The source addresses, one a family, each tried once.
pub(super) fn sources(addresses: &[IpAddr]) -> Result<Sources, ProberError> {
    let mut sources = Sources::default();
    for &address in addresses {
        let place = sources.of_family_mut(address);
        if let Some(other) = *place {
            return Err(ProberError::TwoSources(other, address));
        }
        UdpSocket::bind((address, 0)).map_err(|error| ProberError::Source { address, error })?;
        *place = Some(address);
    }
    Ok(sources)
}

/// Whether echoes can be sent, by the families that the machine has.
pub(super) fn check_ping(sources: &Sources) -> Result<(), ProberError> {
    let families =
        [("IPv4", IpAddr::from(Ipv4Addr::LOCALHOST)), ("IPv6", IpAddr::from(Ipv6Addr::LOCALHOST))];
    for (family, address) in families {
        match icmp::open(sources, address) {
            Ok(_socket) => {}
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
            Err(error) => {
                let groups = fs::read_to_string(PING_GROUPS).unwrap_or_default();
                let groups = groups.split_whitespace().collect::<Vec<_>>().join(" ");
                return Err(ProberError::Ping { family, groups, error });
            }
        }
    }
    Ok(())
}

/// The authorities that certificates are checked with, if any of the monitors checks them.
///
/// They are the system's, or those that the environment names. A machine without any (a container
/// with nothing else in it) gets Mozilla's, which come with the program.
pub(super) fn roots(
    settings: &ProberSettings,
    monitors: &[Monitor],
) -> Result<RootCertStore, ProberError> {
    let mut roots = RootCertStore::empty();
    for root in &settings.extra_roots {
        roots
            .add(CertificateDer::from_slice(root).into_owned())
            .map_err(|error| ProberError::ExtraRoot(error.to_string()))?;
    }
    if !monitors.iter().any(checks_certificates) {
        return Ok(roots);
    }
    let native = rustls_native_certs::load_native_certs();
    let named = ROOT_VARIABLES.into_iter().find(|&variable| std::env::var_os(variable).is_some());
    // Of the system's own a few may be broken; what somebody named must be good.
    if let (Some(variable), Some(error)) = (named, native.errors.first()) {
        return Err(ProberError::Roots { variable, error: error.to_string() });
    }
    let (usable, _ignored) = roots.add_parsable_certificates(native.certs);
    match named {
        Some(variable) if usable == 0 => {
            let error = "there is no certificate in them".to_owned();
            return Err(ProberError::Roots { variable, error });
        }
        None if usable == 0 => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        _ => {}
    }
    Ok(roots)
}

fn checks_certificates(monitor: &Monitor) -> bool {
    match &monitor.probe {
        // A redirect may lead from HTTP to HTTPS.
        Probe::Http(http) => match &http.tls {
            Some(tls) => tls.verify,
            None => http.follow_redirects,
        },
        Probe::Tls { tls, .. } => tls.verify,
        _ => false,
    }
}
