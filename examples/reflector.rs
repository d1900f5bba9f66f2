//! A reflector: sends every datagram back as a response, and does nothing else. How many a second it
//! takes is what the machine and its system calls allow a server of one worker; it waits, receives
//! and sends by the same calls as a worker does, on the same sockets, in batches of the same size.

#![allow(clippy::print_stderr, reason = "a command that says what is wrong")]

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use meridian::config::server::UdpSettings;
use meridian::serve::mmsg::Batch;
use meridian::serve::sockets::bind;

/// Sends every datagram back with the response bit set.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen: a loopback address, since anyone's reflector is everyone's
    #[arg(long, default_value = "127.0.0.1:15310")]
    listen: SocketAddr,
    /// How many datagrams go into one system call
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// The socket's buffers in octets
    #[arg(long, default_value_t = 1 << 20)]
    buffer: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.listen.ip().is_loopback() {
        eprintln!("reflector: {} is not a loopback address", arguments.listen);
        return ExitCode::from(2);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reflector: {error}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = UdpSettings {
        workers: 1,
        receive_buffer: arguments.buffer,
        send_buffer: arguments.buffer,
        ..UdpSettings::default()
    };
    let bound = bind(arguments.listen, false, &settings).map_err(io::Error::other)?;
    let mut batch = Batch::new(arguments.batch, false);
    let Some(socket) = bound.udp.first() else { return Ok(()) };
    loop {
        batch.receive(socket)?;
        for mut exchange in batch.exchanges(0) {
            let (query, reply) = exchange.parts();
            let length = query.len();
            let Some(reply) = reply.get_mut(..length) else { continue };
            reply.copy_from_slice(query);
            if let Some(flags) = reply.get_mut(2) {
                *flags |= 0x80;
            }
            exchange.send(length);
        }
        batch.send(socket);
    }
}
