//! HTTPS and TLS: which certificates are accepted, and in which version HTTP is spoken.

use std::fs;
use std::path::Path;

use meridian::config::monitors::{HttpProbe, Probe, TlsCheck};
use meridian::probe::{Prober, ProberSettings, Success};

use crate::monitors::{
    LOOPBACK, check, https, monitor, probe, probe_with, prober_with_root, words,
};
use crate::servers::{self, Identity};

async fn probe_https(identity: &Identity, http: HttpProbe) -> Result<Success, String> {
    let prober = prober_with_root(&identity.root);
    probe_with(&prober, &monitor(Probe::Http(Box::new(http)))).await
}

async fn probe_tls(identity: &Identity, port: u16, tls: TlsCheck) -> Result<Success, String> {
    probe_with(&prober_with_root(&identity.root), &monitor(Probe::Tls { port, tls })).await
}

#[tokio::test]
async fn http2_is_spoken_where_the_server_knows_it_and_http1_elsewhere() {
    let identity = Identity::good("a.example");
    for (alpn, version) in
        [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let (port, requests) = servers::https(&identity, alpn).await;
        let expected_body = Some("is ok".to_owned());
        let http = HttpProbe { expected_body, ..https(port, Some("a.example")) };
        let success = probe_https(&identity, http).await.unwrap();
        assert!(success.rtt.is_some());
        let asked = format!("{version} a.example 127.0.0.1:{port}");
        assert_eq!(requests.all(), [asked]);
        let expected_body = Some("is not".to_owned());
        let http = HttpProbe { expected_body, ..https(port, Some("a.example")) };
        let words = words(probe_https(&identity, http).await);
        assert_eq!(words, "the body does not contain \"is not\"");
    }
}

#[tokio::test]
async fn the_name_is_that_of_sni_else_that_of_the_host() {
    let identity = Identity::good("a.example");
    let (port, requests) = servers::https(&identity, &["h2"]).await;
    let host = |host: &str, sni| HttpProbe { host: Some(host.to_owned()), ..https(port, sni) };
    probe_https(&identity, host("a.example:99", None)).await.unwrap();
    probe_https(&identity, host("b.example", Some("a.example"))).await.unwrap();
    let expected = ["HTTP/2.0 a.example a.example:99", "HTTP/2.0 a.example b.example"];
    assert_eq!(requests.all(), expected);
    let wrong = "the certificate is for a.example, not for b.example";
    assert_eq!(words(probe_https(&identity, host("b.example", None)).await), wrong);
    let wrong_sni = host("a.example", Some("b.example"));
    assert_eq!(words(probe_https(&identity, wrong_sni).await), wrong);
    assert_eq!(words(probe_tls(&identity, port, check(Some("b.example"))).await), wrong);
}

#[tokio::test]
async fn without_either_it_is_the_host_name_of_the_origin() {
    let identity = Identity::good("a.example");
    let (port, requests) = servers::https(&identity, &["h2"]).await;
    let prober = prober_with_root(&identity.root);
    let monitors = [
        monitor(Probe::Http(Box::new(https(port, None)))),
        monitor(Probe::Tls { port, tls: check(None) }),
    ];
    for monitor in &monitors {
        prober.probe(monitor, LOOPBACK, Some("a.example")).await.unwrap();
        let failure = prober.probe(monitor, LOOPBACK, Some("b.example")).await.unwrap_err();
        let wrong = "the certificate is for a.example, not for b.example";
        assert_eq!(failure.to_string(), wrong);
    }
    assert_eq!(requests.all(), [format!("HTTP/2.0 a.example a.example:{port}")]);
    let named = monitor(Probe::Tls { port, tls: check(Some("a.example")) });
    prober.probe(&named, LOOPBACK, Some("b.example")).await.unwrap();
}

#[tokio::test]
async fn without_a_name_chain_and_expiry_are_checked() {
    let identity = Identity::good("a.example");
    let (port, requests) = servers::https(&identity, &[]).await;
    probe_https(&identity, https(port, None)).await.unwrap();
    assert_eq!(requests.all(), [format!("HTTP/1.1 none 127.0.0.1:{port}")], "no name is sent");
    probe_tls(&identity, port, check(None)).await.unwrap();
    let other = Identity::good("a.example");
    for name in [None, Some("a.example")] {
        let result = probe_tls(&other, port, check(name)).await;
        assert_eq!(words(result), "unknown certificate authority");
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused_with_its_day() {
    let identity = Identity::new(&["a.example"], |parameters| {
        parameters.not_after = rcgen::date_time_ymd(2020, 11, 1);
    });
    let (port, _) = servers::https(&identity, &[]).await;
    for name in [None, Some("a.example")] {
        let result = probe_tls(&identity, port, check(name)).await;
        assert_eq!(words(result), "certificate expired on 2020-11-01");
    }
    let early = Identity::new(&["a.example"], |parameters| {
        parameters.not_before = rcgen::date_time_ymd(3000, 2, 28);
    });
    let (port, _) = servers::https(&early, &[]).await;
    let result = probe_tls(&early, port, check(None)).await;
    assert_eq!(words(result), "certificate not valid before 3000-02-28");
}

#[tokio::test]
async fn an_address_can_be_the_name() {
    let identity = Identity::good("127.0.0.1");
    let (port, _) = servers::https(&identity, &[]).await;
    probe_tls(&identity, port, check(Some("127.0.0.1"))).await.unwrap();
    let result = probe_tls(&identity, port, check(Some("192.0.2.1"))).await;
    assert_eq!(words(result), "the certificate is for 127.0.0.1, not for 192.0.2.1");
}

#[tokio::test]
async fn nothing_is_verified_where_the_monitor_says_so() {
    let identity = Identity::new(&["a.example"], |parameters| {
        parameters.not_after = rcgen::date_time_ymd(2020, 11, 1);
    });
    let (port, _) = servers::https(&identity, &["h2"]).await;
    let tls = TlsCheck { verify: false, server_name: Some("b.example".to_owned()) };
    probe(&monitor(Probe::Tls { port, tls: tls.clone() })).await.unwrap();
    let http = HttpProbe { tls: Some(tls), ..https(port, None) };
    probe(&monitor(Probe::Http(Box::new(http)))).await.unwrap();
}

#[tokio::test]
async fn a_redirect_from_http_to_https_is_followed() {
    let identity = Identity::good("a.example");
    let (port, requests) = servers::https(&identity, &["h2"]).await;
    let location = format!("HTTP/1.1 301 Moved\r\nLocation: https://a.example:{port}/\r\n\r\n");
    let (plain, _) = servers::canned(location).await;
    let http = HttpProbe { follow_redirects: true, ..crate::monitors::http(plain) };
    probe_https(&identity, http.clone()).await.unwrap();
    assert_eq!(requests.all(), [format!("HTTP/2.0 a.example a.example:{port}")]);
    let other = Identity::good("a.example");
    assert_eq!(words(probe_https(&other, http).await), "unknown certificate authority");
}

#[tokio::test]
async fn the_system_s_authorities_are_read_for_a_monitor_that_verifies() {
    let monitors = [monitor(Probe::Tls { port: 443, tls: check(None) })];
    Prober::new(&ProberSettings::default(), &monitors).expect("authorities");
    let settings = ProberSettings { extra_roots: vec![vec![1, 2, 3]], ..Default::default() };
    let error = Prober::new(&settings, &monitors).expect_err("that is no certificate");
    assert!(error.to_string().starts_with("a certificate authority is not usable: "), "{error}");
}

/// Who named the authorities is told when they cannot be read, or are none.
#[tokio::test]
async fn ssl_cert_file_names_the_authorities() {
    let identity = Identity::good("a.example");
    let (port, _) = servers::https(&identity, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, empty) = (folder.path().join("roots.pem"), folder.path().join("empty.pem"));
    let base64 = data_encoding::BASE64.encode(&identity.root);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
    fs::write(&file, pem).unwrap();
    fs::write(&empty, "").unwrap();
    let error = "the certificate authorities that SSL_CERT_FILE names cannot be read: ";
    assert_eq!(run_with_authorities(&file, port).await, "up");
    for unusable in [empty.as_path(), Path::new("/no/such/file")] {
        let outcome = run_with_authorities(unusable, port).await;
        assert!(outcome.starts_with(error), "{outcome}");
    }
}

/// The environment is that of a process: the test below runs in one of its own.
async fn run_with_authorities(file: &Path, port: u16) -> String {
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "certificates::inside_the_process", "--ignored", "--nocapture"])
        .env("SSL_CERT_FILE", file)
        .env_remove("SSL_CERT_DIR")
        .env("MERIDIAN_TEST_PORT", port.to_string())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let outcome = text.split_once("outcome: ").and_then(|(_, rest)| rest.lines().next());
    outcome.unwrap_or_else(|| panic!("no outcome in {text}")).to_owned()
}

#[tokio::test]
#[ignore = "run by the test above, in another environment"]
async fn inside_the_process() {
    let port = std::env::var("MERIDIAN_TEST_PORT").unwrap().parse().unwrap();
    let monitor = monitor(Probe::Tls { port, tls: check(Some("a.example")) });
    let outcome = match Prober::new(&ProberSettings::default(), std::slice::from_ref(&monitor)) {
        Ok(prober) => probe_with(&prober, &monitor).await.err().unwrap_or_else(|| "up".to_owned()),
        Err(error) => error.to_string(),
    };
    println!("outcome: {outcome}");
}
