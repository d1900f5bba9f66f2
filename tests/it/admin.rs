//! The admin service and the commands that speak to it (operations.md; "An administrator can force…"
//! and `push` in health.md). Health is pushed here, so that no origin has to be there.

mod access;
mod browser;
mod commands;
mod dashboard;
mod events;
mod explain;
mod http;
mod limits;
mod metrics;
mod openapi;
mod operator;
mod output;
mod overrides;
mod pictures;
mod push;
mod ready;
mod reload;
mod rtt;
mod sessions;
mod state;
mod traffic;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::http::{Reply, Request};
use crate::harness::{SERVER, Server, Site, ZONE_HEAD};
use crate::wire::{Query, rcode, rtype};

const ZONE: &str = "zones/example.test.toml";
const WWW: &str = "www.example.test";
const TOKEN: &str = "0123456789abcdef-a-token-of-tests";
/// How long to wait for what has no bound of its own.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

const OVERRIDES: &str = "/api/v1/overrides";

/// The pools a (192.0.2.1 and .2, with a monitor that is pushed) and b (192.0.2.9, with none), and `www`
/// which answers all of the first that is available; b is the fallback.
const POOLS: &str = r#"
[monitors.m]
type = "push"
ttl = "1h"

[pools.a]
monitor = "m"
origins = [{ name = "a1", address = "192.0.2.1" }, { name = "a2", address = "192.0.2.2" }]

[pools.b]
origins = [{ name = "b1", address = "192.0.2.9" }]

[load_balancers.www]
pools = ["a", "b"]
fallback_pool = "b"
answers = "all"
"#;

const A: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const B: [&str; 1] = ["192.0.2.9"];

/// A folder with the zone of these parts, and an admin service with a token.
fn site(zone: &str) -> Site {
    let site = Site::with_zone(zone);
    write_token(&site, TOKEN);
    with_admin(&site, "listen = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"");
    site
}

/// Settings with this `[admin]`.
fn with_admin(site: &Site, admin: &str) {
    site.write("meridian.toml", format!("{SERVER}\n[admin]\n{admin}\n"));
}

fn write_token(site: &Site, token: &str) {
    site.write("admin.token", format!("{token}\n"));
    let path = site.path().join("admin.token");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a file of ours");
}

/// The zone's text, of these pools and load balancers.
fn zone(body: &str) -> String {
    format!("{ZONE_HEAD}{body}")
}

/// A running server and its admin service.
struct Served {
    server: Server,
    admin: String,
    /// The folder, if nothing else has to do with it.
    _site: Option<Site>,
}

impl Served {
    fn start(site: &Site) -> Self {
        let mut server = Server::start(site);
        let admin = server.admin_address().to_string();
        Self { server, admin, _site: None }
    }

    /// Starts a server that the folder is for.
    fn of(site: Site) -> Self {
        let served = Self::start(&site);
        Self { _site: Some(site), ..served }
    }

    /// The addresses of `www`, sorted.
    fn answered(&self) -> Vec<String> {
        let reply = self.server.ask(&Query::new(WWW, rtype::A));
        assert_eq!(reply.rcode(), rcode::NOERROR);
        let mut found: Vec<_> = reply.data(rtype::A).into_iter().map(str::to_owned).collect();
        found.sort();
        found
    }

    fn url(&self) -> String {
        format!("http://{}", self.admin)
    }

    fn get(&self, path: &str) -> Reply {
        Request::new("GET", path).send(&self.admin)
    }

    /// Sends JSON with the token.
    fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        Request::new(method, path).token(TOKEN).json(body).send(&self.admin)
    }

    /// Says something that must be accepted.
    fn say(&self, body: &Value) -> Value {
        let reply = self.send("PUT", OVERRIDES, body);
        assert_eq!(reply.status, 200, "{body}: {reply:?}");
        reply.document()
    }

    /// Lifts something; how many words that were.
    fn lift(&self, body: &Value) -> usize {
        let reply = self.send("DELETE", OVERRIDES, body);
        assert_eq!(reply.status, 200, "{body}: {reply:?}");
        reply.document()["lifted"].as_array().expect("a list").len()
    }

    fn push(&self, address: &str, state: &str) {
        let body = json!({ "monitor": "m", "address": address, "state": state });
        let reply = self.send("POST", "/api/v1/push", &body);
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    fn pool(&self, name: &str) -> Value {
        let status = self.get("/api/v1/status").document();
        let pools = status["pools"].as_array().expect("pools").clone();
        pools.into_iter().find(|pool| pool["pool"] == name).expect("the pool")
    }

    fn explained(&self) -> Value {
        let reply = self.get(&format!("/api/v1/explain?name={WWW}&client=198.51.100.1"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.document()
    }
}

/// The word for an origin or a pool.
fn word(subject: &str, word: &str) -> Value {
    json!({ "subject": subject, "word": word })
}

/// Waits until something is so.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(LOOK);
    }
}
