//! Servers of other makes as secondaries: they transfer a zone, signed, and follow a notification after a
//! reload (RFC 5936, 8945, 1996).

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Server, Site, ZONE_HEAD, is_missing, receive};
use crate::transfers::{SECRET, settings};
use crate::wire::{Query, Reply, bit, rcode, rtype};

/// How long a secondary may take. Until it listens it cannot be notified, and the next time is up to 32 s
/// later.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
const ZONE: &str = "zones/example.test.toml";

/// A secondary, which is ended with the test.
struct Secondary {
    process: Child,
    address: SocketAddr,
}

impl Drop for Secondary {
    fn drop(&mut self) {
        // It may have ended by itself: that is not this function's business.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

impl Secondary {
    fn start(program: &str, arguments: &[&str], folder: &Path, address: SocketAddr) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        let log = fs::File::create(folder.join("log")).expect("a file");
        let process = command.stderr(log).spawn().expect("a process");
        Self { process, address }
    }

    /// What it answers; none if it does not.
    fn ask(&self, name: &str, qtype: u16) -> Option<Reply> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.connect(self.address).expect("a local address");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        socket.send(&Query::new(name, qtype).octets()).ok()?;
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).ok()?;
        Reply::parse(&buffer[..length]).ok()
    }

    /// Waits until it answers with this serial.
    fn wait_for_serial(&self, serial: u32, folder: &Path) {
        let start = Instant::now();
        let wanted = format!(" {serial} ");
        loop {
            let reply = self.ask("example.test", rtype::SOA);
            let answers = reply.iter().flat_map(|reply| &reply.answer);
            if answers.into_iter().any(|record| record.data.contains(&wanted)) {
                return;
            }
            let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "serial {serial} does not come: {}", log());
            thread::sleep(LOOK);
        }
    }
}

/// A port that is free for UDP at the moment.
fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("its address")
}

fn zone(serial: u32, address: &str, secondary: SocketAddr) -> String {
    let head = ZONE_HEAD.replace("serial = 1", &format!("serial = {serial}"));
    format!(
        "transfer = {{ allow = [\"127.0.0.1\"], keys = [\"xfr.example.test\"], \
         notify = [{{ address = \"{secondary}\", key = \"xfr.example.test\" }}] }}\n{head}\n\
         [[records]]\nname = \"new\"\ntype = \"A\"\ndata = [\"{address}\"]\n\
         [pools.p]\norigins = [{{ name = \"o\", address = \"192.0.2.7\" }}]\n\
         [load_balancers.www]\npools = [\"p\"]\nfallback_pool = \"p\"\n"
    )
}

/// Serves a zone, and a secondary of it that `start` starts: it gets the zone, and the next version of it
/// as soon as that is served.
fn follows(start: impl FnOnce(&Path, SocketAddr, SocketAddr) -> Secondary) {
    let site = Site::new();
    let address = free_address();
    site.write(ZONE, zone(1, "192.0.2.10", address));
    site.write("meridian.toml", settings());
    site.write("xfr.key", SECRET);
    let mut server = Server::start(&site);
    let folder = site.path().join("secondary");
    fs::create_dir(&folder).expect("a folder");
    let secondary = start(&folder, server.address, address);
    secondary.wait_for_serial(1, &folder);
    let www = secondary.ask("www.example.test", rtype::A).expect("a reply");
    assert_eq!(www.data(rtype::A), ["192.0.2.7"]);
    // The secondary would ask by itself after two hours.
    site.write(ZONE, zone(2, "192.0.2.20", address));
    server.reload("reloaded");
    let mut told = server.wait_for("notified");
    while told["fields"]["serial"] != 2 {
        told = server.wait_for("notified");
    }
    assert_eq!(told["fields"]["zone"], "example.test.", "{told}");
    secondary.wait_for_serial(2, &folder);
    let new = secondary.ask("new.example.test", rtype::A).expect("a reply");
    assert_eq!(new.data(rtype::A), ["192.0.2.20"]);
}

#[test]
fn nsd_transfers_a_zone_and_follows_a_notification() {
    if is_missing("/usr/sbin/nsd", "-v", "nsd") {
        return;
    }
    follows(|folder, primary, address| {
        let shown = folder.display();
        let (primary, port) = (primary.port(), address.port());
        let configuration = format!(
            "server:\n  ip-address: 127.0.0.1@{port}\n  username: \"\"\n  chroot: \"\"\n  \
             zonesdir: \"{shown}\"\n  pidfile: \"{shown}/pid\"\n  xfrdfile: \"{shown}/xfrd.state\"\n  \
             xfrdir: \"{shown}\"\n  zonelistfile: \"{shown}/zone.list\"\n  database: \"\"\n  \
             verbosity: 2\nremote-control:\n  control-enable: no\n\
             key:\n  name: xfr.example.test\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
             zone:\n  name: example.test\n  zonefile: example.test.zone\n  \
             request-xfr: AXFR 127.0.0.1@{primary} xfr.example.test\n  \
             allow-notify: 127.0.0.1 xfr.example.test\n"
        );
        fs::write(folder.join("nsd.conf"), configuration).expect("a file");
        Secondary::start("/usr/sbin/nsd", &["-d", "-c", "nsd.conf"], folder, address)
    });
}

#[test]
fn knot_transfers_a_zone_and_follows_a_notification() {
    if is_missing("/usr/sbin/knotd", "-V", "knot") {
        return;
    }
    follows(|folder, primary, address| {
        let shown = folder.display();
        let (primary, port) = (primary.port(), address.port());
        let configuration = format!(
            "server:\n  listen: 127.0.0.1@{port}\n  rundir: {shown}\n\
             database:\n  storage: {shown}\n\
             log:\n  - target: stderr\n    any: info\n\
             key:\n  - id: xfr.example.test\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
             remote:\n  - id: primary\n    address: 127.0.0.1@{primary}\n    key: xfr.example.test\n\
             acl:\n  - id: told\n    address: 127.0.0.1\n    key: xfr.example.test\n    action: notify\n\
             zone:\n  - domain: example.test\n    storage: {shown}\n    master: primary\n    acl: told\n"
        );
        fs::write(folder.join("knot.conf"), configuration).expect("a file");
        Secondary::start("/usr/sbin/knotd", &["-c", "knot.conf"], folder, address)
    });
}

/// The next notification that comes, and from where.
fn notification(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 4096];
    let (length, from) = socket.recv_from(&mut buffer).expect("a notification in time");
    (buffer[..length].to_vec(), from)
}

// RFC 1996 3.6, 3.7: the message, that it is sent again until there is a reply, and when it is not sent.
#[test]
fn a_notification_is_repeated_until_it_is_answered() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let address = socket.local_addr().expect("its address");
    let site = Site::new();
    let text = |serial, data: &str| {
        let keyed = format!("{{ address = \"{address}\", key = \"xfr.example.test\" }}");
        zone(serial, data, address).replace(&keyed, &format!("\"{address}\""))
    };
    site.write(ZONE, text(1, "192.0.2.10"));
    site.write("meridian.toml", settings());
    site.write("xfr.key", SECRET);
    let mut server = Server::start(&site);
    let (first, _) = notification(&socket);
    let (second, from) = notification(&socket);
    let answer = |message: &[u8], rcode: u8, to: SocketAddr| {
        let mut reply = message.to_vec();
        reply[2] |= 0x80;
        reply[3] = rcode;
        socket.send_to(&reply, to).expect("sent");
    };
    // Another id, and a query in place of a reply: neither counts.
    let mut wrong = second.clone();
    wrong[0] ^= 1;
    answer(&wrong, 0, from);
    socket.send_to(&second, from).expect("sent");
    for message in [&first, &second] {
        let mut as_reply = message.clone();
        as_reply[2] |= 0x80;
        let read = Reply::parse(&as_reply).expect("a well-formed message");
        assert_eq!(read.flags & !bit::QR, 4 << 11 | bit::AA, "opcode and AA, nothing else");
        assert_eq!(read.question, Query::new("example.test", rtype::SOA).question());
        assert!(read.answer.len() == 1 && read.answer[0].data.contains(" 1 "), "{read:?}");
    }
    assert_ne!(first[..2], second[..2], "ids are new");
    let (third, from) = notification(&socket);
    answer(&third, 0, from);
    let told = server.wait_for("notified");
    assert_eq!(told["fields"]["tries"], 3, "{told}");
    // Other data with the same serial are nobody's news.
    site.write(ZONE, text(1, "192.0.2.11"));
    server.reload("reloaded");
    site.write(ZONE, text(2, "192.0.2.12"));
    server.reload("reloaded");
    let (message, from) = notification(&socket);
    let serial_at = message.len() - 20;
    assert_eq!(message[serial_at..serial_at + 4], [0, 0, 0, 2]);
    answer(&message, 5, from);
    let failed = server.wait_for("a secondary could not be notified");
    assert!(failed["fields"]["reason"].as_str().is_some_and(|why| why.contains("REFUSED")));
    // What comes in is not taken.
    let incoming = Query::new("example.test", rtype::SOA).opcode(4);
    let own = server.socket();
    own.send(&incoming.octets()).expect("sent");
    assert_eq!(receive(&own).rcode(), rcode::NOTIMP);
}
