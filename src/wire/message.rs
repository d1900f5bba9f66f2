//! Writes an [`Answer`] as a reply through hickory-proto: the general path, which every query can
//! take. Also where a reply is cut to the size that its transport and client allow: whole record
//! sets only, and TC only where something is missing that was needed (RFC 2181 section 9).

use hickory_proto::ProtoError;
use hickory_proto::op::{
    Edns as HickoryEdns, MessageType, Metadata, OpCode, Query as HickoryQuery, ResponseCode,
    emit_message_parts,
};
use hickory_proto::rr::rdata::NULL;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType as HickoryType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncoder, Restrict};

use crate::answer::{Answer, Set};
use crate::query::{
    Edns, HEADER, MAX_UDP, OPTION_CLIENT_SUBNET, OPTION_EXTENDED_ERROR, PLAIN_UDP, Question,
    Request,
};
use crate::rr::RecordType;

/// The longest text of an extended error, in octets.
const MAX_ERROR_TEXT: usize = 256;

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram: the reply is bounded by the client's size and ours.
    Datagram,
    /// In a stream: the reply is bounded by its 16-bit length.
    Stream,
}

impl Transport {
    /// The largest reply, in octets.
    pub fn limit(self, edns: Option<Edns>) -> usize {
        match (self, edns) {
            (Self::Stream, _) => usize::from(u16::MAX),
            (Self::Datagram, Some(edns)) => usize::from(edns.reply_size()),
            (Self::Datagram, None) => usize::from(PLAIN_UDP),
        }
    }
}

/// What of a query's header the reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The id.
    pub id: u16,
    /// The opcode.
    pub opcode: u8,
    /// RD.
    pub recursion_desired: bool,
}

impl Repeated {
    /// Reads them from a message that has a header.
    pub fn read(message: &[u8]) -> Option<Self> {
        let [id_high, id_low, flags, ..] = *message.first_chunk::<HEADER>()?;
        Some(Self {
            id: u16::from_be_bytes([id_high, id_low]),
            opcode: flags >> 3 & 0x0f,
            recursion_desired: flags & 1 != 0,
        })
    }
}

/// A reply whose records fit.
#[derive(Debug)]
pub struct Reply {
    /// The header.
    pub metadata: Metadata,
    /// The answer section.
    pub answers: Vec<Record>,
    /// The authority section.
    pub authorities: Vec<Record>,
    /// The additional section, OPT aside.
    pub additionals: Vec<Record>,
    /// The OPT.
    pub edns: Option<HickoryEdns>,
}

/// Makes the reply to a request.
///
/// # Errors
/// If hickory-proto cannot express a part of it.
pub fn reply(
    request: &Request<'_>,
    repeated: Repeated,
    answer: &Answer<'_>,
    transport: Transport,
) -> Result<Reply, ProtoError> {
    let (question, edns) = request.echoed();
    let mut metadata =
        Metadata::new(repeated.id, MessageType::Response, OpCode::from_u8(repeated.opcode));
    metadata.recursion_desired = repeated.recursion_desired;
    metadata.authoritative = answer.authoritative;
    metadata.response_code = ResponseCode::from(
        u8::try_from(answer.rcode.code() >> 4).unwrap_or(0),
        u8::try_from(answer.rcode.code() & 0x0f).unwrap_or(0),
    );
    let mut draft = Draft {
        metadata,
        query: question.map(hickory_query).transpose()?,
        sets: Vec::new(),
        edns: edns.map(|edns| reply_edns(&edns, answer)),
    };
    for set in &answer.answer {
        draft.add(Section::Answer, set, question)?;
    }
    if let Some(set) = &answer.authority {
        draft.add(Section::Authority, set, question)?;
    }
    for (set, required) in answer.glue.iter().flat_map(|glue| glue.sets()) {
        let section = if required { Section::Glue } else { Section::Helpful };
        draft.add(section, &set, question)?;
    }
    draft.fit(transport.limit(edns))?;
    Ok(draft.finish())
}

/// Writes a reply with its question.
///
/// # Errors
/// If hickory-proto cannot express a part of it.
pub fn encode(reply: &Reply, question: Option<&Question<'_>>) -> Result<Vec<u8>, ProtoError> {
    let query = question.map(hickory_query).transpose()?;
    write(
        &reply.metadata,
        query.as_ref(),
        reply.answers.iter(),
        reply.authorities.iter(),
        reply.additionals.iter(),
        reply.edns.as_ref(),
    )
}

fn write<'r>(
    metadata: &Metadata,
    query: Option<&HickoryQuery>,
    mut answers: impl Iterator<Item = &'r Record>,
    mut authorities: impl Iterator<Item = &'r Record>,
    mut additionals: impl Iterator<Item = &'r Record>,
    edns: Option<&HickoryEdns>,
) -> Result<Vec<u8>, ProtoError> {
    let mut octets = Vec::with_capacity(usize::from(MAX_UDP));
    let mut encoder = BinEncoder::new(&mut octets);
    encoder.set_max_size(u16::MAX);
    let mut queries = query.into_iter();
    let (answers, authorities) = (&mut answers, &mut authorities);
    emit_message_parts(
        metadata,
        &mut queries,
        answers,
        authorities,
        &mut additionals,
        edns,
        None,
        &mut encoder,
    )?;
    Ok(octets)
}

/// Where a set of a draft goes. The order is that in which sets are given up, from the last on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Answer,
    Authority,
    /// Addresses that a referral is of no use without (RFC 9471): TC if they do not fit.
    Glue,
    /// Addresses that help: left out in silence if they do not fit.
    Helpful,
}

/// A reply before it is cut to size.
struct Draft {
    metadata: Metadata,
    query: Option<HickoryQuery>,
    sets: Vec<(Section, Vec<Record>)>,
    edns: Option<HickoryEdns>,
}

impl Draft {
    fn add(
        &mut self,
        section: Section,
        set: &Set<'_>,
        question: Option<&Question<'_>>,
    ) -> Result<(), ProtoError> {
        let owner = set.owner.wire(question.map_or(&[0], |question| question.name));
        let owner = read_name(owner)?;
        let record = |rdata: &[u8]| {
            let data = hickory_data(set.record_type, rdata)?;
            let mut record = Record::from_rdata(owner.clone(), set.ttl.seconds(), data);
            record.dns_class = DNSClass::IN;
            Ok(record)
        };
        let records: Result<Vec<Record>, ProtoError> = set.rdata().map(record).collect();
        self.sets.push((section, records?));
        Ok(())
    }

    /// Gives up sets, from the last on, until the reply fits.
    fn fit(&mut self, limit: usize) -> Result<(), ProtoError> {
        while self.encoded_length(limit)? > limit {
            let Some((section, _)) = self.sets.pop() else {
                // Nothing but header, question and OPT is left: they fit without the error's text.
                if let Some(edns) = &mut self.edns {
                    edns.options_mut().remove(EdnsCode::from(OPTION_EXTENDED_ERROR));
                }
                return Ok(());
            };
            self.metadata.truncation |= section < Section::Helpful;
        }
        Ok(())
    }

    /// The length of the reply; exact only where it may exceed the limit.
    fn encoded_length(&self, limit: usize) -> Result<usize, ProtoError> {
        // Each record uncompressed, and room for the question and for OPT with its options.
        let longest = |record: &Record| {
            let data = match &record.data {
                RData::Unknown { rdata, .. } => rdata.anything.len(),
                RData::A(_) => 4,
                RData::AAAA(_) => 16,
                _ => return usize::from(u16::MAX),
            };
            record.name.len() + 10 + data
        };
        let records = self.sets.iter().flat_map(|(_, records)| records);
        let estimate: usize = records.map(longest).sum();
        let frame = HEADER + 255 + 4 + 11 + 4 + 20 + 4 + 2 + MAX_ERROR_TEXT;
        if estimate + frame <= limit {
            return Ok(estimate + frame);
        }
        let of = |wanted: &'static [Section]| {
            let sets = self.sets.iter().filter(|(section, _)| wanted.contains(section));
            sets.flat_map(|(_, records)| records)
        };
        let octets = write(
            &self.metadata,
            self.query.as_ref(),
            of(&[Section::Answer]),
            of(&[Section::Authority]),
            of(&[Section::Glue, Section::Helpful]),
            self.edns.as_ref(),
        )?;
        Ok(octets.len())
    }

    fn finish(self) -> Reply {
        let mut reply = Reply {
            metadata: self.metadata,
            answers: Vec::new(),
            authorities: Vec::new(),
            additionals: Vec::new(),
            edns: self.edns,
        };
        for (section, records) in self.sets {
            match section {
                Section::Answer => reply.answers.extend(records),
                Section::Authority => reply.authorities.extend(records),
                Section::Glue | Section::Helpful => reply.additionals.extend(records),
            }
        }
        reply
    }
}

/// The OPT of a reply: our size, version 0, DO as it came, and the options that the answer has.
fn reply_edns(edns: &Edns, answer: &Answer<'_>) -> HickoryEdns {
    let mut reply = plain_edns(edns.dnssec_ok);
    if let Some(subnet) = edns.client_subnet {
        let data = subnet.reply(answer.ecs_scope).to_vec();
        reply.options_mut().insert(EdnsOption::Unknown(OPTION_CLIENT_SUBNET, data));
    }
    if let Some(error) = &answer.extended_error {
        let text: String = error.to_string().chars().take(MAX_ERROR_TEXT).collect();
        let data = [&error.code().to_be_bytes(), text.as_bytes()].concat();
        reply.options_mut().insert(EdnsOption::Unknown(OPTION_EXTENDED_ERROR, data));
    }
    reply
}

fn plain_edns(dnssec_ok: bool) -> HickoryEdns {
    let mut edns = HickoryEdns::new();
    edns.set_max_payload(MAX_UDP).set_version(0).set_dnssec_ok(dnssec_ok);
    edns
}

fn hickory_query(question: &Question<'_>) -> Result<HickoryQuery, ProtoError> {
    let mut query =
        HickoryQuery::query(read_name(question.name)?, HickoryType::from(question.record_type.0));
    query.set_query_class(DNSClass::from(question.class));
    Ok(query)
}

fn read_name(wire: &[u8]) -> Result<Name, ProtoError> {
    Ok(Name::read(&mut BinDecoder::new(wire))?)
}

/// RDATA for hickory-proto: typed where the names in it may be compressed (RFC 3597 section 4),
/// octets otherwise, so that nothing is read and written differently.
fn hickory_data(record_type: RecordType, rdata: &[u8]) -> Result<RData, ProtoError> {
    let code = HickoryType::from(record_type.0);
    match record_type {
        RecordType::A
        | RecordType::AAAA
        | RecordType::NS
        | RecordType::CNAME
        | RecordType::SOA
        | RecordType::PTR
        | RecordType::MX => {
            let length = u16::try_from(rdata.len()).unwrap_or(u16::MAX);
            Ok(RData::read(&mut BinDecoder::new(rdata), code, Restrict::new(length))?)
        }
        _ => Ok(RData::Unknown { code, rdata: NULL::with(rdata.to_vec()) }),
    }
}
