//! A real web server as an origin: nginx in a folder of its own, on one address, with or without
//! TLS by a certificate that nobody trusts.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{Net, PATIENCE, until};
use crate::harness::is_missing;

/// The name in the certificate.
pub(super) const NAME: &str = "origin.test";

/// Where Debian puts it, which is not on everyone's path.
const DEBIAN: &str = "/usr/sbin/nginx";

/// An nginx that can be killed and started again; it ends when dropped.
pub(super) struct Nginx {
    folder: TempDir,
    address: SocketAddr,
    child: Option<Child>,
}

impl Nginx {
    /// Starts nginx; `None` where it is missing and may be.
    pub(super) fn start(address: SocketAddr) -> Option<Self> {
        Self::with(address, "")
    }

    /// The same with TLS.
    pub(super) fn start_tls(address: SocketAddr) -> Option<Self> {
        (!is_missing("openssl", "version", "openssl")).then_some(())?;
        Self::with(address, "ssl")
    }

    fn with(address: SocketAddr, parameter: &str) -> Option<Self> {
        (!is_missing(program(), "-v", "nginx")).then_some(())?;
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().display();
        let mut tls = String::new();
        if !parameter.is_empty() {
            make_certificate(folder.path());
            tls = format!("ssl_certificate {path}/cert.pem; ssl_certificate_key {path}/key.pem;");
        }
        // One process, so that killing it is killing all of it.
        let settings = format!(
            "daemon off;\nmaster_process off;\npid {path}/pid;\nerror_log {path}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{\n  access_log off;\n  client_body_temp_path {path}/body;\n  \
             proxy_temp_path {path}/proxy;\n  fastcgi_temp_path {path}/fastcgi;\n  \
             uwsgi_temp_path {path}/uwsgi;\n  scgi_temp_path {path}/scgi;\n  \
             server {{\n    listen {address} {parameter};\n    {tls}\n    \
             location / {{ return 200 \"all is well\\n\"; }}\n  }}\n}}\n"
        );
        fs::write(folder.path().join("nginx.conf"), settings).expect("a file");
        let mut nginx = Self { folder, address, child: None };
        nginx.run();
        Some(nginx)
    }

    /// Starts it, and waits until it listens.
    pub(super) fn run(&mut self) {
        let folder = self.folder.path();
        let mut command = Command::new(program());
        command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
        command.arg("-e").arg(folder.join("error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("a process"));
        let log = folder.join("error.log");
        until(PATIENCE, "nginx listens", || {
            let ended = self
                .child
                .as_mut()
                .is_some_and(|child| child.try_wait().expect("a child of this process").is_some());
            assert!(!ended, "nginx ended: {}", fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok()
        });
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child of this process");
            child.wait().expect("a child of this process");
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> &'static str {
    if Path::new(DEBIAN).exists() { DEBIAN } else { "nginx" }
}

/// Writes `cert.pem`, signed by itself, and `key.pem`.
fn make_certificate(folder: &Path) {
    let subject = format!("/CN={NAME}");
    let alternative = format!("subjectAltName=DNS:{NAME}");
    let arguments = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let mut command = Command::new("openssl");
    command.args(arguments).args(["-nodes", "-days", "2", "-subj", &subject]);
    command.args(["-addext", &alternative, "-keyout", "key.pem", "-out", "cert.pem"]);
    let run = command.current_dir(folder).output().expect("a process");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_tests_nginx_comes_and_goes() {
    let net = Net::new();
    for tls in [false, true] {
        let address = net.socket(if tls { 2 } else { 1 });
        let nginx = if tls { Nginx::start_tls(address) } else { Nginx::start(address) };
        let Some(mut nginx) = nginx else { return };
        nginx.kill();
        assert!(TcpStream::connect(address).is_err(), "it is dead");
        nginx.run();
    }
}
