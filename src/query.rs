//! From the octets of a message to a query, or to what it is refused with (RFC 1035, 6891, 8906). Reads in place: nothing is allocated, and nothing from the network is indexed.

#![deny(clippy::indexing_slicing)]

pub(crate) mod compressed;
mod edns;
mod known_version;

use arrayvec::ArrayVec;

use crate::name::{MAX_NAME, Name, wire_length};
use crate::query::known_version::{KnownVersion, is_asked_with_soa};
use crate::rr::RecordType;

pub use crate::query::edns::{
    ClientSubnet, Edns, Keepalive, MAX_SUBNET, MalformedOption, OPTION, OPTION_CLIENT_SUBNET,
    OPTION_COOKIE, OPTION_EXTENDED_ERROR, OPTION_KEEPALIVE, OPTION_NSID, OPTION_PADDING,
};

/// The length of a message's header (RFC 1035 section 4.1.1).
pub const HEADER: usize = 12;
/// The largest reply over UDP, and the size that replies advertise (RFC 9715).
pub const MAX_UDP: u16 = 1232;
/// The largest reply over UDP to a query without EDNS (RFC 1035 section 4.2.1).
pub const PLAIN_UDP: u16 = 512;
/// What a message is.
#[derive(Debug)]
pub enum Request<'m> {
    /// Not to be replied to: too short for a header, or itself a reply.
    Ignore,
    /// A query that can be answered.
    Query(Query<'m>),
    /// No question, and a cookie: the client wants a server cookie, or to know whether its own is valid
    /// (RFC 7873 section 5.4).
    CookieOnly(Edns),
    /// Something that is refused.
    Refused(Refused<'m>),
}

/// A query of one question in class IN, or in class CH, in which servers are asked about themselves.
#[derive(Debug)]
pub struct Query<'m> {
    /// Its question.
    pub question: Question<'m>,
    /// Its EDNS, if it has any.
    pub edns: Option<Edns>,
    /// The serial of the SOA that a query for IXFR comes with: the version of the zone that a secondary has
    /// (RFC 1995 section 3). None if there is not exactly one SOA of that zone, well formed.
    pub serial: Option<u32>,
    /// Its signature, unread.
    pub signature: Option<Signature<'m>>,
}

/// A TSIG record that a message ends with (RFC 8945), as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature<'m> {
    /// Where the record begins, and so what was signed ends.
    pub start: usize,
    /// Its data.
    pub rdata: &'m [u8],
}

/// What a message is refused with, and what of it is repeated in the reply.
#[derive(Debug)]
pub struct Refused<'m> {
    /// Why.
    pub rcode: Rcode,
    /// The question, where there is exactly one and it can be read.
    pub question: Option<Question<'m>>,
    /// The EDNS, where it can be read.
    pub edns: Option<Edns>,
    /// The signature, where the records can be read.
    pub signature: Option<Signature<'m>>,
}

impl<'m> Request<'m> {
    /// The question and the EDNS that a reply repeats.
    pub fn echoed(&self) -> (Option<&Question<'m>>, Option<Edns>) {
        match self {
            Self::Ignore => (None, None),
            Self::Query(query) => (Some(&query.question), query.edns),
            Self::CookieOnly(edns) => (None, Some(*edns)),
            Self::Refused(refused) => (refused.question.as_ref(), refused.edns),
        }
    }

    /// The signature, where there is one that can be read.
    pub fn signature(&self) -> Option<Signature<'m>> {
        match self {
            Self::Ignore | Self::CookieOnly(_) => None,
            Self::Query(query) => query.signature,
            Self::Refused(refused) => refused.signature,
        }
    }

    /// The same, refused.
    pub fn refused(self, rcode: Rcode) -> Self {
        let (question, edns, signature) = match self {
            Self::Ignore => return self,
            Self::Query(query) => (Some(query.question), query.edns, query.signature),
            Self::CookieOnly(edns) => (None, Some(edns), None),
            Self::Refused(refused) => (refused.question, refused.edns, refused.signature),
        };
        Self::Refused(Refused { rcode, question, edns, signature })
    }
}

/// A question.
#[derive(Clone, Debug)]
pub struct Question<'m> {
    /// The name in wire form, as it was spelled.
    pub name: &'m [u8],
    /// The name in lower-case wire form.
    pub key: ArrayVec<u8, MAX_NAME>,
    /// The type asked for.
    pub record_type: RecordType,
    /// The class asked for.
    pub class: u16,
}

impl<'m> Question<'m> {
    /// How many octets the question has in a message.
    pub fn length(&self) -> usize {
        self.name.len() + 4
    }

    /// True if a zone is asked for (RFC 5936, 1995).
    pub fn is_transfer(&self) -> bool {
        let is_of_zone = matches!(self.record_type, RecordType::AXFR | RecordType::IXFR);
        is_of_zone && self.class == CLASS_IN
    }

    /// The question for a name and type in class IN.
    pub fn of(name: &'m Name, record_type: RecordType) -> Self {
        let mut key: ArrayVec<u8, MAX_NAME> = ArrayVec::new();
        key.extend(name.as_wire().iter().map(u8::to_ascii_lowercase).take(MAX_NAME));
        Self { name: name.as_wire(), key, record_type, class: CLASS_IN }
    }
}

/// The response codes that are used (RFC 1035, 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rcode {
    /// NOERROR
    NoError,
    /// FORMERR
    FormErr,
    /// SERVFAIL
    ServFail,
    /// NXDOMAIN
    NxDomain,
    /// NOTIMP
    NotImp,
    /// REFUSED
    Refused,
    /// YXDOMAIN (RFC 6672)
    YxDomain,
    /// NOTAUTH (RFC 2136, 8945)
    NotAuth,
    /// BADVERS, an extended code
    BadVers,
    /// BADCOOKIE, an extended code (RFC 7873)
    BadCookie,
}

impl Rcode {
    /// The code's number, 12 bits with EDNS.
    pub fn code(self) -> u16 {
        match self {
            Self::NoError => 0,
            Self::FormErr => 1,
            Self::ServFail => 2,
            Self::NxDomain => 3,
            Self::NotImp => 4,
            Self::Refused => 5,
            Self::YxDomain => 6,
            Self::NotAuth => 9,
            Self::BadVers => 16,
            Self::BadCookie => 23,
        }
    }

    /// The code's mnemonic.
    pub fn mnemonic(self) -> &'static str {
        match self {
            Self::NoError => "NOERROR",
            Self::FormErr => "FORMERR",
            Self::ServFail => "SERVFAIL",
            Self::NxDomain => "NXDOMAIN",
            Self::NotImp => "NOTIMP",
            Self::Refused => "REFUSED",
            Self::YxDomain => "YXDOMAIN",
            Self::NotAuth => "NOTAUTH",
            Self::BadVers => "BADVERS",
            Self::BadCookie => "BADCOOKIE",
        }
    }
}

/// Reads a message.
pub fn parse(message: &[u8]) -> Request<'_> {
    let mut reader = Reader { octets: message, at: 0 };
    let Some(header) = Header::read(&mut reader) else { return Request::Ignore };
    if header.is_reply {
        return Request::Ignore;
    }
    // Exactly one question (RFC 9619).
    let question = if header.questions == 1 { read_question(&mut reader) } else { None };
    if header.questions == 0 && header.opcode == 0 {
        return match read_records(&mut reader, &header, None) {
            Ok(Records { edns: Some(edns), signature: None, .. }) if edns.cookie.is_some() => {
                Request::CookieOnly(edns)
            }
            Ok(records) => refuse(Rcode::FormErr, None, records),
            Err(Malformed { edns }) => refuse(Rcode::FormErr, None, Records::with(edns)),
        };
    }
    if header.questions != 1 {
        let rcode = if header.opcode == 0 { Rcode::FormErr } else { Rcode::NotImp };
        return refuse(rcode, None, Records::with(None));
    }
    let Some(question) = question else {
        let rcode = if header.opcode == 0 { Rcode::FormErr } else { Rcode::NotImp };
        return refuse(rcode, None, Records::with(None));
    };
    let records = match read_records(&mut reader, &header, Some(&question)) {
        Ok(records) => records,
        Err(Malformed { edns }) => {
            // Other opcodes have other bodies: that they are not offered comes first.
            let rcode = if header.opcode == 0 { Rcode::FormErr } else { Rcode::NotImp };
            return refuse(rcode, Some(question), Records::with(edns));
        }
    };
    let rcode = if header.opcode != 0 {
        Rcode::NotImp
    } else if records.edns.is_some_and(|edns| edns.version > 0) {
        Rcode::BadVers
    } else if !matches!(question.class, CLASS_IN | CLASS_CH) {
        Rcode::Refused
    } else if question.record_type == RecordType::OPT {
        Rcode::FormErr
    } else {
        let Records { edns, serial, signature } = records;
        return Request::Query(Query { question, edns, serial, signature });
    };
    refuse(rcode, Some(question), records)
}

/// The signature of a message that may be a reply; none if there is none, or the message is malformed.
pub fn signature_of(message: &[u8]) -> Option<Signature<'_>> {
    let mut reader = Reader { octets: message, at: 0 };
    let header = Header::read(&mut reader)?;
    for _ in 0..header.questions {
        skip_name(&mut reader)?;
        reader.take(4)?;
    }
    read_records(&mut reader, &header, None).ok()?.signature
}

/// The class IN (RFC 1035 section 3.2.4).
pub const CLASS_IN: u16 = 1;
/// The class ANY, which is that of TSIG records (RFC 8945 section 4.2).
pub const CLASS_ANY: u16 = 255;
/// The class CH, in which servers are asked about themselves (RFC 4892).
pub const CLASS_CH: u16 = 3;

/// What of a header the rest of the message depends on.
struct Header {
    is_reply: bool,
    opcode: u8,
    questions: u16,
    answers: u16,
    /// Answer and authority records.
    ordinary: u32,
    additional: u16,
}

impl Header {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let _id = reader.u16()?;
        let flags = reader.u16()?;
        let (questions, answers) = (reader.u16()?, reader.u16()?);
        let (authorities, additional) = (reader.u16()?, reader.u16()?);
        Some(Self {
            is_reply: flags & 0x8000 != 0,
            opcode: u8::try_from(flags >> 11 & 0x0f).unwrap_or(0),
            questions,
            answers,
            ordinary: u32::from(answers) + u32::from(authorities),
            additional,
        })
    }
}

fn read_question<'m>(reader: &mut Reader<'m>) -> Option<Question<'m>> {
    // There is nothing before the first name that a pointer could point to.
    let length = wire_length(reader.rest_from_here())?;
    let name = reader.take(length)?;
    let mut key = ArrayVec::new();
    key.try_extend_from_slice(name).ok()?;
    key.make_ascii_lowercase();
    Some(Question { name, key, record_type: RecordType(reader.u16()?), class: reader.u16()? })
}

/// The records of a message are malformed; what was understood of its EDNS.
struct Malformed {
    edns: Option<Edns>,
}

/// What matters of the records of a message.
struct Records<'m> {
    edns: Option<Edns>,
    serial: Option<u32>,
    signature: Option<Signature<'m>>,
}

impl Records<'_> {
    /// EDNS alone.
    fn with(edns: Option<Edns>) -> Self {
        Self { edns, serial: None, signature: None }
    }
}

/// Refuses a message with this code.
fn refuse<'m>(
    rcode: Rcode,
    question: Option<Question<'m>>,
    Records { edns, signature, .. }: Records<'m>,
) -> Request<'m> {
    Request::Refused(Refused { rcode, question, edns, signature })
}

/// Reads all records, of which few matter, to the end of the message.
fn read_records<'m>(
    reader: &mut Reader<'m>,
    header: &Header,
    question: Option<&Question<'_>>,
) -> Result<Records<'m>, Malformed> {
    let (mut edns, mut known, mut signature) = (None, KnownVersion::Unsaid, None);
    let with_soa = question.filter(|question| is_asked_with_soa(question));
    let authorities = u32::from(header.answers)..header.ordinary;
    let total = header.ordinary + u32::from(header.additional);
    for number in 0..total {
        let start = reader.at;
        let Some(record) = read_record(reader) else { return Err(Malformed { edns }) };
        match record.record_type {
            RecordType::OPT => {}
            RecordType::TSIG => {
                // The last record, and so one at most, in the additional section (RFC 8945 section 5.2).
                let is_last = number + 1 == total && number >= header.ordinary;
                if !is_last || record.class != CLASS_ANY || record.ttl != 0 {
                    return Err(Malformed { edns });
                }
                signature = Some(Signature { start, rdata: record.rdata });
                continue;
            }
            RecordType::SOA if authorities.contains(&number) => {
                if let Some(question) = with_soa {
                    let data = reader.at - record.rdata.len()..reader.at;
                    known.add(reader.octets, start, record.class, data, question);
                }
                continue;
            }
            _ => continue,
        }
        // One OPT at most, with the root as owner, in the additional section (RFC 6891
        // section 6.1.1).
        let misplaced = number < header.ordinary || !record.owner_is_root || edns.is_some();
        let (read, well_formed) = read_edns(&record);
        if misplaced {
            return Err(Malformed { edns: edns.or(Some(read)) });
        }
        edns = Some(read);
        if !well_formed {
            return Err(Malformed { edns });
        }
    }
    let is_read = reader.rest_from_here().is_empty();
    let serial = known.serial();
    if is_read { Ok(Records { edns, serial, signature }) } else { Err(Malformed { edns }) }
}

/// A record of a query.
struct RawRecord<'m> {
    owner_is_root: bool,
    record_type: RecordType,
    class: u16,
    ttl: u32,
    rdata: &'m [u8],
}

fn read_record<'m>(reader: &mut Reader<'m>) -> Option<RawRecord<'m>> {
    let owner_is_root = skip_name(reader)?;
    let (record_type, class, ttl) = (RecordType(reader.u16()?), reader.u16()?, reader.u32()?);
    let length = reader.u16()?;
    let rdata = reader.take(usize::from(length))?;
    Some(RawRecord { owner_is_root, record_type, class, ttl, rdata })
}

/// Skips a name that may end in a compression pointer, without following it; true for the root.
fn skip_name(reader: &mut Reader<'_>) -> Option<bool> {
    let start = reader.at;
    loop {
        let length = reader.u8()?;
        match length {
            0 => return Some(reader.at == start + 1),
            1..=63 => {
                reader.take(usize::from(length))?;
            }
            0xc0.. => {
                let low = reader.u8()?;
                let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                // A pointer points to what stands before it (RFC 1035 section 4.1.4).
                return (target >= HEADER && target < start).then_some(false);
            }
            _ => return None,
        }
        if reader.at - start > MAX_NAME {
            return None;
        }
    }
}

/// Reads an OPT record; false beside it if its options are malformed. The options of a version that
/// is not known are left alone.
fn read_edns(record: &RawRecord<'_>) -> (Edns, bool) {
    let mut edns = Edns {
        version: u8::try_from(record.ttl >> 16 & 0xff).unwrap_or(0),
        ..Edns::new(record.class, record.ttl & 0x8000 != 0)
    };
    if edns.version > 0 {
        return (edns, true);
    }
    let mut options = Reader { octets: record.rdata, at: 0 };
    while !options.rest_from_here().is_empty() {
        let option = read_option(&mut options);
        let taken = option.map(|(code, data)| edns.take_option(code, data));
        if taken != Some(Ok(())) {
            return (edns.bare(), false);
        }
    }
    (edns, true)
}

/// Reads an option's code and data.
fn read_option<'m>(options: &mut Reader<'m>) -> Option<(u16, &'m [u8])> {
    let (code, length) = (options.u16()?, options.u16()?);
    Some((code, options.take(usize::from(length))?))
}

/// Octets that are read from the front.
struct Reader<'m> {
    octets: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    fn rest_from_here(&self) -> &'m [u8] {
        self.octets.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let taken = self.octets.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A query for example.test A, with this many of the other records announced.
    fn query(flags: u16, counts: [u16; 4], tail: &[u8]) -> Vec<u8> {
        let mut message = vec![0x12, 0x34];
        message.extend(flags.to_be_bytes());
        for count in counts {
            message.extend(count.to_be_bytes());
        }
        message.extend(b"\x07eXample\x04test\x00\x00\x01\x00\x01");
        message.extend(tail);
        message
    }

    fn opt(version: u8, options: &[u8]) -> Vec<u8> {
        let mut opt = vec![0, 0, 41, 0x10, 0, 0, version, 0, 0];
        opt.extend(u16::try_from(options.len()).unwrap().to_be_bytes());
        opt.extend(options);
        opt
    }

    fn refused(message: &[u8]) -> Rcode {
        match parse(message) {
            Request::Refused(refused) => refused.rcode,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_query_keeps_its_spelling_and_is_looked_up_in_lower_case() {
        let message = query(0x0100, [1, 0, 0, 0], &[]);
        let Request::Query(query) = parse(&message) else { panic!() };
        assert_eq!(query.question.name, b"\x07eXample\x04test\x00");
        assert_eq!(query.question.key.as_slice(), b"\x07example\x04test\x00");
        assert_eq!(query.question.record_type, RecordType::A);
        assert!(query.edns.is_none());
    }

    #[test]
    fn replies_and_scraps_are_ignored() {
        assert!(matches!(parse(&query(0x8000, [1, 0, 0, 0], &[])), Request::Ignore));
        assert!(matches!(parse(&[0; 11]), Request::Ignore));
        assert!(matches!(parse(&[]), Request::Ignore));
    }

    #[test]
    fn the_wrong_number_of_questions_is_formerr() {
        for count in [0, 2, 65535] {
            assert_eq!(refused(&query(0, [count, 0, 0, 0], &[])), Rcode::FormErr);
        }
    }

    #[test]
    fn no_question_is_for_cookies_only() {
        let without = |options: &[u8]| {
            let mut message = vec![0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
            message.extend(opt(0, options));
            message
        };
        let cookie = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
        let message = without(&cookie);
        let Request::CookieOnly(edns) = parse(&message) else { panic!() };
        assert_eq!(edns.cookie.unwrap().client, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(refused(&without(&[])), Rcode::FormErr);
        assert_eq!(refused(&[without(&cookie), vec![0]].concat()), Rcode::FormErr);
        assert_eq!(refused(&without(&[0, 10, 0, 7, 1, 2, 3, 4, 5, 6, 7])), Rcode::FormErr);
    }

    #[test]
    fn options_are_read() {
        let mut edns = Edns::new(1232, false);
        for (code, data) in [(3, &b"x"[..]), (10, &[7; 8]), (10, &[]), (11, &[]), (12, &[0; 9])] {
            assert_eq!(edns.take_option(code, data), Ok(()), "{code}");
        }
        assert_eq!(edns.cookie.unwrap().client, [7; 8], "the first one");
        assert!(edns.wants_nsid && edns.is_padded && edns.keepalive == Keepalive::Asked);
        assert_eq!(edns.take_option(11, &[0, 1]), Ok(()));
        assert_eq!(edns.keepalive, Keepalive::Malformed);
        assert_eq!(edns.take_option(11, &[]), Ok(()));
        assert_eq!(edns.keepalive, Keepalive::Malformed);
        assert_eq!(Edns::new(512, true).take_option(10, &[7; 9]), Err(MalformedOption));
    }

    #[test]
    fn other_opcodes_are_not_implemented_whatever_follows() {
        for opcode in 1..16u16 {
            assert_eq!(refused(&query(opcode << 11, [1, 0, 0, 0], &[])), Rcode::NotImp);
            assert_eq!(refused(&query(opcode << 11, [1, 1, 0, 0], &[])), Rcode::NotImp);
        }
    }

    #[test]
    fn edns_is_read_and_its_failures_are_told_apart() {
        let with = |opt: &[u8], count| query(0, [1, 0, 0, count], opt);
        let message = with(&opt(0, &[]), 1);
        let Request::Query(parsed) = parse(&message) else { panic!() };
        assert_eq!(parsed.edns.unwrap().reply_size(), MAX_UDP);
        assert_eq!(refused(&with(&opt(1, &[0xff]), 1)), Rcode::BadVers);
        let two = [opt(0, &[]), opt(0, &[])].concat();
        assert_eq!(refused(&with(&two, 2)), Rcode::FormErr);
        // An option that is longer than the record; octets after the last record.
        assert_eq!(refused(&with(&opt(0, &[0, 100, 0, 1]), 1)), Rcode::FormErr);
        assert_eq!(refused(&with(&[opt(0, &[]), vec![0]].concat(), 1)), Rcode::FormErr);
        // An owner that is not the root.
        let mut owned = opt(0, &[]);
        owned.splice(0..1, *b"\x01a\x00");
        assert_eq!(refused(&with(&owned, 1)), Rcode::FormErr);
    }

    #[test]
    fn client_subnets_must_be_exact() {
        let good: [(&[u8], Option<&str>, u8); 5] = [
            (&[0, 1, 24, 0, 192, 0, 2], Some("192.0.2.0"), 24),
            (&[0, 1, 0, 0], None, 0),
            (&[0, 0, 0, 0], None, 0),
            (&[0, 1, 32, 0, 192, 0, 2, 1], Some("192.0.2.1"), 32),
            (&[0, 2, 33, 0, 0x20, 1, 0x0d, 0xb8, 0x80], Some("2001:db8:8000::"), 33),
        ];
        for (data, address, prefix) in good {
            let subnet = ClientSubnet::parse(data).unwrap();
            assert_eq!(subnet.locating_address(), address.map(|ip| ip.parse().unwrap()));
            assert_eq!(subnet.source_prefix, prefix);
            assert_eq!(subnet.reply(0).as_slice(), data, "echoed as it came");
        }
        let bad: [&[u8]; 9] = [
            &[0, 1, 24, 0, 192, 0],
            &[0, 1, 24, 0, 192, 0, 2, 0],
            &[0, 1, 23, 0, 192, 0, 3],
            &[0, 1, 33, 0, 192, 0, 2, 1, 0],
            &[0, 3, 24, 0, 192, 0, 2],
            &[0, 1, 24, 1, 192, 0, 2],
            &[0, 0, 8, 0, 1],
            &[0, 1, 24],
            &[],
        ];
        for data in bad {
            assert_eq!(ClientSubnet::parse(data), None, "{data:?}");
        }
    }

    #[test]
    fn names_in_records_may_be_compressed_but_not_loop() {
        let record = |name: &[u8]| [name, &[0, 16, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        let message = query(0, [1, 0, 0, 1], &record(&[0xc0, 12]));
        assert!(matches!(parse(&message), Request::Query(_)));
        for pointer in [[0xc0, 0xff], [0xc0, 30], [0xc0, 0]] {
            assert_eq!(refused(&query(0, [1, 0, 0, 1], &record(&pointer))), Rcode::FormErr);
        }
    }

    proptest! {
        #[test]
        fn no_message_panics(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&message);
        }

        #[test]
        fn no_mutation_of_a_query_panics(
            at in 0usize..60, value: u8, cut in 0usize..60,
        ) {
            let option = [0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2];
            let mut message = query(0, [1, 0, 0, 1], &opt(0, &option));
            if let Some(octet) = message.get_mut(at) {
                *octet = value;
            }
            message.truncate(message.len().saturating_sub(cut));
            parse(&message);
        }
    }
}
