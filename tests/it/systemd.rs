//! The server under a service manager: what it is told (sd_notify(3)), what it passes (sd_listen_fds(3)),
//! and the units in packaging/. The tests act as the service manager; where a program of systemd's does it
//! is that.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::harness::{Run, SERVER, Server, Site, is_missing, program, receive};
use crate::wire::{Query, rtype};

/// How long a message may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The worst exposure that systemd-analyze may find in the unit, in tenths.
const WORST_EXPOSURE: &str = "--threshold=25";
/// Hands standard input and output over as the first sockets that a service manager passes.
const PASS: &str = "exec 3<&0 4>&1 </dev/null >/dev/null; LISTEN_PID=$$ exec \"$0\" \"$@\"";

/// Receives what a service manager is told.
struct Manager(UnixDatagram);

impl Manager {
    fn new(site: &Site) -> Self {
        let socket = UnixDatagram::bind(site.path().join("notify")).expect("a new socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self(socket)
    }

    /// The next message, as its lines. That the server is alive is left out.
    fn told(&self) -> Vec<String> {
        loop {
            let told = self.next();
            if told != ["WATCHDOG=1"] {
                return told;
            }
        }
    }

    fn next(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).expect("a message in time");
        let text = std::str::from_utf8(&buffer[..length]).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }
}

/// The time that a reload is told with, in microseconds.
fn monotonic(told: &[String]) -> u64 {
    assert_eq!(told[0], "RELOADING=1", "{told:?}");
    told[1].strip_prefix("MONOTONIC_USEC=").expect("the time").parse().expect("a number")
}

#[test]
fn a_service_manager_is_told_of_the_start_of_reloads_and_of_the_end() {
    let site = Site::with_zone("");
    let manager = Manager::new(&site);
    let mut command = site.command(&["serve"]);
    command.env("NOTIFY_SOCKET", site.path().join("notify")).env("WATCHDOG_USEC", "50000");
    let mut server = Server::of(command);
    server.address = server.next_address();
    assert_eq!(manager.told(), ["STATUS=waiting for the first probe results"]);
    assert_eq!(manager.told(), ["READY=1", "STATUS=serving generation 1"]);
    // Ready means that it answers.
    let query = Query::new("ns1.example.test", rtype::A);
    assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.53"]);
    assert_eq!(manager.next(), ["WATCHDOG=1"]);
    assert_eq!(manager.next(), ["WATCHDOG=1"]);

    server.signal("HUP");
    let first = monotonic(&manager.told());
    assert_eq!(manager.told(), ["READY=1", "STATUS=serving generation 2"]);
    site.write("zones/example.test.toml", "zone = 1");
    server.signal("HUP");
    assert!(monotonic(&manager.told()) > first);
    let told = manager.told();
    assert_eq!(told[0], "READY=1");
    let status = "STATUS=serving generation 2; a reload was refused: zones/example.test.toml:1:";
    assert!(told[1].starts_with(status), "{told:?}");

    server.signal("TERM");
    assert_eq!(manager.told(), ["STOPPING=1", "STATUS=stopping"]);
    assert_eq!(server.exit_code(), Some(0));
}

// A watchdog that is another process's is not answered for it.
#[test]
fn the_watchdog_of_another_process_is_left_alone() {
    let site = Site::with_zone("");
    let manager = Manager::new(&site);
    let mut command = site.command(&["serve"]);
    command.env("NOTIFY_SOCKET", site.path().join("notify"));
    command.env("WATCHDOG_USEC", "50000").env("WATCHDOG_PID", "1");
    let mut server = Server::of(command);
    server.wait_for("ready");
    server.reload("reloaded");
    server.signal("TERM");
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "STATUS=stopping") {
        told.extend(manager.next());
    }
    assert!(!told.iter().any(|line| line == "WATCHDOG=1"), "{told:?}");
}

/// `serve` with two passed sockets, as a service manager would start it.
fn passing(site: &Site, names: &str, first: OwnedFd, second: OwnedFd) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", PASS]).arg(program()).arg("serve").current_dir(site.path());
    command.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", names).env_remove("MERIDIAN_LOG");
    command.env_remove("NOTIFY_SOCKET");
    command.stdin(first).stdout(second).stderr(Stdio::piped());
    command
}

/// A UDP socket and a TCP listener of one address.
fn pair() -> (UdpSocket, TcpListener) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("an address")) {
            return (udp, tcp);
        }
    }
}

// Passed sockets take the place of those of the same address, several workers share the UDP socket, and what
// came before the server did is answered.
#[test]
fn passed_sockets_are_served_by_all_workers() {
    let (udp, tcp) = pair();
    let address = udp.local_addr().expect("an address");
    for names in ["dns:dns", ""] {
        let site = Site::with_zone("");
        let settings =
            format!("[server]\nlisten = [\"{address}\", \"127.0.0.1:0\"]\nworkers = 4\n");
        site.write("meridian.toml", settings);
        let early = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        early.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let query = Query::new("ns1.example.test", rtype::A);
        early.send_to(&query.octets(), address).expect("sent");
        let ours = |result: std::io::Result<OwnedFd>| result.expect("a copy");
        let (first, second) = (udp.try_clone().map(Into::into), tcp.try_clone().map(Into::into));
        let mut server = Server::of(passing(&site, names, ours(first), ours(second)));
        server.address = server.next_address();
        assert_eq!(server.address, address);
        let bound = server.next_address();
        server.wait_for("ready");
        assert_eq!(receive(&early).data(rtype::A), ["192.0.2.53"]);
        for _ in 0..100 {
            assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.53"]);
        }
        assert_eq!(server.ask_tcp(&query).data(rtype::A), ["192.0.2.53"]);
        server.address = bound;
        assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.53"]);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
    }
}

// The default addresses are for those who name none; a socket is passed for the admin service too.
#[test]
fn passed_sockets_replace_the_default_addresses() {
    let ((udp, _), (_, tcp)) = (pair(), pair());
    let address = udp.local_addr().expect("an address");
    let admin = tcp.local_addr().expect("an address");
    let site = Site::with_zone("");
    site.write("meridian.toml", format!("[admin]\nlisten = \"{admin}\"\n"));
    let mut server = Server::of(passing(&site, "dns:admin", udp.into(), tcp.into()));
    server.address = server.next_address();
    assert_eq!(server.address, address);
    let line = server.wait_for("ready");
    assert_eq!(server.admin_address(), admin);
    let listening = server.log_so_far().iter().filter(|l| l["fields"]["message"] == "listening");
    assert_eq!(listening.count(), 1, "{line}");
    let query = Query::new("ns1.example.test", rtype::A);
    assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.53"]);
}

#[test]
fn passed_sockets_that_cannot_be_used_are_one_clear_line() {
    let site = Site::with_zone("");
    let refusal = |names: &str, first: OwnedFd, second: OwnedFd| {
        Run::finish(passing(&site, names, first, second)).refusal().to_owned()
    };
    let new = || {
        let (udp, tcp) = pair();
        (OwnedFd::from(udp), OwnedFd::from(tcp))
    };
    let (udp, tcp) = new();
    let line = refusal("dns:meridian.socket", udp, tcp);
    assert!(line.contains("\"meridian.socket\"") && line.contains("FileDescriptorName="), "{line}");
    let (udp, tcp) = new();
    let line = refusal("dns:dot", udp, tcp);
    assert!(line.contains("no table [tls]"), "{line}");
    let (udp, tcp) = new();
    let line = refusal("admin:dns", udp, tcp);
    assert!(line.contains("passed as admin what cannot be used"), "{line}");
    let both = Socket::new(Domain::IPV6, Type::DGRAM, None).expect("a socket");
    both.set_only_v6(false).expect("both families");
    let any = std::net::SocketAddr::from(([0_u16; 8], 0));
    both.bind(&any.into()).expect("a free port");
    let line = refusal("dns:dns", both.into(), new().1);
    assert!(line.contains("BindIPv6Only=ipv6-only"), "{line}");
    let (_, listener) = pair();
    let address = listener.local_addr().expect("an address");
    let connection = std::net::TcpStream::connect(address).expect("a connection");
    let line = refusal("dns:dns", new().0, connection.into());
    assert!(line.contains("Accept=no"), "{line}");
}

// The number is somebody else's: no room is made for two thousand million sockets.
#[test]
fn a_number_of_passed_sockets_that_cannot_be_is_one_clear_line() {
    let site = Site::with_zone("");
    for count in ["2000000000", "99999999999999999999", "-1", "two", ""] {
        let (udp, tcp) = pair();
        let mut command = passing(&site, "dns:dns", udp.into(), tcp.into());
        command.env("LISTEN_FDS", count);
        let run = Run::finish(command);
        let line = run.refusal();
        assert!(
            line.contains(&format!("LISTEN_FDS says that the service manager passed {count:?}")),
            "{line}"
        );
        assert!(line.contains("without LISTEN_FDS"), "{line}");
    }
    // What is meant for another process says nothing.
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("LISTEN_FDS", "2000000000").env("LISTEN_PID", "1");
    let mut server = Server::of(command);
    server.wait_for("ready");
}

// A real program of systemd's: it starts the server when the first query comes, which is answered.
#[test]
fn the_query_that_starts_the_server_is_answered() {
    if is_missing("systemd-socket-activate", "--version", "systemd") {
        return;
    }
    let site = Site::with_zone("");
    site.write("meridian.toml", SERVER);
    let (udp, tcp) = pair();
    let address = udp.local_addr().expect("an address");
    drop((udp, tcp));
    let mut command = Command::new("systemd-socket-activate");
    command.args(["--datagram", "--fdname=dns", "--listen", &address.to_string()]);
    command.arg(program()).args(["serve", "--listen", "127.0.0.1:0"]).current_dir(site.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Server::of(command);
    server.address = address;
    let query = Query::new("ns1.example.test", rtype::A);
    let socket = server.socket();
    let deadline = Instant::now() + PATIENCE;
    // Until it listens the port is closed, which the next call says.
    while !has_socket(address.port()) {
        assert!(Instant::now() < deadline, "systemd-socket-activate does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    socket.send(&query.octets()).expect("sent");
    assert_eq!(receive(&socket).data(rtype::A), ["192.0.2.53"]);
}

/// True if a UDP socket is bound to this port.
fn has_socket(port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/udp").expect("proc");
    table.contains(&format!(":{port:04X} 00000000:0000"))
}

// ---------------------------------------------------------------------------------- Units

/// The units of packaging/, in a folder of their own, with the program that is tested.
fn packaged() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    for unit in ["meridian.service", "meridian.socket"] {
        let text = fs::read_to_string(packaging.join(unit)).expect("a unit");
        let text = text.replace("/usr/bin/meridian", program().to_str().expect("a path"));
        fs::write(folder.path().join(unit), text).expect("a new file");
    }
    folder
}

fn analyze(arguments: &[&str], units: &[&str]) {
    let folder = packaged();
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .args(units.iter().map(|unit| folder.path().join(unit)))
        .output()
        .expect("systemd-analyze");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.trim().is_empty(), "{arguments:?}: {out}\n{err}");
}

#[test]
fn the_units_are_valid_and_hardened() {
    if is_missing("systemd-analyze", "--version", "systemd") {
        return;
    }
    analyze(&["verify", "--man=no"], &["meridian.service", "meridian.socket"]);
    analyze(&["security", "--offline=true", WORST_EXPOSURE], &["meridian.service"]);
}
