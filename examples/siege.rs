//! What a server has to bear besides its clients, in bounded amounts and from loopback alone: TCP
//! connections that do nothing or hold a message back (`connections`), or a flood of datagrams that no
//! client sends (`malformed`). `benches/siege.sh` measures what that does to the others.

#![allow(clippy::print_stdout, reason = "it is a program, and its output is its result")]

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

#[path = "random/mod.rs"]
mod random;

use random::Random;

/// Besieges a server
#[derive(Debug, Parser)]
struct Arguments {
    /// The server: a loopback address
    #[arg(long, default_value = "127.0.0.1:5300", global = true)]
    server: SocketAddr,
    /// For how many seconds
    #[arg(long, default_value_t = 10, global = true)]
    seconds: u64,
    #[command(subcommand)]
    by: By,
}

#[derive(Debug, Subcommand)]
enum By {
    /// TCP connections; says "ready" when all of them stand
    Connections {
        /// How many do nothing
        #[arg(long, default_value_t = 10_000)]
        idle: usize,
        /// How many send half of the largest message, then one octet a second
        #[arg(long, default_value_t = 1_000)]
        slow: usize,
    },
    /// Datagrams that are no well-formed queries
    Malformed {
        /// How many a second
        #[arg(long, default_value_t = 50_000)]
        rate: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.server.ip().is_loopback() {
        println!("siege: {} is no loopback address", arguments.server.ip());
        return ExitCode::from(2);
    }
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let done = match arguments.by {
        By::Connections { idle, slow } => connections(arguments.server, idle, slow, end),
        By::Malformed { rate } => malformed(arguments.server, rate, end),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("siege: {error}");
            ExitCode::from(1)
        }
    }
}

/// Holds connections until the end.
fn connections(server: SocketAddr, idle: usize, slow: usize, end: Instant) -> io::Result<()> {
    let connect = |_| TcpStream::connect(server);
    let idle: Vec<_> = (0..idle).map(connect).collect::<Result<_, _>>()?;
    let mut slow: Vec<_> = (0..slow).map(connect).collect::<Result<_, _>>()?;
    let mut half = vec![0; 2 + 32 * 1024];
    half[..2].fill(0xff);
    for stream in &mut slow {
        stream.write_all(&half)?;
    }
    println!("ready");
    let mut ended = 0;
    while Instant::now() < end {
        thread::sleep(Duration::from_secs(1));
        let before = slow.len();
        slow.retain_mut(|stream| stream.write_all(&[0]).is_ok());
        ended += before - slow.len();
    }
    println!("{} idle, {} slow, {ended} of these ended by the server", idle.len(), slow.len());
    Ok(())
}

/// Sends malformed datagrams at a steady rate, and takes what comes back.
fn malformed(server: SocketAddr, rate: u64, end: Instant) -> io::Result<()> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    let mut random = Random(0x0073_6965_6765);
    let (start, mut sent, mut replies) = (Instant::now(), 0_u64, 0_u64);
    let mut reply = [0; 2048];
    loop {
        let now = Instant::now();
        if now >= end {
            break;
        }
        let due = u128::from(rate) * (now - start).as_micros() / 1_000_000;
        while u128::from(sent) < due {
            match socket.send(&datagram(&mut random)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            sent += 1;
        }
        while socket.recv(&mut reply).is_ok() {
            replies += 1;
        }
        thread::sleep(Duration::from_micros(200));
    }
    println!("{sent} malformed datagrams, {replies} replies");
    Ok(())
}

/// One of the kinds of faults, in turn by chance.
fn datagram(random: &mut Random) -> Vec<u8> {
    let mut query = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    query.extend(b"\x03www\x07example\x03com\x00\x00\x01\x00\x01");
    let name = 12..query.len() - 4;
    let option = query.len() + 11;
    query.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100]);
    let octet = random.next().to_le_bytes();
    let index = |limit: usize| usize::from(octet[0]) % limit;
    match random.below(8) {
        // Octets without any order.
        0 => (0..8 + index(64)).map(|_| random.next().to_le_bytes()[0]).collect(),
        // Cut off anywhere behind the header.
        1 => query[..12 + index(query.len() - 12)].to_vec(),
        // More in the counts than there is.
        2 => {
            query[4 + index(8)] = octet[1] | 2;
            query
        }
        // A name that points at itself, or whose label is too long.
        3 => {
            query[name.start] = if octet[1] & 1 == 0 { 0xc0 } else { 0x40 | octet[2] & 0x3f };
            query[name.start + 1] = 12;
            query
        }
        // Options that lie about their length.
        4 => {
            query[option + 3] = octet[1];
            query
        }
        // A client subnet with bits beyond its prefix.
        5 => {
            query[option + 6] = octet[1];
            query
        }
        // Octets behind the message.
        6 => {
            query.extend(octet);
            query
        }
        // An answer.
        _ => {
            query[2] |= 0x80;
            query
        }
    }
}
