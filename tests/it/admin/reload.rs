//! `POST /api/v1/reload` and `meridian reload`: the outcome is the answer.

use serde_json::json;

use super::{A, POOLS, Served, TOKEN, ZONE, site, with_admin, write_token, zone};

const PATH: &str = "/api/v1/reload";

#[test]
fn a_reload_says_what_changed() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    site.write(ZONE, zone(&POOLS.replace("192.0.2.2", "192.0.2.3")));
    let reply = served.send("POST", PATH, &json!({}));
    assert_eq!(reply.status, 200, "{reply:?}");
    let outcome = reply.document();
    assert_eq!((&outcome["reloaded"], &outcome["generation"]), (&json!(true), &json!(2)));
    assert_eq!(
        outcome["changes"]["origins"]["changed"],
        json!(["a (example.test.)/a2"]),
        "{outcome}"
    );
    assert_eq!(outcome["changes"]["zones"]["added"], json!([]));
    assert_eq!(served.answered(), ["192.0.2.1", "192.0.2.3"], "served when it answers");
    assert_eq!(served.get("/api/v1/status").document()["generation"], 2);
    assert_eq!(served.server.wait_for("reloaded")["fields"]["generation"], 2, "the log tells too");
}

// Whoever replaces a secret sees that the server has it, and nobody sees the secret.
#[test]
fn a_reload_says_which_settings_and_secrets_changed() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    let unchanged = |line: &serde_json::Value, key: &str| line["fields"][key] == "unchanged";
    let line = served.server.reload("reloaded");
    let kinds = ["zones", "names", "pools", "origins", "location", "settings"];
    assert!(kinds.iter().all(|key| unchanged(&line, key)), "{line}");

    let key = "c2VjcmV0LW9mLXRlc3RzLXRoYXQtaXMtbG9uZw==";
    let more = format!("[tsig_keys.xfr]\nsecret = \"{key}\"\n[cookies]\nrequire = true\n");
    with_admin(&site, &format!("listen = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n{more}"));
    let line = served.server.reload("reloaded");
    let settings = "1 added: tsig_keys.xfr.; 1 changed: cookies.require";
    assert_eq!(line["fields"]["settings"], settings, "{line}");

    write_token(&site, "another-token-of-tests");
    let run = site.run(&["reload", "--at", &served.url(), "--token-file", "before.token"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    site.write("before.token", TOKEN);
    let run = site.run(&["reload", "--at", &served.url(), "--token-file", "before.token"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("settings  1 changed: admin.token_file\n"), "{run:?}");

    let transfer = format!("transfer = {{ allow = [\"192.0.2.53\"] }}\n{}", zone(POOLS));
    site.write(ZONE, transfer);
    let line = served.server.reload("reloaded");
    let line = if unchanged(&line, "zones") { served.server.wait_for("reloaded") } else { line };
    assert_eq!(line["fields"]["zones"], "1 changed: example.test.", "{line}");
    let log = serde_json::json!(served.server.log_so_far()).to_string();
    assert!(!log.contains(key) && !log.contains("another-token"), "a secret is in the log");
}

// What is served is older than the files: that is to be seen for as long as it is so.
#[test]
fn a_refused_reload_is_in_the_status_until_one_succeeds() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    let refused =
        |served: &Served| served.get("/api/v1/status").document()["refused_reload"].clone();
    let shown = |served: &Served| site.run(&["status", "--at", &served.url()]);
    assert_eq!(refused(&served), json!(null));
    site.write(ZONE, zone(&format!("{POOLS}[{}]\n", "x".repeat(1000))));
    served.server.reload("reload refused");
    let document = refused(&served);
    let error = document["error"].as_str().expect("why");
    assert!(error.starts_with("zones/example.test.toml:"), "{document}");
    assert_eq!(error.chars().count(), 301, "it is cut: {document}");
    let at = document["at"].as_str().expect("when");
    assert!(at.len() == 20 && at.ends_with('Z'), "{document}");
    let status = shown(&served);
    assert_eq!(status.code, Some(0), "it answers as it did: {status:?}");
    let line = format!("reload refused {at}: {error}");
    assert!(status.stdout.lines().any(|found| found == line), "{status:?}");
    site.write(ZONE, zone(POOLS));
    served.server.reload("reloaded");
    assert_eq!(refused(&served), json!(null));
    assert!(!shown(&served).stdout.contains("refused"));
}

#[test]
fn a_refused_reload_says_every_mistake() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    let wrong =
        POOLS.replace("[\"a\", \"b\"]", "[\"aa\", \"b\"]").replace("192.0.2.9", "192.0.2.999");
    site.write(ZONE, zone(&wrong));
    let reply = served.send("POST", PATH, &json!({}));
    reply.assert_refused(422, &["zones/example.test.toml"]);
    let outcome = reply.document();
    assert_eq!((&outcome["reloaded"], &outcome["generation"]), (&json!(false), &json!(1)));
    let errors = outcome["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 2, "{outcome}");
    for error in errors {
        assert!(error["line"].is_number() && error["help"].is_string(), "{error}");
    }
    assert_eq!(served.answered(), A, "the old state is kept");
    served.server.wait_for("reload refused");

    let run = |more: &[&str]| {
        let url = served.url();
        site.run(&[&["reload", "--at", &url, "--token-file", "admin.token"], more].concat())
    };
    let refused = run(&[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for part in ["zones/example.test.toml:", "error: ", "help: ", "aa", "192.0.2.999"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    assert!(refused.stdout.contains("generation 1 is still served"), "{refused:?}");
    site.write(ZONE, zone(&POOLS.replace("192.0.2.2", "192.0.2.3")));
    let good = run(&[]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.stdout.starts_with("reloaded: generation 2"), "{good:?}");
    assert!(good.stdout.contains("a (example.test.)/a2"), "{good:?}");
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"]).stdout).expect("JSON");
    assert_eq!(json["generation"], 3);
}
