//! What the machine does or does not give: addresses that come later, room for the state (operations.md).
//! Each needs a namespace of its own, and so root.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Server, Site, framed, read_framed, receive, run_inside};
use crate::streams::write_certificate;
use crate::wire::{Query, rtype};

const NAME: &str = "ns1.example.test";
const DATA: [&str; 1] = ["192.0.2.53"];
/// Addresses that no machine has.
const LATER: [&str; 2] = ["198.51.100.7", "2001:db8::7"];

// operations.md: "Listening on addresses that are not there yet (anycast) is possible (`freebind`)."
#[test]
fn addresses_that_come_later_can_be_listened_on() {
    let inner = "environment::inside_a_network_of_its_own";
    run_inside(&["-n"], "ip link set lo up", inner);
}

#[test]
#[ignore = "run by the test above, in a network namespace"]
fn inside_a_network_of_its_own() {
    let site = Site::with_zone("");
    write_certificate(&site, "example.test");
    let settings = |freebind| {
        let [four, six] = LATER;
        format!(
            "[server]\nlisten = [\"{four}:53\", \"[{six}]:53\"]\nworkers = 2\n{freebind}\n[tls]\n\
             cert = \"cert.pem\"\nkey = \"key.pem\"\ndot = [\"{four}:853\"]\n"
        )
    };
    site.write("meridian.toml", settings(""));
    let run = site.run(&["serve"]);
    assert!(run.refusal().contains("set freebind = true"), "{}", run.stderr);

    site.write("meridian.toml", settings("freebind = true"));
    let mut server = Server::spawn(&site, &["serve"]);
    server.wait_for("ready");
    let query = Query::new(NAME, rtype::A);
    for address in LATER {
        let ip: IpAddr = address.parse().expect("an address");
        let length = if ip.is_ipv4() { 32 } else { 128 };
        let added = Command::new("ip")
            .args(["address", "add", &format!("{address}/{length}"), "dev", "lo"])
            .status();
        assert!(added.expect("the program ip").success());
        let local = if ip.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let socket = UdpSocket::bind(local).expect("a free port");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        socket.connect(SocketAddr::new(ip, 53)).expect("an address that is there now");
        socket.send(&query.octets()).expect("sent");
        assert_eq!(receive(&socket).data(rtype::A), DATA, "{address}");
        let mut stream = TcpStream::connect(SocketAddr::new(ip, 53)).expect("a connection");
        stream.write_all(&framed(&query.octets())).expect("sent");
        assert_eq!(read_framed(&mut stream).data(rtype::A), DATA, "{address}");
    }
    TcpStream::connect((LATER[0], 853)).expect("a connection for TLS");
}

// operations.md: "The state folder … unwritable or full: warn, … keep serving."
#[test]
fn a_full_state_folder_is_warned_of_and_serving_goes_on() {
    run_inside(&["-m"], "true", "environment::inside_mounts_of_its_own");
}

#[test]
#[ignore = "run by the test above, in a mount namespace"]
fn inside_mounts_of_its_own() {
    // The serial is derived, and so would be kept.
    let site = Site::new();
    let zone = |address: &str| {
        let head = crate::harness::ZONE_HEAD.replace("serial = 1\n", "");
        format!("{head}\n[[records]]\nname = \"a\"\ntype = \"A\"\ndata = [\"{address}\"]\n")
    };
    let state = site.path().join("state");
    fs::create_dir(&state).expect("a new folder");
    let tmpfs = ["-t", "tmpfs", "-o", "size=64k", "none"];
    let mounted = Command::new("mount").args(tmpfs).arg(&state).status().expect("mount");
    assert!(mounted.success());
    let mut filler = fs::File::create(state.join("filler")).expect("a file");
    while filler.write_all(&[0; 1024]).is_ok() {}
    drop(filler);

    site.write("zones/example.test.toml", zone("192.0.2.1"));
    let mut server = Server::start(&site);
    let warned = server.log_so_far().iter().any(|line| {
        let message = &line["fields"]["message"];
        line["level"] == "WARN"
            && message.as_str().is_some_and(|text| text.contains("state folder cannot"))
    });
    assert!(warned, "{:#?}", server.log_so_far());
    let query = Query::new("a.example.test", rtype::A);
    assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.1"]);
    site.write("zones/example.test.toml", zone("192.0.2.2"));
    server.reload("reloaded");
    assert_eq!(server.ask(&query).data(rtype::A), ["192.0.2.2"]);

    // Once there is room again, what is new is kept; and nothing half-written is left.
    fs::remove_file(state.join("filler")).expect("a file");
    site.write("zones/example.test.toml", zone("192.0.2.3"));
    server.reload("reloaded");
    let left: Vec<_> = fs::read_dir(&state)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    assert_eq!(left, ["serials.json"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let unmounted = Command::new("umount").arg(&state).status();
    assert!(unmounted.expect("umount").success());
}
