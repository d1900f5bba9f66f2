//! `/livez` and `/readyz`: "503 before the first results, while stopping, or when the prober is stale;
//! not when origins are down".

use std::net::TcpListener;

use super::{POOLS, Served, site, until};
use crate::harness::Server;

/// A pool whose one origin accepts and says nothing.
pub(super) fn hanging(listener: &TcpListener) -> String {
    let port = listener.local_addr().expect("an address").port();
    format!(
        "[monitors.h]\ntype = \"http\"\nport = {port}\ninterval = \"30s\"\ntimeout = \"20s\"\n\
         [pools.h]\nmonitor = \"h\"\norigins = [{{ name = \"h1\", address = \"127.0.0.1\" }}]\n"
    )
}

#[test]
fn the_service_answers_while_first_results_are_awaited() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let site = site(&format!("{POOLS}{}", hanging(&origin)));
    let settings = std::fs::read_to_string(site.path().join("meridian.toml")).expect("settings");
    site.write(
        "meridian.toml",
        settings.replace("workers = 1", "workers = 1\nstartup_wait = \"3s\""),
    );
    let mut server = Server::spawn(&site, &["serve", "--listen", "127.0.0.1:0"]);
    server.address = server.next_address();
    let admin = server.admin_address().to_string();
    let mut served = Served { server, admin, _site: None };
    assert_eq!(served.get("/livez").status, 200);
    let reply = served.get("/readyz");
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(reply.document()["ready"], false);
    assert!(reply.document()["reason"].as_str().is_some_and(|reason| reason.contains("1 ")));
    assert_eq!(served.get("/api/v1/status").document()["ready"], false);
    served.server.wait_for("ready");
    until("readiness", || served.get("/readyz").status == 200);
}

#[test]
fn origins_that_are_down_are_no_reason_not_to_ask() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "down");
    served.push("192.0.2.2", "down");
    let reply = served.get("/readyz");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.document()["ready"], true);
}

// "or when the prober is stale": results that are older than `max_age`. Here they become so because
// nothing is probed for longer than that.
#[test]
fn stale_results_are_a_reason_not_to_ask() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = origin.local_addr().expect("an address").port();
    let served = Served::of(site(&format!(
        "[monitors.t]\ntype = \"tcp\"\nport = {port}\ninterval = \"10m\"\nmax_age = \"2s\"\n\
         [pools.t]\nmonitor = \"t\"\norigins = [{{ name = \"t1\", address = \"127.0.0.1\" }}]\n\
         [load_balancers.www]\npools = [\"t\"]\n"
    )));
    until("a stale result", || served.get("/readyz").status == 503);
    let reason = served.get("/readyz").document()["reason"].clone();
    assert!(reason.as_str().is_some_and(|text| text.contains("stale")), "{reason}");
    let pool = served.pool("t");
    assert_eq!(pool["origins"][0]["addresses"][0]["stale"], true, "{pool}");
    assert_eq!(pool["available"], true, "the last one counts");
    let reason = served.explained()["origins"][0]["reason"].clone();
    assert!(reason.as_str().is_some_and(|text| text.contains("; stale: ")), "{reason}");
}
