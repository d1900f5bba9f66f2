//! Overrides and the state folder: "this lasts across restarts and reloads until it is lifted or
//! expires"; "The state folder … unwritable or full: warn, … keep serving".

use std::fs;

use serde_json::json;

use super::{A, B, OVERRIDES, POOLS, Served, Site, site, word};

const FILE: &str = "state/overrides.json";

#[test]
fn an_override_outlasts_reloads_and_restarts() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    served.say(&json!({ "pool": "a", "word": "drained", "why": "new kernel", "by": "ada" }));
    served.server.reload("reloaded");
    assert_eq!(served.answered(), B);
    let before = served.get(OVERRIDES).document();
    served.server.signal("TERM");
    assert_eq!(served.server.exit_code(), Some(0));

    let mut served = Served::start(&site);
    assert_eq!(served.answered(), B, "from the first answer on");
    assert_eq!(served.get(OVERRIDES).document(), before, "with who, when and why");
    let lines = served.server.log_so_far();
    assert!(lines.iter().any(|line| line["fields"]["message"] == "an override of before holds"));
    assert_eq!(served.lift(&json!({ "pool": "a" })), 1);
    served.server.signal("TERM");
    assert_eq!(served.server.exit_code(), Some(0));

    let served = Served::start(&site);
    assert_eq!(served.answered(), A, "what was lifted stays so");
}

// A crash forgets nothing either: what was said is on the disk when the answer comes.
#[test]
fn an_override_outlasts_a_crash() {
    let site = site(POOLS);
    let served = Served::start(&site);
    served.say(&word("a", "forced-down"));
    drop(served);
    assert_eq!(Served::start(&site).answered(), B);
}

#[test]
fn one_that_ended_while_the_server_was_down_does_not_come_back() {
    let site = site(POOLS);
    fs::create_dir(site.path().join("state")).expect("a new folder");
    site.write(
        FILE,
        r#"{"overrides": [{"zone": "example.test.", "pool": "a", "word": "drained",
            "since": 1000000000, "until": 1000003600}]}"#,
    );
    let served = Served::start(&site);
    assert_eq!(served.answered(), A);
    assert_eq!(served.get(OVERRIDES).document()["overrides"], json!([]));
}

#[test]
fn a_damaged_file_is_reported_and_set_aside() {
    for damage in ["{\"overrides\": [", "[]", "", "\u{0}\u{0}", r#"{"overrides": [{"pool": "a"}]}"#]
    {
        let site = site(POOLS);
        fs::create_dir(site.path().join("state")).expect("a new folder");
        site.write(FILE, damage);
        let mut served = Served::start(&site);
        let lines = served.server.log_so_far();
        let warning = lines.iter().find(|line| {
            line["level"] == "WARN"
                && line["fields"]["error"].to_string().contains("overrides.json")
        });
        assert!(warning.is_some(), "{damage:?}: {lines:#?}");
        let aside = site.path().join("state/overrides.json.damaged");
        assert_eq!(fs::read_to_string(aside).expect("the damaged file"), damage);
        assert_eq!(served.answered(), A, "{damage:?}");
        served.say(&word("a", "drained"));
        drop(served);
        assert_eq!(Served::start(&site).answered(), B, "{damage:?}");
    }
}

#[test]
fn check_warns_of_a_state_folder_that_cannot_be() {
    let site = site(POOLS);
    let warned = |site: &Site| {
        let check = site.check();
        assert_eq!(check.code, Some(0), "{check:?}");
        check.stderr.contains("warning: the state folder cannot be written")
    };
    assert!(!warned(&site));
    assert!(!site.path().join("state").exists(), "nothing is made");
    std::os::unix::fs::symlink("nowhere", site.path().join("state")).expect("a link");
    assert!(warned(&site), "a link to nothing");
    fs::remove_file(site.path().join("state")).expect("a link of ours");
    site.write("state", "a file where the folder should be");
    assert!(warned(&site), "a file");
    site.write("meridian.toml", "[server]\nstate = \"zones/example.test.toml/below\"\n");
    assert!(warned(&site), "below a file");
    site.write("meridian.toml", "[server]\nstate = \"far/away/state\"\n");
    assert!(!warned(&site), "a folder that can be made");
}

#[test]
fn without_a_state_folder_overrides_hold_and_are_not_kept() {
    let site = site(POOLS);
    site.write("state", "a file where the folder should be");
    let mut served = Served::start(&site);
    let said = served.say(&word("a", "drained"));
    assert_eq!(said["kept"], false, "{said}");
    assert!(said["warning"].as_str().is_some_and(|text| text.contains("restart")), "{said}");
    served.server.wait_for("the overrides cannot be kept; after a restart they are as they were");
    assert_eq!(served.answered(), B, "it holds all the same");
    let run = site.run(&["drain", "b", "--at", &served.url(), "--token-file", "admin.token"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("state folder"), "{run:?}");
    assert_eq!(served.lift(&json!({ "pool": "a" })), 1);
    assert_eq!(served.answered(), A);
    // It can be written again: what holds is kept from the next change on.
    fs::remove_file(site.path().join("state")).expect("a file of ours");
    let said = served.say(&word("a", "drained"));
    assert_eq!(said["kept"], true, "{said}");
    drop(served);
    assert_eq!(Served::start(&site).answered(), B);
}
