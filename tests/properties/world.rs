//! Random configurations: what they are in plain terms, as TOML, and as a state.
//!
//! Names are numbers here: pools are p0, p1 and so on, their origins o0, o1, the load balancers lb0,
//! lb1. Every address says whose it is, so that an answer can be traced to its origins.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use meridian::config::build::{Files, build};
use meridian::config::pools::Probes;
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::state::State;
use meridian::steer::availability::{Health, HealthState};
use meridian::steer::pool::{OriginIndex, Pool, PoolId};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// The regions with the region that each lies in.
pub(crate) const REGIONS: [(&str, Option<usize>); 5] =
    [("eu", None), ("eu-west", Some(0)), ("eu-west-4", Some(1)), ("us", None), ("ap", None)];
/// The countries of regions: eu has NL and us has US; GB is in no region.
pub(crate) const AREAS: [&str; 4] = ["NL", "US", "US-CA", "GB"];
/// The availability zones, of whichever region.
pub(crate) const ZONES: [&str; 3] = ["a", "b", "c"];
/// Coordinates that clients have, in thousandths of a degree.
pub(crate) const SPOTS: [(i32, i32); 4] =
    [(52_370, 4_900), (40_713, -74_006), (-36_850, 174_760), (-17_713, -179_900)];
/// The pop of the node, where it has one, and one that it is not.
const POPS: [&str; 2] = ["ams", "nyc"];

/// A configuration, and the health of its origins.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) pools: Vec<PoolSpec>,
    pub(crate) balancers: Vec<BalancerSpec>,
    pub(crate) rtt: Vec<(RttRow, Vec<(usize, u64)>)>,
    /// Whether the node is at the first pop.
    pub(crate) at_pop: bool,
    /// Whether origins are given by host name, and how these are answered.
    pub(crate) hosts: Option<Hosts>,
}

/// How host names are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hosts {
    Aliases,
    Flattened,
}

#[derive(Clone, Debug)]
pub(crate) struct PoolSpec {
    pub(crate) enabled: bool,
    pub(crate) region: Option<usize>,
    /// Latitude and longitude in thousandths of a degree.
    pub(crate) location: Option<(i32, i32)>,
    pub(crate) monitored: bool,
    pub(crate) minimum: usize,
    pub(crate) mode: Mode,
    /// In millionths.
    pub(crate) failover_ratio: u64,
    pub(crate) drops: bool,
    pub(crate) origins: Vec<OriginSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Disabled,
    Stay,
    /// With the ratio in millionths.
    Spill(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct OriginSpec {
    /// Which families it has an address of, IPv4 first.
    pub(crate) families: [bool; 2],
    pub(crate) zone: Option<usize>,
    /// In millionths.
    pub(crate) weight: u64,
    pub(crate) is_failover: bool,
    pub(crate) enabled: bool,
    /// What the probes of its addresses say.
    pub(crate) probed: [HealthState; 2],
    pub(crate) forced: Option<bool>,
}

#[derive(Clone, Debug)]
pub(crate) struct BalancerSpec {
    pub(crate) pools: Vec<usize>,
    pub(crate) fallback: Option<usize>,
    pub(crate) policy: PolicySpec,
    pub(crate) by_resolver: bool,
    /// None for "all".
    pub(crate) answers: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum PolicySpec {
    Failover,
    Geo {
        /// By pop, the node's own first.
        pops: Option<Vec<(usize, Vec<usize>)>>,
        areas: Option<Vec<(usize, Vec<usize>)>>,
        regions: Option<Vec<(usize, Vec<usize>)>>,
    },
    /// With the tolerance in milliseconds and per cent.
    Rtt(u64, u64),
    Proximity,
    /// With the pools' weights in millionths; not among the policies of [`worlds`], because its pool
    /// is not the client's alone.
    Random(Vec<u64>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RttRow {
    Region(usize),
    Pop,
}

/// Where a client is said to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClientSpec {
    pub(crate) region: Option<usize>,
    pub(crate) zone: Option<usize>,
    pub(crate) area: Option<usize>,
    /// One of [`SPOTS`].
    pub(crate) spot: Option<usize>,
}

/// Every way that a client can be located.
pub(crate) fn clients() -> Vec<ClientSpec> {
    let mut clients = Vec::new();
    for area in std::iter::once(None).chain((0..AREAS.len()).map(Some)) {
        clients.push(ClientSpec { region: None, zone: None, area, spot: None });
        for region in (0..REGIONS.len()).map(Some) {
            for zone in std::iter::once(None).chain((0..ZONES.len()).map(Some)) {
                // Every other client has coordinates, each spot in its turn.
                let spot = (clients.len() % 2 == 1).then_some(clients.len() / 2 % SPOTS.len());
                clients.push(ClientSpec { region, zone, area, spot });
            }
        }
    }
    clients
}

/// An address of the client with this number.
pub(crate) fn client_address(number: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, u8::try_from(number).unwrap(), 1))
}

/// The address of an origin in a family.
pub(crate) fn origin_address(pool: usize, origin: usize, family: usize) -> IpAddr {
    let (pool, origin) = (u8::try_from(pool).unwrap(), u8::try_from(origin).unwrap());
    match family {
        0 => IpAddr::V4(Ipv4Addr::new(172, 16, pool, origin + 1)),
        _ => {
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, pool.into(), u16::from(origin) + 1))
        }
    }
}

/// The host name of an origin, where it is given by one.
pub(crate) fn host_name(pool: usize, origin: usize) -> String {
    format!("o{origin}.p{pool}.origins.test")
}

/// Whose address it is: pool and origin.
pub(crate) fn owner_of(rdata: &[u8]) -> (usize, usize) {
    match *rdata {
        [172, 16, pool, origin] => (pool.into(), usize::from(origin) - 1),
        [.., pool, 0, origin] if rdata.len() == 16 => (pool.into(), usize::from(origin) - 1),
        _ => panic!("{rdata:?} is no address of an origin"),
    }
}

pub(crate) fn worlds() -> impl Strategy<Value = World> {
    let pools = vec(pools(), 1..5);
    pools
        .prop_flat_map(|pools| {
            let count = pools.len();
            let row = prop_oneof![(0..REGIONS.len()).prop_map(RttRow::Region), Just(RttRow::Pop),];
            // Near one another, and at the edges of the tolerances.
            let times = prop_oneof![
                select(&[10_000, 11_000, 15_000, 20_000, 22_000, 25_000][..]),
                0u64..120_000,
            ];
            let figures = vec((0..count, times), 0..4);
            (Just(pools), vec(balancers(count), 1..5), vec((row, figures), 0..4), any::<bool>())
        })
        .prop_map(|(pools, balancers, mut rtt, at_pop)| {
            // A row, and a pool in it, can be given once.
            let mut seen = Vec::new();
            rtt.retain(|(row, _)| {
                !seen.contains(row) && {
                    seen.push(*row);
                    true
                }
            });
            for (_, figures) in &mut rtt {
                figures.sort_unstable();
                figures.dedup_by_key(|&mut (pool, _)| pool);
            }
            World { pools, balancers, rtt, at_pop, hosts: None }
        })
}

fn ratios() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1_000_000),
        select(&[500_000, 800_000, 700_000, 300_000, 333_333, 666_667][..]),
        0u64..=1_000_000,
    ]
}

fn pools() -> impl Strategy<Value = PoolSpec> {
    let mode = prop_oneof![
        Just(Mode::Disabled),
        Just(Mode::Stay),
        Just(Mode::Spill(0)),
        ratios().prop_map(Mode::Spill),
    ];
    // How well a pool does on the whole: from none of it up to all of it.
    let origins = (0u32..=10).prop_flat_map(|wellness| vec(origins(wellness), 1..13));
    (
        prop::bool::weighted(0.9),
        option::weighted(0.8, 0..REGIONS.len()),
        option::weighted(0.7, (-90_000..=90_000, -180_000..=180_000)),
        prop::bool::weighted(0.85),
        prop_oneof![3 => Just(1usize), 1 => 0usize..6],
        mode,
        ratios(),
        any::<bool>(),
        origins,
    )
        .prop_map(
            |(
                enabled,
                region,
                location,
                monitored,
                minimum,
                mode,
                failover_ratio,
                drops,
                origins,
            )| {
                let minimum = minimum.min(origins.len());
                PoolSpec {
                    enabled,
                    region,
                    location,
                    monitored,
                    minimum,
                    mode,
                    failover_ratio,
                    drops,
                    origins,
                }
            },
        )
}

fn origins(wellness: u32) -> impl Strategy<Value = OriginSpec> {
    let state = move || {
        prop_oneof![
            1 + 4 * wellness => Just(HealthState::Healthy),
            20 => Just(HealthState::Unhealthy),
            3 => Just(HealthState::Unknown),
        ]
    };
    let weight = prop_oneof![
        1 => Just(0u64),
        4 => select(&[1_000_000, 500_000, 400_000, 300_000][..]),
        1 => 1u64..=1_000_000,
    ];
    (
        select(&[[true, false], [true, true], [false, true]][..]),
        option::weighted(0.8, 0..ZONES.len()),
        weight,
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.9),
        [state(), state()],
        option::weighted(0.1, any::<bool>()),
    )
        .prop_map(|(families, zone, weight, is_failover, enabled, probed, forced)| {
            OriginSpec { families, zone, weight, is_failover, enabled, probed, forced }
        })
}

fn balancers(pools: usize) -> impl Strategy<Value = BalancerSpec> {
    let list = move || subsequence((0..pools).collect::<Vec<_>>(), 1..=pools).prop_shuffle();
    let map = move |keys: usize| {
        option::of(vec((0..keys, list()), 0..4).prop_map(|mut entries| {
            entries.sort_unstable();
            entries.dedup_by_key(|(key, _)| *key);
            entries
        }))
    };
    let policy = prop_oneof![
        Just(PolicySpec::Failover),
        (map(POPS.len()), map(AREAS.len()), map(REGIONS.len()))
            .prop_map(|(pops, areas, regions)| PolicySpec::Geo { pops, areas, regions }),
        Just(PolicySpec::Geo { pops: None, areas: None, regions: None }),
        (select(&[0u64, 1, 5, 7][..]), select(&[0u64, 10, 25, 100][..]))
            .prop_map(|(absolute, percent)| PolicySpec::Rtt(absolute, percent)),
        Just(PolicySpec::Proximity),
    ];
    let answers = prop_oneof![2 => Just(Some(1)), 1 => (2usize..6).prop_map(Some), 1 => Just(None)];
    (list(), option::of(0..pools), policy, prop::bool::weighted(0.2), answers).prop_map(
        |(pools, fallback, policy, by_resolver, answers)| BalancerSpec {
            pools,
            fallback,
            policy,
            by_resolver,
            answers,
        },
    )
}

impl World {
    /// The configuration as a state, with every client of [`clients`] in its subnet.
    pub(crate) fn state(&self) -> State {
        self.state_with(&subnets_of(&clients()))
    }

    /// The configuration as a state, with this geo/subnets.toml.
    pub(crate) fn state_with(&self, subnets: &str) -> State {
        let zone = self.zone();
        let server = Server { pop: self.at_pop.then(|| POPS[0].to_owned()), ..Server::default() };
        let files = Files {
            zones: vec![Source::new("zones/example.test.toml", zone.clone())],
            regions: Some(Source::new("geo/regions.toml", regions())),
            subnets: Some(Source::new("geo/subnets.toml", subnets)),
            rtt: Some(Source::new("geo/rtt.toml", self.rtt())),
            database: None,
        };
        let report = Report::default();
        let read = |path: &std::path::Path| panic!("{} is not asked for", path.display());
        let state = build(&files, &server, &read, &report);
        state.unwrap_or_else(|| panic!("{:?}\n{zone}\n{subnets}", report.into_sorted()))
    }

    /// The health that the configuration's origins have.
    pub(crate) fn health(&self, state: &State) -> Health {
        self.health_of(&state.pools, &state.probes)
    }

    /// The same for these pools of it.
    pub(crate) fn health_of(&self, pools: &[Pool], probes: &Probes) -> Health {
        let mut health = Health::uniform(probes.targets().len(), HealthState::Unknown);
        for (pool_number, pool) in self.pools.iter().enumerate() {
            let id = PoolId(u32::try_from(pool_number).unwrap());
            for (index, origin) in pools[pool_number].indexed() {
                let spec = &pool.origins[usize::from(index.0)];
                for address in &origin.addresses {
                    if let Some(probe) = address.probe {
                        let family = usize::from(address.ip.is_ipv6());
                        health.set_probe(probe, spec.probed[family]);
                    }
                }
                if let Some(up) = spec.forced {
                    health.force(id, OriginIndex(index.0), up);
                }
            }
        }
        health
    }

    /// The health of this configuration's origins, lent to those of another with its state.
    pub(crate) fn health_for(&self, other: &Self, state: &State) -> Health {
        self.lent_to(other).health(state)
    }

    /// Another configuration whose origins have the health of this one's.
    pub(crate) fn lent_to(&self, other: &Self) -> Self {
        let mut lent = other.clone();
        let mut states = self.pools.iter().flat_map(|pool| &pool.origins).cycle();
        for origin in lent.pools.iter_mut().flat_map(|pool| &mut pool.origins) {
            let OriginSpec { probed, forced, .. } = states.next().unwrap();
            (origin.probed, origin.forced) = (*probed, *forced);
        }
        lent
    }

    fn zone(&self) -> String {
        let mut text = String::from(
            "zone = \"example.test\"\n\
             [[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns.elsewhere.test.\"]\n\
             [monitors.m]\ntype = \"icmp\"\n",
        );
        for (number, pool) in self.pools.iter().enumerate() {
            pool.write(number, self.hosts.is_some(), &mut text);
        }
        for (number, balancer) in self.balancers.iter().enumerate() {
            balancer.write(number, &mut text);
            if self.hosts == Some(Hosts::Flattened) {
                text.push_str("flatten = true\n");
            }
        }
        text
    }

    fn rtt(&self) -> String {
        let mut text = String::new();
        for (row, figures) in &self.rtt {
            match row {
                RttRow::Region(region) => writeln!(text, "[rtt.{}]", REGIONS[*region].0).unwrap(),
                RttRow::Pop => writeln!(text, "[rtt.\"pop:{}\"]", POPS[0]).unwrap(),
            }
            for (pool, micros) in figures {
                writeln!(text, "p{pool} = {}.{:03}", micros / 1000, micros % 1000).unwrap();
            }
        }
        text
    }
}

/// geo/regions.toml
fn regions() -> String {
    let mut text = String::new();
    for (name, parent) in REGIONS {
        writeln!(text, "[regions.{name}]").unwrap();
        if let Some(parent) = parent {
            writeln!(text, "parent = \"{}\"", REGIONS[parent].0).unwrap();
        }
        match name {
            "eu" => text.push_str("countries = [\"NL\"]\n"),
            "us" => text.push_str("countries = [\"US\"]\n"),
            _ => {}
        }
    }
    text
}

/// geo/subnets.toml with a subnet for each client.
fn subnets_of(clients: &[ClientSpec]) -> String {
    let mut text = String::new();
    for (number, client) in clients.iter().enumerate() {
        writeln!(text, "[subnets.\"10.0.{number}.0/24\"]").unwrap();
        client.write(&mut text);
    }
    text
}

impl ClientSpec {
    /// Writes the keys of its entry in geo/subnets.toml.
    pub(crate) fn write(&self, text: &mut String) {
        if let Some(region) = self.region {
            writeln!(text, "region = \"{}\"", REGIONS[region].0).unwrap();
            if let Some(zone) = self.zone {
                writeln!(text, "zone = \"{}\"", ZONES[zone]).unwrap();
            }
        }
        if let Some(area) = self.area {
            writeln!(text, "country = \"{}\"", AREAS[area]).unwrap();
        }
        if let Some(spot) = self.spot {
            writeln!(text, "location = {}", degrees(SPOTS[spot])).unwrap();
        }
    }
}

impl PoolSpec {
    fn write(&self, number: usize, by_host: bool, text: &mut String) {
        writeln!(text, "[pools.p{number}]\nenabled = {}", self.enabled).unwrap();
        writeln!(text, "minimum_origins = {}", self.minimum).unwrap();
        if let Some(region) = self.region {
            writeln!(text, "region = \"{}\"", REGIONS[region].0).unwrap();
        }
        if let Some(location) = self.location {
            writeln!(text, "location = {}", degrees(location)).unwrap();
        }
        if self.monitored {
            text.push_str("monitor = \"m\"\n");
        }
        let mode = match self.mode {
            Mode::Disabled => "mode = \"disabled\"".to_owned(),
            Mode::Stay => "mode = \"stay_within_zone\"".to_owned(),
            Mode::Spill(ratio) => {
                format!("mode = \"spill_cross_zone\", spillover_ratio = {}", decimal(ratio))
            }
        };
        writeln!(text, "zonal_affinity = {{ {mode} }}").unwrap();
        let (ratio, drops) = (decimal(self.failover_ratio), self.drops);
        writeln!(
            text,
            "failover_policy = {{ failover_ratio = {ratio}, drop_traffic_if_unhealthy = {drops} }}"
        )
        .unwrap();
        for (index, origin) in self.origins.iter().enumerate() {
            let addresses: Vec<_> = (0..2)
                .filter(|&family| origin.families[family])
                .map(|family| origin_address(number, index, family).to_string())
                .collect();
            writeln!(text, "[[pools.p{number}.origins]]\nname = \"o{index}\"").unwrap();
            let addresses = match by_host {
                true => format!("{:?}", host_name(number, index)),
                false => format!("{addresses:?}"),
            };
            writeln!(text, "address = {addresses}\nweight = {}", decimal(origin.weight)).unwrap();
            writeln!(text, "enabled = {}", origin.enabled).unwrap();
            if origin.is_failover {
                text.push_str("role = \"failover\"\n");
            }
            if let Some(zone) = origin.zone {
                writeln!(text, "zone = \"{}\"", ZONES[zone]).unwrap();
            }
        }
    }
}

impl BalancerSpec {
    fn write(&self, number: usize, text: &mut String) {
        writeln!(text, "[load_balancers.lb{number}]\npools = {:?}", names(&self.pools)).unwrap();
        if let Some(fallback) = self.fallback {
            writeln!(text, "fallback_pool = \"p{fallback}\"").unwrap();
        }
        if self.by_resolver {
            text.push_str("client = \"resolver\"\n");
        }
        match self.answers {
            Some(count) => writeln!(text, "answers = {count}").unwrap(),
            None => text.push_str("answers = \"all\"\n"),
        }
        match &self.policy {
            PolicySpec::Failover => {}
            PolicySpec::Geo { pops, areas, regions } => {
                text.push_str("steering = \"geo\"\n");
                let mut map = |key: &str,
                               entries: &Option<Vec<(usize, Vec<usize>)>>,
                               name: &dyn Fn(usize) -> String| {
                    let Some(entries) = entries else { return };
                    let entry = |(key, pools): &(usize, Vec<usize>)| {
                        format!("\"{}\" = {:?}", name(*key), names(pools))
                    };
                    let entries: Vec<_> = entries.iter().map(entry).collect();
                    writeln!(text, "{key} = {{ {} }}", entries.join(", ")).unwrap();
                };
                map("pop_pools", pops, &|pop| POPS[pop].to_owned());
                map("country_pools", areas, &|area| AREAS[area].to_owned());
                map("region_pools", regions, &|region| REGIONS[region].0.to_owned());
            }
            PolicySpec::Rtt(absolute, percent) => {
                writeln!(
                    text,
                    "steering = \"rtt\"\nrtt_tolerance = [\"{absolute}ms\", \"{percent}%\"]"
                )
                .unwrap();
            }
            PolicySpec::Proximity => text.push_str("steering = \"proximity\"\n"),
            PolicySpec::Random(weights) => {
                let weight =
                    |(pool, weight): (&usize, &u64)| format!("p{pool} = {}", decimal(*weight));
                let weights: Vec<_> = self.pools.iter().zip(weights).map(weight).collect();
                let weights = weights.join(", ");
                writeln!(text, "steering = \"random\"\npool_weights = {{ {weights} }}").unwrap();
            }
        }
    }
}

fn names(pools: &[usize]) -> Vec<String> {
    pools.iter().map(|pool| format!("p{pool}")).collect()
}

fn degrees((latitude, longitude): (i32, i32)) -> String {
    format!("[{}, {}]", f64::from(latitude) / 1e3, f64::from(longitude) / 1e3)
}

fn decimal(millionths: u64) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}
