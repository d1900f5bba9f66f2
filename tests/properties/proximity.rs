//! Proximity with many pools and many places: more orders than the short way has numbers for.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::cookies::Cookies;
use meridian::name::Name;
use meridian::query::{Question, Rcode};
use meridian::quick::Quick;
use meridian::respond::{Client, Responder};
use meridian::rr::RecordType;
use meridian::serve::reply::{self, Arrival};
use meridian::serve::udp;
use meridian::state::State;
use meridian::steer::FirstOnly;
use meridian::steer::availability::{Health, HealthState};
use meridian::steer::plan::Plan;

use crate::scope::octets_of;

/// Coordinates spread over the globe, the same in every run.
fn spot(number: u32) -> (f64, f64) {
    let part = |turn: f64| (f64::from(number) * turn).fract();
    (part(0.754_877_666) * 178.0 - 89.0, part(0.569_840_291) * 358.0 - 179.0)
}

const POOLS: u32 = 12;
const CLIENTS: u32 = 1_000;

fn client(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number * 256))
}

fn state() -> State {
    let mut zone = String::from(
        "zone = \"example.test\"\n\
         [[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns.elsewhere.test.\"]\n",
    );
    let mut names = Vec::new();
    for number in 0..POOLS {
        let (latitude, longitude) = spot(10_000 + number);
        let origin = format!("{{ name = \"o\", address = \"192.0.2.{}\" }}", number + 1);
        let location = format!("[{latitude:.4}, {longitude:.4}]");
        writeln!(zone, "[pools.p{number}]\nlocation = {location}\norigins = [{origin}]").unwrap();
        names.push(format!("p{number}"));
    }
    for name in ["lb0", "lb1"] {
        let keys = format!("steering = \"proximity\"\npools = {names:?}");
        writeln!(zone, "[load_balancers.{name}]\n{keys}").unwrap();
        // The second has few pools, and so few orders.
        names.truncate(2);
    }
    let mut subnets = String::new();
    for number in 0..CLIENTS {
        let (latitude, longitude) = spot(number);
        let location = format!("[{latitude:.4}, {longitude:.4}]");
        writeln!(subnets, "[subnets.\"{}/24\"]\nlocation = {location}", client(number)).unwrap();
    }
    let files = Files {
        zones: vec![Source::new("zones/example.test.toml", zone)],
        subnets: Some(Source::new("geo/subnets.toml", subnets)),
        ..Files::default()
    };
    let report = Report::default();
    let read = |path: &std::path::Path| panic!("{} is not asked for", path.display());
    let state = build(&files, &Server::default(), &read, &report);
    state.unwrap_or_else(|| panic!("{:?}", report.into_sorted()))
}

/// The angle between two points, by the spherical law of cosines.
fn angle(a: (f64, f64), b: (f64, f64)) -> f64 {
    let ((lat_a, lon_a), (lat_b, lon_b)) = (a, b);
    let (lat_a, lat_b) = (lat_a.to_radians(), lat_b.to_radians());
    let between = (lon_a - lon_b).to_radians().cos();
    (lat_a.sin() * lat_b.sin() + lat_a.cos() * lat_b.cos() * between).acos()
}

#[test]
fn every_client_meets_the_nearest_pool_by_both_ways() {
    let state = state();
    let orders: Vec<usize> = state.balancers.iter().map(|b| b.rules.lists.len()).collect();
    assert!(orders[0] > 255 && orders[1] == 3, "{orders:?}");
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let plan = Plan::new(&state.pools, &health);
    let quick = Quick::compile(&state, &plan);
    let responder = Responder { state: &state, plan: &plan, sequences: &FirstOnly };
    for number in 0..CLIENTS {
        for (balancer, pools) in [(0, POOLS), (1, 2)] {
            let nearest = (0..pools)
                .min_by(|&a, &b| {
                    let far = |pool| angle(spot(number), spot(10_000 + pool));
                    far(a).total_cmp(&far(b))
                })
                .unwrap();
            let name = Name::parse_absolute(&format!("lb{balancer}.example.test")).unwrap();
            let asker = Client { resolver: Some(client(number)), subnet: None };
            let answer = responder.answer(&Question::of(&name, RecordType::A), asker);
            assert_eq!(answer.rcode, Rcode::NoError);
            let rdata = answer.answer[0].rdata().next().unwrap();
            assert_eq!(u32::from(rdata[3]), nearest + 1, "client {number} of lb{balancer}");

            let message = octets_of(balancer, RecordType::A, client(number), 24);
            let (mut short, mut long) = ([0; 1280], [0; 1280]);
            let source = client(0);
            let by_short =
                udp::answer_one(&message, source, &Cookies::OFF, &quick, &responder, &mut short);
            assert_eq!(
                by_short,
                reply::answer(
                    &message,
                    &Arrival::datagram(source, &Cookies::OFF),
                    &responder,
                    &mut long
                )
            );
            assert_eq!(short, long, "client {number} of lb{balancer}");
        }
    }
}
