//! What cargo-fuzz does with a nightly compiler, in small and with the stable one: every target with its
//! seeds, and with seeds that are damaged at random, the same in every run. `MERIDIAN_FUZZ_ROUNDS` says how
//! often each seed is damaged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

use std::fs;
use std::path::Path;

use random::Random;

#[path = "../../fuzz/targets/master_file.rs"]
mod master_file;
#[path = "../properties/message.rs"]
mod message;
#[path = "../../fuzz/targets/mmdb.rs"]
mod mmdb;
#[path = "../../fuzz/targets/options.rs"]
mod options;
#[path = "../../fuzz/targets/query.rs"]
mod query;
#[path = "../../examples/random/mod.rs"]
mod random;
#[path = "../../fuzz/targets/wire.rs"]
mod wire;
#[path = "../../fuzz/targets/world.rs"]
mod world;
#[path = "../../fuzz/targets/zone_toml.rs"]
mod zone_toml;

/// Runs a target with its seeds, each `rounds` times damaged.
fn replay(target: &str, rounds: usize, run: impl Fn(&[u8])) {
    let rounds = std::env::var("MERIDIAN_FUZZ_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(rounds);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!seeds.is_empty(), "{target} has seeds");
    let mut random = Random(0x6d65_7269_6469_616e);
    for seed in &seeds {
        run(seed);
        for _ in 0..rounds {
            run(&damaged(seed, &seeds, &mut random));
        }
    }
}

/// A seed with one to four faults.
fn damaged(seed: &[u8], seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut octets = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = index(random, octets.len() + 1);
        match random.below(6) {
            0 => octets.truncate(at),
            1 => octets.insert(at, random.next().to_le_bytes()[0]),
            2 => {
                let other = &seeds[index(random, seeds.len())];
                let from = index(random, other.len() + 1);
                octets.truncate(at);
                octets.extend(&other[from..]);
            }
            3 => {
                let again = octets[at..].to_vec();
                octets.extend(again);
            }
            kind => {
                let Some(octet) = octets.get_mut(at) else { continue };
                let odd = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff, b'"', b'\n', b'[', b'.'];
                *octet = if kind == 4 {
                    *octet ^ 1 << random.below(8)
                } else {
                    odd[index(random, odd.len())]
                };
            }
        }
    }
    octets
}

fn index(random: &mut Random, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).unwrap()
}

#[test]
fn messages_are_answered_well_by_the_model() {
    replay("query", 1000, query::run);
}

#[test]
fn messages_are_answered_alike_by_the_short_way_and_the_long_way() {
    replay("wire", 1000, wire::run);
}

#[test]
fn options_are_answered_as_they_were_sent() {
    replay("options", 1000, options::run);
}

#[test]
fn zone_files_give_a_state_or_errors() {
    replay("zone_toml", 20, zone_toml::run);
}

#[test]
fn master_files_are_shown_as_they_are_read() {
    replay("master_file", 50, master_file::run);
}

#[test]
fn location_databases_have_a_place_for_every_address() {
    replay("mmdb", 3, mmdb::run);
}
