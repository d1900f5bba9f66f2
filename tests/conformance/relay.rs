//! A relay between the resolvers and the server that is authoritative for `example.test`. It stands at the
//! addresses of ns1 and ns2, keeps what passes, and asks from the address of the resolver that asked it, so
//! that the server sees who comes.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::harness::framed;
use crate::wire::Reply;

/// The addresses of the name servers of the zone.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A query that passed, with its reply.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) client: IpAddr,
    pub(crate) over_tcp: bool,
    query: Vec<u8>,
    reply: Vec<u8>,
}

impl Exchange {
    pub(crate) fn query(&self) -> Reply {
        Reply::parse(&self.query).expect("a query that can be read")
    }

    pub(crate) fn reply(&self) -> Reply {
        Reply::parse(&self.reply).expect("a reply that can be read")
    }
}

/// The relay and what passed.
#[derive(Clone)]
pub(crate) struct Relay {
    port: u16,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Relay {
    /// Stands before the server at this port.
    pub(crate) fn start(port: u16) -> Self {
        let relay = Self { port, exchanges: Arc::default() };
        for address in ADDRESSES {
            let socket = UdpSocket::bind((address, 53)).expect("the port 53");
            let listener = TcpListener::bind((address, 53)).expect("the port 53");
            let (datagrams, streams) = (relay.clone(), relay.clone());
            thread::spawn(move || datagrams.carry_datagrams(&socket));
            thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let relay = streams.clone();
                    thread::spawn(move || relay.carry_stream(stream));
                }
            });
        }
        relay
    }

    /// What passed of one client.
    pub(crate) fn of(&self, client: IpAddr) -> Vec<Exchange> {
        let exchanges = self.exchanges.lock().expect("a list");
        exchanges.iter().filter(|exchange| exchange.client == client).cloned().collect()
    }

    fn server(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn keep(&self, client: IpAddr, over_tcp: bool, query: &[u8], reply: &[u8]) {
        let (query, reply) = (query.to_vec(), reply.to_vec());
        self.exchanges.lock().expect("a list").push(Exchange { client, over_tcp, query, reply });
    }

    fn carry_datagrams(&self, socket: &UdpSocket) {
        let mut buffer = [0; 65_535];
        while let Ok((size, client)) = socket.recv_from(&mut buffer) {
            let (relay, query) = (self.clone(), buffer[..size].to_vec());
            let socket = socket.try_clone().expect("a socket");
            thread::spawn(move || {
                let upstream = UdpSocket::bind((client.ip(), 0)).expect("the client's address");
                upstream.connect(relay.server()).expect("a local address");
                upstream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                upstream.send(&query).expect("a query sent");
                let mut buffer = [0; 65_535];
                if let Ok(size) = upstream.recv(&mut buffer) {
                    relay.keep(client.ip(), false, &query, &buffer[..size]);
                    socket.send_to(&buffer[..size], client).expect("a reply sent");
                }
            });
        }
    }

    /// Carries queries one by one until either side ends.
    fn carry_stream(&self, mut stream: TcpStream) -> Option<()> {
        let client = stream.peer_addr().ok()?.ip();
        let upstream = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let upstream = upstream.expect("a socket");
        upstream.bind(&SocketAddr::new(client, 0).into()).expect("the client's address");
        upstream.connect(&self.server().into()).expect("a connection");
        let mut upstream = TcpStream::from(upstream);
        loop {
            let query = read(&mut stream)?;
            upstream.write_all(&framed(&query)).ok()?;
            let reply = read(&mut upstream)?;
            self.keep(client, true, &query, &reply);
            stream.write_all(&framed(&reply)).ok()?;
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = [0; 2];
    stream.read_exact(&mut size).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(size))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}
