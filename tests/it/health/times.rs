//! Steering by the round-trip times that the probes measure (spec/steering.md, "RTT profiles").

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{Net, PATIENCE, QUICK, answered, load_balancer, site, until};
use crate::harness::{SERVER, Server};
use crate::wire::rtype;

/// A server that replies to datagrams after so many milliseconds.
fn slow_echo(net: &Net, number: u8, millis: u64) -> Arc<AtomicU64> {
    let socket = UdpSocket::bind(net.socket(number)).expect("a free port");
    let delay = Arc::new(AtomicU64::new(millis));
    let shared = Arc::clone(&delay);
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((size, from)) = socket.recv_from(&mut buffer) {
            thread::sleep(Duration::from_millis(shared.load(Ordering::SeqCst)));
            // The prober may be gone.
            let _sent = socket.send_to(&buffer[..size], from);
        }
    });
    delay
}

// "from the client's region (or, without one, from this node's pop)"; "at least 3 samples before it
// counts"; the node's own probes are filed under its pop, whether it has a name or not.
#[test]
fn the_nearest_pool_by_the_nodes_own_probes_answers() {
    let net = Net::new();
    let far = slow_echo(&net, 1, 60);
    let near = slow_echo(&net, 2, 1);
    let monitor = net.monitor("web", "udp", &format!("{QUICK}payload = \"ping\"\n"));
    let balancer = load_balancer("www", &["far", "near"]) + "steering = \"rtt\"\n";
    let site = site(&[monitor, net.pool("far", "", &[1]), net.pool("near", "", &[2]), balancer]);
    let mut server = Server::start(&site);
    until(PATIENCE, "the nearer one", || answered(&server) == net.set(&[2]));
    // The average follows, but slowly: the figures of a minute ago count. A reload keeps them.
    server.reload("reloaded");
    assert_eq!(answered(&server), net.set(&[2]));
    // What is measured alike is in the configured order, once the average is there.
    far.store(1, Ordering::SeqCst);
    near.store(300, Ordering::SeqCst);
    until(PATIENCE * 2, "the other way round", || answered(&server) == net.set(&[1]));
}

// "Measured data older than rtt_max_age is dropped, and the static table shows through again."
#[test]
fn written_figures_count_where_nothing_is_measured() {
    let net = Net::new();
    let _far = slow_echo(&net, 1, 60);
    let near = slow_echo(&net, 2, 1);
    let monitor = net.monitor(
        "web",
        "udp",
        "interval = \"1s\"\ntimeout = \"500ms\"\nfall = 1000\npayload = \"ping\"\n",
    );
    let balancer = load_balancer("www", &["far", "near"]) + "steering = \"rtt\"\n";
    let site = site(&[monitor, net.pool("far", "", &[1]), net.pool("near", "", &[2]), balancer]);
    site.write("geo/rtt.toml", "[rtt.\"pop:here\"]\nfar = 40\nnear = 200\n");
    site.write(
        "meridian.toml",
        "[server]\nlisten = [\"127.0.0.1:0\"]\nrtt_max_age = \"3s\"\nidentity = { pop = \"here\" }\n",
    );
    let server = Server::start(&site);
    assert_eq!(answered(&server), net.set(&[1]), "as written, before there are three samples");
    until(PATIENCE, "the measured one", || answered(&server) == net.set(&[2]));
    // A probe that fails adds no sample: the last ones grow old.
    near.store(800, Ordering::SeqCst);
    until(PATIENCE, "the written one again", || answered(&server) == net.set(&[1]));
}

// "filed under the node's pop and region": clients of that region go by them, others do not.
#[test]
fn what_a_node_measures_counts_for_the_clients_of_its_region() {
    let net = Net::new();
    let _far = slow_echo(&net, 1, 60);
    let _near = slow_echo(&net, 2, 1);
    let monitor = net.monitor("web", "udp", &format!("{QUICK}payload = \"ping\"\n"));
    let balancer = load_balancer("www", &["far", "near"]) + "steering = \"rtt\"\n";
    let site = site(&[monitor, net.pool("far", "", &[1]), net.pool("near", "", &[2]), balancer]);
    let written = "far = 10\nnear = 400\n";
    site.write("geo/rtt.toml", format!("[rtt.weu]\n{written}[rtt.oc]\n{written}"));
    let subnets =
        "[subnets.\"10.1.0.0/16\"]\nregion = \"weu\"\n[subnets.\"10.2.0.0/16\"]\nregion = \"oc\"\n";
    site.write("geo/subnets.toml", subnets);
    site.write(
        "meridian.toml",
        format!("{SERVER}identity = {{ pop = \"here\", region = \"weu\" }}\n"),
    );
    let server = Server::start(&site);
    let asked = |subnet: &str| server.addresses(super::WWW, rtype::A, (subnet, 24));
    until(PATIENCE, "the measured one", || asked("10.1.2.0") == net.set(&[2]));
    assert_eq!(asked("10.2.2.0"), net.set(&[1]), "as written for another region");
}

// "TCP connect time to the pool's origins": not how long the origin takes for its reply.
#[test]
fn the_time_of_an_http_probe_is_that_of_its_connection() {
    let net = Net::new();
    let listener = TcpListener::bind(net.socket(2)).expect("a free port");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 1024];
            let _read = stream.read(&mut head);
            thread::sleep(Duration::from_millis(250));
            // The prober may be gone.
            let _sent = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let _far = slow_echo(&net, 1, 100);
    let site = site(&[
        net.monitor("echo", "udp", &format!("{QUICK}payload = \"ping\"\n")),
        net.web(QUICK),
        net.monitored_pool("far", "echo", "", &[1]),
        net.pool("near", "", &[2]),
        load_balancer("www", &["far", "near"]) + "steering = \"rtt\"\n",
    ]);
    let server = Server::start(&site);
    until(PATIENCE, "the pool that is connected to sooner", || answered(&server) == net.set(&[2]));
}
