//! Monitors and probers for the tests.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use meridian::config::monitors::{HttpProbe, Monitor, Probe, TlsCheck};
use meridian::probe::{Failure, Prober, ProberSettings, Success};

/// Where the servers are.
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A monitor whose timeout is not meant to be met.
pub(crate) fn monitor(probe: Probe) -> Monitor {
    let second = Duration::from_secs(1);
    Monitor {
        name: "test".to_owned(),
        zone: None,
        probe,
        interval: 60 * second,
        timeout: 20 * second,
        rise: 2,
        fall: 3,
        max_age: 300 * second,
        flap_threshold: None,
        flap_window: 600 * second,
    }
}

/// A monitor whose timeout is.
pub(crate) fn impatient(probe: Probe) -> Monitor {
    Monitor { timeout: Duration::from_millis(300), ..monitor(probe) }
}

/// `GET /` by HTTP with all defaults.
pub(crate) fn http(port: u16) -> HttpProbe {
    HttpProbe {
        tls: None,
        port,
        path: "/".to_owned(),
        method: "GET".to_owned(),
        host: None,
        headers: Vec::new(),
        expected_codes: vec![(200, 299)],
        expected_body: None,
        follow_redirects: false,
    }
}

/// `GET /` by HTTPS, the certificate checked for a name if there is one.
pub(crate) fn https(port: u16, name: Option<&str>) -> HttpProbe {
    HttpProbe { tls: Some(check(name)), ..http(port) }
}

/// A full check.
pub(crate) fn check(name: Option<&str>) -> TlsCheck {
    TlsCheck { verify: true, server_name: name.map(str::to_owned) }
}

/// A prober without anything special.
pub(crate) fn prober() -> Prober {
    Prober::new(&ProberSettings::default(), &[]).expect("a prober")
}

/// A prober that knows an authority.
pub(crate) fn prober_with_root(root: &[u8]) -> Prober {
    let settings = ProberSettings { extra_roots: vec![root.to_vec()], ..Default::default() };
    Prober::new(&settings, &[]).expect("a prober")
}

/// Probes the loopback address; the result of a failure is its words.
pub(crate) async fn probe(monitor: &Monitor) -> Result<Success, String> {
    probe_with(&prober(), monitor).await
}

/// Likewise with a prober of one's own.
pub(crate) async fn probe_with(prober: &Prober, monitor: &Monitor) -> Result<Success, String> {
    prober.probe(monitor, LOOPBACK, None).await.map_err(|failure: Failure| failure.to_string())
}

/// Probes by HTTP.
pub(crate) async fn probe_http(http: HttpProbe) -> Result<Success, String> {
    probe(&monitor(Probe::Http(Box::new(http)))).await
}

/// The words of a failure.
pub(crate) fn words(result: Result<Success, String>) -> String {
    result.expect_err("a failure")
}
