//! The steps of an answer, and the whole of it, in memory: reading a query, locating a client,
//! deciding, writing, and from octets to octets the short and the long way. The zone is the one that
//! ships, the clients are random.

#![allow(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use meridian::config::files::{Paths, load};
use meridian::config::load_balancers::reachable_pools;
use meridian::config::report::Report;
use meridian::config::sessions::DEFAULT_MAX_SESSIONS;
use meridian::cookies::{Cookies, Secret, Secrets};
use meridian::limit::{Limiter, RateLimit};
use meridian::query::{self, Request};
use meridian::quick;
use meridian::respond::{Responder, respond};
use meridian::serve::live::Moment;
use meridian::serve::mmsg::MAX_REPLY;
use meridian::serve::reply::{Arrival, answer};
use meridian::serve::sessions::SharedSessions;
use meridian::serve::udp::{OwnSequences, answer_and_tell, answer_one};
use meridian::state::State;
use meridian::steer::decide;
use meridian::steer::pool::Family;
use meridian::steer::pool::PoolId;
use meridian::steer::session::{Failback, SessionAffinity, SessionSettings};
use meridian::tally::counters::{Counts, Fixed};
use meridian::tally::{Alone, Shared, Tally};
use meridian::wire::write::write;
use meridian::wire::{Repeated, Transport};

/// How many queries are gone round.
const QUERIES: usize = 1024;
const RESOLVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The state with session affinity at every load balancer.
fn with_sessions(mut state: State) -> State {
    let settings =
        SessionSettings { ttl: 3600, ipv4_prefix: 24, ipv6_prefix: 56, failback: Failback::Keep };
    for balancer in &mut state.balancers {
        let number = |id: PoolId| usize::try_from(id.0).unwrap_or(usize::MAX);
        let reachable = reachable_pools(balancer).into_iter();
        let pools: Vec<_> =
            reachable.filter_map(|id| Some((id, state.pools.get(number(id))?))).collect();
        balancer.sessions = Some(SessionAffinity::new(settings, &balancer.name, &pools));
    }
    let mut pools = state.pools.to_vec();
    pools.iter_mut().for_each(|pool| pool.keeps_sessions = true);
    state.pools = pools.into();
    state.has_sessions = true;
    state
}

/// A query for www.example.com A with an option.
fn query(option: &[u8]) -> Vec<u8> {
    let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend(b"\x03www\x07example\x03com\x00\x00\x01\x00\x01");
    message.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, u8::try_from(option.len()).unwrap_or(0)]);
    message.extend(option);
    message
}

/// Queries for www.example.com A with random client subnets.
fn queries() -> Vec<Vec<u8>> {
    let mut random: u64 = 1;
    let mut octet = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()[0]
    };
    let query = |_| {
        let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        message.extend(b"\x03www\x07example\x03com\x00\x00\x01\x00\x01");
        message.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0]);
        message.extend([octet() % 223 + 1, octet(), octet()]);
        message
    };
    (0..QUERIES).map(query).collect()
}

fn steps(criterion: &mut Criterion) {
    let report = Report::default();
    let (_, state) = load(&Paths::default(), &report);
    let moment = Moment::healthy(state.expect("the configuration that ships"));
    let mut sequences = OwnSequences::default();
    sequences.follow(&moment);
    let responder = Responder { state: &moment.state, plan: &moment.plan, sequences: &sequences };
    let queries = queries();
    let mut next = queries.iter().cycle();
    let mut message = || next.next().expect("a query");
    let mut out = [0; MAX_REPLY];

    criterion.bench_function("parse, short way", |b| b.iter(|| quick::parse(black_box(message()))));
    criterion.bench_function("parse, long way", |b| {
        b.iter(|| matches!(query::parse(black_box(message())), Request::Query(_)));
    });
    criterion.bench_function("locate", |b| {
        b.iter(|| {
            let [.., a, b, c] = message()[..] else { return 0 };
            moment.state.locator.locate(IpAddr::from([a, b, c, 0])).place_index
        });
    });
    let steering = moment.state.steering(&moment.plan);
    let place = moment.state.locator.locate(RESOLVER).place;
    criterion.bench_function("decide", |b| {
        b.iter(|| {
            let balancer = black_box(&moment.state.balancers[0]);
            decide(&steering, balancer, &place, Family::V4, &sequences).outcome
        });
    });
    let request = query::parse(&queries[0]);
    let repeated = Repeated::read(&queries[0]).expect("a header");
    let made = respond(&request, RESOLVER, &responder).expect("an answer");
    let limit = Transport::Datagram.limit(request.echoed().1);
    criterion.bench_function("write, long way", |b| {
        b.iter(|| write(&request, repeated, black_box(&made), limit, &mut out));
    });
    criterion.bench_function("octets to octets, short way", |b| {
        b.iter(|| {
            answer_one(message(), RESOLVER, &Cookies::OFF, &moment.quick, &responder, &mut out)
        });
    });
    let counts = Counts::new(Arc::clone(&moment.state.layout));
    let fixed = Fixed::default();
    let (own, shared) =
        (Tally::<Alone>::new(&fixed, &counts), Tally::<Shared>::new(&fixed, &counts));
    let mut told = [0; MAX_REPLY];
    criterion.bench_function("octets to octets, short way, counted", |b| {
        b.iter(|| {
            let (message, quick) = (message(), &moment.quick);
            let answered =
                answer_and_tell(message, RESOLVER, &Cookies::OFF, quick, &responder, &mut told);
            answered.map(|(length, served)| {
                own.count(&served);
                length
            })
        });
    });
    let served =
        answer_and_tell(&queries[0], RESOLVER, &Cookies::OFF, &moment.quick, &responder, &mut told);
    let (_, served) = served.expect("a reply");
    criterion.bench_function("count, one writer", |b| b.iter(|| own.count(black_box(&served))));
    criterion.bench_function("count, shared", |b| b.iter(|| shared.count(black_box(&served))));
    let secrets = Secrets { current: Secret([7; 16]), previous: None };
    let cookies = Cookies::new(Some(secrets), 1000);
    // A resolver that was here before.
    let mut known = query(&[0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    let length = answer_one(&known, RESOLVER, &cookies, &moment.quick, &responder, &mut out);
    let length = length.expect("a reply");
    known = query(&out[length - 28..length]);
    criterion.bench_function("octets to octets, short way, a valid cookie", |b| {
        b.iter(|| {
            let message = black_box(&known);
            answer_one(message, RESOLVER, &cookies, &moment.quick, &responder, &mut out)
        });
    });
    let (settings, mut limiter) = (RateLimit::default(), Limiter::new(7, 1));
    criterion.bench_function("rate limit, a random network", |b| {
        let mut client: u32 = 1;
        b.iter(|| {
            client = client.wrapping_mul(0x9e37_79b9).wrapping_add(0x7f4a_7c15);
            let source = IpAddr::from(client.to_be_bytes());
            let key = limiter.key(&settings, &source, black_box(5));
            key.map(|key| limiter.count(&settings, key, client))
        });
    });
    let (_, state) = load(&Paths::default(), &report);
    let moment_with = Moment::healthy(with_sessions(state.expect("the same")));
    let sessions = SharedSessions::new(DEFAULT_MAX_SESSIONS, 1);
    sessions.open();
    let mut memory = OwnSequences::with_sessions(Arc::new(sessions));
    memory.follow(&moment_with);
    let (state, plan) = (&moment_with.state, &moment_with.plan);
    let keeping = Responder { state, plan, sequences: &memory };
    criterion.bench_function("octets to octets, short way, sessions", |b| {
        b.iter(|| {
            answer_one(message(), RESOLVER, &Cookies::OFF, &moment_with.quick, &keeping, &mut out)
        });
    });
    criterion.bench_function("octets to octets, long way", |b| {
        b.iter(|| {
            answer(message(), &Arrival::datagram(RESOLVER, &Cookies::OFF), &responder, &mut out)
        });
    });
}

criterion_group!(benches, steps);
criterion_main!(benches);
