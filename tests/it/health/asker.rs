//! A client that asks steadily in the background, so that whatever happens meanwhile can be seen to
//! lose no query and to show no answer that it should not.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::WWW;
use crate::harness::Server;
use crate::wire::{Query, Reply, rcode, rtype};

/// 200 queries a second.
const PAUSE: Duration = Duration::from_millis(5);
/// After this time without a reply a query is lost. Nothing is sent twice.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// The client while it asks.
pub(super) struct Asker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Tally>,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) sent: usize,
    pub(super) lost: usize,
    pub(super) slowest: Duration,
    pub(super) answers: Vec<Answer>,
}

/// An answer to a query for the addresses of `www`.
pub(super) struct Answer {
    pub(super) rcode: u16,
    pub(super) addresses: Vec<String>,
}

impl Asker {
    pub(super) fn start(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, address) = (Arc::clone(&stop), server.address);
        Self { stop, thread: thread::spawn(move || ask(address, &stopped)) }
    }

    /// Waits for the last replies, and asserts that every query had one, without an error.
    pub(super) fn finish(self) -> Tally {
        let tally = self.stop();
        assert_eq!(tally.lost, 0, "of {} queries", tally.sent);
        let bad = tally.answers.iter().find(|answer| answer.rcode != rcode::NOERROR);
        assert!(bad.is_none(), "the response code {:?}", bad.map(|answer| answer.rcode));
        tally
    }

    /// Waits for the last replies.
    pub(super) fn stop(self) -> Tally {
        self.stop.store(true, Ordering::SeqCst);
        let tally = self.thread.join().expect("the asker's tally");
        let Tally { sent, lost, slowest, .. } = tally;
        eprintln!("asked {sent} times, {lost} lost, the slowest reply took {slowest:?}");
        assert!(sent > 0, "nothing was asked");
        tally
    }
}

impl Tally {
    /// Asserts that no answer had this address.
    pub(super) fn assert_never(&self, address: &str) {
        let with = |answer: &&Answer| answer.addresses.iter().any(|found| found == address);
        let count = self.answers.iter().filter(with).count();
        assert_eq!(count, 0, "of {} answers had {address}", self.answers.len());
    }

    /// Asserts that every answer had this address.
    pub(super) fn assert_always(&self, address: &str) {
        let with = |answer: &&Answer| answer.addresses.iter().any(|found| found == address);
        let count = self.answers.iter().filter(with).count();
        assert_eq!(count, self.answers.len(), "answers that had {address}, of all");
    }
}

fn ask(address: SocketAddr, stop: &AtomicBool) -> Tally {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(address).expect("a local address");
    socket.set_read_timeout(Some(PAUSE)).expect("a timeout");
    let mut tally = Tally::default();
    let mut outstanding: HashMap<u16, Instant> = HashMap::new();
    let mut query = Query::new(WWW, rtype::A);
    let mut next = Instant::now();
    while !stop.load(Ordering::SeqCst) || !outstanding.is_empty() {
        if !stop.load(Ordering::SeqCst) && Instant::now() >= next {
            next += PAUSE;
            query.id = query.id.wrapping_add(1);
            socket.send(&query.octets()).expect("a query sent");
            outstanding.insert(query.id, Instant::now());
            tally.sent += 1;
        }
        let mut buffer = [0; 4096];
        if let Ok(size) = socket.recv(&mut buffer) {
            let reply = Reply::parse(&buffer[..size]).expect("a well-formed reply");
            if let Some(sent) = outstanding.remove(&reply.id) {
                tally.slowest = tally.slowest.max(sent.elapsed());
                let addresses = reply.data(rtype::A).into_iter().map(str::to_owned).collect();
                tally.answers.push(Answer { rcode: reply.rcode(), addresses });
            }
        }
        let before = outstanding.len();
        outstanding.retain(|_, sent| sent.elapsed() < LOST_AFTER);
        tally.lost += before - outstanding.len();
    }
    tally
}

// Without a monitor, so that it tells of the asker alone.
#[test]
fn the_tests_asker_counts() {
    let net = super::Net::new();
    let pool = net.pool("p", "", &[1, 2]).replace("monitor = \"web\"\n", "");
    let server = Server::start(&super::site(&[pool, super::www(&["p"])]));
    let asker = Asker::start(&server);
    super::until(super::PATIENCE, "a few queries", || {
        super::answered(&server) == net.set(&[1, 2]) && !asker.thread.is_finished()
    });
    thread::sleep(PAUSE * 20);
    let tally = asker.finish();
    tally.assert_always(&net.ip(1).to_string());
    tally.assert_never(&net.ip(3).to_string());
    assert_eq!(tally.answers.len(), tally.sent);
}
