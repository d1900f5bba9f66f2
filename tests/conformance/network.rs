//! A network of this test's own: it starts itself again in a network namespace whose loopback interface has
//! the addresses of name servers and resolvers, all on the port 53, and from which nothing else is reached.

use std::process::Command;

/// The addresses: the name servers of `example.test`, of `sub.example.test` and of the root, the resolvers
/// (`resolvers`), and a client that no rate limit exempts.
const NETWORK: &str = "ip link set lo up && ip addr add 192.0.2.1/24 dev lo && \
    for n in 2 53 54 90 101 102 103 104; do ip addr add 192.0.2.$n/24 dev lo; done && \
    ip addr add 198.51.100.7/24 dev lo && exec \"$0\" \"$@\"";

/// True if such a network can be made.
pub(crate) fn is_possible() -> bool {
    let made = Command::new("unshare").args(["-n", "ip", "link", "set", "lo", "up"]).output();
    made.is_ok_and(|output| output.status.success())
}

/// Runs a test of this program inside.
pub(crate) fn run_inside(test: &str) {
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", NETWORK])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("the program unshare");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}
