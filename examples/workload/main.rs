//! Writes a workload to measure servers with: a zone of steered names, a country database, queries
//! from clients of its networks, and the same configuration for Meridian, gdnsd, Knot DNS, PowerDNS
//! and NSD.
//!
//! Each name has three pools of weighted origins of its own, and a client's country decides which of
//! them is answered. The same arguments write the same files; the servers' configurations name the
//! folder that they are written to, and work there only.
//!
//! `queries` is a list for the `flood` example. Each line of `expected` is a sample for a check:
//! `NAME SUBNET STATIC ADDRESS...`, where STATIC is the address that NSD has, and the others are
//! those of the pool that is right for the subnet.

#![allow(clippy::print_stderr, reason = "a command that says what is wrong")]

mod country;
#[path = "../random/mod.rs"]
mod random;
mod servers;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use ipnet::Ipv4Net;

use crate::random::Random;

/// A group of countries that one pool of each name is for, and the region of that name.
struct Group {
    name: &'static str,
    /// Continent and country codes.
    countries: &'static [(&'static str, &'static str)],
}

/// The groups, in the order of the pools.
const GROUPS: [Group; 3] = [
    Group {
        name: "americas",
        countries: &[("NA", "CA"), ("NA", "MX"), ("NA", "US"), ("SA", "AR"), ("SA", "BR")],
    },
    Group {
        name: "europe",
        countries: &[("EU", "DE"), ("EU", "ES"), ("EU", "FR"), ("EU", "GB"), ("EU", "NL")],
    },
    Group {
        name: "pacific",
        countries: &[("AS", "IN"), ("AS", "JP"), ("AS", "KR"), ("AS", "SG"), ("OC", "AU")],
    },
];

/// The origins' weights in hundredths; from the fourth origin on they come again.
const WEIGHTS: [u32; 3] = [50, 30, 20];
/// The TTL of every answer.
const TTL: u32 = 30;
/// Availability zones of a region.
const ZONES: usize = 3;
/// How many of the first queries are in `expected`.
const SAMPLE: usize = 200;
/// Of 64 subnets, how many have each prefix length: as in routing tables, most are small.
const LENGTHS: [(u8, u64); 9] =
    [(24, 32), (23, 7), (22, 10), (21, 5), (20, 4), (19, 3), (18, 1), (17, 1), (16, 1)];

/// Writes zone, country database, queries and servers' configurations.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder to write; made if it is not there
    folder: PathBuf,
    /// How many steered names
    #[arg(long, default_value_t = 10_000)]
    names: usize,
    /// How many subnets of clients
    #[arg(long, default_value_t = 100_000)]
    subnets: usize,
    /// How many queries
    #[arg(long, default_value_t = 200_000)]
    queries: usize,
    /// Origins in each pool
    #[arg(long, default_value_t = 3)]
    origins: usize,
    /// The seed of the pseudo-random choices, not 0
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seed: u64,
    /// The port of the first server; the next ones have those after it
    #[arg(long, default_value_t = 15_300)]
    port: u16,
    /// Give Meridian's clients and origins availability zones, with zonal affinity on or off
    #[arg(long)]
    zonal: Option<Affinity>,
    /// Give Meridian's names session affinity
    #[arg(long)]
    sessions: bool,
    /// Write no other server's configuration than Meridian's
    #[arg(long)]
    meridian_only: bool,
}

/// Whether zonal affinity applies.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Affinity {
    Off,
    On,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workload: {error}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: Arguments) -> io::Result<()> {
    std::fs::create_dir_all(&arguments.folder)?;
    let folder = arguments.folder.canonicalize()?;
    if arguments.names == 0 || arguments.subnets == 0 || arguments.origins == 0 {
        return Err(io::Error::other("names, subnets and origins are 1 at least"));
    }
    if arguments.names * GROUPS.len() * arguments.origins >= 1 << 24 {
        return Err(io::Error::other("10.0.0.0/8 has too few addresses for so many origins"));
    }
    let mut random = Random(arguments.seed);
    let subnets = subnets(arguments.subnets, &mut random)?;
    let workload = Workload { arguments, subnets };
    workload.write_queries(&folder, &mut random)?;
    servers::meridian(&workload, &folder, &mut random)?;
    if !workload.arguments.meridian_only {
        servers::gdnsd(&workload, &folder)?;
        servers::knot(&workload, &folder)?;
        servers::powerdns(&workload, &folder)?;
        servers::nsd(&workload, &folder)?;
    }
    Ok(())
}

/// A network of clients.
struct Subnet {
    network: Ipv4Net,
    group: usize,
    /// Of the group's countries.
    country: usize,
}

/// What is written, in no server's words.
struct Workload {
    arguments: Arguments,
    subnets: Vec<Subnet>,
}

impl Workload {
    /// The address of an origin; no two origins share one.
    fn address(&self, name: usize, group: usize, origin: usize) -> Ipv4Addr {
        let number = (name * GROUPS.len() + group) * self.arguments.origins + origin + 1;
        Ipv4Addr::from_bits(10 << 24 | u32::try_from(number).unwrap_or(0))
    }

    /// The origins of a pool: address, and weight in hundredths.
    fn pool(&self, name: usize, group: usize) -> impl Iterator<Item = (Ipv4Addr, u32)> {
        (0..self.arguments.origins)
            .map(move |origin| self.address(name, group, origin))
            .zip(WEIGHTS.into_iter().cycle())
    }

    /// Writes `queries`, and the first of them with the right addresses in `expected`.
    fn write_queries(&self, folder: &Path, random: &mut Random) -> io::Result<()> {
        let mut queries = create(folder, "queries")?;
        let mut expected = create(folder, "expected")?;
        for number in 0..self.arguments.queries {
            let name = index(random, self.arguments.names);
            let subnet = &self.subnets[index(random, self.subnets.len())];
            let client = within(random, subnet.network);
            writeln!(queries, "n{name}.bench.test A {client}/24")?;
            if number < SAMPLE {
                write!(expected, "n{name}.bench.test {client}/24 {}", self.address(name, 0, 0))?;
                for (address, _) in self.pool(name, subnet.group) {
                    write!(expected, " {address}")?;
                }
                writeln!(expected)?;
            }
        }
        queries.flush()?;
        expected.flush()
    }
}

/// Makes a file, with the folders that it is in.
fn create(folder: &Path, file: &str) -> io::Result<BufWriter<File>> {
    let path = folder.join(file);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(BufWriter::new(File::create(path)?))
}

/// Client subnets in ascending order, spread over the unicast addresses, with gaps between them.
fn subnets(count: usize, random: &mut Random) -> io::Result<Vec<Subnet>> {
    // In /24s, from 11.0.0.0: below are the origins.
    let (first, end) = (11_usize << 16, 224_usize << 16);
    // Half of the gap's range; a subnet takes less than 30 on average, with what aligns it.
    let gap = ((end - first) / count).saturating_sub(30);
    let mut next = first;
    let mut subnets = Vec::with_capacity(count);
    while subnets.len() < count {
        let length = length(random);
        let size = 1_usize << (24 - length);
        let start = (next + index(random, 2 * gap + 1)).next_multiple_of(size);
        next = start + size;
        if next > end {
            return Err(io::Error::other("there is no room for so many subnets"));
        }
        let address = Ipv4Addr::from_bits(u32::try_from(start << 8).unwrap_or(0));
        if address.is_loopback() {
            continue;
        }
        let network = Ipv4Net::new(address, length).map_err(io::Error::other)?;
        let group = index(random, GROUPS.len());
        let country = index(random, GROUPS[group].countries.len());
        subnets.push(Subnet { network, group, country });
    }
    Ok(subnets)
}

fn length(random: &mut Random) -> u8 {
    let mut ticket = random.next() >> 58;
    for (length, share) in LENGTHS {
        if ticket < share {
            return length;
        }
        ticket -= share;
    }
    24
}

/// A random number from 0 to `limit` - 1.
fn index(random: &mut Random, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).unwrap_or(0)
}

/// A random /24 of a network that is as wide or wider.
fn within(random: &mut Random, network: Ipv4Net) -> Ipv4Addr {
    let number = random.below(1 << (24 - network.prefix_len())) << 8;
    Ipv4Addr::from_bits(network.network().to_bits() | u32::try_from(number).unwrap_or(0))
}
