//! Look-ups, building time and memory of the location table, beside the `maxminddb` crate's own.
//!
//! Two tables: the country database of geo/ where it is there, and a made-up one of the size of a
//! large city database.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints figures and stops at the first mistake"
)]

#[path = "../examples/random/mod.rs"]
mod random;

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use maxminddb::Reader;
use meridian::config::report::Report;
use meridian::locate::mmdb::Database;
use meridian::locate::place::{AvailabilityZones, Coordinates, Place};
use meridian::locate::runs::{Bits, Runs};
use meridian::locate::table::Table;
use meridian::locate::{Locator, LocatorInput};

use crate::random::Random;

const CITY_PLACES: u32 = 200_000;
/// Distinct addresses of a round: more than the processor's caches hold, and few that come again and
/// again, as those of resolvers do.
const ADDRESSES: [(&str, usize); 2] = [("any", 1 << 20), ("frequent", 1 << 10)];

fn country(criterion: &mut Criterion) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("geo/iptoasn-country.mmdb");
    let Ok(content) = std::fs::read(&file) else {
        println!("country: no {}", file.display());
        return;
    };
    let input = LocatorInput { database: Some((&file, &content)), ..LocatorInput::default() };
    let start = Instant::now();
    let locator = Locator::load(input, &mut AvailabilityZones::default(), &Report::default());
    println!(
        "country: {} networks, {} places, loaded in {:.0?}, {} KiB",
        locator.database().unwrap().networks,
        locator.table().places().len(),
        start.elapsed(),
        locator.table().memory() / 1024
    );
    let mut group = criterion.benchmark_group("country");
    for (kind, addresses) in addresses() {
        let mut next = cycle(&addresses);
        group.bench_function(format!("{kind}/table"), |bencher| {
            bencher.iter(|| black_box(locator.locate(next())));
        });
        let reader = Reader::from_source(content.as_slice()).unwrap();
        let mut next = cycle(&addresses);
        group.bench_function(format!("{kind}/maxminddb"), |bencher| {
            bencher.iter(|| {
                let result = reader.lookup(next()).unwrap();
                black_box(result.decode_path::<&str>(&maxminddb::path!["country_code"]))
            });
        });
    }
}

fn city(criterion: &mut Criterion) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/geo/GeoIP2-City-Test.mmdb");
    let content = std::fs::read(&file).unwrap();
    let start = Instant::now();
    let records: usize = (0..100)
        .map(|_| Database::load(&file, &content, &Report::default()))
        .map(|database| database.unwrap().info.records)
        .sum();
    println!(
        "city: {:.0?} to read one distinct record",
        start.elapsed() / u32::try_from(records).unwrap()
    );
    let mut random = Random(7);
    let start = Instant::now();
    let v4 = runs::<u32>(&mut random, |depth| match depth {
        0..12 => 1000,
        12..24 => 800,
        24..30 => 250,
        _ => 0,
    });
    let v6 = runs::<u128>(&mut random, |depth| match depth {
        0..16 => 1000,
        16..32 => 640,
        32..48 => 350,
        48..64 => 100,
        _ => 0,
    });
    let made = start.elapsed();
    let places = (0..=CITY_PLACES).map(|number| Place {
        coordinates: Coordinates::from_degrees(f64::from(number) / 1e4, 0.0),
        ..Place::default()
    });
    let start = Instant::now();
    let table = Table::build(places.collect(), &v4, &v6).unwrap();
    println!(
        "city: {} + {} networks, {CITY_PLACES} places, compiled in {:.0?} (made in {made:.0?}), {} \
         KiB",
        v4.len(),
        v6.len(),
        start.elapsed(),
        table.memory() / 1024
    );
    let mut group = criterion.benchmark_group("city");
    for (kind, addresses) in addresses() {
        let mut next = cycle(&addresses);
        group.bench_function(format!("{kind}/table"), |bencher| {
            bencher.iter(|| black_box(table.locate(next())));
        });
    }
}

/// Splits the address space at random, with a chance in thousandths that depends on the depth.
fn runs<A: Bits>(random: &mut Random, chance: impl Fn(u8) -> u64) -> Runs<A> {
    let mut runs = Runs::uniform(0);
    let mut open = vec![(A::FIRST, 0_u8)];
    while let Some((first, depth)) = open.pop() {
        // IPv6 is used below 2000::/3 only.
        let unused = A::WIDTH == 128 && depth >= 3 && first.block_end(3) != top_three(first);
        if !unused && random.below(1000) < chance(depth) {
            open.push((first.with(depth, 1, 1), depth + 1));
            open.push((first, depth + 1));
        } else {
            let value = 1 + random.below(u64::from(CITY_PLACES));
            runs.push(first, u32::try_from(value).unwrap());
        }
    }
    runs
}

/// The last address of 2000::/3 if that is where the address is, else the first of all.
fn top_three<A: Bits>(first: A) -> A {
    let block = A::FIRST.with(0, 3, 1);
    if block <= first && first <= block.block_end(3) { block.block_end(3) } else { A::FIRST }
}

fn cycle(addresses: &[IpAddr]) -> impl FnMut() -> IpAddr {
    let mut at = 0;
    move || {
        at = (at + 1) & (addresses.len() - 1);
        addresses[at]
    }
}

fn addresses() -> Vec<(String, Vec<IpAddr>)> {
    let mut random = Random(1);
    let mut rounds = Vec::new();
    for (kind, count) in ADDRESSES {
        let v4 = (0..count).map(|_| v4_address(&mut random)).collect();
        let v6 = (0..count).map(|_| v6_address(&mut random)).collect();
        rounds.extend([(format!("v4/{kind}"), v4), (format!("v6/{kind}"), v6)]);
    }
    rounds
}

/// From 1.0.0.0 to 223.255.255.255: what is routed.
fn v4_address(random: &mut Random) -> IpAddr {
    let number = (1 << 24) + random.below(223 << 24);
    IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap()))
}

/// Below 2000::/5, where addresses are in use.
fn v6_address(random: &mut Random) -> IpAddr {
    let high = (1 << 61) | (random.next() >> 5);
    let number = u128::from(high) << 64 | u128::from(random.next());
    IpAddr::V6(Ipv6Addr::from_bits(number))
}

criterion_group!(benches, country, city);
criterion_main!(benches);
