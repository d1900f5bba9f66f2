//! Origins that fail on command, and since when each is down.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How an origin fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing listens, and connections are cut.
    Killed,
    /// Requests are read and not answered.
    Hung,
    /// Requests are answered with 503.
    Failing,
}

/// What the asker must know of an origin.
pub(crate) struct Record {
    pub(crate) ip: IpAddr,
    /// Since when it is down, in microseconds from the start, plus 1; 0 while it is up.
    down_since: AtomicU64,
}

impl Record {
    /// For how long it has been down at a time, if it is down now.
    pub(crate) fn down_since(&self) -> Option<Duration> {
        let since = self.down_since.load(Ordering::SeqCst);
        since.checked_sub(1).map(Duration::from_micros)
    }

    fn set(&self, since: Option<Duration>) {
        let micros = since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0) + 1);
        self.down_since.store(micros, Ordering::SeqCst);
    }
}

const WELL: u8 = 0;
const HUNG: u8 = 1;
const FAILING: u8 = 2;

struct Shared {
    mode: AtomicU8,
    stopping: AtomicBool,
}

/// An HTTP server with a thread of its own.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    pub(crate) pool: usize,
    record: Arc<Record>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// When the fault ends.
    until: Option<Instant>,
    revived: Option<Instant>,
}

impl Origin {
    pub(crate) fn start(address: SocketAddr, pool: usize) -> io::Result<Self> {
        let record = Record { ip: address.ip(), down_since: AtomicU64::new(0) };
        let shared = Shared { mode: AtomicU8::new(WELL), stopping: AtomicBool::new(false) };
        let (record, shared) = (Arc::new(record), Arc::new(shared));
        let mut origin =
            Self { address, pool, record, shared, thread: None, until: None, revived: None };
        origin.listen()?;
        Ok(origin)
    }

    pub(crate) fn record(&self) -> Arc<Record> {
        Arc::clone(&self.record)
    }

    /// True if a fault is over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// True if it is up, and has been for so long.
    pub(crate) fn is_settled(&self, now: Instant, time: Duration) -> bool {
        self.until.is_none() && self.revived.is_none_or(|revived| now - revived > time)
    }

    /// Fails until a time. It counts as down when it is.
    pub(crate) fn fail(&mut self, fault: Fault, until: Instant, start: Instant) -> io::Result<()> {
        self.until = Some(until);
        match fault {
            Fault::Killed => self.kill()?,
            Fault::Hung => self.shared.mode.store(HUNG, Ordering::SeqCst),
            Fault::Failing => self.shared.mode.store(FAILING, Ordering::SeqCst),
        }
        self.record.set(Some(start.elapsed()));
        Ok(())
    }

    /// Is well again.
    pub(crate) fn revive(&mut self) -> io::Result<()> {
        self.record.set(None);
        self.until = None;
        self.revived = Some(Instant::now());
        self.shared.mode.store(WELL, Ordering::SeqCst);
        if self.thread.is_none() { self.listen() } else { Ok(()) }
    }

    fn listen(&mut self) -> io::Result<()> {
        self.shared.stopping.store(false, Ordering::SeqCst);
        let listener = TcpListener::bind(self.address)?;
        let shared = Arc::clone(&self.shared);
        self.thread = Some(thread::spawn(move || serve(&listener, &shared)));
        Ok(())
    }

    fn kill(&mut self) -> io::Result<()> {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread.
        drop(TcpStream::connect(self.address)?);
        let thread = self.thread.take().map_or(Ok(()), JoinHandle::join);
        thread.map_err(|_| io::Error::other("an origin failed by itself"))
    }
}

fn serve(listener: &TcpListener, shared: &Shared) {
    let mut held = Vec::new();
    while let Ok((mut stream, _)) = listener.accept() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let mode = shared.mode.load(Ordering::SeqCst);
        if mode == HUNG {
            held.push(stream);
            continue;
        }
        // What was held is given up: its probes are over.
        held.clear();
        let status = if mode == FAILING { "503 Service Unavailable" } else { "200 OK" };
        // A prober that goes away is none of the origin's business.
        let _answered = answer(&mut stream, status);
    }
}

fn answer(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            size => head.extend_from_slice(buffer.get(..size).unwrap_or_default()),
        }
    }
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes())
}
