//! TCP connections, both families, and source addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use meridian::config::monitors::Probe;
use meridian::probe::{Prober, ProberSettings};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::monitors::{LOOPBACK, http, impatient, monitor, probe, prober, words};
use crate::servers::{canned, closed_port, serve_at, silent, wait_for_end};

#[tokio::test]
async fn a_connection_is_a_success() {
    let success = probe(&monitor(Probe::Tcp { port: silent().await })).await.unwrap();
    assert!(success.rtt.is_some());
    let refused = probe(&monitor(Probe::Tcp { port: closed_port().await })).await;
    assert_eq!(words(refused), "connection refused");
}

#[tokio::test]
async fn a_server_that_accepts_no_more_lets_the_connection_time_out() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((LOOPBACK, 0).into()).unwrap();
    // Linux queues one more than it is told, and drops what comes after that.
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _queued = TcpStream::connect(address).await.unwrap();
    let connecting = "timed out after 300 ms connecting";
    let port = address.port();
    assert_eq!(words(probe(&impatient(Probe::Tcp { port })).await), connecting);
    let http = Probe::Http(Box::new(http(port)));
    assert_eq!(words(probe(&impatient(http)).await), connecting);
}

#[tokio::test]
async fn ipv6_is_probed_likewise() {
    let server = serve_at("[::1]:0", wait_for_end).await;
    let address = IpAddr::from(Ipv6Addr::LOCALHOST);
    let monitor = monitor(Probe::Tcp { port: server.port() });
    prober().probe(&monitor, address, None).await.unwrap();
}

#[tokio::test]
async fn probes_come_from_the_source_address_of_the_family() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let source = IpAddr::from(Ipv4Addr::new(127, 0, 0, 9));
    let settings = ProberSettings { source: vec![source], ..Default::default() };
    let prober = Prober::new(&settings, &[]).unwrap();
    prober.probe(&monitor(Probe::Tcp { port }), LOOPBACK, None).await.unwrap();
    assert_eq!(listener.accept().await.unwrap().1.ip(), source);
    // The other family has no source, and is probed as ever.
    let server = serve_at("[::1]:0", wait_for_end).await;
    let monitor = monitor(Probe::Tcp { port: server.port() });
    prober.probe(&monitor, Ipv6Addr::LOCALHOST.into(), None).await.unwrap();
}

#[test]
fn a_source_address_that_cannot_be_is_an_error_at_start() {
    let error = |source: &[[u8; 4]]| {
        let source = source.iter().map(|&octets| IpAddr::from(octets)).collect();
        let settings = ProberSettings { source, ..Default::default() };
        Prober::new(&settings, &[]).expect_err("an error").to_string()
    };
    let missing = error(&[[192, 0, 2, 1]]);
    assert!(missing.starts_with("cannot probe from 192.0.2.1: "), "{missing}");
    assert!(missing.contains("under probe_source"), "{missing}");
    let two = error(&[[127, 0, 0, 1], [127, 0, 0, 2]]);
    assert!(two.contains("127.0.0.1 and 127.0.0.2"), "{two}");
}

/// A prober is shared by the tasks of any runtime.
#[tokio::test]
async fn probes_are_tasks() {
    let (port, _) = canned("HTTP/1.1 204 No Content\r\n\r\n").await;
    let prober = std::sync::Arc::new(prober());
    let monitor = std::sync::Arc::new(monitor(Probe::Http(Box::new(http(port)))));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (prober, monitor) = (prober.clone(), monitor.clone());
            tokio::spawn(async move { prober.probe(&monitor, LOOPBACK, None).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}
