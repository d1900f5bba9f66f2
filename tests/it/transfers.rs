//! Zone transfers (spec/dns.md, "transfers"; RFC 5936, 1995, 8945), asked for with dig and kdig: who may
//! have a zone, what is in it, signatures, and that a large one holds up nobody.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::harness::{SERVER, Server, Site, framed, is_missing, read_framed};
use crate::streams::{TLS, encrypted, write_certificate};
use crate::wire::{Query, option, rcode, rtype};

/// A secret of 32 octets, and another.
pub(crate) const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_SECRET: &str = "//////////////////////////////////////////8=";
const DIG: (&str, &str, &str) = ("dig", "-v", "bind9-dnsutils");
const KDIG: (&str, &str, &str) = ("kdig", "-V", "knot-dnsutils");
const MX: u16 = rtype::MX;

/// The settings of a server with two keys.
pub(crate) fn settings() -> String {
    format!(
        "{SERVER}\n[tsig_keys.\"xfr.example.test\"]\nsecret_file = \"xfr.key\"\n\
         [tsig_keys.long]\nalgorithm = \"hmac-sha512\"\nsecret = \"{SECRET}\"\n"
    )
}

/// Steered names of every kind, static records beside them, a delegation and a wildcard.
const BODY: &str = r#"
[[records]]
name = "mail"
type = "MX"
data = ["10 mx1", "20 mx2.example.net."]

[[records]]
name = "big"
type = "TXT"
data = ["\"BIG\" \"BIG\""]

[[records]]
name = "*.wild"
type = "TXT"
data = ["\"any\"", "\"of\" \"them\""]

[[records]]
name = "sub"
type = "NS"
data = ["ns.sub"]

[[records]]
name = "ns.sub"
type = "A"
data = ["192.0.2.54"]

[[records]]
name = "www"
type = "HTTPS"
data = ["1 . alpn=h2"]
steered_hints = true

[[records]]
name = "www"
type = "TXT"
data = ["\"beside\""]

[pools.near]
monitor = "dead"
[[pools.near.origins]]
name = "a"
address = ["192.0.2.1", "2001:db8::1"]
[[pools.near.origins]]
name = "b"
address = "192.0.2.2"

[pools.far]
[[pools.far.origins]]
name = "c"
address = "192.0.2.3"

[pools.cdn]
[[pools.cdn.origins]]
name = "d"
address = "edge.example.net."

[monitors.dead]
type = "tcp"
port = 1
interval = "1s"
timeout = "500ms"

[load_balancers.www]
pools = ["near", "far"]
fallback_pool = "far"

[load_balancers.both]
pools = ["near"]
fallback_pool = "far"
answers = 2

[load_balancers.cdn]
pools = ["cdn"]
fallback_pool = "cdn"
"#;

/// A text that two of do not fit 512 octets.
fn big() -> String {
    "x".repeat(250)
}

/// A site whose zone has this line for transfers.
fn site(transfer: &str) -> Site {
    let site = Site::with_zone(BODY);
    let zone = std::fs::read_to_string(site.path().join("zones/example.test.toml")).unwrap();
    let zone = zone.replace("BIG", &big());
    site.write("zones/example.test.toml", format!("{transfer}\n{zone}"));
    site.write("meridian.toml", settings());
    site.write("xfr.key", format!("{SECRET}\n"));
    site
}

fn run(program: &str, server: SocketAddr, arguments: &[&str]) -> String {
    let port = server.port().to_string();
    let mut command = Command::new(program);
    let Output { stdout, stderr, .. } =
        command.args(["@127.0.0.1", "-p", &port]).args(arguments).output().expect("a program");
    format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))
}

fn key(secret: &str) -> String {
    format!("hmac-sha256:xfr.example.test:{secret}")
}

fn skips(tools: &[(&str, &str, &str)]) -> bool {
    tools.iter().any(|(tool, argument, package)| is_missing(tool, argument, package))
}

/// The records of a transfer as dig prints them, in one form.
fn records(output: &str) -> Vec<String> {
    let lines = output.lines().filter(|line| !line.starts_with(';') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()).collect()
}

#[test]
fn who_is_not_named_gets_no_zone() {
    let by_key = "transfer = { keys = [\"xfr.example.test\"] }";
    let elsewhere = "transfer = { allow = [\"192.0.2.0/24\"] }";
    let both = "transfer = { allow = [\"192.0.2.1\"], keys = [\"xfr.example.test\"] }";
    for transfer in ["", by_key, elsewhere, both] {
        let server = Server::start(&site(transfer));
        for qtype in [rtype::AXFR, rtype::IXFR] {
            let query = Query::new("example.test", qtype).edns(1232);
            for reply in [server.ask_tcp(&query), server.ask(&query)] {
                assert_eq!(reply.rcode(), rcode::REFUSED, "{transfer:?}");
                assert!(reply.answer.is_empty(), "{transfer:?}");
                let opt = reply.opt.as_ref().expect("EDNS");
                let error = opt.options.iter().find(|(code, _)| *code == option::EXTENDED_ERROR);
                assert_eq!(error.expect("an extended error").1[..2], [0, 18], "Prohibited");
            }
        }
        if transfer == both && !skips(&[DIG]) {
            let output = run("dig", server.address, &["-y", &key(SECRET), "example.test", "AXFR"]);
            assert!(output.contains("Transfer failed"), "the address counts too: {output}");
        }
    }
    let server = Server::start(&site("transfer = { allow = [\"127.0.0.1\"] }"));
    for name in ["www.example.test", "example.invalid"] {
        let reply = server.ask_tcp(&Query::new(name, rtype::AXFR));
        assert_eq!(reply.rcode(), rcode::NOTAUTH, "{name} is no zone");
    }
    let reply = server.ask(&Query::new("example.test", rtype::AXFR));
    assert_eq!((reply.rcode(), reply.answer.len()), (rcode::REFUSED, 0), "not over UDP");
    let reply = server.ask_tcp(&Query::new("example.test", rtype::IXFR));
    assert_eq!(reply.rcode(), rcode::FORMERR, "without the serial that the client has");
}

/// The lines about transfers that were refused, so far.
fn refusals(server: &mut Server) -> Vec<serde_json::Value> {
    let lines = server.log_so_far().iter().map(|line| &line["fields"]);
    lines.filter(|fields| fields["message"] == "a zone transfer was refused").cloned().collect()
}

// Who sets a secondary up sees why it gets nothing, and a stranger who asks for ever does not fill the log.
#[test]
fn refused_transfers_are_logged_once_in_a_while_for_each_reason() {
    let by_key = "transfer = { keys = [\"xfr.example.test\"] }";
    let elsewhere = "transfer = { allow = [\"192.0.2.0/24\"] }";
    let rows = [
        ("", "example.test", "no transfer rules"),
        (elsewhere, "example.test", "allow does not have the client's address"),
        (by_key, "example.test", "not signed"),
        (by_key, "example.invalid", "no zone of this name"),
    ];
    for (transfer, name, reason) in rows {
        let site = site(transfer);
        let mut server = Server::start(&site);
        let mut stream = server.connect();
        for qtype in [rtype::AXFR, rtype::IXFR].into_iter().cycle().take(100) {
            stream.write_all(&framed(&Query::new(name, qtype).octets())).expect("sent");
            assert!([rcode::REFUSED, rcode::NOTAUTH].contains(&read_framed(&mut stream).rcode()));
            // The address of a datagram may be forged.
            server.ask(&Query::new(name, qtype));
        }
        server.reload("reloaded");
        let told = refusals(&mut server);
        assert_eq!(told.len(), 1, "{told:?}");
        let fields = &told[0];
        assert_eq!(
            (&fields["client"], &fields["zone"]),
            (&"127.0.0.1".into(), &format!("{name}.").into())
        );
        assert!(fields["reason"].as_str().is_some_and(|told| told.contains(reason)), "{fields}");
        assert_eq!((&fields["refused"], &fields["key"]), (&1.into(), &"".into()), "{fields}");
    }
    if skips(&[DIG]) {
        return;
    }
    // Each reason by itself, with the key that was named.
    let site = site(by_key);
    let mut server = Server::start(&site);
    let unknown = key(SECRET).replace("xfr", "unknown");
    let long = format!("hmac-sha512:long:{SECRET}");
    let rows = [
        (key(OTHER_SECRET), "BADSIG", "xfr.example.test."),
        (unknown, "BADKEY", "unknown.example.test."),
        (long, "keys do not have", "long."),
    ];
    for (key, _, _) in &rows {
        for _ in 0..3 {
            run("dig", server.address, &["-y", key, "example.test", "AXFR"]);
        }
    }
    server.reload("reloaded");
    let told = refusals(&mut server);
    assert_eq!(told.len(), rows.len(), "{told:?}");
    for ((_, reason, key), fields) in rows.iter().zip(&told) {
        assert!(fields["reason"].as_str().is_some_and(|told| told.contains(reason)), "{fields}");
        assert_eq!(fields["key"], *key, "{fields}");
    }
}

#[test]
fn a_transfer_has_every_record_once_and_steered_names_as_their_answers() {
    if skips(&[DIG]) {
        return;
    }
    let server = Server::start(&site("transfer = { allow = [\"127.0.0.0/8\"] }"));
    let output = run("dig", server.address, &["example.test", "AXFR", "+nocookie"]);
    let mut found = records(&output);
    let soa = "example.test. 3600 in soa ns1.example.test. hostmaster.example.test. 1 7200 900 1209600 60";
    assert_eq!(found.first().map(String::as_str), Some(soa), "{output}");
    assert_eq!(found.pop().as_deref(), Some(soa), "{output}");
    let all: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(all.len(), found.len(), "each once: {output}");
    // The origins of `near` are down, and their monitor says so before the server is ready.
    let big = format!("big.example.test. 300 in txt \"{0}\" \"{0}\"", big());
    let expected = BTreeSet::from([
        big.as_str(),
        soa,
        "example.test. 300 in ns ns1.example.test.",
        "ns1.example.test. 300 in a 192.0.2.53",
        "mail.example.test. 300 in mx 10 mx1.example.test.",
        "mail.example.test. 300 in mx 20 mx2.example.net.",
        "*.wild.example.test. 300 in txt \"any\"",
        "*.wild.example.test. 300 in txt \"of\" \"them\"",
        "sub.example.test. 300 in ns ns.sub.example.test.",
        "ns.sub.example.test. 300 in a 192.0.2.54",
        "www.example.test. 30 in a 192.0.2.1",
        "www.example.test. 30 in aaaa 2001:db8::1",
        "www.example.test. 300 in txt \"beside\"",
        "www.example.test. 30 in https 1 . alpn=\"h2\" ipv4hint=192.0.2.1 ipv6hint=2001:db8::1",
        "both.example.test. 30 in a 192.0.2.1",
        "both.example.test. 30 in a 192.0.2.2",
        "both.example.test. 30 in aaaa 2001:db8::1",
        "cdn.example.test. 30 in cname edge.example.net.",
    ]);
    assert_eq!(all, expected, "{output}");
}

#[test]
fn signed_transfers_and_answers_are_verified_by_others() {
    if skips(&[DIG, KDIG, ("named-checkzone", "-v", "bind9-utils")]) {
        return;
    }
    let keys = "transfer = { allow = [\"127.0.0.1\"], keys = [\"xfr.example.test\", \"long.\"] }";
    let site = site(keys);
    site.write("meridian.toml", settings() + TLS);
    write_certificate(&site, "dns.example.test");
    let (server, dot, doh) = encrypted(&site);
    let plain = server.address;
    let long = format!("hmac-sha512:long:{SECRET}");
    for key in [&key(SECRET), &long] {
        for (program, address, further) in
            [("dig", plain, &[][..]), ("kdig", plain, &["+tcp"]), ("kdig", dot, &["+tls"])]
        {
            let arguments = [&["-y", key, "example.test", "AXFR"], further].concat();
            let output = run(program, address, &arguments);
            assert_eq!(output.matches("\tSOA\t").count(), 2, "{program}: {output}");
            let trouble = ["erify", "BAD", "failed", "WARNING", ";; ERROR"];
            assert!(!trouble.iter().any(|word| output.contains(word)), "{program}: {output}");
        }
        // An ordinary query is answered signed too, over UDP, with EDNS and without.
        for further in ["+edns=0", "+noedns", "+tcp"] {
            let arguments = ["-y", key, "www.example.test", "A", further];
            let output = run("dig", plain, &arguments);
            assert!(
                output.contains("192.0.2.") && output.contains("TSIG PSEUDOSECTION"),
                "{output}"
            );
            assert!(!output.contains("erify"), "{output}");
        }
        // What does not fit beside the signature is left out (RFC 8945 5.3).
        for (further, most) in [("+bufsize=512", 512), ("+noedns", 512)] {
            let arguments = ["-y", key, "big.example.test", "TXT", further, "+ignore", "+notcp"];
            let output = run("dig", plain, &arguments);
            assert!(output.contains(" tc") && output.contains("TSIG PSEUDOSECTION"), "{output}");
            assert!(!output.contains("erify"), "{output}");
            let size = output.split("rcvd: ").nth(1).and_then(|size| size.trim().parse().ok());
            assert!(size.is_some_and(|size: usize| size <= most), "{output}");
        }
    }
    // A MAC that is cut to its half (RFC 8945 5.2.2.1).
    let cut = key(SECRET).replace("sha256", "sha256-128");
    let output = run("dig", plain, &["-y", &cut, "example.test", "AXFR"]);
    assert_eq!(output.matches("\tSOA\t").count(), 2, "{output}");
    assert!(!output.contains("erify"), "{output}");
    let output = run("kdig", doh, &["+https", "-y", &key(SECRET), "example.test", "AXFR"]);
    assert!(output.contains("REFUSED"), "one message has no room for a zone: {output}");
    let zone = run("dig", plain, &["-y", &long, "example.test", "AXFR", "+nocookie", "+onesoa"]);
    // dig prints the signature like a record of the zone.
    let zone: Vec<_> = zone.lines().filter(|line| !line.contains("\tTSIG\t")).collect();
    site.write("transferred", zone.join("\n") + "\n");
    let mut check = Command::new("named-checkzone");
    let check = check.arg("example.test").arg(site.path().join("transferred")).output();
    let check = check.expect("a program");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn signatures_that_are_not_good_are_answered_notauth() {
    if skips(&[DIG]) {
        return;
    }
    let server = Server::start(&site("transfer = { keys = [\"xfr.example.test\"] }"));
    let sha512 = key(SECRET).replace("256", "512");
    let unknown = key(SECRET).replace("xfr", "unknown");
    let rows = [(key(OTHER_SECRET), "BADSIG"), (sha512, "BADKEY"), (unknown, "BADKEY")];
    for (key, error) in rows {
        for further in ["+notcp", "+tcp"] {
            let arguments = ["-y", &key, "www.example.test", "A", further];
            let output = run("dig", server.address, &arguments);
            assert!(output.contains("NOTAUTH") && output.contains(error), "{output}");
            assert!(output.contains("ANSWER: 0"), "{output}");
        }
        let output = run("dig", server.address, &["-y", &key, "example.test", "AXFR"]);
        assert!(!output.contains("\tSOA\t"), "{output}");
    }
    // A key that is good, and not the zone's.
    let long = format!("hmac-sha512:long:{SECRET}");
    let output = run("dig", server.address, &["-y", &long, "example.test", "AXFR"]);
    assert!(!output.contains("\tSOA\t"), "{output}");
    // A record that is malformed, and one that is not the last (RFC 8945 5.2).
    let tsig = |rdata: &[u8]| {
        let mut record = b"\x03xfr\x07example\x04test\0\0\xfa\0\xff\0\0\0\0".to_vec();
        record.extend(u16::try_from(rdata.len()).expect("short").to_be_bytes());
        [record, rdata.to_vec()].concat()
    };
    let scrap = Query::new("www.example.test", rtype::A).further(tsig(b"\x0bhmac-sha256\0"));
    assert_eq!(server.ask(&scrap).rcode(), rcode::FORMERR);
    let empty = tsig(b"\x0bhmac-sha256\0\0\0\0\0\0\0\x01\x2c\0\0\0\0\0\0\0\0");
    let query = Query::new("www.example.test", rtype::A);
    assert_eq!(server.ask(&query.clone().further(empty.clone())).rcode(), rcode::FORMERR, "no MAC");
    let twice = query.further(empty.clone()).further(empty);
    assert_eq!(server.ask(&twice).rcode(), rcode::FORMERR, "two of them");
}

#[test]
fn an_incremental_transfer_is_the_whole_zone_or_the_soa() {
    if skips(&[DIG]) {
        return;
    }
    let server = Server::start(&site("transfer = { allow = [\"127.0.0.1\"] }"));
    let soas = |question: &str, further: &str| {
        let output = run("dig", server.address, &["example.test", question, further]);
        let found = records(&output);
        (found.iter().filter(|line| line.contains(" soa ")).count(), found.len())
    };
    assert_eq!(soas("IXFR=1", "+tcp"), (1, 1), "it is current");
    assert_eq!(soas("IXFR=2", "+tcp"), (1, 1), "it is ahead");
    let (soa, all) = soas("IXFR=4294967295", "+tcp");
    assert!(soa == 2 && all > 10, "it is old: {all} records");
    for serial in ["IXFR=4294967295", "IXFR=1"] {
        let mut query = Query::new("example.test", rtype::IXFR).octets();
        query[9] = 1;
        let serial: u32 = serial[5..].parse().expect("a serial");
        query.extend(b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0");
        query.extend(serial.to_be_bytes());
        query.extend([0; 16]);
        let reply = server.reply_or_silence(&query).expect("a reply");
        assert_eq!((reply.rcode(), reply.answer.len()), (rcode::NOERROR, 1), "over UDP");
        assert_eq!(reply.answer[0].rtype, rtype::SOA);
    }
}

// RFC 1995 section 3: the SOA of the client's version, and nothing that could be taken for it.
#[test]
fn an_incremental_transfer_without_exactly_one_soa_of_the_zone_is_malformed() {
    let server = Server::start(&site("transfer = { allow = [\"127.0.0.1\"] }"));
    let soa = |owner: &[u8], numbers: usize| {
        let data = [&[0, 0, 0, 0, 0, 1][..], &vec![0; numbers]].concat();
        let length = u16::try_from(data.len()).expect("short").to_be_bytes();
        [owner, b"\0\x06\0\x01\0\0\0\0", &length, &data].concat()
    };
    let zone = b"\xc0\x0c";
    let good = soa(zone, 16);
    let other = soa(b"\x05other\x04test\0", 16);
    let below = soa(b"\x03www\xc0\x0c", 16);
    let rows: [(&str, &[&[u8]], u16); 8] = [
        ("one", &[&good], rcode::NOERROR),
        ("none", &[], rcode::FORMERR),
        ("two", &[&good, &good], rcode::FORMERR),
        ("of another zone", &[&other], rcode::FORMERR),
        ("of a name in the zone", &[&below], rcode::FORMERR),
        ("one of another zone beside it", &[&good, &other], rcode::FORMERR),
        ("too short", &[&soa(zone, 15)], rcode::FORMERR),
        ("too long", &[&soa(zone, 17)], rcode::FORMERR),
    ];
    for (what, records, expected) in rows {
        let mut query = Query::new("example.test", rtype::IXFR).octets();
        query[9] = u8::try_from(records.len()).expect("few");
        query.extend(records.concat());
        let over_udp = server.reply_or_silence(&query).expect("a reply");
        let mut stream = server.connect();
        stream.write_all(&framed(&query)).expect("sent");
        for reply in [over_udp, read_framed(&mut stream)] {
            assert_eq!(reply.rcode(), expected, "{what}");
            assert_eq!(reply.answer.is_empty(), expected != rcode::NOERROR, "{what}");
        }
    }
}

/// A zone of 8 MB, with these settings beside the usual ones.
fn large_site(more: &str) -> Site {
    let site = site("zonefile = \"large\"\ntransfer = { allow = [\"127.0.0.1\"] }");
    let text = "x".repeat(250);
    let mut large = String::new();
    for number in 0..RECORDS {
        large += &format!("n{number} 300 IN TXT \"{text}\" \"{text}\"\n");
    }
    site.write("zones/large", large);
    site.write("meridian.toml", settings() + more);
    site
}

/// The records of its file.
const RECORDS: usize = 16_000;

/// A connection with little room for what comes.
fn connect_narrowly(server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.connect(&server.address.into()).expect("a connection");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

// For a client that takes it slowly: other queries of its connection are answered in between.
#[test]
fn a_large_transfer_holds_up_nobody() {
    let site = large_site("");
    let server = Server::start(&site);
    let mut stream = connect_narrowly(&server);
    let transfer = Query::new("example.test", rtype::AXFR).edns(1232);
    let other = Query::new("example.test", MX);
    stream.write_all(&framed(&transfer.octets())).expect("sent");
    let first = read_framed(&mut stream);
    assert!(first.opt.is_some() && first.answer.len() > 10, "as many as fit");
    stream.write_all(&framed(&other.octets())).expect("sent");
    let (mut soas, mut texts, mut messages, mut answered_after) = (0, 0, 0, None);
    let mut reply = first;
    loop {
        if reply.id == other.id {
            answered_after = Some(messages);
        } else {
            assert_eq!((reply.id, reply.rcode()), (transfer.id, rcode::NOERROR));
            assert!(reply.octets.len() <= 16 << 10, "{} octets", reply.octets.len());
            messages += 1;
            soas += reply.answer.iter().filter(|record| record.rtype == rtype::SOA).count();
            let is_ours = |owner: &str| owner.starts_with('n') && !owner.starts_with("ns");
            texts += reply.answer.iter().filter(|record| is_ours(&record.owner)).count();
        }
        if soas == 2 && answered_after.is_some() {
            break;
        }
        reply = read_framed(&mut stream);
    }
    assert_eq!(texts, RECORDS);
    assert!(
        answered_after.is_some_and(|after| after < messages),
        "{answered_after:?} of {messages}"
    );
    // One that goes away in the middle, and one that ends its side at once and gets all the same.
    let mut gone = server.connect();
    gone.write_all(&framed(&transfer.octets())).expect("sent");
    gone.read_exact(&mut [0; 100]).expect("the beginning");
    drop(gone);
    let mut half = server.connect();
    half.write_all(&framed(&transfer.octets())).expect("sent");
    half.shutdown(std::net::Shutdown::Write).expect("closed");
    let mut soas = 0;
    while soas < 2 {
        let reply = read_framed(&mut half);
        soas += reply.answer.iter().filter(|record| record.rtype == rtype::SOA).count();
    }
    assert_eq!(half.read(&mut [0; 1]).expect("the end"), 0);
}

/// How long it may take until a slow client is cut off.
const PATIENCE: Duration = Duration::from_secs(100);
/// More octets than a client gets that does not take them.
const TOO_MUCH: usize = 600_000;

/// Begins a transfer, takes it as `take` does until the server breaks it off, and gives how many octets of it
/// there were, those included that were on their way.
fn broken_off(idle: &str, take: fn(&mut TcpStream) -> usize) -> usize {
    let settings = format!("[tcp]\nidle_timeout = \"{idle}\"\n");
    let site = large_site(&settings);
    let mut server = Server::start(&site);
    let mut stream = connect_narrowly(&server);
    let query = Query::new("example.test", rtype::AXFR);
    stream.write_all(&framed(&query.octets())).expect("sent");
    let (mut octets, start) = (0, Instant::now());
    while server.log_so_far().iter().all(|line| line["fields"]["broken_off"].is_null()) {
        octets += take(&mut stream);
        assert!(octets < TOO_MUCH && start.elapsed() < PATIENCE, "{octets} octets, and it goes on");
    }
    let mut rest = Vec::new();
    let end = stream.read_to_end(&mut rest).expect_err("a reset").kind();
    assert_eq!(end, std::io::ErrorKind::ConnectionReset);
    octets + rest.len()
}

// A transfer holds a whole state, and the system's buffers.
#[test]
fn a_transfer_ends_if_its_client_takes_an_octet_now_and_then() {
    let octets = broken_off("1s", |stream| {
        thread::sleep(Duration::from_millis(100));
        stream.read(&mut [0]).expect("an octet")
    });
    assert!(octets < TOO_MUCH, "{octets} octets were kept for it");
}

// Never idle, and so slow that it would take a quarter of an hour.
#[test]
fn a_transfer_ends_if_its_client_is_slow_all_the_time() {
    let octets = broken_off("5s", |stream| {
        thread::sleep(Duration::from_millis(250));
        stream.read(&mut [0; 2560]).unwrap_or_default()
    });
    assert!(octets < TOO_MUCH, "{octets} octets were kept for it");
}
