//! Every message of `check`, whole: `tests/config/bad` has a folder for each mistake and
//! `tests/config/warn` one for each doubt, named by the finding, with the smallest set of files that
//! shows it and in `expected.err` what is printed of it. `tests/config/good` has the counterparts,
//! of which nothing is printed. `BLESS=1` writes the expectations anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Run, Site, ZONE_HEAD};

/// What is expected of a folder, in the folder.
const EXPECTED: &str = "expected.err";

#[test]
fn mistakes_are_refused_with_their_message() {
    check_all("bad", Some(1));
}

#[test]
fn doubts_are_warned_of_and_accepted() {
    check_all("warn", Some(0));
}

#[test]
fn their_counterparts_are_accepted_in_silence() {
    check_all("good", Some(0));
}

// What takes too many words for a file: the limits of what can be counted.
#[test]
fn limits_of_numbers_are_kept() {
    let names = |count: usize| (0..count).map(|n| format!("n{n}"));
    let origins = |count| -> String {
        let origin = |(n, name): (usize, String)| {
            format!("{{ name = {name:?}, address = \"10.0.{}.{}\" }}", n / 256, n % 256)
        };
        let origins: Vec<_> = names(count).enumerate().map(origin).collect();
        format!("[pools.p]\norigins = [{}]\n", origins.join(", "))
    };
    assert_eq!(Site::with_zone(&origins(1024)).check().stderr, "");
    assert_eq!(
        Site::with_zone(&origins(1025)).check().stderr,
        "./zones/example.test.toml:19:11: error: pools.p.origins: the pool has 1025 origins\n    \
         help: a pool has at most 1024: make several pools of it\n"
    );

    let subnets = |count| -> String {
        let subnet = |(n, name): (usize, String)| {
            let (high, low) = (n / 256, n % 256);
            format!("[subnets.\"10.{high}.{low}.0/24\"]\nregion = \"weu\"\nzone = {name:?}\n")
        };
        names(count).enumerate().map(subnet).collect()
    };
    let site = Site::with_zone("");
    site.write("geo/subnets.toml", subnets(65_535));
    assert_eq!(site.check().stderr, "");
    site.write("geo/subnets.toml", subnets(65_536));
    assert_eq!(
        site.check().stderr,
        "./geo/subnets.toml:196608:8: error: subnets.\"10.255.255.0/24\".zone: there are more than \
         65,535 zone names\n    help: use fewer distinct zones\n"
    );
    // The names of subnets and origins are counted together.
    site.write("geo/subnets.toml", subnets(65_535));
    let origin = "[pools.p]\norigins = [{ name = \"a\", address = \"192.0.2.1\", zone = \"z\" }]\n";
    site.write("zones/example.test.toml", format!("{ZONE_HEAD}{origin}"));
    assert_eq!(
        site.check().stderr,
        "./zones/example.test.toml:19:56: error: pools.p.origins[0].zone: there are more than \
         65,535 zone names\n    help: use fewer distinct zones\n"
    );

    let regions =
        |count| -> String { names(count).map(|name| format!("[regions.{name}]\n")).collect() };
    let site = Site::with_zone("");
    site.write("geo/regions.toml", regions(65_535));
    assert_eq!(site.check().stderr, "");
    site.write("geo/regions.toml", regions(65_537));
    assert_eq!(
        site.check().stderr,
        "./geo/regions.toml:65537:10: error: regions.n65536: there are more than 65,536 regions\n    \
         help: remove those that are not used\n"
    );
}

/// Checks every folder of a kind, and fails with all that differ.
fn check_all(kind: &str, code: Option<i32>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(kind);
    let bless = std::env::var_os("BLESS").is_some();
    let mut differing = String::new();
    for case in entries(&folder) {
        let run = check(&case);
        let expected_file = case.join(EXPECTED);
        if bless && kind != "good" {
            fs::write(&expected_file, &run.stderr).expect("a file that can be written");
        }
        let expected = match kind {
            "good" => String::new(),
            _ => fs::read_to_string(&expected_file).unwrap_or_default(),
        };
        if run.stderr != expected || run.code != code || (kind == "warn" && expected.is_empty()) {
            let name = case.file_name().expect("a name").to_string_lossy();
            let Run { code, stderr, .. } = run;
            writeln!(differing, "{name}: exit {code:?}\n{stderr}expected\n{expected}").unwrap();
        }
    }
    assert!(differing.is_empty(), "\n{differing}");
}

/// Runs `check` in a copy of a folder, so that the files have the names that it says.
fn check(case: &Path) -> Run {
    let site = Site::new();
    // Where location data do not matter, their absence is not to be told.
    if case.ends_with("geo-missing") {
        fs::remove_dir(site.path().join("geo")).expect("an empty folder");
    }
    if case.join("meridian.toml").is_dir() {
        fs::remove_file(site.path().join("meridian.toml")).expect("a file");
    }
    copy(case, site.path());
    site.run(&["check"])
}

fn copy(from: &Path, to: &Path) {
    for entry in entries(from) {
        let copied = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() {
            fs::create_dir_all(&copied).expect("a new folder");
            copy(&entry, &copied);
        } else if !entry.ends_with(EXPECTED) {
            fs::copy(&entry, &copied).expect("a file that can be copied");
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    entries
}
