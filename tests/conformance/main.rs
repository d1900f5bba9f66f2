//! Conformance: what the RFCs ask of an authoritative server, asked with the clients and resolvers that
//! people use. Each requirement is a few lines of a file in `rows/`: where it stands, a command, and what
//! must come of it. `table` reads these files, `run` runs the commands against the servers of `stage`, and
//! what comes of it is docs/conformance.md, so that the document cannot claim what was not seen.
//!
//! The expectations come from the RFCs, never from the source.
//!
//! Resolvers need the port 53 and a root of their own: where a network namespace can be made (root, unshare,
//! iproute2), all of it runs in one. Elsewhere the rows of resolvers are skipped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]
#![allow(clippy::print_stderr, reason = "what is skipped is told")]

#[allow(dead_code, reason = "the black-box tests use more of it")]
#[path = "../it/harness.rs"]
mod harness;
#[allow(dead_code, reason = "the black-box tests use more of it")]
#[path = "../it/wire.rs"]
mod wire;

mod answer;
mod network;
mod packet;
mod programmed;
mod relay;
mod resolvers;
mod run;
mod stage;
mod table;

use std::fs;
use std::path::Path;

use crate::harness::is_required;
use crate::run::Outcome;
use crate::stage::Stage;
use crate::table::Part;

/// The variable that names the file to which the table is written.
const TABLE: &str = "MERIDIAN_CONFORMANCE_TABLE";
/// The document that must say what is true.
const DOCUMENT: &str = "docs/conformance.md";

#[test]
fn every_requirement_holds_and_the_document_says_so() {
    if network::is_possible() {
        network::run_inside("inside_the_network");
    } else {
        assert!(!is_required(), "no network namespace can be made (root, unshare, iproute2)");
        eprintln!("skipped: resolvers need a network namespace (root, unshare, iproute2)");
        every_requirement(&Stage::without_resolvers());
    }
}

#[test]
#[ignore = "run by every_requirement_holds_and_the_document_says_so in a network of its own"]
fn inside_the_network() {
    every_requirement(&Stage::with_resolvers());
}

/// Runs all rows, writes the table if it is asked for, and compares it with the document.
fn every_requirement(stage: &Stage) {
    let parts: Vec<Part> = table::parts();
    let outcomes = run::all(&parts, stage);
    let skipped = outcomes.iter().flatten().filter(|o| matches!(o, Outcome::Skipped)).count();
    let made = table::render(&parts, &outcomes);
    let file = std::env::var_os(TABLE);
    assert!(skipped == 0 || file.is_none() && !is_required(), "{skipped} rows were skipped");
    if let Some(file) = file {
        fs::write(file, &made).expect("a file that can be written");
    }
    let faults = run::faults(&parts, &outcomes);
    assert!(faults.is_empty(), "\n\n{}\n\n{} rows failed", faults.join("\n\n"), faults.len());
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let found = fs::read_to_string(document).unwrap_or_default();
    assert!(
        found == made,
        "{DOCUMENT} is not what was seen: {TABLE}={DOCUMENT} cargo test --test conformance"
    );
}

/// A file of this folder. It is read when the test runs, so that a row can change without a build.
fn own_file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
