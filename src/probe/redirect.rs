//! Where a request goes, and where a redirect sends it next.
//!
//! A probe is of one address. So a redirect changes what is asked for, and of which port and by which
//! name, and never the address: another host's server is not probed.

use std::net::IpAddr;

use hyper::http::uri::{Authority, Scheme, Uri};
use hyper::{Method, StatusCode};

use crate::config::monitors::HttpProbe;
use crate::probe::failure::{Failure, plain};
use crate::probe::tls::host_of;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Whether by HTTPS.
    pub(super) is_secure: bool,
    /// The port.
    pub(super) port: u16,
    /// The Host header, or the authority of HTTP/2.
    pub(super) authority: String,
    /// The name of the certificate, if there is one to check.
    pub(super) server_name: Option<String>,
    /// Path and query.
    pub(super) path: String,
    /// The method.
    pub(super) method: Method,
}

impl Target {
    /// What the monitor asks for, of an origin that is given by the host name `origin` if there is one.
    pub(super) fn new(
        http: &HttpProbe,
        address: IpAddr,
        origin: Option<&str>,
    ) -> Result<Self, Failure> {
        let (is_secure, port) = (http.tls.is_some(), http.port);
        let header = http.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = http.host.as_ref().or_else(|| header.map(|(_, value)| value));
        let sni = http.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
        let server_name = sni.or(http.host.as_ref()).map(String::as_str).or(origin);
        let method = Method::from_bytes(http.method.as_bytes());
        Ok(Self {
            is_secure,
            port,
            authority: match (host, origin) {
                (Some(host), _) => host.clone(),
                (None, Some(origin)) => with_port(origin, port, is_secure),
                (None, None) => authority_of(address, port, is_secure),
            },
            server_name: server_name.map(str::to_owned),
            path: http.path.clone(),
            method: method.map_err(|error| Failure::Request(error.to_string()))?,
        })
    }

    /// The target of a redirect (RFC 9110 section 15.4).
    pub(super) fn follow(
        &self,
        status: StatusCode,
        location: &str,
        address: IpAddr,
    ) -> Result<Self, Failure> {
        let wrong = || Failure::Redirect(plain(location));
        let location = location.split('#').next().unwrap_or_default();
        let method = match status {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => self.method.clone(),
            _ if self.method == Method::HEAD => Method::HEAD,
            _ => Method::GET,
        };
        let scheme = if self.is_secure { "https" } else { "http" };
        let absolute = if has_scheme(location) {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else {
            let path = self.resolve(location);
            path.parse::<Uri>().map_err(|_error| wrong())?;
            return Ok(Self { path, method, ..self.clone() });
        };
        let uri: Uri = absolute.parse().map_err(|_error| wrong())?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let port = authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let authority = without_user(authority);
        let server_name = self.server_name_of(&authority, address);
        Ok(Self { is_secure, port, authority, server_name, path, method })
    }

    /// The name to check after a redirect: it changes with the host.
    fn server_name_of(&self, authority: &str, address: IpAddr) -> Option<String> {
        let host = host_of(authority);
        if host.eq_ignore_ascii_case(host_of(&self.authority)) {
            let own_address = host.parse() == Ok(address);
            let new = (!own_address).then(|| host.to_owned());
            return self.server_name.clone().or(new);
        }
        (host.parse() != Ok(address)).then(|| host.to_owned())
    }

    /// A path relative to this one; dots are left to the server.
    fn resolve(&self, location: &str) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let folder = path.rfind('/').and_then(|end| path.get(..=end)).unwrap_or("/");
        match location.bytes().next() {
            None => self.path.clone(),
            Some(b'/') => location.to_owned(),
            Some(b'?') => format!("{path}{location}"),
            Some(_) => format!("{folder}{location}"),
        }
    }
}

/// An address as the Host header has it; the scheme's own port is left out.
fn authority_of(address: IpAddr, port: u16, is_secure: bool) -> String {
    match address {
        IpAddr::V4(address) => with_port(&address.to_string(), port, is_secure),
        IpAddr::V6(address) => with_port(&format!("[{address}]"), port, is_secure),
    }
}

/// A host as the Host header has it; the scheme's own port is left out.
fn with_port(host: &str, port: u16, is_secure: bool) -> String {
    let usual = if is_secure { 443 } else { 80 };
    if port == usual { host.to_owned() } else { format!("{host}:{port}") }
}

fn without_user(authority: &Authority) -> String {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host).to_owned()
}

/// Whether a reference begins with a scheme (RFC 3986 section 3.1).
fn has_scheme(location: &str) -> bool {
    let end = location.find([':', '/', '?']).unwrap_or(0);
    location.as_bytes().get(end) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::monitors::TlsCheck;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn first(host: Option<&str>, sni: Option<&str>) -> Target {
        let http = HttpProbe {
            tls: Some(TlsCheck { verify: true, server_name: sni.map(str::to_owned) }),
            port: 8443,
            path: "/a/b?c".to_owned(),
            method: "POST".to_owned(),
            host: host.map(str::to_owned),
            headers: Vec::new(),
            expected_codes: Vec::new(),
            expected_body: None,
            follow_redirects: true,
        };
        Target::new(&http, ADDRESS, None).unwrap()
    }

    fn follow(target: &Target, location: &str) -> Result<Target, Failure> {
        target.follow(StatusCode::FOUND, location, ADDRESS)
    }

    #[test]
    fn the_host_is_the_address_where_none_is_given() {
        assert_eq!(first(None, None).authority, "192.0.2.1:8443");
        assert_eq!(first(None, None).server_name, None);
        assert_eq!(first(Some("a.example"), None).server_name.as_deref(), Some("a.example"));
        let both = first(Some("a.example"), Some("b.example"));
        assert_eq!(both.authority, "a.example");
        assert_eq!(both.server_name.as_deref(), Some("b.example"));
    }

    #[test]
    fn a_relative_redirect_stays_with_the_host() {
        let target = first(Some("a.example"), None);
        for (location, path) in
            [("/x", "/x"), ("x?y", "/a/x?y"), ("?y", "/a/b?y"), ("", "/a/b?c"), ("/x#y", "/x")]
        {
            let next = follow(&target, location).unwrap();
            assert_eq!((next.path.as_str(), next.authority.as_str()), (path, "a.example"));
            assert_eq!((next.port, next.is_secure), (8443, true));
        }
    }

    #[test]
    fn an_absolute_redirect_changes_port_and_name() {
        let target = first(Some("a.example"), Some("b.example"));
        let next = follow(&target, "http://c.example:81/x").unwrap();
        assert_eq!((next.port, next.is_secure, next.path.as_str()), (81, false, "/x"));
        assert_eq!(next.server_name.as_deref(), Some("c.example"));
        let same = follow(&target, "https://A.example").unwrap();
        assert_eq!((same.port, same.path.as_str()), (443, "/"));
        assert_eq!(same.server_name.as_deref(), Some("b.example"), "the same host keeps its name");
        let bare = follow(&first(None, None), "//192.0.2.1/").unwrap();
        assert_eq!(bare.server_name, None, "the probed address is no name");
    }

    #[test]
    fn methods_change_as_browsers_change_them() {
        let target = first(None, None);
        assert_eq!(follow(&target, "/").unwrap().method, Method::GET);
        let kept = target.follow(StatusCode::TEMPORARY_REDIRECT, "/", ADDRESS).unwrap();
        assert_eq!(kept.method, Method::POST);
    }

    #[test]
    fn what_is_no_http_is_not_followed() {
        for location in
            ["ftp://a.example/", "mailto:a@b.example", "http://", "http:///x", "/ü \u{7f}"]
        {
            assert!(
                matches!(follow(&first(None, None), location), Err(Failure::Redirect(_))),
                "{location}"
            );
        }
    }
}
