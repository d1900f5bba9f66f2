//! EDNS over UDP and TCP: the probes of RFC 8906 section 8, cookies, and what the server says of itself. And
//! class CH, which asks the same with questions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{SERVER, Server, Site};
use crate::wire::{Query, Reply, bit, header, opt_record, option, rcode, rtype};

/// A steered name and a static one: common queries have a way of their own.
const ZONE: &str = r#"
[[records]]
name = "static"
type = "TXT"
data = ["hello"]

[pools]
p = { origins = [{ name = "a", address = ["192.0.2.100", "2001:db8::100"] }] }

[load_balancers.lb]
pools = ["p"]
"#;

const CLIENT: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const CH: u16 = 3;
const DO: u16 = 0x8000;

fn site(settings: &str) -> Site {
    let string = format!("\"{}\"", "x".repeat(250));
    let big =
        format!("[[records]]\nname = \"big\"\ntype = \"TXT\"\ndata = ['{string} {string}']\n");
    let site = Site::with_zone(&format!("{big}{ZONE}"));
    site.write("meridian.toml", format!("{SERVER}{settings}"));
    site
}

fn serve(settings: &str) -> Server {
    Server::start(&site(settings))
}

/// Asks over both transports and hands over each reply.
fn each_transport(server: &Server, query: &Query, check: impl Fn(&str, &Reply)) {
    for (transport, reply) in [("UDP", server.ask(query)), ("TCP", server.ask_tcp(query))] {
        check(transport, &reply);
    }
}

/// The codes of the options in a reply.
fn codes(reply: &Reply) -> Vec<u16> {
    let options = reply.opt.iter().flat_map(|opt| &opt.options);
    options.map(|(code, _)| *code).collect()
}

// ---------------------------------------------------------------------------------- RFC 8906

/// What must come back.
struct Expected {
    rcode: u16,
    /// The number of records in the answer section.
    answers: usize,
    /// None if there is no OPT; else the flags in it.
    edns_flags: Option<u16>,
}

// RFC 8906 section 8, probe for probe.
#[test]
fn every_probe_of_rfc_8906_is_answered() {
    let server = serve("");
    let soa = || Query::new("example.test", rtype::SOA);
    let plain = |answers| Expected { rcode: rcode::NOERROR, answers, edns_flags: None };
    let edns =
        |edns_flags| Expected { rcode: rcode::NOERROR, answers: 1, edns_flags: Some(edns_flags) };
    let badvers =
        |edns_flags| Expected { rcode: rcode::BADVERS, answers: 0, edns_flags: Some(edns_flags) };
    const CD: u16 = 0x0010;
    let options = || {
        soa()
            .option(option::NSID, &[])
            .option(option::COOKIE, &CLIENT)
            .option(9, &[])
            .ecs("0.0.0.0", 0)
    };
    let rows: [(&str, Query, Expected); 19] = [
        ("8.1.1 SOA", soa(), plain(1)),
        ("8.1.2 unknown type", Query::new("example.test", 1000), plain(0)),
        ("8.1.3.1 CD", soa().flags(CD), plain(1)),
        ("8.1.3.2 AD", soa().flags(bit::AD), plain(1)),
        ("8.1.3.3 reserved bit", soa().flags(bit::Z), plain(1)),
        ("8.1.3.4 RD", soa().flags(bit::RD), plain(1)),
        (
            "8.1.4 unknown opcode",
            soa().opcode(15),
            Expected { rcode: rcode::NOTIMP, answers: 0, edns_flags: None },
        ),
        ("8.1.5 TCP", soa(), plain(1)),
        ("8.2.1 EDNS 0", soa().edns(1232), edns(0)),
        ("8.2.2 EDNS 1", soa().edns_version(1), badvers(0)),
        ("8.2.3 unknown option", soa().option(100, b"abc"), edns(0)),
        ("8.2.4 unknown flags", soa().edns_flags(0x0040), edns(0)),
        ("8.2.5 EDNS 1, unknown flags", soa().edns_version(1).edns_flags(0x0040), badvers(0)),
        ("8.2.6 EDNS 1, unknown option", soa().edns_version(1).option(100, b"abc"), badvers(0)),
        ("8.2.7 512 octets", Query::new("static.example.test", rtype::TXT).edns(512), edns(0)),
        ("8.2.8 DO", soa().edns_flags(DO), edns(DO)),
        ("8.2.9 EDNS 1, DO", soa().edns_version(1).edns_flags(DO), badvers(DO)),
        ("8.2.10 several options", options(), edns(0)),
        ("8.2.10 several options, EDNS 1", options().edns_version(1), badvers(0)),
    ];
    for (probe, query, expected) in rows {
        each_transport(&server, &query, |transport, reply| {
            let what = format!("{probe} over {transport}");
            assert_eq!(reply.rcode(), expected.rcode, "{what}");
            assert_eq!(reply.has(bit::AA), expected.rcode == rcode::NOERROR, "{what}: AA");
            assert!(
                !reply.has(bit::TC | bit::RA | bit::Z | bit::AD | CD),
                "{what}: {:04x}",
                reply.flags
            );
            assert_eq!(reply.answer.len(), expected.answers, "{what}: answer");
            assert_eq!(reply.question, query.question(), "{what}: question");
            let opt = reply.opt.as_ref();
            assert_eq!(opt.map(|opt| opt.flags), expected.edns_flags, "{what}: OPT and flags");
            assert!(opt.is_none_or(|opt| opt.version == 0), "{what}: version");
            let known = [option::COOKIE, option::CLIENT_SUBNET];
            assert!(
                codes(reply).iter().all(|code| known.contains(code)),
                "{what}: {:?}",
                codes(reply)
            );
        });
    }
    // 8.2.7: what does not fit is cut, and the OPT is there.
    let reply = server.ask(&Query::new("big.example.test", rtype::TXT).edns(512));
    assert!(reply.has(bit::TC) && reply.octets.len() <= 512 && reply.opt.is_some());
    // 8.1.4 as it is written there: a header alone.
    let reply = server.reply_or_silence(&header(7, 15 << 11, [0; 4])).expect("a reply");
    assert_eq!((reply.id, reply.rcode()), (7, rcode::NOTIMP));
}

// ---------------------------------------------------------------------------------- Cookies

/// A name that is answered the short way, and one that is answered the long way.
fn with_cookie(cookie: &[u8]) -> [Query; 2] {
    let names = [("lb.example.test", rtype::A), ("static.example.test", rtype::TXT)];
    names.map(|(name, qtype)| Query::new(name, qtype).option(option::COOKIE, cookie))
}

/// The cookie in a reply.
fn cookie_of(reply: &Reply) -> Vec<u8> {
    let cookie = reply.option(option::COOKIE).expect("a cookie").to_vec();
    assert_eq!((cookie.len(), &cookie[..8]), (24, &CLIENT[..]), "the client's part and ours");
    // RFC 9018 4.1 and 4.2: version 1, reserved octets.
    assert_eq!(cookie[8..12], [1, 0, 0, 0]);
    cookie
}

/// The cookie that a server gives a new client.
fn learned(server: &Server) -> Vec<u8> {
    cookie_of(&server.ask(&with_cookie(&CLIENT)[0]))
}

// RFC 7873 5.2.3 to 5.2.5: whoever has no valid server cookie gets one, and is answered.
#[test]
fn cookies_are_given_and_recognised() {
    let server = serve("");
    let held = learned(&server);
    let mut forged = held.clone();
    forged[23] ^= 1;
    let foreign = [&CLIENT[..], &[9; 32]].concat();
    for (cookie, is_kept) in
        [(&held[..], true), (&CLIENT[..], false), (&forged[..], false), (&foreign[..], false)]
    {
        for query in with_cookie(cookie) {
            each_transport(&server, &query, |transport, reply| {
                assert_eq!(reply.rcode(), rcode::NOERROR, "{transport}");
                assert_eq!(reply.answer.len(), 1, "{transport}");
                let given = cookie_of(reply);
                assert!(!is_kept || given == held, "{transport}: a fresh cookie is kept");
                assert_ne!(given, forged, "{transport}");
            });
        }
    }
    // Of several the first counts (RFC 7873 5.2); a refusal has one too; nobody else gets one.
    let two = with_cookie(&held)[1].clone().option(option::COOKIE, &[7; 8]);
    assert_eq!(cookie_of(&server.ask(&two)), held);
    let refused = Query::new("elsewhere.test", rtype::A).option(option::COOKIE, &held);
    let reply = server.ask(&refused);
    assert_eq!((reply.rcode(), cookie_of(&reply)), (rcode::REFUSED, held));
    let reply = server.ask(&Query::new("lb.example.test", rtype::A).edns(1232));
    assert!(reply.option(option::COOKIE).is_none());
}

// RFC 7873 5.2.2: a length that cannot be is a format error.
#[test]
fn cookies_of_other_lengths_are_malformed() {
    let server = serve("");
    for length in [0, 1, 7, 9, 15, 41, 48] {
        for query in with_cookie(&vec![7; length]) {
            each_transport(&server, &query, |transport, reply| {
                assert_eq!(reply.rcode(), rcode::FORMERR, "{length} octets over {transport}");
                assert!(reply.answer.is_empty() && reply.opt.is_some(), "{length}, {transport}");
                assert!(codes(reply).is_empty(), "{length}, {transport}");
            });
        }
    }
}

// RFC 7873 5.4: a cookie without a question.
#[test]
fn a_cookie_can_be_asked_for_without_a_question() {
    let server = serve("");
    let held = learned(&server);
    let mut forged = held.clone();
    forged[12] ^= 1;
    let rows =
        [(&CLIENT[..], rcode::NOERROR), (&held, rcode::NOERROR), (&forged, rcode::BADCOOKIE)];
    for (cookie, expected) in rows {
        let options = [&[0, 10, 0, u8::try_from(cookie.len()).unwrap()], cookie].concat();
        let packet = [header(11, 0, [0, 0, 0, 1]), opt_record(&[0], 1232, 0, &options)].concat();
        let reply = server.reply_or_silence(&packet).expect("a reply");
        assert_eq!((reply.id, reply.rcode()), (11, expected), "{} octets", cookie.len());
        assert!(reply.question.is_empty() && reply.answer.is_empty());
        assert_eq!(cookie_of(&reply).len(), 24);
    }
    let packet = [header(11, 0, [0, 0, 0, 1]), opt_record(&[0], 1232, 0, &[])].concat();
    let reply = server.reply_or_silence(&packet).expect("a reply");
    assert_eq!(reply.rcode(), rcode::FORMERR, "without a cookie, as ever");
}

// RFC 7873 5.2.3: BADCOOKIE over UDP, where it is required.
#[test]
fn cookies_can_be_required_of_those_who_know_them() {
    let server = serve("[cookies]\nrequire = true\n");
    for query in with_cookie(&CLIENT) {
        let reply = server.ask(&query);
        assert_eq!(reply.rcode(), rcode::BADCOOKIE);
        assert!(reply.answer.is_empty() && reply.authority.is_empty());
        assert_eq!(reply.question, query.question());
        let held = cookie_of(&reply);
        assert_eq!(server.ask_tcp(&query).rcode(), rcode::NOERROR, "TCP proves the address");
        for query in with_cookie(&held) {
            let reply = server.ask(&query);
            assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 1));
        }
    }
    let reply = server.ask(&Query::new("lb.example.test", rtype::A));
    assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 1), "no cookie, no demand");
}

// RFC 9018 5: servers that share a secret know each other's cookies, and it can be replaced.
#[test]
fn a_secret_can_be_shared_and_replaced() {
    const OLD: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const NEW: &str = "445536bcd2513298075a5d379663c962";
    let write = |site: &Site, text: String| {
        site.write("cookies.secret", text);
        let file = site.path().join("cookies.secret");
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let sites = [(); 2].map(|()| site("[cookies]\nsecret_file = \"cookies.secret\"\n"));
    sites.iter().for_each(|site| write(site, OLD.to_owned()));
    let [one, mut other] = sites.each_ref().map(Server::start);
    let held = learned(&one);
    let asked = |server: &Server| cookie_of(&server.ask(&with_cookie(&held)[0]));
    assert_eq!(asked(&other), held, "the cookie of another server");

    write(&sites[1], format!("{NEW}\n{OLD}\n"));
    other.reload("reloaded");
    let renewed = asked(&other);
    assert_ne!(renewed, held, "valid, and made anew");
    let packet = [
        header(11, 0, [0, 0, 0, 1]),
        opt_record(&[0], 1232, 0, &[&[0, 10, 0, 24], &held[..]].concat()),
    ];
    let reply = other.reply_or_silence(&packet.concat()).expect("a reply");
    assert_eq!(reply.rcode(), rcode::NOERROR, "the secret before counts");

    write(&sites[1], format!("{NEW}\n"));
    other.reload("reloaded");
    let reply = other.reply_or_silence(&packet.concat()).expect("a reply");
    assert_eq!(reply.rcode(), rcode::BADCOOKIE, "it is forgotten");
    write(&sites[1], "no secret\n".to_owned());
    other.reload("reload refused");
    assert_eq!(cookie_of(&other.ask(&with_cookie(&renewed)[1])), renewed, "the old one is kept");
}

#[test]
fn the_own_secret_outlasts_a_restart_and_is_nobody_elses() {
    let site = site("");
    let server = Server::start(&site);
    let held = learned(&server);
    let file = site.path().join("state/cookies.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.signal("TERM");
    server.exit_code();
    let server = Server::start(&site);
    assert_eq!(cookie_of(&server.ask(&with_cookie(&held)[0])), held);
    server.signal("TERM");
    server.exit_code();
    fs::remove_file(file).unwrap();
    let server = Server::start(&site);
    assert_ne!(cookie_of(&server.ask(&with_cookie(&held)[0])), held);
}

// ---------------------------------------------------------------------------------- The others

// RFC 5001 2.2: only where it is asked for, whatever the option holds.
#[test]
fn the_identifier_is_told_when_it_is_asked_for() {
    let server = serve("identity = { nsid = \"ams1\" }\n");
    for (name, data) in [("lb.example.test", &[][..]), ("elsewhere.test", b"x")] {
        let query = Query::new(name, rtype::A);
        each_transport(&server, &query.clone().option(option::NSID, data), |transport, reply| {
            assert_eq!(reply.option(option::NSID), Some(&b"ams1"[..]), "{name}, {transport}");
        });
        each_transport(&server, &query.edns(1232), |transport, reply| {
            assert_eq!(reply.option(option::NSID), None, "{name}, {transport}");
        });
    }
    let query = Query::new("lb.example.test", rtype::A).option(option::NSID, &[]);
    assert_eq!(serve("").ask(&query).option(option::NSID), None, "none is configured");
}

// RFC 7828 3.2, 3.3: the idle time over TCP, nothing over UDP.
#[test]
fn the_idle_time_is_told_over_tcp() {
    let server = serve("[tcp]\nidle_timeout = \"7s\"\n");
    for name in ["lb.example.test", "static.example.test"] {
        let query = Query::new(name, rtype::A);
        let asked = query.clone().option(option::TCP_KEEPALIVE, &[]);
        let reply = server.ask_tcp(&asked);
        assert_eq!(reply.option(option::TCP_KEEPALIVE), Some(&[0, 70][..]), "{name}");
        let reply = server.ask_tcp(&query.clone().edns(1232));
        assert_eq!(reply.option(option::TCP_KEEPALIVE), None, "{name}");
        assert_eq!(server.ask(&asked).option(option::TCP_KEEPALIVE), None, "{name}");
        // Data in the option are the server's to send.
        let malformed = query.option(option::TCP_KEEPALIVE, &[0, 70]);
        assert_eq!(server.ask_tcp(&malformed).rcode(), rcode::FORMERR, "{name}");
        let reply = server.ask(&malformed);
        assert_eq!((reply.rcode(), codes(&reply).len()), (rcode::NOERROR, 0), "{name}");
    }
}

// RFC 7830 6: what everybody can read is not padded.
#[test]
fn padding_is_taken_and_not_given_in_the_clear() {
    let server = serve("");
    for name in ["lb.example.test", "static.example.test"] {
        let query = Query::new(name, rtype::A).option(option::PADDING, &[0; 77]);
        each_transport(&server, &query, |transport, reply| {
            assert_eq!(reply.rcode(), rcode::NOERROR, "{name}, {transport}");
            assert!(codes(reply).is_empty(), "{name}, {transport}");
        });
    }
}

// RFC 4892: what the operator wants to be known is told, and nothing else.
#[test]
fn the_server_says_of_itself_what_it_is_told_to() {
    let server = serve("[chaos]\nversion = \"none of your business\"\nid = \"ams1\"\n");
    for (name, text) in [("VERSION.bind", "none of your business"), ("id.server", "ams1")] {
        for qtype in [rtype::TXT, rtype::ANY] {
            each_transport(&server, &Query::new(name, qtype).class(CH), |transport, reply| {
                assert_eq!(reply.rcode(), rcode::NOERROR, "{name}, {transport}");
                assert_eq!(reply.data(rtype::TXT), [format!("{text:?}")], "{name}, {transport}");
                assert_eq!((reply.answer[0].class, reply.answer[0].ttl), (CH, 0), "{transport}");
            });
        }
    }
    let refused = [
        ("hostname.bind", rtype::TXT, CH),
        ("version.bind", rtype::A, CH),
        ("version.bind", rtype::AXFR, CH),
        ("version.bind", rtype::TXT, 4),
        ("version.bind", rtype::TXT, 1),
        ("lb.example.test", rtype::A, CH),
    ];
    for (name, qtype, class) in refused {
        each_transport(&server, &Query::new(name, qtype).class(class), |transport, reply| {
            assert_eq!(reply.rcode(), rcode::REFUSED, "{name} {qtype} {class}, {transport}");
            assert!(reply.answer.is_empty(), "{name} {qtype} {class}, {transport}");
        });
    }
}
