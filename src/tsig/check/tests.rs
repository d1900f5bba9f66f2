//! Known signatures, made with dnspython 2 and a key of the octets 0 to 31 at the time 1700000000.

use super::*;
use crate::name::Name;
use crate::tsig::Algorithm;

const NOW: u64 = 1_700_000_000;
/// Example.test AXFR, with EDNS, and the key Xfr.Example.Test, whose name is compressed.
const QUERY_256: &str = "123400000001000000000002074578616d706c6504746573740000fc000100002904d0000000000000035866\
    72c00c00fa00ff00000000003d0b686d61632d7368613235360000006553f100012c0020c966f00507326223\
    3021e1b68779fc55969cbb7f8bd9178d7e070a07967c59f5123400000000";
/// A reply to it.
const REPLY_256: &str = "123480000001000100000002074578616d706c6504746573740000fc0001c00c000600010000012c001e036e\
    7331c00c0168c00c0000000700000001000000020000000300000004000029200000000000000003586672c0\
    0c00fa00ff00000000003d0b686d61632d7368613235360000006553f100012c002078818aab8f8791524157\
    9215d062df97da2e1c25502f861efc21877f2fb7ba7b123400000000";
/// The same with HMAC-SHA512.
const QUERY_512: &str = "123400000001000000000002074578616d706c6504746573740000fc000100002904d0000000000000035866\
    72c00c00fa00ff00000000005d0b686d61632d7368613531320000006553f100012c004011691aed63521fa7\
    7cc2ec58be62a3721bf0b799301d38eb3afce7d2650441b150fc16b023dc76bc617f31b6da43bded1f167953\
    72e5829954242082dae747c2123400000000";
/// A reply to that.
const REPLY_512: &str = "123480000001000100000002074578616d706c6504746573740000fc0001c00c000600010000012c001e036e\
    7331c00c0168c00c0000000700000001000000020000000300000004000029200000000000000003586672c0\
    0c00fa00ff00000000005d0b686d61632d7368613531320000006553f100012c0040295f078135fdcfe68f46\
    c3a0f4019df51896b8c99ad5528672a9fc25d5249e8b3d2b390fe904b48581649ed86259ad622fc50562b313\
    cbd6f137a2937f2d8023123400000000";
/// Without EDNS, with the key xfr.example.test.
const TRANSFER: &str = "123400000001000000000001076578616d706c6504746573740000fc000103786672c00c00fa00ff00000000\
    003d0b686d61632d7368613235360000006553f100012c0020db3a073a6be3b939e5259ab444b00694013cfd\
    a27678cdba674b377cb1a8ee2f123400000000";
/// The messages that follow, a second after each other.
const MESSAGES: [&str; 3] = [
    "123480000001000100000001076578616d706c6504746573740000fc0001027830c00c00010001000001\
     2c0004c000020103786672c00c00fa00ff00000000003d0b686d61632d7368613235360000006553f100\
     012c002059d61fee4951c9fce3842159cbb5257584cd18e81b63bf500747bad5216100e9123400000000",
    "123480000001000100000001076578616d706c6504746573740000fc0001027831c00c00010001000001\
     2c0004c000020103786672c00c00fa00ff00000000003d0b686d61632d7368613235360000006553f101\
     012c002002eed8c21d3ea60f677baf42652f6ce469741252e678fa7ccde48b7838845091123400000000",
    "123480000001000100000001076578616d706c6504746573740000fc0001027832c00c00010001000001\
     2c0004c000020103786672c00c00fa00ff00000000003d0b686d61632d7368613235360000006553f102\
     012c0020b16527629b804cb24ee3d30081c6ecf1552961a249c9798e28da443abc69fb67123400000000",
];

fn octets(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap()
}

fn key(algorithm: Algorithm) -> Key {
    let secret: Vec<u8> = (0..32).collect();
    Key::new(Name::parse_absolute("xfr.example.test").unwrap(), algorithm, &secret)
}

fn keys(algorithm: Algorithm) -> Keys {
    Keys::from_iter([key(algorithm)])
}

/// Checks a message at a time.
fn checked(message: &[u8], keys: &Keys, now: u64) -> Option<Checked> {
    check(message, signature_of(message)?, keys, now)
}

fn fault(message: &[u8], keys: &Keys, now: u64) -> Option<Fault> {
    checked(message, keys, now).expect("a well-formed signature").fault
}

/// A message without the record that it ends with, and the MAC of that.
fn unsigned(message: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let signature = signature_of(message).unwrap();
    let mac = Record::read(message, signature).unwrap().mac.to_vec();
    let mut rest = message[..signature.start].to_vec();
    rest[11] -= 1;
    (rest, mac)
}

/// Signs a message, and gives the whole.
fn signed(stamp: &mut Stamp, message: &[u8]) -> Vec<u8> {
    let mut out = message.to_vec();
    out.resize(message.len() + stamp.length(), 0xff);
    assert_eq!(stamp.sign(&mut out, message.len()), Some(out.len()), "all of the room is used");
    out
}

#[test]
fn known_signatures_of_requests_are_good_and_their_replies_are_signed_alike() {
    let both = [
        (Algorithm::HmacSha256, QUERY_256, REPLY_256),
        (Algorithm::HmacSha512, QUERY_512, REPLY_512),
    ];
    for (algorithm, query, reply) in both {
        let (query, keys) = (octets(query), keys(algorithm));
        let mut checked = checked(&query, &keys, NOW).unwrap();
        assert_eq!(checked.fault, None, "{algorithm:?}");
        let (reply, mac) = unsigned(&octets(reply));
        let ours = signed(&mut checked.stamp, &reply);
        assert_eq!(checked.stamp.last_mac(), mac, "{algorithm:?}");
        let request_mac = unsigned(&query).1;
        assert_eq!(check_reply(&ours, &key(algorithm), &request_mac, NOW), Ok(()));
    }
}

#[test]
fn known_signatures_of_a_transfer_follow_one_another() {
    let keys = keys(Algorithm::HmacSha256);
    let mut stamp = checked(&octets(TRANSFER), &keys, NOW).unwrap().stamp;
    for (message, now) in MESSAGES.into_iter().zip(NOW..) {
        let (message, mac) = unsigned(&octets(message));
        stamp.set_time(now);
        signed(&mut stamp, &message);
        assert_eq!(stamp.last_mac(), mac);
    }
}

#[test]
fn what_another_key_or_nobody_signed_is_told_apart() {
    let (query, keys) = (octets(QUERY_256), keys(Algorithm::HmacSha256));
    let sha512 = Keys::from_iter([key(Algorithm::HmacSha512)]);
    assert_eq!(fault(&query, &sha512, NOW), Some(Fault::BadKey), "another algorithm");
    assert_eq!(fault(&query, &Keys::default(), NOW), Some(Fault::BadKey));
    let other = Key::new(key(Algorithm::HmacSha256).name, Algorithm::HmacSha256, b"other");
    assert_eq!(fault(&query, &Keys::from_iter([other]), NOW), Some(Fault::BadSig));
    // Any octet before the record but those of the id, which the record has too.
    for at in 12..signature_of(&query).unwrap().start {
        let mut changed = query.clone();
        changed[at] ^= 0x20;
        if let Some(checked) = checked(&changed, &keys, NOW) {
            assert!(checked.fault.is_some(), "octet {at}");
        }
    }
    let mut renumbered = query;
    renumbered[0] ^= 1;
    assert_eq!(fault(&renumbered, &keys, NOW), None, "a forwarder may change the id");
}

#[test]
fn clocks_may_differ_by_the_fudge() {
    let (query, keys) = (octets(QUERY_256), keys(Algorithm::HmacSha256));
    for now in [NOW - 300, NOW + 300] {
        assert_eq!(fault(&query, &keys, now), None);
    }
    for now in [NOW - 301, NOW + 301] {
        let mut checked = checked(&query, &keys, now).unwrap();
        assert_eq!(checked.fault, Some(Fault::BadTime));
        // The client reads the reply by its own clock, and finds ours.
        let reply = signed(&mut checked.stamp, &unsigned(&octets(REPLY_256)).0);
        let record = Record::read(&reply, signature_of(&reply).unwrap()).unwrap();
        assert_eq!((record.time, record.error, record.mac.len()), (NOW, 18, 32));
        assert_eq!(record.other, &now.to_be_bytes()[2..]);
    }
}

#[test]
fn a_reply_to_what_is_not_ours_has_no_signature() {
    let query = octets(QUERY_256);
    let mut checked = checked(&query, &Keys::default(), NOW).unwrap();
    let reply = signed(&mut checked.stamp, &unsigned(&octets(REPLY_256)).0);
    let record = Record::read(&reply, signature_of(&reply).unwrap()).unwrap();
    assert_eq!((record.error, record.mac.len(), record.other.len()), (17, 0, 0));
    let reply = check_reply(&reply, &key(Algorithm::HmacSha256), &unsigned(&query).1, NOW);
    assert_eq!(reply, Err(ReplyFault::Refused(17)));
}

/// A query whose MAC is cut to this length.
fn truncated(query: &[u8], algorithm: Algorithm, length: usize) -> Vec<u8> {
    let start = signature_of(query).unwrap().start;
    let mac = unsigned(query).1;
    let whole = algorithm.mac_length();
    // The record ends with the MAC, an id, an error and no other data.
    let mac_at = query.len() - 6 - whole;
    let mut cut = query[..mac_at - 2].to_vec();
    cut.extend(u16::try_from(length).unwrap().to_be_bytes());
    cut.extend(mac.iter().cycle().take(length));
    cut.extend(&query[query.len() - 6..]);
    // The name is a label of three octets and a pointer.
    let at = start + 4 + 2 + 8;
    let rdata_length = u16::try_from(cut.len() - at - 2).unwrap();
    cut[at..at + 2].copy_from_slice(&rdata_length.to_be_bytes());
    cut
}

#[test]
fn a_mac_may_be_cut_to_its_half() {
    for (algorithm, query, half) in
        [(Algorithm::HmacSha256, QUERY_256, 16), (Algorithm::HmacSha512, QUERY_512, 32)]
    {
        let (query, keys) = (octets(query), keys(algorithm));
        for length in [half, half + 1, 2 * half] {
            let cut = truncated(&query, algorithm, length);
            assert_eq!(fault(&cut, &keys, NOW), None, "{length} octets");
        }
        // Less is a format error, and so is more (RFC 8945 section 5.2.2.1).
        for length in [0, 9, 10, half - 1, 2 * half + 1] {
            let cut = truncated(&query, algorithm, length);
            assert!(checked(&cut, &keys, NOW).is_none(), "{length} octets");
        }
    }
}

#[test]
fn a_malformed_record_is_none() {
    let query = octets(QUERY_256);
    let keys = keys(Algorithm::HmacSha256);
    let signature = signature_of(&query).unwrap();
    for length in 0..signature.rdata.len() {
        let rdata = &signature.rdata[..length];
        assert!(check(&query, Signature { rdata, ..signature }, &keys, NOW).is_none());
    }
    // A pointer of the key's name that leads to itself.
    let mut looping = query.clone();
    let low = u8::try_from(signature.start).unwrap();
    looping[signature.start..signature.start + 2].copy_from_slice(&[0xc0, low]);
    assert!(check(&looping, Signature { ..signature }, &keys, NOW).is_none());
}
