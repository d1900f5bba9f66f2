//! Asks steadily, and checks each answer against what is known of the origins.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};

use crate::origin::Record;

/// After this time without a reply a query is lost.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// How long the server may take to come up.
const START: Duration = Duration::from_secs(30);
/// How long to sleep when there is nothing to do.
const IDLE: Duration = Duration::from_micros(500);

/// What is asked and checked.
pub(crate) struct Site {
    pub(crate) server: SocketAddr,
    pub(crate) rate: u32,
    pub(crate) pools: usize,
    /// An origin that is down for longer is not answered.
    pub(crate) limit: Duration,
    pub(crate) start: Instant,
    pub(crate) origins: Vec<Arc<Record>>,
    pub(crate) stop: AtomicBool,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) lost: u64,
    /// Replies that are no good answer: a response code, or no address.
    pub(crate) wrong: u64,
    pub(crate) slowest: Duration,
    pub(crate) violations: Vec<String>,
    /// For each fault that an answer showed: how long after its begin the last such query was sent.
    pub(crate) detections: Vec<Duration>,
}

impl Site {
    /// Asks until it is told to stop.
    pub(crate) fn ask(&self) -> io::Result<Outcome> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(self.server)?;
        socket.set_nonblocking(true)?;
        let queries = self.queries()?;
        let mut outcome = Outcome::default();
        let mut flights: HashMap<u16, Duration> = HashMap::new();
        // For each origin: since when it was down when an answer had it, and that query's delay.
        let mut seen: HashMap<IpAddr, (Duration, Duration)> = HashMap::new();
        let mut id = 0_u16;
        loop {
            let now = self.start.elapsed();
            let stopped = self.stop.load(Ordering::SeqCst);
            if stopped && flights.is_empty() {
                break;
            }
            let due =
                u64::try_from(now.as_micros()).unwrap_or(0) * u64::from(self.rate) / 1_000_000;
            if !stopped && outcome.sent < due {
                id = id.wrapping_add(1);
                let mut octets = queries[usize::from(id) % queries.len()].clone();
                octets[..2].copy_from_slice(&id.to_be_bytes());
                flights.insert(id, self.start.elapsed());
                socket.send(&octets)?;
                outcome.sent += 1;
            }
            let mut buffer = [0; 4096];
            match socket.recv(&mut buffer) {
                Ok(size) => {
                    let reply = buffer.get(..size).unwrap_or_default();
                    self.check(reply, &mut flights, &mut seen, &mut outcome);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(IDLE),
                Err(error) => return Err(error),
            }
            let before = flights.len();
            if outcome.sent % 64 == 0 || stopped {
                flights.retain(|_, sent| now.saturating_sub(*sent) < LOST_AFTER);
            }
            outcome.lost += (before - flights.len()) as u64;
        }
        outcome.detections.extend(seen.into_values().map(|(_, delay)| delay));
        Ok(outcome)
    }

    fn check(
        &self,
        octets: &[u8],
        flights: &mut HashMap<u16, Duration>,
        seen: &mut HashMap<IpAddr, (Duration, Duration)>,
        outcome: &mut Outcome,
    ) {
        let Ok(reply) = Message::from_vec(octets) else {
            outcome.wrong += 1;
            return;
        };
        let Some(sent) = flights.remove(&reply.metadata.id) else { return };
        outcome.answered += 1;
        outcome.slowest = outcome.slowest.max(self.start.elapsed().saturating_sub(sent));
        let good =
            reply.metadata.response_code == ResponseCode::NoError && !reply.answers.is_empty();
        outcome.wrong += u64::from(!good);
        for record in &reply.answers {
            let RData::A(address) = &record.data else { continue };
            let ip = IpAddr::V4(Ipv4Addr::from(*address));
            let Some(origin) = self.origins.iter().find(|origin| origin.ip == ip) else {
                outcome.wrong += 1;
                continue;
            };
            // The answer was made after the query was sent.
            let Some(since) = origin.down_since().filter(|since| *since < sent) else { continue };
            let delay = sent - since;
            let (last, longest) = seen.entry(ip).or_insert((since, delay));
            if *last != since {
                outcome.detections.push(*longest);
                *last = since;
            }
            *longest = delay;
            if delay > self.limit {
                let at = sent.as_secs_f64();
                let millis = delay.as_millis();
                let text = format!("at {at:.3} s: {ip} was answered, down for {millis} ms");
                outcome.violations.push(text);
            }
        }
    }

    fn queries(&self) -> io::Result<Vec<Vec<u8>>> {
        let names = (0..self.pools).flat_map(|pool| [format!("one{pool}"), format!("all{pool}")]);
        names.map(|name| query(&format!("{name}.soak.test."))).collect()
    }
}

fn query(name: &str) -> io::Result<Vec<u8>> {
    let name = Name::from_ascii(name).map_err(io::Error::other)?;
    let mut message = Message::new(0, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name, RecordType::A));
    message.to_vec().map_err(io::Error::other)
}

/// Asks until there is an answer.
pub(crate) fn wait_for_an_answer(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let start = Instant::now();
    while start.elapsed() < START {
        socket.send(&query("one0.soak.test.")?).or_else(|error| refused(&error))?;
        match socket.recv(&mut [0; 4096]) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                refused(&error)?;
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
    Err(io::Error::other("the server does not answer"))
}

/// That nobody listens yet is no error.
fn refused(error: &io::Error) -> io::Result<usize> {
    if error.kind() == ErrorKind::ConnectionRefused { Ok(0) } else { Err(error.kind().into()) }
}
