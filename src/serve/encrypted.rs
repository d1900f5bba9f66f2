//! Where DNS is answered so that nobody else can read it: the sockets of `[tls]`, and what carries messages
//! over each. They are bound before anything is waited for, and served when the server is ready.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use hyper::header::HeaderValue;
use tracing::{info, warn};

use crate::config::server::Server;
use crate::config::tls::Tls;
use crate::serve::listen::with_passed;
use crate::serve::quic::{self, QuicCarrier};
use crate::serve::sockets::{BindError, bind_https, bind_quic, bind_tcp};
use crate::serve::stream::{self, Carrier, Https, Streams};
use crate::serve::tls::{self, CurrentCertificate};

/// The sockets of `[tls]`, each with the address that it got.
#[derive(Debug, Default)]
pub struct EncryptedSockets {
    dot: Vec<(SocketAddr, TcpListener)>,
    /// With a socket for HTTP/3, if that is offered.
    doh: Vec<(SocketAddr, TcpListener, Option<UdpSocket>)>,
    doq: Vec<(SocketAddr, UdpSocket)>,
}

impl EncryptedSockets {
    /// Takes the sockets that a service manager passed for TLS and HTTPS over TCP, and binds the other
    /// addresses.
    ///
    /// # Errors
    /// [`BindError`], which says what would help.
    pub fn open(
        server: &Server,
        passed_dot: Vec<(SocketAddr, TcpListener)>,
        passed_doh: Vec<(SocketAddr, TcpListener)>,
    ) -> Result<Self, BindError> {
        let Some(Tls { dot, doh, doh3, doq, .. }) = &server.tls else { return Ok(Self::default()) };
        let freebind = server.freebind;
        let passed: Vec<_> = passed_doh.iter().map(|(address, _)| *address).collect();
        let mut https = Vec::new();
        for (address, tcp) in with_passed(passed_doh, [].iter(), freebind)? {
            let udp = if *doh3 { beside(address, server) } else { None };
            https.push((address, tcp, udp));
        }
        for &address in doh.iter().filter(|address| !passed.contains(address)) {
            https.push(if *doh3 {
                let (address, tcp, udp) = bind_https(address, freebind, &server.udp)?;
                (address, tcp, Some(udp))
            } else {
                let (address, tcp) = bind_tcp(address, freebind)?;
                (address, tcp, None)
            });
        }
        let quic = |&address: &SocketAddr| bind_quic(address, freebind, &server.udp);
        Ok(Self {
            dot: with_passed(passed_dot, dot.iter(), freebind)?,
            doh: https,
            doq: doq.iter().map(quic).collect::<Result<_, _>>()?,
        })
    }
}

/// The socket of HTTP/3 beside one of HTTPS that was passed. A server that is passed its sockets may not be
/// allowed to bind this one; HTTP/1.1 and 2 do without it.
fn beside(address: SocketAddr, server: &Server) -> Option<UdpSocket> {
    match bind_quic(address, server.freebind, &server.udp) {
        Ok((_, socket)) => Some(socket),
        Err(error) => {
            warn!(%address, %error, "HTTP/3 is not offered here; doh3 = false says that it need not be");
            None
        }
    }
}

/// The sockets, each with what is served on it.
pub struct Listeners {
    tcp: Vec<(SocketAddr, TcpListener, Carrier)>,
    quic: Vec<(SocketAddr, UdpSocket, QuicCarrier)>,
    certificate: Option<Arc<CurrentCertificate>>,
}

impl Listeners {
    /// Prepares to serve; nothing without a certificate.
    ///
    /// # Errors
    /// What rustls says.
    pub fn new(
        server: &Server,
        certificate: Option<&Arc<CurrentCertificate>>,
        sockets: EncryptedSockets,
    ) -> Result<Self, tokio_rustls::rustls::Error> {
        let (mut tcp, mut quic) = (Vec::new(), Vec::new());
        let (Some(current), Some(settings)) = (certificate, &server.tls) else {
            return Ok(Self { tcp, quic, certificate: None });
        };
        let over_tls = Carrier::Tls(tls::acceptor(current, &[b"dot"])?);
        let acceptor = tls::acceptor(current, &[b"h2", b"http/1.1"])?;
        let path: Arc<str> = settings.doh_path.as_str().into();
        for (address, listener) in sockets.dot {
            tcp.push((address, listener, over_tls.clone()));
        }
        for (address, listener, socket) in sockets.doh {
            let https = Https {
                acceptor: acceptor.clone(),
                path: Arc::clone(&path),
                alternative: socket.as_ref().and_then(|_| alternative(address)),
            };
            tcp.push((address, listener, Carrier::Https(https)));
            quic.extend(
                socket.map(|socket| (address, socket, QuicCarrier::Http3(Arc::clone(&path)))),
            );
        }
        for (address, socket) in sockets.doq {
            quic.push((address, socket, QuicCarrier::Doq));
        }
        Ok(Self { tcp, quic, certificate: Some(Arc::clone(current)) })
    }

    /// Tells where is listened.
    pub fn log(&self) {
        let tcp = self.tcp.iter().map(|(address, _, carrier)| (address, carrier.word()));
        let quic = self.quic.iter().map(|(address, _, carrier)| (address, carrier.word()));
        for (address, protocol) in tcp.chain(quic) {
            info!(%address, protocol, "listening");
        }
    }

    /// Serves what comes, in tasks of their own.
    ///
    /// # Errors
    /// What the system says of a socket.
    pub fn start(self, streams: &Streams) -> io::Result<()> {
        for (_, listener, carrier) in self.tcp {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(stream::accept(listener, carrier, streams.clone()));
        }
        let Some(certificate) = self.certificate else { return Ok(()) };
        for (_, socket, carrier) in self.quic {
            let endpoint = quic::endpoint(socket, &certificate, &carrier, streams.idle)?;
            tokio::spawn(quic::accept(endpoint, carrier, streams.clone()));
        }
        Ok(())
    }
}

/// What tells clients of HTTP/1.1 and HTTP/2 that HTTP/3 is on the same port (RFC 7838).
fn alternative(address: SocketAddr) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("h3=\":{}\"", address.port())).ok()
}
