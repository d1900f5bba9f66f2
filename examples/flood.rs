//! A bounded flood of DNS queries over UDP, to measure a server on the same machine: replays a list
//! of queries with their names, types and client subnets, keeps a window of them outstanding, and
//! checks each reply's id, question and response code.
//!
//! A line of the list is `NAME TYPE [SUBNET]`. Targets are loopback addresses and 198.18.0.0/15
//! (set aside for benchmarks, RFC 2544), so that nobody else is flooded by mistake.

#![allow(clippy::print_stdout, reason = "a command that prints its result")]

mod queries;

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn6, recvmmsg, sendmmsg};

use crate::queries::Query;

/// How many datagrams go into one system call.
const BATCH: usize = 32;
/// The largest reply that is taken.
const REPLY: usize = 1500;
/// How long a query may be outstanding before it counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

/// Floods a DNS server with queries from a list, bounded in number, time and rate.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server: a loopback address, or one of 198.18.0.0/15
    #[arg(long, default_value = "127.0.0.1:5300")]
    server: SocketAddr,
    /// The list of queries: lines of NAME TYPE [SUBNET]
    #[arg(long)]
    queries: PathBuf,
    /// Stop after this many queries
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Stop after this many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Queries per second; 0 for as many as the window allows
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// How many queries may be outstanding, over all ports
    #[arg(long, default_value_t = 512)]
    window: u16,
    /// From how many ports
    #[arg(long, default_value_t = 1)]
    ports: u16,
    /// Response codes other than this one are counted as wrong
    #[arg(long, default_value_t = 0)]
    rcode: u8,
    /// Send the list's queries without their client subnets
    #[arg(long)]
    no_subnets: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let benchmark =
        |ip| matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 198 && ip.octets()[1] & 0xfe == 18);
    let ip = arguments.server.ip();
    if !ip.is_loopback() && !benchmark(ip) {
        println!("flood: {ip} is neither a loopback address nor in 198.18.0.0/15");
        return ExitCode::from(2);
    }
    match run(&arguments) {
        Ok(result) => {
            result.print(arguments.json);
            if result.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            println!("flood: {error}");
            ExitCode::from(1)
        }
    }
}

/// An outstanding query.
#[derive(Clone, Copy)]
struct Flight {
    query: usize,
    sent: Instant,
}

/// What came of it.
#[derive(Default)]
struct Outcome {
    sent: u64,
    answered: u64,
    lost: u64,
    wrong: u64,
    seconds: f64,
    /// Microseconds, sorted.
    latencies: Vec<u32>,
}

impl Outcome {
    fn percentile(&self, thousandths: usize) -> u32 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * thousandths / 1000).copied().unwrap_or(0)
    }

    fn print(&self, json: bool) {
        // Counts of a run are far below 2^53.
        #[allow(clippy::cast_precision_loss, reason = "only shown")]
        let (rate, loss) =
            (self.answered as f64 / self.seconds, self.lost as f64 / (self.sent.max(1)) as f64);
        let [p50, p99, p999] = [500, 990, 999].map(|thousandths| self.percentile(thousandths));
        let Self { sent, answered, lost, wrong, seconds, .. } = self;
        if json {
            println!(
                "{{\"rate\": {rate:.0}, \"sent\": {sent}, \"answered\": {answered}, \"lost\": {lost}, \
                 \"wrong\": {wrong}, \"seconds\": {seconds:.3}, \"p50_us\": {p50}, \"p99_us\": {p99}, \
                 \"p999_us\": {p999}}}"
            );
        } else {
            println!("{rate:.0} answers/s over {seconds:.2} s");
            println!(
                "{sent} sent, {answered} answered, {lost} lost ({:.3} %), {wrong} wrong",
                loss * 100.0
            );
            println!("latency p50 {p50} us, p99 {p99} us, p99.9 {p999} us");
        }
    }
}

/// A socket with its share of the window: the slots' numbers are the queries' ids.
struct Port {
    socket: UdpSocket,
    flights: Vec<Option<Flight>>,
    free: Vec<u16>,
}

fn run(arguments: &Arguments) -> io::Result<Outcome> {
    let queries = queries::read(&arguments.queries, !arguments.no_subnets)?;
    let local = if arguments.server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let local = if arguments.server.ip().is_loopback() { local } else { "0.0.0.0:0" };
    let ports = arguments.ports.max(1);
    let share = (arguments.window / ports).max(1);
    let mut all = Vec::new();
    for _ in 0..ports {
        let socket = UdpSocket::bind(local)?;
        socket.connect(arguments.server)?;
        let buffers = socket2::SockRef::from(&socket);
        buffers.set_recv_buffer_size(4 << 20)?;
        buffers.set_send_buffer_size(4 << 20)?;
        let free = (0..share).rev().collect();
        all.push(Port { socket, flights: vec![None; usize::from(share)], free });
    }
    Flood {
        arguments,
        queries,
        next: 0,
        outcome: Outcome::default(),
        headers: MultiHeaders::preallocate(BATCH, None),
        replies: vec![[0; REPLY]; BATCH],
        outgoing: (0..BATCH).map(|_| Vec::with_capacity(512)).collect(),
    }
    .run(all)
}

struct Flood<'a> {
    arguments: &'a Arguments,
    queries: Vec<Query>,
    next: usize,
    outcome: Outcome,
    headers: MultiHeaders<SockaddrIn6>,
    replies: Vec<[u8; REPLY]>,
    outgoing: Vec<Vec<u8>>,
}

impl Flood<'_> {
    fn run(mut self, mut ports: Vec<Port>) -> io::Result<Outcome> {
        let start = Instant::now();
        let end = start + Duration::from_secs(self.arguments.seconds);
        let mut swept = start;
        loop {
            let now = Instant::now();
            let over = now >= end || self.outcome.sent >= self.arguments.count;
            let outstanding = ports.iter().any(|port| port.free.len() < port.flights.len());
            if over && (!outstanding || now >= end + LOST_AFTER) {
                break;
            }
            let mut allowed = if over { 0 } else { self.allowance(start, now) };
            for port in &mut ports {
                if allowed > 0 {
                    allowed -= self.send(port, allowed)?;
                }
                self.receive(port)?;
            }
            if now - swept > LOST_AFTER / 4 {
                swept = now;
                ports.iter_mut().for_each(|port| self.sweep(port, now));
            }
        }
        for port in &mut ports {
            self.sweep(port, Instant::now() + LOST_AFTER * 2);
        }
        self.outcome.seconds =
            start.elapsed().min(Duration::from_secs(self.arguments.seconds)).as_secs_f64();
        self.outcome.latencies.sort_unstable();
        Ok(self.outcome)
    }

    /// How many queries may be sent by now.
    fn allowance(&self, start: Instant, now: Instant) -> u64 {
        let left = self.arguments.count - self.outcome.sent;
        if self.arguments.rate == 0 {
            return left;
        }
        let due = u128::from(self.arguments.rate) * (now - start).as_nanos() / 1_000_000_000;
        left.min(u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.outcome.sent))
    }

    /// Sends a batch from one port; gives the number.
    fn send(&mut self, port: &mut Port, allowed: u64) -> io::Result<u64> {
        let most = usize::try_from(allowed).unwrap_or(usize::MAX).min(BATCH).min(port.free.len());
        if most == 0 {
            return Ok(0);
        }
        let now = Instant::now();
        for outgoing in self.outgoing.iter_mut().take(most) {
            let Some(id) = port.free.pop() else { break };
            let query = &self.queries[self.next];
            outgoing.clear();
            outgoing.extend_from_slice(&query.octets);
            outgoing[..2].copy_from_slice(&id.to_be_bytes());
            port.flights[usize::from(id)] = Some(Flight { query: self.next, sent: now });
            self.next = (self.next + 1) % self.queries.len();
        }
        let parts: Vec<[io::IoSlice<'_>; 1]> =
            self.outgoing.iter().take(most).map(|octets| [io::IoSlice::new(octets)]).collect();
        let addresses = [None::<SockaddrIn6>; BATCH];
        let sent = sendmmsg(
            port.socket.as_raw_fd(),
            &mut self.headers,
            &parts,
            &addresses[..most],
            [],
            MsgFlags::empty(),
        )?
        .count();
        // What the kernel did not take is sent again under the same id when it counts as lost.
        self.outcome.sent += sent as u64;
        Ok(sent as u64)
    }

    fn receive(&mut self, port: &mut Port) -> io::Result<()> {
        if port.free.len() == port.flights.len() {
            return Ok(());
        }
        let lengths = match receive_lengths(&port.socket, &mut self.headers, &mut self.replies) {
            Ok(lengths) => lengths,
            Err(nix::errno::Errno::EAGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        for (reply, length) in self.replies.iter().zip(lengths) {
            let reply = &reply[..length];
            let Some(&[high, low]) = reply.first_chunk::<2>() else { continue };
            let id = u16::from_be_bytes([high, low]);
            let Some(flight) = port.flights.get_mut(usize::from(id)).and_then(Option::take) else {
                // A late reply to a query that counted as lost.
                continue;
            };
            port.free.push(id);
            let query = &self.queries[flight.query];
            let right = query.is_answered_by(reply, self.arguments.rcode);
            self.outcome.wrong += u64::from(!right);
            self.outcome.answered += 1;
            let latency = (now - flight.sent).as_micros();
            self.outcome.latencies.push(u32::try_from(latency).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// Gives up queries that are outstanding for too long.
    fn sweep(&mut self, port: &mut Port, now: Instant) {
        for (id, flight) in (0u16..).zip(&mut port.flights) {
            if flight.is_some_and(|flight| now - flight.sent > LOST_AFTER) {
                *flight = None;
                port.free.push(id);
                self.outcome.lost += 1;
            }
        }
    }
}

/// Takes what has come, without waiting; gives the length of each datagram.
fn receive_lengths(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<SockaddrIn6>,
    replies: &mut [[u8; REPLY]],
) -> nix::Result<Vec<usize>> {
    let mut parts: Vec<[IoSliceMut<'_>; 1]> =
        replies.iter_mut().map(|reply| [IoSliceMut::new(reply)]).collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    let messages = recvmmsg(socket.as_raw_fd(), headers, parts.iter_mut(), flags, None)?;
    Ok(messages.map(|message| message.bytes).collect())
}
