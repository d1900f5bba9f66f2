//! Who may do what: "token_file … needed for every change; reading too unless loopback".

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::http::Request;
use super::{A, B, OVERRIDES, POOLS, Served, TOKEN, site, with_admin, word, write_token};
use crate::harness::{Server, Site};

const CHANGES: [(&str, &str); 4] = [
    ("PUT", OVERRIDES),
    ("DELETE", OVERRIDES),
    ("POST", "/api/v1/push"),
    ("POST", "/api/v1/reload"),
];
const READ: [&str; 3] =
    ["/api/v1/status", OVERRIDES, "/api/v1/explain?name=www.example.test&client=192.0.2.1"];

#[test]
fn a_change_needs_the_token() {
    let served = Served::of(site(POOLS));
    for (method, path) in CHANGES {
        let request = || Request::new(method, path).json(&word("a", "drained"));
        let reply = request().send(&served.admin);
        reply.assert_refused(401, &["token", "Authorization: Bearer"]);
        assert!(reply.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
        let half = &TOKEN[..TOKEN.len() - 1];
        for wrong in ["x", half, &format!("{TOKEN}x"), &TOKEN.to_uppercase()] {
            request().token(wrong).send(&served.admin).assert_refused(401, &["token is wrong"]);
        }
        let basic = request().header("authorization", &format!("Basic {TOKEN}"));
        basic.send(&served.admin).assert_refused(401, &["needs the token"]);
    }
    assert_eq!(served.answered(), A, "nothing was changed");
    served.say(&word("a", "drained"));
    assert_eq!(served.answered(), B);
}

#[test]
fn without_a_token_file_nothing_can_be_changed() {
    let site = Site::with_zone(POOLS);
    with_admin(&site, "listen = \"127.0.0.1:0\"");
    let served = Served::start(&site);
    for (method, path) in CHANGES {
        let request = || Request::new(method, path).json(&word("a", "drained"));
        request().send(&served.admin).assert_refused(403, &["token_file", "[admin]"]);
        request().token(TOKEN).send(&served.admin).assert_refused(403, &["token_file"]);
    }
    for path in READ {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    assert_eq!(served.answered(), A);
}

#[test]
fn who_is_on_the_machine_may_read_without_it() {
    let served = Served::of(site(POOLS));
    for path in READ {
        assert_eq!(served.get(path).status, 200, "{path}");
        let reply = Request::new("GET", path).token("wrong").send(&served.admin);
        reply.assert_refused(401, &["token is wrong"]);
        // A page of the web whose name leads here (DNS rebinding) may not.
        let foreign = || Request::new("GET", path).header("host", "rebound.example:5380");
        foreign().send(&served.admin).assert_refused(403, &["rebound.example"]);
        assert_eq!(foreign().token(TOKEN).send(&served.admin).status, 200, "{path}");
        let local = Request::new("GET", path).header("host", "localhost:5380");
        let reply = local.header("origin", "http://page.example").send(&served.admin);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("access-control-allow-origin"), None, "no page may read it");
    }
}

#[test]
fn reading_from_elsewhere_needs_the_token_too() {
    let site = site(POOLS);
    with_admin(&site, "listen = \"0.0.0.0:0\"\ntoken_file = \"admin.token\"");
    let mut served = Served::start(&site);
    served.admin = served.admin.replace("0.0.0.0", "127.0.0.1");
    for path in READ {
        served.get(path).assert_refused(401, &["reading needs the token"]);
        let reply = Request::new("GET", path).token(TOKEN).send(&served.admin);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(served.get(path).status, 200, "{path} needs none");
    }
}

#[test]
fn the_token_is_read_at_each_reload() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    write_token(&site, "another-token-of-tests");
    served.say(&word("a", "drained"));
    served.server.reload("reloaded");
    let drain = || Request::new("PUT", OVERRIDES).json(&word("a", "drained"));
    drain().token(TOKEN).send(&served.admin).assert_refused(401, &["token is wrong"]);
    assert_eq!(drain().token("another-token-of-tests").send(&served.admin).status, 200);
    // One that cannot be used refuses the reload, and the one before holds.
    write_token(&site, "short");
    let line = served.server.reload("reload refused");
    assert!(line["fields"]["reason"].to_string().contains("5 characters"), "{line}");
    assert_eq!(drain().token("another-token-of-tests").send(&served.admin).status, 200);
    drain().token("short").send(&served.admin).assert_refused(401, &["token is wrong"]);
}

#[test]
fn the_token_file_is_checked() {
    let site = site(POOLS);
    assert_eq!(site.check().code, Some(0));
    let path = site.path().join("admin.token");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a file of ours");
    let run = site.check();
    assert_eq!(run.code, Some(0), "{run:?}");
    for word in ["warning", "admin.token_file", "everyone", "chmod o-r"] {
        assert!(run.stderr.contains(word), "{word}: {run:?}");
    }
    write_token(&site, "fifteen-letters");
    for arguments in [&["check", "."][..], &["serve"]] {
        let run = site.run(arguments);
        assert_eq!(run.code, Some(1), "{run:?}");
        for word in ["meridian.toml:", "admin.token_file", "15 characters", "at least 16"] {
            assert!(run.stderr.contains(word), "{word}: {run:?}");
        }
    }
    fs::remove_file(&path).expect("a file of ours");
    let run = site.run(&["serve"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("admin.token cannot be read"), "{run:?}");
    // What the service is not needed for works without its token.
    let run = site.run(&["explain", "www.example.test", "--client", "192.0.2.1"]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn without_its_table_there_is_no_service() {
    let site = Site::with_zone(POOLS);
    let mut server = Server::start(&site);
    let lines = server.log_so_far();
    assert!(lines.iter().all(|line| line["fields"]["message"] != "admin listening"), "{lines:?}");
}

// "A port in use …: one clear line, exit 1".
#[test]
fn an_address_that_is_taken_ends_the_start() {
    let site = site(POOLS);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    with_admin(&site, &format!("listen = \"{address}\"\ntoken_file = \"admin.token\""));
    let run = site.run(&["serve"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let last = run.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("meridian: cannot listen on {address}")), "{run:?}");
}

#[test]
fn a_new_address_waits_for_the_next_start() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    with_admin(&site, "listen = \"127.0.0.2:0\"\ntoken_file = \"admin.token\"");
    served.server.reload("reloaded");
    let line = served.server.wait_for("the setting takes effect at the next start");
    assert_eq!(line["fields"]["key"], "admin.listen");
    let reply = served.send("POST", "/api/v1/reload", &json!({}));
    assert_eq!(reply.document()["at_next_start"], json!(["admin.listen"]));
}

// Names of origins and words of operators are in the answers: no browser may take them for a page or a script.
#[test]
fn no_answer_may_be_taken_for_another_type() {
    let served = Served::of(site(POOLS));
    let more =
        ["/", "/livez", "/readyz", "/metrics", "/api/v1/journal", "/api/v1/traffic", "/nothing"];
    for path in more.into_iter().chain(READ).chain(["/api/v1/openapi.json"]) {
        let reply = served.get(path);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}: {reply:?}");
    }
}
