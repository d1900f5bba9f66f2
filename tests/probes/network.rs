//! ICMP, which needs a network of its own: who may send echoes is a setting of the network. The test
//! starts itself again in a network namespace, which needs root.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use meridian::config::monitors::{Monitor, Probe};
use meridian::probe::{Prober, ProberSettings};

use crate::monitors::{LOOPBACK, http, impatient, monitor};

const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";
const IGNORE_ECHOES: &str = "/proc/sys/net/ipv4/icmp_echo_ignore_all";
/// Makes the network: the loopback interface alone.
const NETWORK: &str = "ip link set lo up && exec \"$0\" \"$@\"";
/// Of no network that is there.
const UNREACHABLE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

#[test]
fn echoes_are_sent_where_the_system_allows_it() {
    let possible = Command::new("unshare").args(["-n", "ip", "link", "set", "lo", "up"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        let required = std::env::var_os("MERIDIAN_REQUIRE_ALL").is_some();
        assert!(!required, "no network namespace can be made (root, unshare, iproute2)");
        eprintln!("skipped: no network namespace can be made (root, unshare, iproute2)");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", NETWORK])
        .arg(program)
        .args(["--exact", "network::inside_the_namespace", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

#[tokio::test]
#[ignore = "run by the test above, in a network namespace"]
async fn inside_the_namespace() {
    let patient = monitor(Probe::Icmp);
    fs::write(PING_GROUPS, "1 0").unwrap();
    let error = make_prober(&patient).expect_err("no group may send echoes").to_string();
    assert!(error.contains("sysctl -w net.ipv4.ping_group_range=\"0 2147483647\""), "{error}");
    assert!(error.contains("(it is \"1 0\" now)"), "{error}");

    fs::write(PING_GROUPS, "0 2147483647").unwrap();
    let prober = make_prober(&patient).unwrap();
    for address in [LOOPBACK, Ipv6Addr::LOCALHOST.into()] {
        let success = prober.probe(&patient, address, None).await;
        assert!(success.unwrap().rtt.is_some(), "{address}");
    }
    let impatient_echo = impatient(Probe::Icmp);
    assert_eq!(failure(&prober, &patient, UNREACHABLE).await, "the network is unreachable");
    let no_reply = "timed out after 300 ms waiting for the reply";
    fs::write(IGNORE_ECHOES, "1").unwrap();
    assert_eq!(failure(&prober, &impatient_echo, LOOPBACK).await, no_reply);
    fs::write(IGNORE_ECHOES, "0").unwrap();

    let source = vec![IpAddr::from([127, 0, 0, 9])];
    let settings = ProberSettings { source, ..Default::default() };
    let from_source = Prober::new(&settings, std::slice::from_ref(&patient)).unwrap();
    from_source.probe(&patient, LOOPBACK, None).await.unwrap();

    let web = monitor(Probe::Http(Box::new(http(80))));
    assert_eq!(failure(&prober, &web, UNREACHABLE).await, "the network is unreachable");
}

fn make_prober(monitor: &Monitor) -> Result<Prober, meridian::probe::ProberError> {
    Prober::new(&ProberSettings::default(), std::slice::from_ref(monitor))
}

async fn failure(prober: &Prober, monitor: &Monitor, address: IpAddr) -> String {
    prober.probe(monitor, address, None).await.expect_err("a failure").to_string()
}
