//! Queries in memory, octets in and octets out: every reply is well-formed, fits, repeats what it
//! must, and holds whole record sets of the answer or says that something is missing. Random zones
//! with random queries, and real queries that are damaged at random.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use hickory_proto::op::Message as HickoryMessage;
use meridian::answer::{Answer, Set};
use meridian::config::build::{Files, build};
use meridian::config::report::{Report, Source};
use meridian::config::server::Server;
use meridian::cookies::{Cookies, Secret, Secrets};
use meridian::query::{self, Edns, Question, Rcode, Request};
use meridian::quick::{self, Quick};
use meridian::respond::{Responder, respond};
use meridian::serve::reply::{self, Arrival};
use meridian::serve::sequences::SharedSequences;
use meridian::serve::udp;
use meridian::served::Served;
use meridian::state::State;
use meridian::steer::availability::{Health, HealthState};
use meridian::steer::plan::Plan;
use meridian::wire::{Repeated, Transport};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::message::{encode, reply};
use crate::strict::{self, Message, Record};

const TC: u16 = 0x0200;
const OPT: u16 = 41;

/// The ways in which a message is answered, which are to give the same reply.
struct Ways<'s> {
    /// The long way, and hickory-proto.
    long: Responder<'s, SharedSequences>,
    /// The workers': the short way, else the long way, and the writer of datagrams.
    quick: Quick,
    worker: Responder<'s, SharedSequences>,
}

impl<'s> Ways<'s> {
    /// The sequences are apart, so that both ways count for themselves.
    fn new(state: &'s State, plan: &'s Plan, sequences: &'s [SharedSequences; 2]) -> Self {
        let [long, worker] =
            sequences.each_ref().map(|sequences| Responder { state, plan, sequences });
        Self { long, quick: Quick::compile(state, plan), worker }
    }

    /// What a worker replies.
    fn by_worker(&self, message: &[u8], resolver: IpAddr) -> Option<(Vec<u8>, Served)> {
        let (mut out, Self { quick, worker, .. }) = ([0; 1280], self);
        let answered =
            udp::answer_and_tell(message, resolver, &Cookies::OFF, quick, worker, &mut out);
        let (length, served) = answered?;
        Some((out[..length].to_vec(), served))
    }
}

/// Two sets of sequences for a state.
fn sequences(state: &State) -> [SharedSequences; 2] {
    [(); 2].map(|()| SharedSequences::new(state.slot_count))
}

/// The reply to a message, checked from all sides; none where there is none.
fn answered(message: &[u8], ways: &Ways<'_>, transport: Transport) -> Option<Vec<u8>> {
    let request = query::parse(message);
    let resolver = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let by_worker = match transport {
        Transport::Datagram => Some(ways.by_worker(message, resolver)),
        Transport::Stream | Transport::Encrypted => None,
    };
    let Some(answer) = respond(&request, resolver, &ways.long) else {
        let is_reply = message.get(2).is_some_and(|flags| flags & 0x80 != 0);
        assert!(message.len() < 12 || is_reply, "silence is for replies and scraps");
        assert!(by_worker.flatten().is_none());
        return None;
    };
    let repeated = Repeated::read(message).expect("a header");
    let made = reply(&request, repeated, &answer, transport).expect("a reply");
    let octets = encode(&made, request.echoed().0).expect("octets");
    check(message, &request, &answer, transport, &octets);
    match by_worker {
        Some(by_worker) => {
            let (by_worker, served) = by_worker.expect("a reply");
            assert_eq!(by_worker, octets, "to {message:02x?}");
            check_served(&served, &answer, &request, &octets);
        }
        // A datagram's turn is a stream's too: the sequences of both ways stay together.
        None => drop(respond(&request, resolver, &ways.worker)),
    }
    Some(octets)
}

/// What is counted is what was answered, whichever way.
fn check_served(served: &Served, answer: &Answer<'_>, request: &Request<'_>, octets: &[u8]) {
    assert_eq!(served.rcode, answer.rcode);
    assert_eq!(served.is_truncated, octets[2] & 2 != 0);
    let subnet = request.echoed().1.and_then(|edns| edns.client_subnet);
    assert_eq!(served.subnet.map(|scoped| scoped.scope), subnet.map(|_| answer.ecs_scope));
    if matches!(answer.rcode, Rcode::NoError | Rcode::ServFail) {
        assert_eq!(served.steered, answer.steered);
    }
}

fn check(
    message: &[u8],
    request: &Request<'_>,
    answer: &Answer<'_>,
    transport: Transport,
    octets: &[u8],
) {
    let (question, edns) = request.echoed();
    assert!(octets.len() <= transport.limit(edns), "{} octets", octets.len());
    // A client subnet of family 0 (RFC 7871 section 7.1.2) is more than hickory-proto reads, and so is
    // empty data of an unknown type (RFC 3597 section 5).
    let subnet = edns.and_then(|edns| edns.client_subnet);
    let empty = answer.whole_sets().iter().any(|set| set.rdata().any(<[u8]>::is_empty));
    if !empty && subnet.is_none_or(|subnet| subnet.address.is_some()) {
        let hickory = HickoryMessage::from_vec(octets);
        assert!(hickory.is_ok(), "{hickory:?}: {octets:02x?} to {message:02x?}");
    }
    let reply = strict::parse(octets);

    assert_eq!(reply.id.to_be_bytes(), message[..2], "the id");
    let asked = u16::from_be_bytes([message[2], message[3]]);
    assert_eq!(reply.flags & 0x7900, 0x7900 & asked, "opcode and RD are repeated");
    assert_eq!(reply.flags & 0x80f0, 0x8000, "QR, and neither RA, Z, AD nor CD");
    assert_eq!(reply.flags & 0x0400 != 0, answer.authoritative, "AA");
    assert_eq!(reply.flags & 0x000f, answer.rcode.code() & 0x0f, "the response code");
    match question {
        Some(question) => {
            let length = question.name.len() + 4;
            assert_eq!(reply.question, message[12..12 + length], "octet for octet");
        }
        None => assert!(reply.question.is_empty()),
    }
    let truncated = reply.flags & TC != 0;
    check_opt(&reply, edns, answer);
    check_sets(&reply, question, answer);
    if truncated {
        // Only what does not fit is left out.
        let request = query::parse(message);
        let whole =
            self::reply(&request, Repeated::read(message).unwrap(), answer, Transport::Stream);
        let whole = encode(&whole.unwrap(), request.echoed().0).unwrap();
        assert!(whole.len() > transport.limit(edns), "{} octets would have fitted", whole.len());
        assert_eq!(transport, Transport::Datagram);
    }
}

/// There is an OPT where the query had one, with our size, DO and the options that belong to it.
fn check_opt(reply: &Message, edns: Option<Edns>, answer: &Answer<'_>) {
    let opts: Vec<&Record> =
        reply.sections.iter().flatten().filter(|record| record.record_type == OPT).collect();
    let Some(edns) = edns else {
        assert!(opts.is_empty());
        return;
    };
    let [opt] = opts[..] else { panic!("{} OPT records", opts.len()) };
    assert_eq!(reply.sections[2].last(), Some(opt));
    assert_eq!((opt.owner.as_slice(), opt.class), (&[0][..], query::MAX_UDP));
    let [extended, version, flags, _] = opt.ttl.to_be_bytes();
    assert_eq!((u16::from(extended), version), (answer.rcode.code() >> 4, 0));
    assert_eq!(flags, if edns.dnssec_ok { 0x80 } else { 0 }, "DO is repeated, and nothing else");
    let mut options = &opt.rdata[..];
    let mut codes = Vec::new();
    while let [code_high, code_low, length_high, length_low, rest @ ..] = options {
        let code = u16::from_be_bytes([*code_high, *code_low]);
        let (data, after) = rest.split_at(u16::from_be_bytes([*length_high, *length_low]).into());
        if code == query::OPTION_CLIENT_SUBNET {
            let subnet = edns.client_subnet.expect("a client subnet is never sent unasked");
            assert_eq!(data, subnet.reply(answer.ecs_scope).as_slice());
        }
        codes.push(code);
        options = after;
    }
    assert!(options.is_empty());
    let wanted = edns.client_subnet.map(|_| query::OPTION_CLIENT_SUBNET);
    let wanted =
        wanted.into_iter().chain(answer.extended_error.map(|_| query::OPTION_EXTENDED_ERROR));
    assert!(codes.iter().all(|code| wanted.clone().any(|wanted| wanted == *code)), "{codes:?}");
    if edns.client_subnet.is_some() {
        assert!(codes.contains(&query::OPTION_CLIENT_SUBNET), "the client subnet is repeated");
    }
}

/// The sections hold the answer's sets from the first on, each whole; TC is set only where one is
/// missing that is needed (RFC 2181 section 9).
fn check_sets(reply: &Message, question: Option<&Question<'_>>, answer: &Answer<'_>) {
    let records = |set: &Set<'_>| -> Vec<Record> {
        let owner = set.owner.wire(question.map_or(&[], |question| question.name));
        let record = |rdata: &[u8]| Record {
            owner: owner.to_vec(),
            record_type: set.record_type.0,
            class: 1,
            ttl: set.ttl.seconds(),
            rdata: rdata.to_vec(),
        };
        set.rdata().map(record).collect()
    };
    let sets = answer.whole_sets();
    let answers = sets.iter().map(|set| (0, true, records(set)));
    let authority = answer.authority.iter().map(|set| (1, true, records(set)));
    let glue = answer.glue.iter().flat_map(|glue| glue.sets());
    let glue = glue.map(|(set, required)| (2, required, records(&set)));
    let mut expected: Vec<(usize, bool, Vec<Record>)> =
        answers.chain(authority).chain(glue).collect();
    for section in &reply.sections {
        let twice = section.iter().enumerate().any(|(at, record)| section[..at].contains(record));
        assert!(!twice, "a record stands in a section once: {section:?}");
    }
    let mut missing = false;
    let found = reply.sections.clone().map(|section| {
        let ordinary = section.into_iter().filter(|record| record.record_type != OPT);
        ordinary.map(lowered).collect::<Vec<_>>()
    });
    loop {
        let mut sections = [const { Vec::new() }; 3];
        for (section, _, records) in &expected {
            sections[*section].extend(records.iter().cloned().map(lowered));
        }
        if sections == found {
            break;
        }
        let Some((_, required, _)) = expected.pop() else { panic!("no such sets: {reply:?}") };
        missing |= required;
    }
    assert_eq!(reply.flags & TC != 0, missing, "TC tells of what is missing");
}

/// A record to be compared: names without case, which compression may change (RFC 4343).
fn lowered(mut record: Record) -> Record {
    record.owner.make_ascii_lowercase();
    if matches!(record.record_type, 2 | 5 | 6 | 12 | 15) {
        record.rdata.make_ascii_lowercase();
    }
    record
}

// ------------------------------------------------------------------------------- Random zones

/// Labels of all kinds, in master-file form.
const LABELS: [&str; 8] = [
    "a",
    "b",
    "*",
    "_x",
    "\\000\\.z",
    "Mixed",
    "xn--a",
    "sixty-three-octets-long-sixty-three-octets-long-sixty-three-oct",
];

/// What stands at a name.
#[derive(Clone, Debug)]
enum Kind {
    Data(Vec<(u16, u32, Vec<Vec<u8>>)>),
    Alias(Vec<u8>),
    Redirected(Vec<u8>),
    Delegated(Vec<Vec<u8>>),
    Steered(usize),
}

/// A name as its labels, from the left.
type Labels = Vec<usize>;

fn labels() -> impl Strategy<Value = Labels> {
    vec(0..LABELS.len(), 1..4)
}

fn wire(labels: &Labels, apex: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    for &label in labels {
        let octets: &[u8] = match label {
            4 => b"\0.z",
            _ => LABELS[label].as_bytes(),
        };
        wire.push(u8::try_from(octets.len()).unwrap());
        wire.extend(octets);
    }
    wire.extend(apex);
    wire
}

const APEX: &[u8] = b"\x07example\x04test\0";

/// A name in data: inside the zone or not.
fn targets() -> impl Strategy<Value = Vec<u8>> {
    (labels(), any::<bool>())
        .prop_map(|(labels, inside)| wire(&labels, if inside { APEX } else { b"\x03org\0" }))
}

fn sets() -> impl Strategy<Value = (u16, u32, Vec<Vec<u8>>)> {
    let prefixed = |prefix: usize| {
        (vec(any::<u8>(), prefix), targets()).prop_map(|(prefix, target)| [prefix, target].concat())
    };
    let strings = vec(vec(any::<u8>(), 0..256), 1..5).prop_map(|strings| {
        let one = |string: Vec<u8>| [vec![u8::try_from(string.len()).unwrap()], string].concat();
        strings.into_iter().flat_map(one).collect::<Vec<u8>>()
    });
    let data = prop_oneof![
        vec(vec(any::<u8>(), 4), 1..6).prop_map(|data| (1, data)),
        vec(vec(any::<u8>(), 16), 1..40).prop_map(|data| (28, data)),
        vec(prefixed(2), 1..6).prop_map(|data| (15, data)),
        vec(prefixed(6), 1..6).prop_map(|data| (33, data)),
        vec(targets(), 1..3).prop_map(|data| (12, data)),
        vec(strings, 1..8).prop_map(|data| (16, data)),
        // Never empty (RFC 3597 section 5 allows it): hickory-proto reads no such record.
        vec(vec(any::<u8>(), 1..300), 1..6).prop_map(|data| (65400, data)),
    ];
    (data, 0u32..100_000).prop_map(|((record_type, data), ttl)| (record_type, ttl, data))
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => vec(sets(), 1..4).prop_map(Kind::Data),
        2 => targets().prop_map(Kind::Alias),
        1 => targets().prop_map(Kind::Redirected),
        1 => vec(targets(), 1..6).prop_map(Kind::Delegated),
        2 => (1usize..60).prop_map(Kind::Steered),
    ]
}

/// A zone file of names that can stand beside one another.
fn zones() -> impl Strategy<Value = (String, Vec<Vec<u8>>)> {
    vec((labels(), kinds()), 1..14).prop_map(|mut names| {
        names.sort_by_key(|(labels, _)| labels.len());
        let mut kept: Vec<(Labels, Kind)> = Vec::new();
        for (labels, kind) in names {
            let above = |other: &Labels| labels.ends_with(other);
            let conflict = kept.iter().any(|(other, other_kind)| {
                *other == labels
                    || above(other) && matches!(other_kind, Kind::Redirected(_))
                    || above(other)
                        && matches!(other_kind, Kind::Delegated(_))
                        && matches!(kind, Kind::Steered(_))
            });
            let wild = labels[0] == 2 && matches!(kind, Kind::Delegated(_));
            if !conflict && !wild {
                kept.push((labels, kind));
            }
        }
        let owners = kept.iter().map(|(labels, _)| wire(labels, APEX)).collect();
        (zone_file(&kept), owners)
    })
}

fn zone_file(names: &[(Labels, Kind)]) -> String {
    let mut text = String::from(
        "zone = \"example.test\"\n\
         [[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns1\", \"ns.elsewhere.test.\"]\n\
         [[records]]\nname = \"ns1\"\ntype = \"A\"\ndata = [\"192.0.2.1\"]\n",
    );
    for (number, (labels, kind)) in names.iter().enumerate() {
        let name: Vec<&str> = labels.iter().map(|&label| LABELS[label]).collect();
        let name = name.join(".");
        let mut record = |record_type: u16, ttl: u32, data: &[Vec<u8>]| {
            let mut generic: Vec<String> = data.iter().map(|rdata| generic(rdata)).collect();
            generic.sort();
            generic.dedup();
            writeln!(
                text,
                "[[records]]\nname = {name:?}\ntype = \"TYPE{record_type}\"\nttl = {ttl}\n\
                 data = {generic:?}"
            )
            .unwrap();
        };
        match kind {
            Kind::Data(sets) => {
                sets.iter().for_each(|(record_type, ttl, data)| record(*record_type, *ttl, data));
            }
            Kind::Alias(target) => record(5, 300, std::slice::from_ref(target)),
            Kind::Redirected(target) => record(39, 300, std::slice::from_ref(target)),
            Kind::Delegated(servers) => record(2, 300, servers),
            Kind::Steered(origins) => {
                let pool = format!("p{number}");
                // Some of one origin, so that the short way has its part.
                let answers = if origins % 3 == 0 { "1" } else { "\"all\"" };
                let origin = |n: usize| {
                    format!(
                        "{{ name = \"o{n}\", address = [\"172.16.0.{n}\", \"2001:db8::{n}\"] }}"
                    )
                };
                let origins: Vec<String> = (1..=*origins).map(origin).collect();
                writeln!(
                    text,
                    "[pools.{pool}]\norigins = [{}]\n\
                     [load_balancers.{name:?}]\npools = [\"{pool}\"]\nanswers = {answers}",
                    origins.join(", ")
                )
                .unwrap();
                if origins.len().is_multiple_of(2) {
                    writeln!(
                        text,
                        "[[records]]\nname = {name:?}\ntype = \"HTTPS\"\nsteered_hints = true\n\
                         data = [\"1 . alpn=h2 ech=AAAA key667=x\", \"2 . port=8443\", \"3 .\"]"
                    )
                    .unwrap();
                }
            }
        }
    }
    text
}

/// Data in the form of RFC 3597.
fn generic(rdata: &[u8]) -> String {
    let hex = rdata.iter().fold(String::new(), |hex, octet| format!("{hex}{octet:02x}"));
    format!("\\# {} {hex}", rdata.len())
}

fn state_of(zone: &str) -> State {
    let files =
        Files { zones: vec![Source::new("zones/example.test.toml", zone)], ..Files::default() };
    let report = Report::default();
    let read = |path: &Path| std::fs::read_to_string(path);
    let state = build(&files, &Server::default(), &read, &report);
    state.unwrap_or_else(|| panic!("{:#?}\n{zone}", report.into_sorted()))
}

// ------------------------------------------------------------------------------- Queries

/// A query's parts.
#[derive(Clone, Debug)]
struct Asked {
    name: Vec<u8>,
    record_type: u16,
    edns: Option<(u16, bool, Option<Vec<u8>>)>,
    recursion_desired: bool,
}

impl Asked {
    fn octets(&self) -> Vec<u8> {
        let mut octets = vec![0x12, 0x34, u8::from(self.recursion_desired), 0, 0, 1, 0, 0, 0, 0, 0];
        octets.push(u8::from(self.edns.is_some()));
        octets.extend(&self.name);
        octets.extend(self.record_type.to_be_bytes());
        octets.extend([0, 1]);
        if let Some((size, dnssec_ok, subnet)) = &self.edns {
            octets.extend([0, 0, 41]);
            octets.extend(size.to_be_bytes());
            octets.extend([0, 0, u8::from(*dnssec_ok) << 7, 0]);
            let option = subnet.as_ref().map_or_else(Vec::new, |data| {
                [&[0, 8, 0, u8::try_from(data.len()).unwrap()], &data[..]].concat()
            });
            octets.extend(u16::try_from(option.len()).unwrap().to_be_bytes());
            octets.extend(option);
        }
        octets
    }
}

const TYPES: [u16; 16] = [1, 2, 5, 6, 12, 15, 16, 28, 33, 39, 43, 64, 65, 255, 65400, 65401];

/// A client subnet option's data: of either family, with any source prefix.
fn subnets() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), 0usize..=128, vec(any::<u8>(), 16)).prop_map(|(six, prefix, octets)| {
        let prefix = if six { prefix } else { prefix % 33 };
        let mut data = vec![0, 1 + u8::from(six), u8::try_from(prefix).unwrap(), 0];
        data.extend(&octets[..prefix.div_ceil(8)]);
        if prefix % 8 != 0 {
            *data.last_mut().unwrap() &= u8::MAX << (8 - prefix % 8);
        }
        data
    })
}

/// A query for a name of the zone, one below it, or another, in any spelling.
fn queries() -> impl Strategy<Value = (prop::sample::Index, Labels, u8, Asked, u64)> {
    let edns = proptest::option::weighted(
        0.7,
        (
            prop_oneof![Just(0u16), Just(512), Just(1232), Just(4096), any::<u16>()],
            any::<bool>(),
            proptest::option::of(subnets()),
        ),
    );
    let asked = (select(&TYPES[..]), edns, any::<bool>()).prop_map(
        |(record_type, edns, recursion_desired)| Asked {
            name: Vec::new(),
            record_type,
            edns,
            recursion_desired,
        },
    );
    (any::<prop::sample::Index>(), labels(), any::<u8>(), asked, any::<u64>())
}

/// The name asked for, and its letters in the cases of a random number's bits.
fn spelled(owner: &[u8], below: &Labels, how: u8, case: u64) -> Vec<u8> {
    let mut name = match how % 4 {
        0 => wire(below, APEX),
        1 => wire(&below[..1].to_vec(), owner),
        _ => owner.to_vec(),
    };
    if name.len() > 255 {
        name = owner.to_vec();
    }
    for (bit, octet) in name.iter_mut().enumerate() {
        if case >> (bit % 64) & 1 == 1 {
            octet.make_ascii_uppercase();
        }
    }
    name
}

proptest! {
    #![proptest_config(crate::cases(48))]

    /// The reply to any query of any zone is well-formed, fits, and holds the answer.
    #[test]
    fn replies_hold_the_answer(
        (zone, owners) in zones(),
        queries in vec(queries(), 40),
    ) {
        let state = state_of(&zone);
        let plan = Plan::new(&state.pools, &Health::default());
        let sequences = sequences(&state);
        let ways = Ways::new(&state, &plan, &sequences);
        for (owner, below, how, mut asked, case) in queries {
            let owner = if owners.is_empty() { APEX } else { owner.get(&owners) };
            asked.name = spelled(owner, &below, how, case);
            for transport in [Transport::Datagram, Transport::Stream] {
                let reply = answered(&asked.octets(), &ways, transport);
                prop_assert!(reply.is_some());
            }
        }
    }
}

/// A steered name of one answer, which the short way knows.
fn steered() -> State {
    state_of(
        "zone = \"example.test\"\n\
         [[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns.elsewhere.test.\"]\n\
         [pools.p]\norigins = [{ name = \"o\", address = \"192.0.2.1\" }]\n\
         [load_balancers.lb]\npools = [\"p\"]\n",
    )
}

/// A query for it with these options.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut octets = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    octets.extend(b"\x02lb");
    octets.extend(APEX);
    octets.extend([0, 1, 0, 1, 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0]);
    octets.push(u8::try_from(options.len()).unwrap());
    octets.extend(options);
    octets
}

// Whatever the cookie, and beside a client subnet.
#[test]
fn both_ways_answer_cookies_alike() {
    let state = steered();
    let plan = Plan::new(&state.pools, &Health::default());
    let sequences = sequences(&state);
    let ways = Ways::new(&state, &plan, &sequences);
    let secrets = Secrets { current: Secret([7; 16]), previous: None };
    let source = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2];
    let mut cookie = vec![0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    for (now, is_new) in [(1000, true), (1001, false), (3000, true), (9000, true)] {
        let cookies = Cookies::new(Some(secrets), now);
        let mut replies = Vec::new();
        for options in [cookie.clone(), [&subnet[..], &cookie].concat()] {
            let message = with_options(&options);
            let (mut short, mut long) = ([0; 1280], [0; 1280]);
            let arrival = Arrival::datagram(source, &cookies);
            let by_long = reply::answer(&message, &arrival, &ways.long, &mut long).unwrap();
            let by_short = quick::parse(&message).map(|query| {
                let found = ways.quick.find(&query).unwrap();
                let locator = &state.locator;
                let located = ways.quick.locate(&query, found, || Some(source), locator).unwrap();
                let judged = query.cookie().and_then(|cookie| cookies.judge(cookie, source));
                let (located, sequences) = ((&located, judged.as_ref()), ways.worker.sequences);
                ways.quick.answer(&message, &query, located, locator, sequences, &mut short)
            });
            let by_short = by_short.expect("a common query").expect("a reply").length;
            assert_eq!(short[..by_short], long[..by_long], "{now}");
            replies.push(long[by_long - 28..by_long].to_vec());
        }
        assert_eq!(replies[0], replies[1], "the cookie comes last");
        assert_eq!(replies[0] != cookie, is_new, "{now}");
        cookie.clone_from(&replies[0]);
    }
}

// RFC 8467 4.1: blocks of 468 octets, where nobody else reads them and the client pads too.
#[test]
fn padded_replies_are_whole_blocks() {
    let state = steered();
    let plan = Plan::new(&state.pools, &Health::default());
    let sequences = sequences(&state);
    let ways = Ways::new(&state, &plan, &sequences);
    let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let length = |options: &[u8], transport| {
        let arrival = Arrival { transport, ..Arrival::datagram(source, &Cookies::OFF) };
        let mut out = vec![0xff; 65_535];
        let length = reply::answer(&with_options(options), &arrival, &ways.long, &mut out).unwrap();
        strict::parse(&out[..length]);
        assert!(HickoryMessage::from_vec(&out[..length]).is_ok());
        length
    };
    let padded = [0, 12, 0, 3, 0, 0, 0];
    let plain = length(&padded, Transport::Stream);
    assert!(plain < 100 && length(&padded, Transport::Datagram) == plain);
    assert_eq!(length(&[], Transport::Encrypted), plain);
    assert_eq!(length(&padded, Transport::Encrypted), 468);
}

// Aliases that lead in a circle, or into themselves for ever.
#[test]
fn circles_of_aliases_come_to_an_end() {
    let record = |name: &str, record_type: &str, target: &str| {
        format!("[[records]]\nname = {name:?}\ntype = {record_type:?}\ndata = [{target:?}]\n")
    };
    let chain = (0..12).map(|n| record(&format!("c{n}"), "CNAME", &format!("c{}", n + 1)));
    let zone = [
        String::from("zone = \"example.test\"\n"),
        record("@", "NS", "ns.elsewhere.test."),
        record("self", "CNAME", "self"),
        record("there", "CNAME", "back"),
        record("back", "CNAME", "there"),
        record("same", "DNAME", "same"),
        record("deeper", "DNAME", "a.deeper"),
        record("one", "DNAME", "two"),
        record("two", "DNAME", "one"),
        chain.collect(),
    ];
    let state = state_of(&zone.concat());
    let plan = Plan::new(&state.pools, &Health::default());
    let sequences = sequences(&state);
    let ways = Ways::new(&state, &plan, &sequences);
    for (name, records) in [
        (&b"\x04self"[..], 1),
        (b"\x05there", 2),
        (b"\x01a\x04same", 2),
        // A DNAME once, and a CNAME for each of nine steps.
        (b"\x01a\x06deeper", 10),
        (b"\x01a\x03one", 4),
        (b"\x02c0", 9),
    ] {
        let asked = Asked {
            name: [name, APEX].concat(),
            record_type: 1,
            edns: Some((1232, false, None)),
            recursion_desired: false,
        };
        let reply = answered(&asked.octets(), &ways, Transport::Datagram).unwrap();
        assert_eq!(strict::parse(&reply).sections[0].len(), records, "{name:?}");
    }
}

// The longest name with the longest error in the smallest reply: what must be repeated still is.
#[test]
fn the_longest_name_leaves_room_for_what_is_repeated() {
    let label = "\\255".repeat(60);
    let name = [label.as_str(); 4].join(".");
    let zone = format!(
        "zone = \"test\"\n[[records]]\nname = \"@\"\ntype = \"NS\"\ndata = [\"ns.elsewhere.\"]\n\
         [monitors.m]\ntype = \"icmp\"\n[pools.p]\nenabled = false\nmonitor = \"m\"\n\
         origins = [{{ name = \"o\", address = \"192.0.2.1\" }}]\n\
         [load_balancers.{name:?}]\npools = [\"p\"]\n"
    );
    let state = state_of(&zone);
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let plan = Plan::new(&state.pools, &health);
    let sequences = sequences(&state);
    let ways = Ways::new(&state, &plan, &sequences);
    let mut wire = Vec::new();
    for _ in 0..4 {
        wire.push(60);
        wire.extend([255; 60]);
    }
    wire.extend(b"\x04test\0");
    let subnet = [&[0, 2, 128, 0][..], &[1; 16]].concat();
    let asked = Asked {
        name: wire,
        record_type: 1,
        edns: Some((512, true, Some(subnet))),
        recursion_desired: true,
    };
    assert!(answered(&asked.octets(), &ways, Transport::Datagram).is_some());
}

// ------------------------------------------------------------------------------- Damage

/// How many damaged queries are answered: `MERIDIAN_FUZZ_CASES`, or a few seconds' worth.
fn fuzz_cases() -> u64 {
    let given = std::env::var("MERIDIAN_FUZZ_CASES").ok();
    given.map_or(20_000, |text| text.parse().expect("MERIDIAN_FUZZ_CASES is a number"))
}

/// A sequence of numbers that look random and are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn octet(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// The zone that damaged queries are asked of: every kind of name, and load balancers.
fn damaged_zone() -> State {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let zone = "zone = \"example.test\"\nzonefile = \"example.test.zone\"\n\
                [pools.p]\nregion = \"weu\"\norigins = [\
                { name = \"a\", address = [\"192.0.2.100\", \"2001:db8::100\"] }, \
                { name = \"b\", address = \"192.0.2.101\" }]\n\
                [pools.off]\nenabled = false\n\
                origins = [{ name = \"c\", address = \"192.0.2.102\" }]\n\
                [load_balancers.lb]\npools = [\"p\"]\nsteering = \"geo\"\n\
                region_pools = { weu = [\"p\"], enam = [\"off\", \"p\"] }\n\
                [load_balancers.all]\npools = [\"p\"]\nanswers = \"all\"\n\
                [load_balancers.down]\npools = [\"off\"]\n";
    let files =
        Files { zones: vec![Source::new(folder.join("zone.toml"), zone)], ..Files::default() };
    let report = Report::default();
    let read = |path: &Path| std::fs::read_to_string(path);
    let state = build(&files, &Server::default(), &read, &report);
    state.unwrap_or_else(|| panic!("{:#?}", report.into_sorted()))
}

/// Queries worth damaging.
fn seeds() -> Vec<Vec<u8>> {
    let names = [
        "lb", "all", "down", "alias", "big", "a.b.wild", "x.sub", "nope", "f.*.we", "intosub",
        "ent",
    ];
    let mut seeds = Vec::new();
    for name in names {
        let mut wire = Vec::new();
        for label in name.split('.') {
            wire.push(u8::try_from(label.len()).unwrap());
            wire.extend(label.as_bytes());
        }
        wire.extend(APEX);
        for (at, &record_type) in [1, 28, 16, 255, 43].iter().enumerate() {
            let subnets = [vec![0, 1, 24, 0, 203, 0, 113], vec![0, 2, 8, 0, 32], vec![0, 0, 0, 0]];
            let edns =
                [None, Some((512, false, None)), Some((4096, true, Some(subnets[at % 3].clone())))];
            seeds.extend(edns.map(|edns| {
                let name = wire.clone();
                Asked { name, record_type, edns, recursion_desired: at % 2 == 0 }.octets()
            }));
        }
    }
    seeds
}

fn damage(message: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(message.len());
        let values = [0, 1, 2, 0x3f, 0x40, 0x80, 0xc0, 0xff, random.octet()];
        let value = values[random.below(values.len())];
        match random.below(7) {
            0 => message.truncate(at),
            1 => message.insert(at, value),
            2 if !message.is_empty() => drop(message.remove(at)),
            3 => {
                // A piece again, elsewhere.
                let end = at + random.below(message.len() - at + 1);
                let piece = message[at..end].to_vec();
                let to = random.below(message.len());
                message.splice(to..to, piece);
            }
            4 if message.len() > 12 => message[random.below(12)] = value,
            _ => {
                if let Some(octet) = message.get_mut(at) {
                    *octet = value;
                }
            }
        }
    }
}

// Whatever comes, nothing panics, and what is replied is well-formed and no larger than allowed.
#[test]
fn damaged_queries_get_sound_replies() {
    let state = damaged_zone();
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    let plan = Plan::new(&state.pools, &health);
    let sequences = sequences(&state);
    let ways = Ways::new(&state, &plan, &sequences);
    let seeds = seeds();
    let mut random = Random(0);
    let (mut replied, mut refused) = (0_u64, 0_u64);
    for case in 0..fuzz_cases() {
        let mut message = seeds[random.below(seeds.len())].clone();
        if case % 16 == 0 {
            message = (0..random.below(80)).map(|_| random.octet()).collect();
        } else {
            damage(&mut message, &mut random);
        }
        let transport = if case % 4 == 0 { Transport::Stream } else { Transport::Datagram };
        if let Some(reply) = answered(&message, &ways, transport) {
            replied += 1;
            refused += u64::from(reply[3] & 0x0f != 0);
        }
    }
    // The damage leaves some queries whole and breaks others.
    assert!(replied > fuzz_cases() / 2 && refused > 0 && refused < replied);
}
