//! Packets that no client makes. A row writes one in hexadecimal, with `[name]` for a name in wire form, and
//! `N*XX` for an octet that is repeated.

use std::io::Write as _;

use crate::harness::{Server, framed};
use crate::wire::{Query, Reply, name_octets, rtype};

/// The octets that a row writes.
pub(crate) fn octets(words: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    for word in words.split_whitespace() {
        if let Some(name) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            octets.extend(name_octets(name));
        } else if let Some((times, octet)) = word.split_once('*') {
            octets.extend(hexadecimal(octet).repeat(times.parse().expect("a number of times")));
        } else {
            octets.extend(hexadecimal(word));
        }
    }
    octets
}

fn hexadecimal(word: &str) -> Vec<u8> {
    data_encoding::HEXLOWER_PERMISSIVE.decode(word.as_bytes()).expect("hexadecimal digits")
}

/// Sends a packet over UDP: the reply, or none if a good query sent after it was answered instead.
pub(crate) fn over_udp(server: &Server, packet: &[u8]) -> Option<Reply> {
    server.reply_or_silence(packet)
}

/// Sends a packet over TCP, with a good query after it. Silence is also the end of the connection.
pub(crate) fn over_tcp(server: &Server, packet: &[u8]) -> Option<Reply> {
    let good = Query::new("example.test", rtype::SOA);
    let mut stream = server.connect();
    stream.write_all(&framed(packet)).expect("a packet sent");
    // It may have ended the connection already.
    let _sent = stream.write_all(&framed(&good.octets()));
    let reply = read(&mut stream)?;
    (reply.id != good.id).then_some(reply)
}

fn read(stream: &mut impl std::io::Read) -> Option<Reply> {
    let mut size = [0; 2];
    stream.read_exact(&mut size).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(size))];
    stream.read_exact(&mut message).ok()?;
    Some(Reply::parse(&message).unwrap_or_else(|error| panic!("a bad reply: {error}")))
}
