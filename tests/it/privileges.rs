//! Ports below 1024 without root, and what is left of root's privileges (operations.md: "Ports below 1024 by
//! capability, privileges dropped after binding"). The tests begin as root, and are skipped elsewhere.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Run, SERVER, Server, Site, ZONE_HEAD, is_missing, is_required, program};
use crate::wire::{Query, rtype};

/// A user that every Debian has, its number, and its group.
const USER: (&str, &str, &str) = ("nobody", "65534", "nogroup");
/// Another group, that only root can give, and its number.
const GROUP: (&str, &str) = ("daemon", "1");

/// True where the tests cannot begin as root.
fn is_no_root() -> bool {
    let uid = fs::read_to_string("/proc/self/status").expect("proc");
    if field(&uid, "Uid") == "0" {
        return false;
    }
    assert!(!is_required(), "root is needed");
    eprintln!("skipped: root is needed");
    true
}

/// The first word of a field of /proc/PID/status.
fn field<'t>(status: &'t str, name: &str) -> &'t str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()).unwrap_or_default()
}

/// The folder of a server that everybody can read.
fn readable_site(privileges: &str) -> Site {
    let site = Site::with_zone("");
    site.write("meridian.toml", format!("{SERVER}\n{privileges}"));
    set_mode(site.path(), 0o755);
    site
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a file of ours");
}

/// Checks what every thread of a server may do.
fn assert_unprivileged(server: &Server, group: &str) {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("proc");
    let mut threads = 0;
    for task in tasks {
        // One may have ended.
        let Ok(status) = fs::read_to_string(task.expect("proc").path().join("status")) else {
            continue;
        };
        threads += 1;
        assert_eq!(field(&status, "Uid"), USER.1, "{status}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(&status, set), "0000000000000000", "{status}");
        }
        if !group.is_empty() {
            assert_eq!(field(&status, "Gid"), group, "{status}");
            assert_eq!(field(&status, "NoNewPrivs"), "1", "{status}");
            // Root's groups are gone.
            let groups = status.lines().find(|line| line.starts_with("Groups:")).expect("proc");
            assert!(groups.split_whitespace().skip(1).all(|id| id != "0"), "{status}");
        }
    }
    assert!(threads > 3, "{threads} threads");
}

#[test]
fn every_thread_runs_as_the_user_without_capabilities() {
    if is_no_root() {
        return;
    }
    let (user, number, _) = USER;
    let with_group = format!("[privileges]\nuser = \"{user}\"\ngroup = \"{}\"\n", GROUP.0);
    let cases = [(with_group.as_str(), &[][..], GROUP.1), ("", &["--user", user][..], number)];
    for (privileges, flag, group) in cases {
        let site = readable_site(privileges);
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], flag].concat();
        let mut server = Server::spawn(&site, &arguments);
        server.address = server.next_address();
        server.wait_for("ready");
        assert_unprivileged(&server, group);
        let reply = server.ask(&Query::new("ns1.example.test", rtype::A));
        assert_eq!(reply.data(rtype::A), ["192.0.2.53"]);
        let line = server.reload("reloaded");
        assert!(!line.to_string().contains("at the next start"), "{line}");
        // The site's folder is root's: what is to be kept there is not.
        let lines = server.log_so_far().to_vec();
        let warned = lines.iter().find(|line| {
            line["fields"]["message"]
                .as_str()
                .is_some_and(|text| text.contains("state folder cannot"))
        });
        assert!(warned.is_none(), "the folder was made for the user: {warned:?}");
        assert!(site.path().join("state/cookies.json").exists());
    }
}

#[test]
fn a_state_folder_of_another_user_is_warned_of() {
    if is_no_root() {
        return;
    }
    let site = readable_site("[privileges]\nuser = \"nobody\"\n");
    fs::create_dir(site.path().join("state")).expect("a new folder");
    let mut server = Server::spawn(&site, &["serve"]);
    server.address = server.next_address();
    server.wait_for("ready");
    let lines = server.log_so_far().iter();
    let warned = lines.filter(|line| line["level"] == "WARN").any(|line| {
        let text = line["fields"].to_string();
        text.contains("state folder cannot") && text.contains("nobody") && text.contains("state/")
    });
    assert!(warned, "{:#?}", server.log_so_far());
    let reply = server.ask(&Query::new("ns1.example.test", rtype::A));
    assert_eq!(reply.data(rtype::A), ["192.0.2.53"]);
}

// What only root can read would be missed at the first reload.
#[test]
fn a_file_that_the_user_cannot_read_is_named() {
    if is_no_root() {
        return;
    }
    let privileges = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n\
                      [privileges]\nuser = \"nobody\"\n";
    let site = readable_site(privileges);
    site.write("admin.token", "0123456789abcdef0123456789abcdef");
    set_mode(&site.path().join("admin.token"), 0o640);
    let run = site.run(&["serve"]);
    let line = run.refusal();
    assert!(line.contains("the user nobody cannot read") && line.contains("admin.token"), "{line}");
    assert!(line.contains("chgrp nogroup"), "{line}");

    chown(site.path().join("admin.token"), None, Some(65_534)).expect("root may");
    set_mode(&site.path().join("zones"), 0o700);
    let run = site.run(&["serve"]);
    assert!(run.refusal().contains("cannot read zones"), "{}", run.stderr);
    set_mode(&site.path().join("zones"), 0o755);
    let mut server = Server::spawn(&site, &["serve"]);
    server.wait_for("ready");
}

// Its origins would be down, and nothing would say so before.
#[test]
fn a_file_of_a_monitor_that_the_user_cannot_read_is_named() {
    if is_no_root() {
        return;
    }
    let site = readable_site("[privileges]\nuser = \"nobody\"\n");
    let zone = "[monitors.m]\ntype = \"file\"\npath = \"health/m\"\n\
                [pools.p]\nmonitor = \"m\"\norigins = [{ name = \"a\", address = \"192.0.2.1\" }]\n\
                [load_balancers.www]\npools = [\"p\"]\n";
    site.write("zones/example.test.toml", format!("{ZONE_HEAD}{zone}"));
    let folder = site.path().join("zones/health");
    fs::create_dir(&folder).expect("a new folder");
    site.write("zones/health/m", "up\n");
    let refused = |site: &Site| {
        let run = site.run(&["serve"]);
        let line = run.refusal();
        assert!(line.contains("the user nobody cannot read zones/health/m, and"), "{line}");
    };
    set_mode(&folder.join("m"), 0o640);
    refused(&site);
    set_mode(&folder.join("m"), 0o644);
    set_mode(&folder, 0o700);
    refused(&site);
    set_mode(&folder, 0o755);
    // One that is not there may still come.
    for is_there in [true, false] {
        if !is_there {
            fs::remove_file(folder.join("m")).expect("it was there");
        }
        let mut server = Server::spawn(&site, &["serve"]);
        server.wait_for("ready");
    }
}

// The log is begun anew whenever it is moved away, so that root must not have opened it.
#[test]
fn the_query_log_is_opened_as_the_user() {
    if is_no_root() {
        return;
    }
    let site =
        readable_site("[privileges]\nuser = \"nobody\"\n[query_log]\nfile = \"log/queries.log\"\n");
    let folder = site.path().join("log");
    fs::create_dir(&folder).expect("a new folder");
    let run = site.run(&["serve"]);
    let line = run.refusal();
    assert!(line.contains("let the user nobody write it and its folder"), "{line}");
    chown(&folder, Some(65_534), None).expect("root may");
    let mut server = Server::spawn(&site, &["serve"]);
    server.wait_for("ready");
    let log = fs::metadata(folder.join("queries.log")).expect("a file");
    assert_eq!(log.uid().to_string(), USER.1);
}

#[test]
fn a_user_that_cannot_be_become_is_one_clear_line() {
    if is_no_root() {
        return;
    }
    let site = readable_site("");
    let refusal = |user| site.run(&["serve", "--user", user]).refusal().to_owned();
    assert!(refusal("no-such-user").contains("there is no user \"no-such-user\""));
    assert!(refusal("root").contains("name another user"));
    site.write("meridian.toml", "[privileges]\nuser = \"nobody\"\ngroup = \"no-such-group\"\n");
    let run = site.run(&["serve"]);
    assert!(run.refusal().contains("there is no group \"no-such-group\""), "{}", run.stderr);

    let Some(mut command) = as_nobody(&site, &[]) else { return };
    command.args(["--user", "daemon"]);
    let run = Run::of(command);
    assert!(run.refusal().contains("the server was not started as root"), "{}", run.stderr);
}

#[test]
fn without_the_capability_port_53_says_what_to_do() {
    if is_no_root() {
        return;
    }
    let site = readable_site("");
    let Some(command) = as_nobody(&site, &[]) else { return };
    let run = Run::of(command);
    let line = run.refusal();
    assert!(line.contains("127.53.0.1:53"), "{line}");
    for remedy in ["setcap cap_net_bind_service=+ep", "AmbientCapabilities=", "[privileges]"] {
        assert!(line.contains(remedy), "{line}");
    }
}

// The capability is for binding alone: what is run later does not inherit it.
#[test]
fn with_the_capability_port_53_is_listened_on_and_the_capability_given_up() {
    if is_no_root() {
        return;
    }
    let site = readable_site("");
    let flags = ["--inh-caps", "+net_bind_service", "--ambient-caps", "+net_bind_service"];
    let Some(command) = as_nobody(&site, &flags) else { return };
    let mut server = Server::of(command);
    server.address = server.next_address();
    server.wait_for("ready");
    assert_eq!(server.address.port(), 53);
    assert_unprivileged(&server, "");
    let reply = server.ask(&Query::new("ns1.example.test", rtype::A));
    assert_eq!(reply.data(rtype::A), ["192.0.2.53"]);
}

/// `serve` on port 53 as an ordinary user, with these flags of setpriv(1). In a network of its own unless it
/// is to be asked: ports may be everybody's on this machine. None if setpriv is missing.
fn as_nobody(site: &Site, flags: &[&str]) -> Option<Command> {
    if is_missing("setpriv", "--version", "util-linux") {
        return None;
    }
    let mut command = Command::new(if flags.is_empty() { "unshare" } else { "setpriv" });
    if flags.is_empty() {
        command.args(["-n", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\"", "setpriv"]);
    }
    command.args(["--reuid", USER.0, "--regid", USER.2, "--clear-groups"]).args(flags);
    command.arg(program()).args(["serve", "--listen", "127.53.0.1:53"]);
    command.current_dir(site.path()).env_remove("MERIDIAN_LOG").env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Some(command)
}
