//! DNS messages as octets: a query builder that can also build what no library would, and a strict
//! parser of replies. Written for the tests alone, so that a fault in the program's own library
//! cannot hide itself.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU16, Ordering};

/// Record types by their numbers.
pub(crate) mod rtype {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const MX: u16 = 15;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const DS: u16 = 43;
    pub(crate) const HTTPS: u16 = 65;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
    pub(crate) const ANY: u16 = 255;
}

/// Response codes by their numbers.
pub(crate) mod rcode {
    pub(crate) const NOERROR: u16 = 0;
    pub(crate) const FORMERR: u16 = 1;
    pub(crate) const SERVFAIL: u16 = 2;
    pub(crate) const NXDOMAIN: u16 = 3;
    pub(crate) const NOTIMP: u16 = 4;
    pub(crate) const REFUSED: u16 = 5;
    pub(crate) const NOTAUTH: u16 = 9;
    pub(crate) const BADVERS: u16 = 16;
    pub(crate) const BADCOOKIE: u16 = 23;
}

/// Header bits, as they stand in the second 16 bits of a message.
pub(crate) mod bit {
    pub(crate) const QR: u16 = 0x8000;
    pub(crate) const AA: u16 = 0x0400;
    pub(crate) const TC: u16 = 0x0200;
    pub(crate) const RD: u16 = 0x0100;
    pub(crate) const RA: u16 = 0x0080;
    pub(crate) const Z: u16 = 0x0040;
    pub(crate) const AD: u16 = 0x0020;
}

/// The EDNS option codes the tests look at.
pub(crate) mod option {
    pub(crate) const NSID: u16 = 3;
    pub(crate) const CLIENT_SUBNET: u16 = 8;
    pub(crate) const COOKIE: u16 = 10;
    pub(crate) const TCP_KEEPALIVE: u16 = 11;
    pub(crate) const PADDING: u16 = 12;
    pub(crate) const EXTENDED_ERROR: u16 = 15;
}

const CLASS_IN: u16 = 1;
const HEADER: usize = 12;

// ---------------------------------------------------------------------------------- Query

/// A query under construction; nothing about it is checked.
#[derive(Clone)]
pub(crate) struct Query {
    pub(crate) id: u16,
    flags: u16,
    name: Vec<u8>,
    qtype: u16,
    class: u16,
    edns: Option<Edns>,
    further: Vec<Vec<u8>>,
}

/// The OPT record of a query.
#[derive(Clone)]
struct Edns {
    size: u16,
    version: u8,
    flags: u16,
    options: Vec<u8>,
}

impl Query {
    /// A plain query (class IN, no EDNS, RD clear) with an id of its own.
    pub(crate) fn new(name: &str, qtype: u16) -> Self {
        Self::raw(name_octets(name), qtype)
    }

    /// The same for a name that is already in wire form.
    pub(crate) fn raw(name: Vec<u8>, qtype: u16) -> Self {
        static NEXT_ID: AtomicU16 = AtomicU16::new(0);
        Self {
            // Ids below 0x1000 are left to the packets that tests make by hand.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed) | 0x1000,
            flags: 0,
            name,
            qtype,
            class: CLASS_IN,
            edns: None,
            further: Vec::new(),
        }
    }

    /// Sets header bits.
    pub(crate) fn flags(mut self, bits: u16) -> Self {
        self.flags |= bits;
        self
    }

    /// Sets the opcode.
    pub(crate) fn opcode(self, opcode: u16) -> Self {
        self.flags(opcode << 11)
    }

    /// Sets the class of the question.
    pub(crate) fn class(mut self, class: u16) -> Self {
        self.class = class;
        self
    }

    /// Adds an OPT record, or changes the payload size of the one that is there.
    pub(crate) fn edns(mut self, size: u16) -> Self {
        self.opt().size = size;
        self
    }

    /// Sets the EDNS version.
    pub(crate) fn edns_version(mut self, version: u8) -> Self {
        self.opt().version = version;
        self
    }

    /// Sets the EDNS flags (DO and the reserved ones).
    pub(crate) fn edns_flags(mut self, flags: u16) -> Self {
        self.opt().flags = flags;
        self
    }

    /// Adds an EDNS option.
    pub(crate) fn option(mut self, code: u16, data: &[u8]) -> Self {
        let options = &mut self.opt().options;
        push16(options, code);
        push16(options, length(data));
        options.extend_from_slice(data);
        self
    }

    /// Adds a well-formed client subnet; the address is cut to the prefix, as RFC 7871 wants it.
    pub(crate) fn ecs(self, address: &str, source_prefix: u8) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        self.option(option::CLIENT_SUBNET, &ecs_octets(address, source_prefix))
    }

    /// Adds a raw record to the additional section.
    pub(crate) fn further(mut self, record: Vec<u8>) -> Self {
        self.further.push(record);
        self
    }

    /// The question section as it will be sent.
    pub(crate) fn question(&self) -> Vec<u8> {
        let mut question = self.name.clone();
        push16(&mut question, self.qtype);
        push16(&mut question, self.class);
        question
    }

    /// The whole message.
    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        if let Some(edns) = &self.edns {
            let ttl = u32::from(edns.version) << 16 | u32::from(edns.flags);
            records.push(opt_record(&[0], edns.size, ttl, &edns.options));
        }
        records.extend(self.further.iter().cloned());
        let mut message = header(self.id, self.flags, [1, 0, 0, length(&records)]);
        message.extend(self.question());
        message.extend(records.concat());
        message
    }

    fn opt(&mut self) -> &mut Edns {
        self.edns.get_or_insert(Edns { size: 1232, version: 0, flags: 0, options: Vec::new() })
    }
}

/// A message header with the four counts.
pub(crate) fn header(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(HEADER);
    push16(&mut octets, id);
    push16(&mut octets, flags);
    for count in counts {
        push16(&mut octets, count);
    }
    octets
}

/// An OPT record with any owner, extended rcode, version and flags.
pub(crate) fn opt_record(owner: &[u8], size: u16, ttl: u32, options: &[u8]) -> Vec<u8> {
    let mut record = owner.to_vec();
    push16(&mut record, rtype::OPT);
    push16(&mut record, size);
    record.extend(ttl.to_be_bytes());
    push16(&mut record, length(options));
    record.extend_from_slice(options);
    record
}

/// The data of a client subnet option with scope 0.
fn ecs_octets(address: IpAddr, source_prefix: u8) -> Vec<u8> {
    let (family, mut octets) = match address {
        IpAddr::V4(v4) => (1, v4.octets().to_vec()),
        IpAddr::V6(v6) => (2, v6.octets().to_vec()),
    };
    octets.truncate(usize::from(source_prefix).div_ceil(8));
    if !source_prefix.is_multiple_of(8)
        && let Some(last) = octets.last_mut()
    {
        *last &= 0xff << (8 - source_prefix % 8);
    }
    [vec![0, family, source_prefix, 0], octets].concat()
}

/// A name in presentation form (`\DDD` and `\X` escapes allowed) as octets. No limit is checked.
pub(crate) fn name_octets(text: &str) -> Vec<u8> {
    let mut name = Vec::new();
    let mut label = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        match octet {
            b'.' => end_label(&mut name, &mut label),
            b'\\' if rest[0].is_ascii_digit() => {
                let digits = std::str::from_utf8(&rest[..3]).expect("three digits");
                label.push(digits.parse().expect("an octet"));
                rest = &rest[3..];
            }
            b'\\' => {
                label.push(rest[0]);
                rest = &rest[1..];
            }
            _ => label.push(octet),
        }
    }
    end_label(&mut name, &mut label);
    name.push(0);
    name
}

fn end_label(name: &mut Vec<u8>, label: &mut Vec<u8>) {
    if !label.is_empty() {
        name.push(u8::try_from(label.len()).expect("a label that has a length octet"));
        name.append(label);
    }
}

fn push16(octets: &mut Vec<u8>, value: u16) {
    octets.extend(value.to_be_bytes());
}

fn length<T>(items: &[T]) -> u16 {
    u16::try_from(items.len()).expect("at most 65535 items")
}

// ---------------------------------------------------------------------------------- Reply

/// A reply, read strictly: counts hold, nothing is left over, pointers point backwards.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) octets: Vec<u8>,
    pub(crate) id: u16,
    pub(crate) flags: u16,
    pub(crate) question: Vec<u8>,
    pub(crate) answer: Vec<Record>,
    pub(crate) authority: Vec<Record>,
    pub(crate) additional: Vec<Record>,
    pub(crate) opt: Option<Opt>,
}

/// A record: its owner in lower case, its data both raw and as text.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) owner: String,
    pub(crate) rtype: u16,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    pub(crate) data: String,
    pub(crate) rdata: Vec<u8>,
}

/// The OPT record of a reply.
#[derive(Debug)]
pub(crate) struct Opt {
    pub(crate) extended_rcode: u16,
    pub(crate) version: u8,
    pub(crate) flags: u16,
    pub(crate) options: Vec<(u16, Vec<u8>)>,
}

/// The client subnet option of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientSubnet {
    pub(crate) family: u16,
    pub(crate) source_prefix: u8,
    pub(crate) scope_prefix: u8,
    pub(crate) address: Vec<u8>,
}

impl Reply {
    /// Reads a whole message, or says what is wrong with it.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { message: octets, at: 0 };
        let id = reader.u16()?;
        let flags = reader.u16()?;
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        let question_start = reader.at;
        for _ in 0..counts[0] {
            reader.name()?;
            reader.take(4)?;
        }
        let question = octets[question_start..reader.at].to_vec();
        let mut opt = None;
        let answer = reader.section(counts[1], &mut None)?;
        let authority = reader.section(counts[2], &mut None)?;
        let additional = reader.section(counts[3], &mut opt)?;
        if reader.at != octets.len() {
            return Err(format!("{} octets left over", octets.len() - reader.at));
        }
        let asked = question.last_chunk().map_or(CLASS_IN, |class| u16::from_be_bytes(*class));
        let mut records = answer.iter().chain(&authority).chain(&additional);
        if let Some(Record { owner, class, .. }) = records.find(|record| record.class != asked) {
            return Err(format!("class {class} at {owner}"));
        }
        let octets = octets.to_vec();
        Ok(Self { octets, id, flags, question, answer, authority, additional, opt })
    }

    /// The response code, with the upper bits of EDNS.
    pub(crate) fn rcode(&self) -> u16 {
        self.opt.as_ref().map_or(0, |opt| opt.extended_rcode) << 4 | self.flags & 0x000f
    }

    /// Whether a header bit is set.
    pub(crate) fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    /// The data of an EDNS option.
    pub(crate) fn option(&self, code: u16) -> Option<&[u8]> {
        let options = &self.opt.as_ref()?.options;
        options.iter().find(|(found, _)| *found == code).map(|(_, data)| data.as_slice())
    }

    /// The client subnet option.
    pub(crate) fn ecs(&self) -> Option<ClientSubnet> {
        let data = self.option(option::CLIENT_SUBNET)?;
        Some(ClientSubnet {
            family: u16::from_be_bytes([data[0], data[1]]),
            source_prefix: data[2],
            scope_prefix: data[3],
            address: data[4..].to_vec(),
        })
    }

    /// The scope of the client subnet option, which must be there.
    pub(crate) fn scope(&self) -> u8 {
        self.ecs().expect("a client subnet option in the reply").scope_prefix
    }

    /// The extended DNS error: code and text.
    pub(crate) fn ede(&self) -> Option<(u16, String)> {
        let data = self.option(option::EXTENDED_ERROR)?;
        let text = String::from_utf8_lossy(&data[2..]).into_owned();
        Some((u16::from_be_bytes([data[0], data[1]]), text))
    }

    /// The data of the answer's records of one type, in their order.
    pub(crate) fn data(&self, rtype: u16) -> Vec<&str> {
        self.answer.iter().filter(|r| r.rtype == rtype).map(|r| r.data.as_str()).collect()
    }
}

/// A section as sorted lines `owner ttl TYPE data`, the form in which tests expect it.
pub(crate) fn lines(section: &[Record]) -> Vec<String> {
    let mut lines: Vec<String> = section.iter().map(Record::line).collect();
    lines.sort();
    lines
}

impl Record {
    /// The record as `owner ttl TYPE data`.
    pub(crate) fn line(&self) -> String {
        format!("{} {} {} {}", self.owner, self.ttl, type_text(self.rtype), self.data)
    }
}

fn type_text(number: u16) -> String {
    match number {
        rtype::A => "A".into(),
        rtype::NS => "NS".into(),
        rtype::CNAME => "CNAME".into(),
        rtype::SOA => "SOA".into(),
        rtype::MX => "MX".into(),
        rtype::TXT => "TXT".into(),
        rtype::AAAA => "AAAA".into(),
        other => format!("TYPE{other}"),
    }
}

/// A position in a message.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn section(&mut self, count: u16, opt: &mut Option<Opt>) -> Result<Vec<Record>, String> {
        let mut records = Vec::new();
        for _ in 0..count {
            let owner = self.name()?;
            let number = self.u16()?;
            let class = self.u16()?;
            let ttl = self.u32()?;
            let size = usize::from(self.u16()?);
            let start = self.at;
            let rdata = self.take(size)?.to_vec();
            if number != rtype::OPT {
                let data = Self { message: self.message, at: start }.data(number, self.at)?;
                records.push(Record { owner, rtype: number, class, ttl, data, rdata });
            } else if opt.is_some() || owner != "." {
                return Err("a second OPT, or one that is not at the root".into());
            } else {
                *opt = Some(Opt {
                    extended_rcode: (ttl >> 24) as u16,
                    version: (ttl >> 16) as u8,
                    flags: ttl as u16,
                    options: options(&rdata)?,
                });
            }
        }
        Ok(records)
    }

    /// RDATA as text; what has no text form here is given in hexadecimal.
    fn data(mut self, number: u16, end: usize) -> Result<String, String> {
        let text = match number {
            rtype::A => Ipv4Addr::from(self.array::<4>()?).to_string(),
            rtype::AAAA => Ipv6Addr::from(self.array::<16>()?).to_string(),
            rtype::NS | rtype::CNAME => self.name()?,
            rtype::MX => format!("{} {}", self.u16()?, self.name()?),
            rtype::SOA => {
                let mut text = format!("{} {}", self.name()?, self.name()?);
                for _ in 0..5 {
                    write!(text, " {}", self.u32()?).expect("writing to a string");
                }
                text
            }
            rtype::TXT => {
                let mut strings = Vec::new();
                while self.at < end {
                    let size = usize::from(self.take(1)?[0]);
                    let string = String::from_utf8_lossy(self.take(size)?);
                    strings.push(format!("{string:?}"));
                }
                strings.join(" ")
            }
            _ => self.take(end - self.at)?.iter().map(|octet| format!("{octet:02x}")).collect(),
        };
        if self.at == end {
            Ok(text)
        } else {
            Err(format!("RDATA of type {number} has a bad size"))
        }
    }

    /// A name in lower case with its final dot.
    fn name(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut size = 1;
        let mut at = self.at;
        let mut after_pointer = None;
        loop {
            let octet = *self.message.get(at).ok_or("a name runs over the end")?;
            match octet {
                0 => break,
                1..=63 => {
                    let end = at + 1 + usize::from(octet);
                    let label = self.message.get(at + 1..end).ok_or("a label runs over the end")?;
                    label_text(label, &mut text);
                    size += 1 + label.len();
                    at = end;
                }
                0xc0.. => {
                    let low = *self.message.get(at + 1).ok_or("half a pointer")?;
                    let target = usize::from(octet & 0x3f) << 8 | usize::from(low);
                    after_pointer.get_or_insert(at + 2);
                    if target >= at {
                        return Err("a pointer that does not point backwards".into());
                    }
                    at = target;
                }
                _ => return Err(format!("label type {octet:#04x}")),
            }
        }
        if size > 255 {
            return Err(format!("a name of {size} octets"));
        }
        self.at = after_pointer.unwrap_or(at + 1);
        if text.is_empty() {
            text.push('.');
        }
        Ok(text)
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], String> {
        let octets = self.message.get(self.at..self.at + size).ok_or("the message is cut short")?;
        self.at += size;
        Ok(octets)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("take gives what it is asked for"))
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_be_bytes)
    }
}

fn label_text(label: &[u8], text: &mut String) {
    for octet in label {
        match octet.to_ascii_lowercase() {
            b'.' | b'\\' => write!(text, "\\{}", char::from(*octet)).expect("writing to a string"),
            plain @ 0x21..=0x7e => text.push(char::from(plain)),
            other => write!(text, "\\{other:03}").expect("writing to a string"),
        }
    }
    text.push('.');
}

fn options(rdata: &[u8]) -> Result<Vec<(u16, Vec<u8>)>, String> {
    let mut reader = Reader { message: rdata, at: 0 };
    let mut options = Vec::new();
    while reader.at < rdata.len() {
        let code = reader.u16()?;
        let size = usize::from(reader.u16()?);
        options.push((code, reader.take(size)?.to_vec()));
    }
    Ok(options)
}

// Builder and parser are right if an independent library reads and writes the same.
#[test]
fn the_dns_library_agrees_with_builder_and_parser() {
    use hickory_proto::op::Message;

    let query = Query::new(r"a\046b.Example.test", rtype::TXT).flags(bit::RD);
    let query = query.edns(4096).edns_flags(0x8000).ecs("203.0.113.77", 25).option(100, b"abc");
    let decoded = Message::from_vec(&query.octets()).expect("a message");
    let encoded = decoded.to_vec().expect("octets");
    let read = Reply::parse(&encoded).expect("a message");
    assert_eq!((read.id, read.flags), (query.id, bit::RD));
    assert_eq!(read.question, query.question());
    let opt = read.opt.as_ref().expect("an OPT");
    assert_eq!((opt.version, opt.flags), (0, 0x8000));
    let ecs = read.ecs().expect("a client subnet");
    assert_eq!((ecs.family, ecs.source_prefix, ecs.scope_prefix), (1, 25, 0));
    assert_eq!(ecs.address, [203, 0, 113, 0]);
    assert_eq!(read.option(100), Some(&b"abc"[..]));
}
