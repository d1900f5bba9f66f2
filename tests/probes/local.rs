//! Probes that stay on the machine: programs and files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use meridian::config::monitors::Probe;
use meridian::probe::Success;

use crate::monitors::{impatient, monitor, probe, words};

fn shell(script: &str) -> Probe {
    Probe::Exec { command: ["sh", "-c", script].map(str::to_owned).to_vec() }
}

#[tokio::test]
async fn a_program_that_ends_with_0_is_a_success() {
    assert_eq!(probe(&monitor(shell("echo fine"))).await, Ok(Success { rtt: None }));
    let environment = r#"test "$MERIDIAN_ADDRESS $MERIDIAN_MONITOR" = "127.0.0.1 test""#;
    probe(&monitor(shell(environment))).await.unwrap();
    probe(&monitor(shell("yes | head -c 1000000"))).await.unwrap();
}

#[tokio::test]
async fn another_status_is_a_failure_with_the_first_line_of_output() {
    for (script, expected) in [
        ("exit 2", "exit status 2"),
        ("echo; echo 'disk  is full'; echo more; exit 1", "exit status 1: disk  is full"),
        ("echo no such host >&2; exit 3", "exit status 3: no such host"),
        ("printf '\\033[31mred\\n'; exit 4", "exit status 4: [31mred"),
        ("kill -9 $$", "ended by signal 9"),
    ] {
        assert_eq!(words(probe(&monitor(shell(script))).await), expected, "{script}");
    }
    let missing = Probe::Exec { command: vec!["/no/such/program".to_owned()] };
    let missing = words(probe(&monitor(missing)).await);
    assert!(missing.contains("cannot run \"/no/such/program\": No such file"), "{missing}");
}

#[tokio::test]
async fn a_program_is_killed_at_the_timeout_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let hanging = words(probe(&impatient(shell(&script))).await);
    assert_eq!(hanging, "timed out after 300 ms waiting for the program to end");
    // On a busy machine the program may not have come so far.
    if let Ok(id) = fs::read_to_string(&file) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_running(id.trim()) {
            assert!(Instant::now() < deadline, "the process {id} goes on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Whether a process is there, and no zombie.
fn is_running(id: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(id).join("stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

#[tokio::test]
async fn a_program_s_background_does_not_hold_the_probe() {
    probe(&monitor(shell("sleep 600 & exit 0"))).await.unwrap();
    let failed = words(probe(&monitor(shell("sleep 600 & echo why; exit 1"))).await);
    assert_eq!(failed, "exit status 1: why");
}

#[tokio::test]
async fn a_file_says_up_or_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state").display().to_string();
    let watched = monitor(Probe::File { path: path.clone().into() });
    for (text, expected) in [
        ("up\n", None),
        ("down in repair\n", Some("the file says down: in repair")),
        ("* up\n127.0.0.1 down disk is full\n", Some("the file says down: disk is full")),
        ("127.0.0.1 up\n* down\n", None),
        ("", Some("the file says nothing of 127.0.0.1")),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(probe(&watched).await.err().as_deref(), expected, "{text:?}");
    }
    fs::write(&path, "# x\n".repeat(20_000)).unwrap();
    assert!(words(probe(&watched).await).ends_with("it has more than 64 KiB"));
    fs::remove_file(&path).unwrap();
    let missing = words(probe(&watched).await);
    assert!(missing.starts_with(&format!("cannot read {path}: ")), "{missing}");
    let folder = monitor(Probe::File { path: folder.path().to_owned() });
    assert!(words(probe(&folder).await).ends_with("it is not a regular file"));
}

#[test]
fn a_pushed_state_is_not_probed() {
    assert!(!monitor(Probe::Push { ttl: Duration::from_secs(60) }).is_probed());
    assert!(monitor(Probe::Icmp).is_probed());
}
