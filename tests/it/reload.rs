//! The life of the server: what a reload changes and what it refuses, and how the program ends or
//! does not come up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Run, SERVER, Server, Site, ZONE_HEAD, framed, receive};
use crate::wire::{Query, rcode, rtype};

const ZONE: &str = "zones/example.test.toml";

/// A zone whose load balancer `www` answers both of these addresses.
fn zone(addresses: [&str; 2]) -> String {
    let [first, second] = addresses;
    format!(
        "{ZONE_HEAD}[pools.p]\norigins = [{{ name = \"p1\", address = \"{first}\" }}, \
         {{ name = \"p2\", address = \"{second}\" }}]\n\
         [load_balancers.www]\npools = [\"p\"]\nanswers = \"all\"\n"
    )
}

const OLD: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const NEW: [&str; 2] = ["192.0.2.3", "192.0.2.4"];

fn site() -> Site {
    let site = Site::new();
    site.write(ZONE, zone(OLD));
    site
}

fn www(server: &Server) -> Vec<String> {
    let reply = server.ask(&Query::new("www.example.test", rtype::A));
    let mut addresses: Vec<String> = reply.data(rtype::A).into_iter().map(str::to_owned).collect();
    addresses.sort_unstable();
    addresses
}

// ---------------------------------------------------------------------------------- Reload

// config.md: "A reload (SIGHUP ...) builds the new state beside the old and swaps it in whole".
#[test]
fn a_good_change_is_served_after_a_reload() {
    let site = site();
    let mut server = Server::start(&site);
    assert_eq!(www(&server), OLD);
    site.write(ZONE, zone(NEW));
    assert_eq!(www(&server), OLD, "nothing changes before the reload");
    let line = server.reload("reloaded");
    assert!(!line["fields"]["generation"].is_null(), "{line}");
    assert_eq!(www(&server), NEW);
}

#[test]
fn zones_come_and_go_with_a_reload() {
    let site = site();
    let mut server = Server::start(&site);
    let other = Query::new("ns1.other.test", rtype::A);
    assert_eq!(server.ask(&other).rcode(), rcode::REFUSED);
    site.write("zones/other.test.toml", ZONE_HEAD.replace("example.test", "other.test"));
    server.reload("reloaded");
    assert_eq!(server.ask(&other).data(rtype::A), ["192.0.2.53"]);
    std::fs::remove_file(site.path().join(ZONE)).expect("a file");
    server.reload("reloaded");
    let reply = server.ask(&Query::new("www.example.test", rtype::A));
    assert_eq!(reply.rcode(), rcode::REFUSED);
}

// config.md: "All of geo/ is reloaded with the zones."
#[test]
fn geography_is_reloaded_too() {
    let site = Site::with_zone(
        r#"
[pools]
near = { origins = [{ name = "n1", address = "192.0.2.1" }] }
far = { origins = [{ name = "f1", address = "192.0.2.2" }] }
[load_balancers.www]
steering = "geo"
pools = ["far"]
region_pools = { here = ["near"] }
"#,
    );
    site.write("geo/regions.toml", "[regions.here]\ncountries = [\"NL\"]\n");
    let mut server = Server::start(&site);
    let ask = |server: &Server| server.addresses("www.example.test", rtype::A, ("10.1.0.0", 16));
    assert_eq!(ask(&server), ["192.0.2.2"]);
    site.write("geo/subnets.toml", "[subnets.\"10.0.0.0/8\"]\nregion = \"here\"\n");
    server.reload("reloaded");
    assert_eq!(ask(&server), ["192.0.2.1"]);
}

// config.md: "a bad file is never half applied ... on reload it keeps serving the old state".
#[test]
fn a_bad_change_is_refused_with_the_reason() {
    let site = site();
    let mut server = Server::start(&site);
    site.write(ZONE, zone(NEW).replace("name = \"p1\"", "weight = 7, name = \"p1\""));
    site.write("zones/other.test.toml", ZONE_HEAD.replace("example.test", "other.test"));
    let line = server.reload("reload refused").to_string();
    assert!(line.contains("weight"), "the reason is given: {line}");
    assert_eq!(www(&server), OLD);
    let other = server.ask(&Query::new("ns1.other.test", rtype::A));
    assert_eq!(other.rcode(), rcode::REFUSED, "the good file is not applied alone");
    site.write(ZONE, zone(NEW));
    server.reload("reloaded");
    assert_eq!(www(&server), NEW, "a later good reload is applied");
}

// config.md: "no query is dropped or sees a mix".
#[test]
fn no_query_is_dropped_or_mixed_during_reloads() {
    let site = site();
    let mut server = Server::start(&site);
    let stop = AtomicBool::new(false);
    let socket = server.socket();
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                let query = Query::new("www.example.test", rtype::A);
                socket.send(&query.octets()).expect("a query sent");
                let reply = receive(&socket);
                let mut found = reply.data(rtype::A);
                found.sort_unstable();
                assert!(found == OLD || found == NEW, "{found:?}");
                asked += 1;
            }
            asked
        });
        for addresses in [NEW, OLD].into_iter().cycle().take(reloads()) {
            if !asking.is_finished() {
                site.write(ZONE, zone(addresses));
                server.reload("reloaded");
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(asking.join().expect("answers without a gap") > 0);
    });
    assert_eq!(www(&server), NEW);
}

/// How often the files are read again under load, an odd number: `MERIDIAN_RELOADS`, or a few times.
fn reloads() -> usize {
    let given = std::env::var("MERIDIAN_RELOADS").ok();
    given.map_or(5, |text| text.parse::<usize>().expect("MERIDIAN_RELOADS is a number")) | 1
}

// ---------------------------------------------------------------------------------- Start and end

// operations.md: "SIGTERM: stop accepting, answer what has arrived, exit".
#[test]
fn sigterm_ends_the_server_with_exit_code_0() {
    let server = Server::start(&site());
    let _idle = server.connect();
    assert_eq!(www(&server), OLD);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

// operations.md: "A port in use, ... an empty zones folder: one clear line, exit 1."
#[test]
fn a_port_in_use_is_one_clear_line() {
    let site = site();
    let (_tcp, udp) = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("an address")) {
            break (tcp, udp);
        }
    };
    let address = udp.local_addr().expect("an address").to_string();
    let run = site.run(&["serve", "--listen", &address]);
    assert!(run.refusal().contains(&address), "{}", run.stderr);
}

#[test]
fn an_empty_zones_folder_is_one_clear_line() {
    let site = Site::new();
    let run = site.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(run.refusal().contains("zones"), "{}", run.stderr);
}

// The flag goes before the environment, and that before the file.
#[test]
fn the_log_level_is_set_by_flag_environment_and_file() {
    let site = site();
    site.write("meridian.toml", format!("{SERVER}log = \"off\"\n"));
    // That is warned of; an address that no machine has then ends the server.
    std::fs::remove_dir(site.path().join("geo")).expect("an empty folder");
    let warns = |environment: Option<&str>, flag: &[&str]| {
        let mut command = site.command(&[&["serve", "--listen", "203.0.113.1:53"], flag].concat());
        command.envs(environment.map(|level| ("MERIDIAN_LOG", level)));
        let run = Run::of(command);
        assert_eq!(run.code, Some(1), "{run:?}");
        run.stderr.contains("there is no location data")
    };
    assert!(!warns(None, &[]));
    assert!(warns(Some("warn"), &[]));
    assert!(!warns(Some("warn"), &["--log", "error"]));
    assert!(warns(Some("error"), &["--log", "info"]));
}

#[test]
fn settings_that_cannot_be_read_are_one_clear_line() {
    let site = site();
    let run = site.run(&["serve", "--config", "gone.toml"]);
    assert!(run.refusal().contains("gone.toml"), "{}", run.stderr);
    let file = site.path().join("meridian.toml");
    std::fs::remove_file(&file).expect("a file");
    std::fs::create_dir(&file).expect("a folder in its place");
    assert!(site.run(&["serve"]).refusal().contains("meridian.toml"));
}

/// How many clients send what they can while the server is to end.
const CLIENTS: usize = 4;

// operations.md: "SIGTERM: stop accepting, answer what has arrived, exit within 5 s".
#[test]
fn sigterm_ends_the_server_in_time_under_load_with_connections_open() {
    let server = Server::start(&site());
    let query = Query::new("www.example.test", rtype::A).octets();
    // One says nothing, one has not said all, and one takes no replies.
    let _idle = server.connect();
    let mut slow = server.connect();
    slow.write_all(&framed(&query)[..7]).expect("sent");
    let mut deaf = server.connect();
    deaf.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    while deaf.write_all(&framed(&query).repeat(500)).is_ok() {}
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let (socket, mut stream) = (server.socket(), server.connect());
            let (query, stop) = (&query, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Once the server is gone its port is closed.
                    let _sent_or_refused = socket.send(query);
                }
            });
            scope.spawn(move || {
                let query = framed(query);
                while !stop.load(Ordering::Relaxed) && stream.write_all(&query).is_ok() {
                    let mut reply = [0; 512];
                    if !matches!(stream.read(&mut reply), Ok(1..)) {
                        break;
                    }
                }
            });
        }
        assert_eq!(www(&server), OLD);
        let start = Instant::now();
        server.signal("TERM");
        let code = server.exit_code();
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(6), "{took:?}");
    });
}

// `listen` of the file, and several addresses: each is announced.
#[test]
fn every_listen_address_is_announced_and_answers() {
    let site = site();
    let listen = SERVER.replace("\"127.0.0.1:0\"", "\"127.0.0.1:0\", \"127.0.0.2:0\"");
    site.write("meridian.toml", listen);
    let mut server = Server::spawn(&site, &["serve"]);
    let addresses = [server.next_address(), server.next_address()];
    server.wait_for("ready");
    for address in addresses {
        assert_ne!(address.port(), 0, "the port that was found");
        server.address = address;
        assert_eq!(www(&server), OLD, "{address}");
        // UDP and TCP share the port.
        let reply = server.ask_tcp(&Query::new("www.example.test", rtype::A));
        assert_eq!(reply.answer.len(), 2, "{address}");
    }
}

// A reply leaves from the address that the query came to, also where every address is listened on.
#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let site = site();
    site.write("meridian.toml", SERVER.replace("\"127.0.0.1:0\"", "\"0.0.0.0:0\""));
    let mut server = Server::spawn(&site, &["serve"]);
    server.address = server.next_address();
    server.wait_for("ready");
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    for ip in ["127.0.0.1", "127.0.0.2", "127.1.2.3"] {
        let asked = SocketAddr::new(ip.parse().expect("an address"), server.address.port());
        let query = Query::new("www.example.test", rtype::A);
        socket.send_to(&query.octets(), asked).expect("a query sent");
        let (_, source) = socket.recv_from(&mut [0; 512]).expect("a reply");
        assert_eq!(source, asked);
    }
}

// config.md: "meridian.toml is optional"; by default there are as many workers as cores.
#[test]
fn many_clients_are_answered_with_the_default_configuration() {
    let site = site();
    std::fs::remove_file(site.path().join("meridian.toml")).expect("a file");
    let server = Server::start(&site);
    let clients: Vec<UdpSocket> = (0..50).map(|_| server.socket()).collect();
    for _ in 0..4 {
        let query = Query::new("www.example.test", rtype::A);
        for client in &clients {
            client.send(&query.octets()).expect("a query sent");
        }
        for client in &clients {
            let reply = receive(client);
            assert_eq!((reply.id, reply.answer.len()), (query.id, 2));
        }
    }
}

// What the command line says over the file stays said: a reload is no reason to warn of it.
#[test]
fn a_reload_does_not_warn_of_what_the_command_line_sets() {
    let site = site();
    let mut server = Server::spawn(&site, &["serve", "--listen", "127.0.0.1:0", "--log", "info"]);
    server.next_address();
    server.wait_for("ready");
    server.reload("reloaded");
    let warnings: Vec<String> = (0..server.lines_read())
        .filter_map(|number| server.log_line(number).cloned())
        .filter(|line| line["level"] == "WARN")
        .map(|line| line.to_string())
        .collect();
    assert!(!warnings.iter().any(|line| line.contains("next start")), "{warnings:?}");
}

// A link to nothing is a mistake, not a file that was removed: the zone stays.
#[test]
fn a_zone_file_that_cannot_be_read_does_not_drop_its_zone() {
    let site = site();
    let mut server = Server::start(&site);
    let file = site.path().join(ZONE);
    std::fs::remove_file(&file).expect("a file");
    std::os::unix::fs::symlink("gone.toml", &file).expect("a link");
    let line = server.reload("reload refused");
    assert!(line.to_string().contains("example.test.toml"), "{line}");
    assert_eq!(www(&server), OLD);
}

// What is no regular file is not waited for, and the server still ends.
#[test]
fn a_pipe_in_place_of_a_file_holds_nothing_up() {
    let site = site();
    let mut server = Server::start(&site);
    let pipe = site.path().join("geo/subnets.toml");
    let _removed = std::fs::remove_file(&pipe);
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let line = server.reload("reload refused");
    assert!(line.to_string().contains("not a regular file"), "{line}");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

// dns.md: the serial is never lower than the last one served, also while the state folder is broken.
#[test]
fn the_serial_never_falls_while_the_server_runs() {
    let site = site();
    let derived = |addresses| zone(addresses).replace("serial = 1\n", "");
    site.write(ZONE, derived(OLD));
    let mut server = Server::start(&site);
    let serial = |server: &Server| -> u32 {
        let reply = server.ask(&Query::new("example.test", rtype::SOA));
        let soa = &reply.answer[0].rdata;
        u32::from_be_bytes(soa[soa.len() - 20..soa.len() - 16].try_into().expect("four octets"))
    };
    let before = serial(&server);
    let state = site.path().join("state");
    std::fs::remove_dir_all(&state).expect("the state folder");
    std::fs::write(&state, "no folder").expect("a file");
    site.write(ZONE, derived(NEW));
    let old = ["-d", "2020-01-01", ZONE];
    let touched = std::process::Command::new("touch").args(old).current_dir(site.path()).status();
    assert!(touched.expect("touch").success());
    server.reload("reloaded");
    assert_eq!(www(&server), NEW);
    assert!(serial(&server) > before, "{} after {before}", serial(&server));
}
