//! The DNS rules that have nothing to do with load balancing, over UDP and TCP alike: a master file
//! with the owner names that go wrong most often, and steered names over it.

use std::io::Write as _;

use crate::harness::{Server, Site, framed, read_framed};
use crate::wire::{Query, Record, Reply, bit, header, lines, name_octets, opt_record, option};
use crate::wire::{rcode, rtype};

const NEGATIVE_SOA: &str = "example.test. 60 SOA ns1.example.test. hostmaster.example.test. \
                            2026113001 7200 900 1209600 60";
const SUB_NS: [&str; 2] = [
    "sub.example.test. 300 NS ns1.sub.example.test.",
    "sub.example.test. 300 NS ns2.sub.example.test.",
];
const SUB_GLUE: [&str; 2] =
    ["ns1.sub.example.test. 300 A 192.0.2.53", "ns2.sub.example.test. 300 A 192.0.2.54"];

/// A private type, of the unknown kind.
const TYPE666: u16 = 666;

/// The master file, a record of medium size and one with a name in its data, and a steered name.
fn serve() -> Server {
    let string = "m".repeat(230);
    let site = Site::new();
    site.write("zones/example.test.zone", include_str!("../data/example.test.zone"));
    site.write(
        "zones/example.test.toml",
        format!(
            r#"
zone = "example.test"
ttl = 300
zonefile = "example.test.zone"

[[records]]
name = "medium"
type = "TXT"
data = ['"{string}" "{string}" "{string}"']

[[records]]
name = "svc"
type = "HTTPS"
data = ["1 target.example.test."]

[[records]]
name = "tolb"
type = "CNAME"
data = ["lb"]

[pools]
p = {{ origins = [{{ name = "a", address = ["192.0.2.100", "2001:db8::100"] }}] }}

[load_balancers.lb]
pools = ["p"]

[load_balancers."*.any"]
pools = ["p"]
"#
        ),
    );
    Server::start(&site)
}

/// Asks over both transports, checks what every reply has in common and hands over each.
fn each_transport(server: &Server, query: &Query, check: impl Fn(&str, &Reply)) {
    for (transport, reply) in [("UDP", server.ask(query)), ("TCP", server.ask_tcp(query))] {
        // RFC 1035 4.1.1: QR set, RA and Z clear; RFC 4035 3.1.6: AD clear.
        assert!(reply.has(bit::QR), "{transport}: QR");
        assert!(!reply.has(bit::RA | bit::Z | bit::AD), "{transport}: {:04x}", reply.flags);
        // RFC 1035 4.1.2: the question comes back octet for octet.
        assert_eq!(reply.question, query.question(), "{transport}: the question");
        check(transport, &reply);
    }
}

/// Every row is a rule and a question; `check` looks at each reply.
fn rows(server: &Server, rows: &[(&str, &str, u16)], check: impl Fn(&str, &Reply)) {
    for (rule, name, qtype) in rows {
        each_transport(server, &Query::new(name, *qtype), |transport, reply| {
            let what = format!("{rule}: {name} {qtype} over {transport}");
            assert!(reply.opt.is_none(), "{what}: no OPT unasked");
            assert!(!reply.has(bit::TC | bit::RD), "{what}: {:04x}", reply.flags);
            check(&what, reply);
        });
    }
}

fn assert_header(what: &str, reply: &Reply, rcode: u16, authoritative: bool) {
    assert_eq!(reply.rcode(), rcode, "{what}: rcode");
    assert_eq!(reply.has(bit::AA), authoritative, "{what}: AA");
}

fn assert_lines(what: &str, section: &[Record], expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(lines(section), expected, "{what}");
}

// ---------------------------------------------------------------------------------- Lookup

#[test]
fn data_of_the_zone_is_answered_with_authority() {
    let server = serve();
    let answers: &[(&str, &str, u16, &[&str])] = &[
        ("1034 4.3.2", "static", rtype::TXT, &["static.example.test. 300 TXT \"hello\""]),
        ("1034 4.3.2", "mail", rtype::A, &["mail.example.test. 300 A 192.0.2.25"]),
        ("1034 4.3.2", "www", rtype::AAAA, &["www.example.test. 30 AAAA 2001:db8::10"]),
        ("1035 5.1: owner @", "@", rtype::MX, &["example.test. 300 MX 10 mail.example.test."]),
        (
            "2181 5.2: one TTL an RRset",
            "@",
            rtype::NS,
            &["example.test. 3600 NS ns1.example.test.", "example.test. 3600 NS ns2.example.test."],
        ),
        (
            "1035 3.3.13",
            "@",
            rtype::SOA,
            &["example.test. 3600 SOA ns1.example.test. hostmaster.example.test. \
               2026113001 7200 900 1209600 60"],
        ),
        ("4343: owner", "mixed", rtype::TXT, &["mixed.example.test. 300 TXT \"mixed case owner\""]),
        ("3597: unknown type", "unk", 65_400, &["unk.example.test. 300 TYPE65400 0a000001"]),
        ("4592: synthesis", "a.b.wild", rtype::TXT, &["a.b.wild.example.test. 300 TXT \"wild\""]),
        ("4592 2.3: itself", "*.wild", rtype::TXT, &["*.wild.example.test. 300 TXT \"wild\""]),
        ("4592: exact", "exists.wild", rtype::A, &["exists.wild.example.test. 300 A 192.0.2.30"]),
        ("4592: below", "f.*.we", rtype::A, &["f.*.we.example.test. 300 A 192.0.2.41"]),
        ("4592: beside", "t.we", rtype::A, &["t.we.example.test. 300 A 192.0.2.42"]),
        (
            "1034 4.3.2 step 3a: CNAME restarts",
            "alias",
            rtype::A,
            &[
                "alias.example.test. 300 CNAME www.example.test.",
                "www.example.test. 30 A 192.0.2.10",
            ],
        ),
        (
            "1034 3.6.2: CNAME itself",
            "alias",
            rtype::CNAME,
            &["alias.example.test. 300 CNAME www.example.test."],
        ),
        (
            "1034: CNAME out of the zone",
            "ext",
            rtype::A,
            &["ext.example.test. 300 CNAME www.example.net."],
        ),
        (
            "1034: CNAME to a steered name",
            "tolb",
            rtype::A,
            &["tolb.example.test. 300 CNAME lb.example.test.", "lb.example.test. 30 A 192.0.2.100"],
        ),
        ("steered", "lb", rtype::AAAA, &["lb.example.test. 30 AAAA 2001:db8::100"]),
        ("steered wildcard", "x.y.any", rtype::A, &["x.y.any.example.test. 30 A 192.0.2.100"]),
    ];
    for (rule, name, qtype, expected) in answers {
        let name =
            if *name == "@" { "example.test".into() } else { format!("{name}.example.test") };
        rows(&server, &[(*rule, &name, *qtype)], |what, reply| {
            assert_header(what, reply, rcode::NOERROR, true);
            assert_lines(what, &reply.answer, expected);
            assert!(reply.authority.iter().all(|r| r.rtype != rtype::SOA), "{what}: no SOA");
        });
    }
}

// RFC 1034 4.3.2: names before what they are an alias for.
#[test]
fn a_cname_stands_before_its_target() {
    let server = serve();
    each_transport(&server, &Query::new("alias.example.test", rtype::A), |transport, reply| {
        let types: Vec<u16> = reply.answer.iter().map(|record| record.rtype).collect();
        assert_eq!(types, [rtype::CNAME, rtype::A], "{transport}");
    });
}

// RFC 2308 2.2, 3: NOERROR without data, the SOA with min(its TTL, MINIMUM).
#[test]
fn nodata_carries_the_soa() {
    let server = serve();
    let questions = [
        ("2308", "v4only.example.test", rtype::AAAA),
        ("3597 unknown type", "www.example.test", TYPE666),
        ("9460", "www.example.test", rtype::HTTPS),
        ("4592 wildcard without the type", "a.wild.example.test", rtype::MX),
        ("4592 a name beside the wildcard", "exists.wild.example.test", rtype::TXT),
        ("8020 empty non-terminal", "ent.example.test", rtype::A),
        ("8020 empty non-terminal", "ent.example.test", rtype::ANY),
        ("8020 empty non-terminal", "wild.example.test", rtype::TXT),
        ("4592 empty wildcard", "some.we.example.test", rtype::A),
        ("4592 empty wildcard, deeper", "a.b.we.example.test", rtype::A),
        ("4592 empty wildcard itself", "*.we.example.test", rtype::A),
        ("4035 3.1.4.1 DS is the parent's", "sub.example.test", rtype::DS),
        ("steered name, another type", "lb.example.test", rtype::TXT),
        ("above a steered wildcard", "any.example.test", rtype::A),
    ];
    rows(&server, &questions, |what, reply| {
        assert_header(what, reply, rcode::NOERROR, true);
        assert_lines(what, &reply.answer, &[]);
        assert_lines(what, &reply.authority, &[NEGATIVE_SOA]);
    });
    // RFC 2308 2.2.1: a CNAME to a name without the type.
    rows(&server, &[("2308", "alias.example.test", rtype::MX)], |what, reply| {
        assert_header(what, reply, rcode::NOERROR, true);
        assert_lines(what, &reply.answer, &["alias.example.test. 300 CNAME www.example.test."]);
        assert_lines(what, &reply.authority, &[NEGATIVE_SOA]);
    });
}

// RFC 2308 2.1, 3; RFC 8020: no data at the name and nothing below it.
#[test]
fn nxdomain_carries_the_soa() {
    let server = serve();
    let longest_label = format!("{}.example.test", "x".repeat(63));
    let questions = [
        ("2308", "nope.example.test", rtype::A),
        ("2308", "a.b.c.nope.example.test", rtype::TXT),
        ("8020 below a leaf", "x.static.example.test", rtype::A),
        ("4592 below a name that hides the wildcard", "x.exists.wild.example.test", rtype::TXT),
        ("4592 below the wildcard itself", "a.*.wild.example.test", rtype::TXT),
        ("4592 below an empty wildcard", "x.*.we.example.test", rtype::A),
        ("4592 below a name beside it", "x.t.we.example.test", rtype::A),
        ("4592 beside a name below an empty non-terminal", "other.ent.example.test", rtype::A),
        ("1035 2.3.4 label of 63 octets", &longest_label, rtype::A),
        ("2181 11 any octet in a label", r"a\000b\.c.example.test", rtype::A),
        ("below a steered name", "x.lb.example.test", rtype::A),
    ];
    rows(&server, &questions, |what, reply| {
        assert_header(what, reply, rcode::NXDOMAIN, true);
        assert_lines(what, &reply.answer, &[]);
        assert_lines(what, &reply.authority, &[NEGATIVE_SOA]);
    });
    // RFC 6604 3: the rcode is that of the last name in the chain.
    rows(&server, &[("6604", "dangling.example.test", rtype::A)], |what, reply| {
        assert_header(what, reply, rcode::NXDOMAIN, true);
        let cname = "dangling.example.test. 300 CNAME nowhere.example.test.";
        assert_lines(what, &reply.answer, &[cname]);
        assert_lines(what, &reply.authority, &[NEGATIVE_SOA]);
    });
}

// RFC 1034 4.3.2 step 3b: NS in authority, glue in additional, not authoritative.
#[test]
fn what_lies_below_a_zone_cut_is_referred() {
    let server = serve();
    let questions = [
        ("1034", "x.sub.example.test", rtype::A),
        ("1034", "a.b.sub.example.test", rtype::AAAA),
        ("1034 at the cut", "sub.example.test", rtype::A),
        ("1034 the cut's NS are the child's", "sub.example.test", rtype::NS),
        ("1034 glue is not an answer", "ns1.sub.example.test", rtype::A),
        ("4035 DS below the cut", "x.sub.example.test", rtype::DS),
    ];
    rows(&server, &questions, |what, reply| {
        assert_header(what, reply, rcode::NOERROR, false);
        assert_lines(what, &reply.answer, &[]);
        assert_lines(what, &reply.authority, &SUB_NS);
        assert_lines(what, &reply.additional, &SUB_GLUE);
    });
}

// RFC 1034 4.3.2 steps 3a and 3b; RFC 1035 4.1.1: AA is that of the first owner name.
#[test]
fn a_cname_into_a_delegation_ends_in_a_referral() {
    let server = serve();
    rows(&server, &[("1034", "intosub.example.test", rtype::A)], |what, reply| {
        assert_header(what, reply, rcode::NOERROR, true);
        let cname = "intosub.example.test. 300 CNAME host.sub.example.test.";
        assert_lines(what, &reply.answer, &[cname]);
        assert_lines(what, &reply.authority, &SUB_NS);
    });
}

// RFC 8906 2: a zone that is not served is refused; dns.md: no SOA, with EDE 20.
#[test]
fn names_outside_the_zone_are_refused() {
    let server = serve();
    let names = ["www.example.invalid", "badexample.test", "test", ".", "example.test.invalid"];
    for name in names {
        rows(&server, &[("1034", name, rtype::A)], |what, reply| {
            assert_header(what, reply, rcode::REFUSED, false);
            assert!(reply.answer.is_empty() && reply.authority.is_empty(), "{what}: empty");
            assert!(reply.additional.is_empty(), "{what}: empty");
        });
        // RFC 8914: an extended error only to a client of EDNS.
        each_transport(&server, &Query::new(name, rtype::A).edns(1232), |transport, reply| {
            assert_header(transport, reply, rcode::REFUSED, false);
            assert_eq!(reply.ede().map(|(code, _)| code), Some(20), "{name} over {transport}");
        });
    }
}

// RFC 4343 3, 4: names compare without case, the spelling of the question is kept.
#[test]
fn case_does_not_matter_but_is_echoed() {
    let server = serve();
    for name in ["WwW.eXaMpLe.TeSt", "www.EXAMPLE.test"] {
        rows(&server, &[("4343", name, rtype::A)], |what, reply| {
            assert_lines(what, &reply.answer, &["www.example.test. 30 A 192.0.2.10"]);
        });
    }
    rows(&server, &[("4343", "A.wIlD.example.test", rtype::TXT)], |what, reply| {
        assert_lines(what, &reply.answer, &["a.wild.example.test. 300 TXT \"wild\""]);
    });
    rows(&server, &[("4343 steered", "LB.Example.Test", rtype::A)], |what, reply| {
        assert_lines(what, &reply.answer, &["lb.example.test. 30 A 192.0.2.100"]);
    });
}

// RFC 8482 4: one RRset; spec/dns.md: at a steered name the steered A or AAAA.
#[test]
fn any_is_answered_with_one_rrset() {
    let server = serve();
    for name in ["example.test", "www.example.test", "lb.example.test"] {
        each_transport(&server, &Query::new(name, rtype::ANY), |transport, reply| {
            let what = format!("{name} over {transport}");
            assert_header(&what, reply, rcode::NOERROR, true);
            let mut types: Vec<u16> = reply.answer.iter().map(|record| record.rtype).collect();
            types.dedup();
            assert_eq!(types.len(), 1, "{what}: {types:?}");
            if name != "example.test" {
                assert!([rtype::A, rtype::AAAA].contains(&types[0]), "{what}: {types:?}");
            }
        });
    }
}

// RFC 8482 4.1: the same at every kind of node.
#[test]
fn any_is_answered_at_every_kind_of_node() {
    let server = serve();
    let rows: [(&str, &[&str], u16); 9] = [
        ("static", &["static.example.test. 300 TXT \"hello\""], rcode::NOERROR),
        ("alias", &["alias.example.test. 300 CNAME www.example.test."], rcode::NOERROR),
        ("a.wild", &["a.wild.example.test. 300 TXT \"wild\""], rcode::NOERROR),
        ("lb", &["lb.example.test. 30 A 192.0.2.100"], rcode::NOERROR),
        ("x.any", &["x.any.example.test. 30 A 192.0.2.100"], rcode::NOERROR),
        ("ent", &[], rcode::NOERROR),
        ("below.static", &[], rcode::NXDOMAIN),
        ("sub", &[], rcode::NOERROR),
        ("host.sub", &[], rcode::NOERROR),
    ];
    for (name, expected, rcode) in rows {
        let query = Query::new(&format!("{name}.example.test"), rtype::ANY);
        each_transport(&server, &query, |transport, reply| {
            let what = format!("{name} over {transport}");
            let is_referral = name.ends_with("sub");
            assert_header(&what, reply, rcode, !is_referral);
            assert_lines(&what, &reply.answer, expected);
            if is_referral {
                assert_lines(&what, &reply.authority, &SUB_NS);
            } else if expected.is_empty() {
                assert_lines(&what, &reply.authority, &[NEGATIVE_SOA]);
            }
        });
    }
}

// RFC 9460 2.2: TargetName is not compressed.
#[test]
fn names_in_the_data_of_newer_types_are_not_compressed() {
    let server = serve();
    each_transport(&server, &Query::new("svc.example.test", rtype::HTTPS), |transport, reply| {
        let expected = [vec![0, 1], name_octets("target.example.test")].concat();
        assert_eq!(reply.answer.len(), 1, "{transport}");
        assert_eq!(reply.answer[0].rdata, expected, "{transport}");
    });
}

// ---------------------------------------------------------------------------------- Header

// RFC 1035 4.1.1: RD copied, RA and Z clear; RFC 8906 8.1.3: odd bits are no reason for silence.
#[test]
fn header_bits_of_the_query_do_no_harm() {
    let server = serve();
    const CD: u16 = 0x0010;
    for bits in [bit::RD, bit::Z, bit::AD, CD, bit::RD | bit::Z | bit::AD | CD] {
        let query = Query::new("example.test", rtype::SOA).flags(bits);
        each_transport(&server, &query, |transport, reply| {
            assert_header(transport, reply, rcode::NOERROR, true);
            assert_eq!(reply.has(bit::RD), bits & bit::RD != 0, "{transport}: RD is copied");
            assert_eq!(reply.answer.len(), 1, "{transport}");
        });
    }
}

// RFC 8906 3.1.4, 8.1.4: NOTIMP, never silence, with a question or with the header alone.
#[test]
fn unknown_opcodes_are_not_implemented() {
    let server = serve();
    for opcode in [3, 6, 7, 15] {
        let query = Query::new("example.test", rtype::SOA).opcode(opcode);
        for reply in [server.ask(&query), server.ask_tcp(&query)] {
            assert_eq!(reply.rcode(), rcode::NOTIMP, "opcode {opcode}");
            assert_eq!(reply.flags >> 11 & 0xf, opcode, "the opcode is copied");
            assert!(reply.has(bit::QR) && reply.answer.is_empty(), "opcode {opcode}");
        }
        let reply = server.reply_or_silence(&header(711, opcode << 11, [0; 4]));
        let reply = reply.expect("a reply to a header alone");
        assert_eq!((reply.id, reply.rcode()), (711, rcode::NOTIMP), "opcode {opcode}");
    }
}

// spec/dns.md: a class other than IN is refused, the names that name the server too.
#[test]
fn other_classes_are_refused() {
    let server = serve();
    const CH: u16 = 3;
    const HS: u16 = 4;
    let names = ["version.bind", "hostname.bind", "id.server", "example.test"];
    let questions = names.map(|name| (name, CH)).into_iter();
    for (name, class) in questions.chain([("example.test", HS), ("example.test", 1000)]) {
        let query = Query::new(name, rtype::TXT).class(class);
        each_transport(&server, &query, |transport, reply| {
            assert_header(&format!("{name} over {transport}"), reply, rcode::REFUSED, false);
            assert!(reply.answer.is_empty(), "{name} over {transport}");
        });
    }
}

// RFC 5936 2.2.1, RFC 1995, 1996, 2136: strangers get no zone and change nothing.
#[test]
fn transfers_and_updates_by_strangers_are_refused() {
    let server = serve();
    for qtype in [rtype::AXFR, rtype::IXFR] {
        let reply = server.ask_tcp(&Query::new("example.test", qtype));
        assert!([rcode::REFUSED, rcode::NOTAUTH, rcode::NOTIMP].contains(&reply.rcode()), "TCP");
        assert!(reply.answer.is_empty(), "TCP");
        let reply = server.ask(&Query::new("example.test", qtype));
        assert!(reply.answer.iter().all(|record| record.rtype == rtype::SOA), "UDP");
    }
    const NOTIFY: u16 = 4;
    const UPDATE: u16 = 5;
    for opcode in [NOTIFY, UPDATE] {
        let reply = server.ask(&Query::new("example.test", rtype::SOA).opcode(opcode));
        let refusals = [rcode::REFUSED, rcode::NOTAUTH, rcode::NOTIMP];
        assert!(refusals.contains(&reply.rcode()), "opcode {opcode}: {}", reply.rcode());
    }
}

// RFC 9619 4: a query has one question.
#[test]
fn a_query_with_no_or_two_questions_is_a_format_error() {
    let server = serve();
    let question = Query::new("example.test", rtype::SOA).question();
    let two = [header(12, 0, [2, 0, 0, 0]), question.clone(), question.clone()].concat();
    for (count, packet) in [(0, header(12, 0, [0; 4])), (2, two)] {
        let reply = server.reply_or_silence(&packet).expect("a reply");
        assert_eq!((reply.id, reply.rcode()), (12, rcode::FORMERR), "{count} questions");
        assert!(reply.answer.is_empty(), "{count} questions");
    }
    let many = [header(13, 0, [65_535, 0, 0, 0]), question].concat();
    server.assert_formerr_or_silence("65535 questions announced", &many);
}

// ---------------------------------------------------------------------------------- Bad packets

// RFC 1035 2.3.4: names have 255 octets at most.
#[test]
fn the_longest_name_is_answered_and_a_longer_one_is_not() {
    let server = serve();
    let label = "x".repeat(63);
    let name = |last: usize| format!("{label}.{label}.{label}.{}.example.test", "y".repeat(last));
    assert_eq!(name_octets(&name(48)).len(), 255);
    rows(&server, &[("1035 2.3.4", &name(48), rtype::A)], |what, reply| {
        assert_header(what, reply, rcode::NXDOMAIN, true);
    });
    let too_long = Query::new(&name(49), rtype::A);
    server.assert_formerr_or_silence("256 octets", &too_long.octets());
    let too_long_label = Query::new(&format!("{}.example.test", "x".repeat(64)), rtype::A);
    server.assert_formerr_or_silence("length octet 64", &too_long_label.octets());
}

// RFC 1035 4.1.4: pointers that lead nowhere, or round and round, do not hold the server.
#[test]
fn pointer_loops_and_cut_packets_are_format_errors() {
    let server = serve();
    let packet = |rest: &[u8]| [&header(77, 0, [1, 0, 0, 0]), rest].concat();
    server.assert_formerr_or_silence("a pointer to itself", &packet(b"\xc0\x0c\0\x01\0\x01"));
    server.assert_formerr_or_silence("a loop of two", &packet(b"\xc0\x0e\xc0\x0c\0\x01\0\x01"));
    server.assert_formerr_or_silence("a pointer beyond", &packet(b"\xff\xff\0\x01\0\x01"));
    server.assert_formerr_or_silence("a forward pointer", &packet(b"\x01a\xc0\x0e\0\x01\0\x01"));
    server.assert_formerr_or_silence("reserved label type", &packet(b"\x80\0\0\x01\0\x01"));
    server.assert_formerr_or_silence("no question at all", &packet(b""));
    let whole = Query::new("www.example.test", rtype::A).edns(1232).octets();
    for size in 13..whole.len() {
        server.assert_formerr_or_silence(&format!("cut after {size} octets"), &whole[..size]);
    }
}

// spec/dns.md: QR=1 is dropped in silence; so is anything shorter than a header.
#[test]
fn responses_and_scraps_are_not_answered() {
    let server = serve();
    let response = Query::new("www.example.test", rtype::A).flags(bit::QR);
    assert!(server.reply_or_silence(&response.octets()).is_none(), "QR=1");
    let response = Query::new("example.invalid", rtype::A).flags(bit::QR | bit::AA | 5);
    assert!(server.reply_or_silence(&response.octets()).is_none(), "QR=1 and REFUSED");
    for size in [1, 2, 11] {
        let scrap = header(99, 0, [1, 0, 0, 0]);
        assert!(server.reply_or_silence(&scrap[..size]).is_none(), "{size} octets");
    }
}

// ---------------------------------------------------------------------------------- EDNS and size

// RFC 6891 6.1.1: an OPT in the reply if and only if there is one in the query.
#[test]
fn opt_is_answered_with_opt() {
    let server = serve();
    for name in ["static.example.test", "nope.example.test", "x.sub.example.test", "a.invalid"] {
        each_transport(&server, &Query::new(name, rtype::TXT).edns(1232), |transport, reply| {
            let opt = reply.opt.as_ref().unwrap_or_else(|| panic!("{name} over {transport}"));
            assert_eq!((opt.version, opt.extended_rcode), (0, 0), "{name} over {transport}");
            assert!(reply.ecs().is_none(), "RFC 7871 7.2.1: none asked, none given");
        });
        each_transport(&server, &Query::new(name, rtype::TXT), |transport, reply| {
            assert!(reply.opt.is_none(), "{name} over {transport}");
        });
    }
    let truncated = server.ask(&Query::new("big.example.test", rtype::TXT).edns(512));
    assert!(truncated.has(bit::TC) && truncated.opt.is_some());
}

// RFC 6891 6.1.1: more than one OPT, or one that is not at the root, is a format error.
#[test]
fn bad_opt_records_are_format_errors() {
    let server = serve();
    let query = Query::new("static.example.test", rtype::TXT);
    let two = query.clone().edns(1232).further(opt_record(&[0], 1232, 0, &[]));
    server.assert_formerr_or_silence("two OPT", &two.octets());
    let owner = query.clone().further(opt_record(&name_octets("a.test"), 1232, 0, &[]));
    server.assert_formerr_or_silence("OPT with an owner", &owner.octets());
    let cut = query.further(opt_record(&[0], 1232, 0, &[0, 100, 0, 9, 1]));
    server.assert_formerr_or_silence("an option that runs over", &cut.octets());
    let reply = server.reply_or_silence(&two.octets());
    assert!(reply.is_none_or(|reply| reply.rcode() == rcode::FORMERR));
}

// RFC 6891 6.1.3: BADVERS with the highest version that is spoken here, which is 0.
#[test]
fn later_edns_versions_are_refused_with_badvers() {
    let server = serve();
    let query = Query::new("example.test", rtype::SOA).edns_version(1);
    // RFC 8906 8.2.5, 8.2.6, 8.2.9: the same with flags, options and DO.
    let variants = [
        query.clone(),
        query.clone().edns_flags(0x0040),
        query.clone().edns_flags(0x8000),
        query.option(100, b"x"),
    ];
    for query in variants {
        each_transport(&server, &query, |transport, reply| {
            assert_eq!(reply.rcode(), rcode::BADVERS, "{transport}");
            assert!(reply.answer.is_empty(), "{transport}");
            let opt = reply.opt.as_ref().expect("an OPT");
            assert_eq!(opt.version, 0, "{transport}");
            assert!(opt.options.iter().all(|(code, _)| *code != 100), "{transport}");
        });
    }
}

// RFC 6891 6.1.2, 6.1.4: unknown options and flags are ignored and never echoed.
#[test]
fn unknown_edns_options_and_flags_are_ignored() {
    let server = serve();
    let query = Query::new("static.example.test", rtype::TXT);
    let query = query.edns(1232).edns_flags(0x0040).option(100, b"abc").option(65_001, b"");
    each_transport(&server, &query, |transport, reply| {
        assert_header(transport, reply, rcode::NOERROR, true);
        assert_lines(transport, &reply.answer, &["static.example.test. 300 TXT \"hello\""]);
        let opt = reply.opt.as_ref().expect("an OPT");
        assert_eq!(opt.flags & 0x7fff, 0, "{transport}: flags");
        assert!(opt.options.is_empty(), "{transport}: {:?}", opt.options);
    });
}

// RFC 7828 3.2.1: the keepalive option is not sent over UDP.
#[test]
fn keepalive_is_never_sent_over_udp() {
    let server = serve();
    let query = Query::new("static.example.test", rtype::TXT).edns(1232);
    let reply = server.ask(&query.option(option::TCP_KEEPALIVE, &[]));
    assert!(reply.option(option::TCP_KEEPALIVE).is_none());
}

// RFC 1035 4.2.1, RFC 6891 6.2.3, RFC 9715: UDP replies keep to the client's size and to 1232.
#[test]
fn what_does_not_fit_into_udp_is_truncated_whole() {
    let server = serve();
    let big = Query::new("big.example.test", rtype::TXT);
    let medium = Query::new("medium.example.test", rtype::TXT);
    let cut = [
        ("without EDNS 512", big.clone(), 512),
        ("without EDNS 512", medium.clone(), 512),
        ("0 counts as 512", big.clone().edns(0), 512),
        ("511 counts as 512", medium.clone().edns(511), 512),
        ("the client's 600", medium.clone().edns(600), 600),
        ("our own 1232", big.clone().edns(4096), 1232),
        ("our own 1232", big.edns(65_535), 1232),
    ];
    for (why, query, limit) in cut {
        let reply = server.ask(&query);
        assert!(reply.octets.len() <= limit, "{why}: {} octets", reply.octets.len());
        assert_eq!(reply.rcode(), rcode::NOERROR, "{why}");
        assert!(reply.has(bit::TC) && reply.has(bit::AA), "{why}: {:04x}", reply.flags);
        // RFC 2181 9: whole RRsets only, and this one does not fit.
        assert!(reply.answer.is_empty(), "{why}");
        assert_eq!(reply.question, query.question(), "{why}");
    }
    for size in [800, 1232, 4096] {
        let reply = server.ask(&medium.clone().edns(size));
        assert!(!reply.has(bit::TC), "RFC 2181 9: no TC where all fits into {size}");
        assert_eq!(reply.answer.len(), 1, "{size}");
    }
}

// RFC 7766 6.2.1 and 8: TCP is not limited by the size that EDNS gives for UDP.
#[test]
fn tcp_replies_are_whole() {
    let server = serve();
    let big = Query::new("big.example.test", rtype::TXT);
    for query in [big.clone(), big.clone().edns(512), big.edns(4096)] {
        let reply = server.ask_tcp(&query);
        assert!(!reply.has(bit::TC));
        assert_eq!(reply.answer.len(), 1);
        assert!(reply.octets.len() > 2000);
    }
}

// RFC 7766 6.2.1: a connection carries many queries, sent without waiting; any order of replies.
#[test]
fn tcp_queries_can_be_pipelined() {
    let server = serve();
    let queries: Vec<Query> =
        (0..50).map(|_| Query::new("static.example.test", rtype::TXT)).collect();
    let mut stream = server.connect();
    let all: Vec<u8> = queries.iter().flat_map(|query| framed(&query.octets())).collect();
    stream.write_all(&all).expect("queries sent");
    let mut ids: Vec<u16> = queries.iter().map(|_| read_framed(&mut stream).id).collect();
    let mut expected: Vec<u16> = queries.iter().map(|query| query.id).collect();
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
}
