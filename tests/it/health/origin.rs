//! Origins for the tests: small HTTP servers in this process that can be told to misbehave, killed
//! and started again, and that remember when they were probed and how.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::Net;

/// The body of a good answer.
pub(super) const BODY: &str = "all is well\n";
/// How long a stream that never ends goes on if nobody ends it.
const FOREVER: Duration = Duration::from_secs(60);

/// What an origin does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Answers with this status.
    Status(u16),
    /// Good and bad answers in turn.
    Alternate,
    /// Reads, and answers nothing.
    Hang,
    /// A header, octet by octet, without end.
    Drip,
    /// Headers without end.
    EndlessHead,
    /// A body without end.
    EndlessBody,
    /// A redirect to itself.
    RedirectLoop,
}

/// A request, as it came.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) at: Instant,
    pub(super) from: IpAddr,
    pub(super) head: String,
}

impl Request {
    /// The path of the request line.
    pub(super) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// An HTTP server on one address; it ends when dropped.
pub(super) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    mode: Mutex<Mode>,
    requests: Mutex<Vec<Request>>,
    open: Mutex<Vec<(u64, TcpStream)>>,
    next: AtomicU64,
    most_open: AtomicUsize,
    octets_sent: AtomicU64,
    stopping: AtomicBool,
}

impl Origin {
    /// Starts an origin that answers 200.
    pub(super) fn start(net: &Net, number: u8) -> Self {
        Self::at(net.socket(number), Mode::Status(200))
    }

    /// Starts these origins.
    pub(super) fn start_all(net: &Net, numbers: &[u8]) -> Vec<Self> {
        numbers.iter().map(|&number| Self::start(net, number)).collect()
    }

    /// Starts an origin that does this from the beginning.
    pub(super) fn at(address: SocketAddr, mode: Mode) -> Self {
        let shared = Shared {
            mode: Mutex::new(mode),
            requests: Mutex::default(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            most_open: AtomicUsize::new(0),
            octets_sent: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        };
        let mut origin = Self { address, shared: Arc::new(shared), acceptor: None };
        origin.revive();
        origin
    }

    pub(super) fn set(&self, mode: Mode) {
        *lock(&self.shared.mode) = mode;
    }

    /// Closes the socket and all connections, as the end of a process would.
    pub(super) fn kill(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor. If it fails there is nobody to be woken.
        let _woken = TcpStream::connect(self.address);
        acceptor.join().expect("the acceptor's end");
        for (_, stream) in lock(&self.shared.open).iter() {
            // It may be closed already.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }

    /// Listens again.
    pub(super) fn revive(&mut self) {
        assert!(self.acceptor.is_none(), "it listens already");
        self.shared.stopping.store(false, Ordering::SeqCst);
        let listener = TcpListener::bind(self.address).expect("a free port");
        let shared = Arc::clone(&self.shared);
        self.acceptor = Some(thread::spawn(move || accept(&listener, &shared)));
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    pub(super) fn request_count(&self) -> usize {
        lock(&self.shared.requests).len()
    }

    /// The most connections that were open at one time.
    pub(super) fn most_open(&self) -> usize {
        self.shared.most_open.load(Ordering::SeqCst)
    }

    /// How much of a stream without end was taken.
    pub(super) fn octets_sent(&self) -> u64 {
        self.shared.octets_sent.load(Ordering::SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked")
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((stream, peer)) = listener.accept() else { continue };
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(registered) = stream.try_clone() else { continue };
        let number = shared.next.fetch_add(1, Ordering::SeqCst);
        let mut open = lock(&shared.open);
        // What the peer has closed is over, also if its thread has not seen it yet.
        let others = open.iter().filter(|(_, stream)| is_alive(stream)).count();
        shared.most_open.fetch_max(others + 1, Ordering::SeqCst);
        open.push((number, registered));
        drop(open);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // The peer may go away at any time.
            let _served = serve(stream, peer.ip(), &shared);
            lock(&shared.open).retain(|(other, _)| *other != number);
        });
    }
}

/// True if the peer has not closed its side.
fn is_alive(stream: &TcpStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    !matches!(recv(stream.as_raw_fd(), &mut [0], flags), Ok(0) | Err(Errno::ECONNRESET))
}

fn serve(mut stream: TcpStream, from: IpAddr, shared: &Shared) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            size => head.extend_from_slice(&buffer[..size]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let count = {
        let mut requests = lock(&shared.requests);
        requests.push(Request { at: Instant::now(), from, head });
        requests.len()
    };
    let mode = *lock(&shared.mode);
    match mode {
        Mode::Status(status) => answer(&mut stream, status),
        Mode::Alternate => answer(&mut stream, if count % 2 == 1 { 200 } else { 503 }),
        Mode::Hang => wait_for_the_end(&mut stream),
        Mode::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ")?;
            without_end(&mut stream, shared, b"x", Duration::from_millis(100))
        }
        Mode::EndlessHead => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            without_end(&mut stream, shared, &b"X-More: and more\r\n".repeat(200), Duration::ZERO)
        }
        Mode::EndlessBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            without_end(&mut stream, shared, &[b'x'; 4096], Duration::ZERO)
        }
        Mode::RedirectLoop => {
            let head = "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\
                        Connection: close\r\n\r\n";
            stream.write_all(head.as_bytes())
        }
    }
}

fn answer(stream: &mut TcpStream, status: u16) -> std::io::Result<()> {
    let size = BODY.len();
    let answer = format!(
        "HTTP/1.1 {status} Status\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{BODY}"
    );
    stream.write_all(answer.as_bytes())
}

fn wait_for_the_end(stream: &mut TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 4096])? > 0 {}
    Ok(())
}

fn without_end(
    stream: &mut TcpStream,
    shared: &Shared,
    part: &[u8],
    pause: Duration,
) -> std::io::Result<()> {
    let start = Instant::now();
    while start.elapsed() < FOREVER {
        let sent = stream.write(part)?;
        shared.octets_sent.fetch_add(sent as u64, Ordering::SeqCst);
        thread::sleep(pause);
    }
    Ok(())
}

// ---------------------------------------------------------------------------------- Everywhere

/// Accepts connections to one port on all IPv4 addresses, and remembers when each address got one.
/// It lives as long as the process.
pub(super) struct Everywhere(Arc<Mutex<Vec<(IpAddr, Instant)>>>);

impl Everywhere {
    pub(super) fn start(port: u16) -> Self {
        let listener = TcpListener::bind(("0.0.0.0", port)).expect("a free port");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if let Ok(local) = stream.local_addr() {
                    lock(&shared).push((local.ip(), Instant::now()));
                }
            }
        });
        Self(seen)
    }

    /// The connections so far, in their order.
    pub(super) fn seen(&self) -> Vec<(IpAddr, Instant)> {
        lock(&self.0).clone()
    }
}

// ---------------------------------------------------------------------------------- Their tests

fn request(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    stream.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")?;
    // What has no end is cut.
    let mut octets = [0; 100];
    let size = stream.read(&mut octets)?;
    Ok(String::from_utf8_lossy(&octets[..size]).into_owned())
}

#[test]
fn the_tests_origins_do_as_they_are_told() {
    let net = Net::new();
    let mut origin = Origin::start(&net, 1);
    let address = net.socket(1);
    assert!(request(address).unwrap().starts_with("HTTP/1.1 200 "));
    origin.set(Mode::Status(503));
    assert!(request(address).unwrap().starts_with("HTTP/1.1 503 "));
    assert_eq!(origin.most_open(), 1);
    let held = TcpStream::connect(address).unwrap();
    origin.set(Mode::Hang);
    let error = request(address).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    assert_eq!(origin.most_open(), 2);
    origin.kill();
    assert_eq!(request(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop(held);
    origin.revive();
    origin.set(Mode::RedirectLoop);
    assert!(request(address).unwrap().contains("Location: /again"));
    let requests = origin.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[0].path(), "/x");
    assert!(requests[0].from.is_loopback());
    for mode in [Mode::Drip, Mode::EndlessHead, Mode::EndlessBody] {
        origin.set(mode);
        let before = origin.octets_sent();
        assert!(request(address).unwrap().starts_with("HTTP/1.1 200 "), "{mode:?}");
        super::until(super::PATIENCE, "a stream", || origin.octets_sent() > before);
    }
}
