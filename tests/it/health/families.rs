//! "Health is per address; an origin is healthy if any of its addresses is." "A pool ... with none of
//! that family healthy (unless in last resort) answers NODATA with the zone's negative TTL capped at
//! the load balancer's `ttl`, and ECS scope 0."

use std::net::{Ipv6Addr, SocketAddr, TcpListener};

use super::origin::{Mode, Origin};
use super::{Net, QUICK, WWW, answered, answered_for, bound, site, within_bound, www};
use crate::harness::{SERVER, Server};
use crate::wire::{Query, rcode, rtype};

/// True where the machine has no IPv6, so that these tests have nothing to do.
fn is_without_ipv6() -> bool {
    let missing = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err();
    if missing {
        eprintln!("skipped: this machine has no ::1");
    }
    missing
}

fn aaaa(server: &Server) -> Vec<String> {
    answered_for(server, WWW, rtype::AAAA)
}

#[test]
fn only_the_healthy_addresses_of_an_origin_are_answered() {
    if is_without_ipv6() {
        return;
    }
    let net = Net::new();
    let mut first = Origin::start(&net, 1);
    let mut sixth =
        Origin::at(SocketAddr::from((Ipv6Addr::LOCALHOST, net.port)), Mode::Status(200));
    let _second = Origin::start(&net, 2);
    let pool = format!(
        "[pools.p]\nmonitor = \"web\"\nminimum_origins = 2\norigins = [\n  \
         {{ name = \"both\", address = [\"{}\", \"::1\"] }},\n  \
         {{ name = \"four\", address = \"{}\" }},\n]\n",
        net.ip(1),
        net.ip(2)
    );
    let spare = net.pool("spare", "", &[9]).replace("monitor = \"web\"\n", "");
    let server = Server::start(&site(&[net.web(QUICK), pool, spare, www(&["p", "spare"])]));
    assert_eq!((answered(&server), aaaa(&server)), (net.set(&[1, 2]), vec!["::1".into()]));

    first.kill();
    within_bound(&server, &net.set(&[2]), bound(2), "one address of two is down");
    assert_eq!(aaaa(&server), ["::1"], "the origin is healthy by the other");

    first.revive();
    within_bound(&server, &net.set(&[1, 2]), bound(2), "back");
    sixth.kill();
    super::until(bound(2) + super::ALLOWANCE, "no AAAA", || aaaa(&server).is_empty());
    let reply = server.ask(&Query::new(WWW, rtype::AAAA).ecs("10.1.2.0", 24));
    assert_eq!(reply.rcode(), rcode::NOERROR);
    assert!(reply.answer.is_empty());
    assert_eq!(reply.authority.len(), 1);
    assert_eq!((reply.authority[0].rtype, reply.authority[0].ttl), (rtype::SOA, 30));
    assert_eq!(reply.scope(), 0);
    assert_eq!(answered(&server), net.set(&[1, 2]), "the pool is chosen without regard to family");

    first.kill();
    within_bound(&server, &net.set(&[9]), bound(2), "now the origin is down, and the pool with it");
}

// "unless in last resort": then all addresses of the configured primaries.
#[test]
fn in_last_resort_both_families_are_answered() {
    if is_without_ipv6() {
        return;
    }
    let net = Net::new();
    let pool = format!(
        "[pools.p]\nmonitor = \"web\"\norigins = [ {{ name = \"both\", address = [\"{}\", \"::1\"] }} ]\n",
        net.ip(1)
    );
    let server = Server::start(&site(&[net.web(QUICK), pool, www(&["p"])]));
    assert_eq!((answered(&server), aaaa(&server)), (net.set(&[1]), vec!["::1".into()]));
}

// A source address is for the origins of its family.
#[test]
fn a_source_address_of_one_family_leaves_the_other_as_it_is() {
    if is_without_ipv6() {
        return;
    }
    let net = Net::new();
    let four = Origin::start(&net, 1);
    let six = Origin::at(SocketAddr::from((Ipv6Addr::LOCALHOST, net.port)), Mode::Status(200));
    let pool = format!(
        "[pools.p]\nmonitor = \"web\"\norigins = [ {{ name = \"both\", address = [\"{}\", \"::1\"] }} ]\n",
        net.ip(1)
    );
    let site = site(&[net.web(QUICK), pool, www(&["p"])]);
    site.write("meridian.toml", format!("{SERVER}probe_source = [\"{}\"]\n", net.ip(200)));
    let server = Server::start(&site);
    assert_eq!((answered(&server), aaaa(&server)), (net.set(&[1]), vec!["::1".into()]));
    assert_eq!(four.requests()[0].from, net.ip(200));
    assert_eq!(six.requests()[0].from, Ipv6Addr::LOCALHOST);
}
