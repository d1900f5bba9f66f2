//! Servers on free ports of the loopback addresses. They run in the test's own runtime and end with it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Serves each connection with a function; gives the port.
pub(crate) async fn serve<F>(handle: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    serve_at("127.0.0.1:0", handle).await.port()
}

/// Likewise at an address.
pub(crate) async fn serve_at<F>(
    address: &str,
    handle: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address).await.expect("a free port");
    let bound = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream));
        }
    });
    bound
}

/// A port that refuses connections.
pub(crate) async fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Accepts, and says nothing.
pub(crate) async fn silent() -> u16 {
    serve(|stream| async move {
        wait_for_end(stream).await;
    })
    .await
}

/// Sends the same reply to each request, and leaves the connection open. What was asked is recorded.
pub(crate) async fn canned(reply: impl Into<Vec<u8>>) -> (u16, Requests) {
    let (reply, requests) = (Arc::new(reply.into()), Requests::default());
    let record = requests.clone();
    let port = serve(move |mut stream| {
        let (reply, record) = (Arc::clone(&reply), record.clone());
        async move {
            record.add(read_head(&mut stream).await);
            // A probe may have gone already.
            _ = stream.write_all(&reply).await;
            wait_for_end(stream).await;
        }
    })
    .await;
    (port, requests)
}

/// Requests that a server got.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    /// Records one.
    pub(crate) fn add(&self, head: String) {
        self.0.lock().expect("no panic while it was held").push(head);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic while it was held").clone()
    }
}

/// Reads up to the empty line.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(octet) => head.push(octet),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Holds a connection until the other side closes it.
pub(crate) async fn wait_for_end(mut stream: impl AsyncRead + Unpin) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|size| size > 0) {}
}

/// An authority, and a certificate that it signed.
pub(crate) struct Identity {
    /// The authority's certificate.
    pub(crate) root: Vec<u8>,
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Identity {
    /// For these names, with what `change` makes of the certificate.
    pub(crate) fn new(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Each of another name: of two with the same one, the wrong one is an issuer that is known.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        authority.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        let authority_key = KeyPair::generate().expect("a key");
        let root = authority.self_signed(&authority_key).expect("a certificate");
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut parameters = CertificateParams::new(names).expect("parameters");
        change(&mut parameters);
        let key = KeyPair::generate().expect("a key");
        let issuer = Issuer::from_params(&authority, &authority_key);
        let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
        Self {
            root: root.der().to_vec(),
            chain: vec![certificate.der().clone()],
            key: key.serialize_der(),
        }
    }

    /// For one name, in order.
    pub(crate) fn good(name: &str) -> Self {
        Self::new(&[name], |_| {})
    }

    /// A TLS server's side.
    pub(crate) fn acceptor(&self, alpn: &[&str]) -> TlsAcceptor {
        let key = PrivateKeyDer::try_from(self.key.clone()).expect("a key");
        let mut configuration =
            ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(self.chain.clone(), key)
                .expect("a certificate and its key");
        configuration.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(configuration))
    }
}

/// An HTTPS server that speaks the version that ALPN settles, and answers `ok`.
/// It records the version, the server name of TLS and the host of each request.
pub(crate) async fn https(identity: &Identity, alpn: &[&str]) -> (u16, Requests) {
    let (acceptor, requests) = (identity.acceptor(alpn), Requests::default());
    let record = requests.clone();
    let port = serve(move |stream| {
        let (acceptor, record) = (acceptor.clone(), record.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let (is_http2, name) = {
                let session = stream.get_ref().1;
                let name = session.server_name().unwrap_or("none").to_owned();
                (session.alpn_protocol() == Some(b"h2"), name)
            };
            let answer = service_fn(move |request: Request<Incoming>| {
                let header = request.headers().get("host").and_then(|host| host.to_str().ok());
                let host = request.uri().authority().map(|authority| authority.as_str());
                let host = host.or(header).unwrap_or("none");
                record.add(format!("{:?} {name} {host}", request.version()));
                async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("all is ok")))) }
            });
            let io = TokioIo::new(stream);
            // A probe ends its connection as it likes.
            if is_http2 {
                let builder = http2::Builder::new(TokioExecutor::new());
                _ = builder.serve_connection(io, answer).await;
            } else {
                _ = http1::Builder::new().serve_connection(io, answer).await;
            }
        }
    })
    .await;
    (port, requests)
}
