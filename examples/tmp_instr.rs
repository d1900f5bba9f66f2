//! tmp
#![allow(clippy::all, missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::serve::live::{Live, Moment};
use meridian::serve::udp::{OwnSequences, answer};
use std::fmt::Write;

#[inline(never)]
fn answer_all(queries: &[Vec<u8>], moment: &Moment, seq: &OwnSequences, n: usize) -> usize {
    let responder =
        meridian::respond::Responder { state: &moment.state, plan: &moment.plan, sequences: seq };
    let mut out = [0u8; 1280];
    let mut total = 0;
    for i in 0..n {
        let q = &queries[i % queries.len()];
        total += answer(q, "127.0.0.1".parse().unwrap(), &responder, &mut out).unwrap();
    }
    total
}

fn main() {
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let names = 10_000;
    let mut t = String::from(
        "zone=\"bench.test\"\n[[records]]\nname=\"@\"\ntype=\"NS\"\ndata=[\"ns1\"]\n[[records]]\nname=\"ns1\"\ntype=\"A\"\ndata=[\"192.0.2.1\"]\n",
    );
    for i in 0..names {
        for (p, region) in ["weu", "nam", "seas"].iter().enumerate() {
            write!(t, "[pools.p{i}x{p}]\nregion=\"{region}\"\n").unwrap();
            for (o, w) in ["0.5", "0.3", "0.2"].iter().enumerate() {
                write!(t, "[[pools.p{i}x{p}.origins]]\nname=\"o{o}\"\naddress=\"10.{}.{}.{}\"\nweight={w}\n", p * 3 + o, i / 256, i % 256).unwrap();
            }
        }
        write!(
            t,
            "[load_balancers.n{i}]\nsteering=\"geo\"\npools=[\"p{i}x0\",\"p{i}x1\",\"p{i}x2\"]\n"
        )
        .unwrap();
    }
    let report = Report::default();
    let db = std::fs::read("geo/iptoasn-country.mmdb").unwrap();
    let files = Files {
        zones: vec![Source::new("z.toml", t)],
        database: Some(("geo.mmdb".into(), db)),
        ..Files::default()
    };
    let t0 = std::time::Instant::now();
    let state = build(&files, &Server::default(), &|_| panic!(), &report);
    for d in report.into_sorted().iter().take(3) {
        println!("{d}");
    }
    let moment = Moment::new(1, state.unwrap());
    println!("load {:?}", t0.elapsed());
    let mut seq = OwnSequences::default();
    seq.follow(&moment);
    let mut x = 12345u64;
    let mut r = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let queries: Vec<Vec<u8>> = (0..50_000)
        .map(|_| {
            let name = format!("n{}", r() % names);
            let mut m = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, name.len() as u8];
            m.extend(name.as_bytes());
            m.extend(b"\x05bench\x04test\x00\x00\x01\x00\x01");
            m.extend([
                0,
                0,
                41,
                4,
                0xd0,
                0,
                0,
                0,
                0,
                0,
                11,
                0,
                8,
                0,
                7,
                0,
                1,
                24,
                0,
                (r() % 220 + 1) as u8,
                r() as u8,
                r() as u8,
            ]);
            m
        })
        .collect();
    let t0 = std::time::Instant::now();
    let total = answer_all(&queries, &moment, &seq, n);
    println!("{total} {:?}/query", t0.elapsed() / n as u32);
}
