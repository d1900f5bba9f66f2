//! Writes an [`Answer`] as a reply through hickory-proto, to hold `meridian::wire::write` to. Also
//! where a reply is cut to the size that its transport and client allow: whole record sets only, and
//! TC only where something is missing that was needed (RFC 2181 section 9).

use hickory_proto::ProtoError;
use hickory_proto::op::{
    Edns as HickoryEdns, MessageType, Metadata, OpCode, Query as HickoryQuery, ResponseCode,
    emit_message_parts,
};
use hickory_proto::rr::rdata::NULL;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType as HickoryType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncoder, Restrict};

use meridian::answer::{Answer, Set};
use meridian::name::MAX_NAME;
use meridian::query::{HEADER, MAX_UDP, Question, Request};
use meridian::rr::RecordType;
use meridian::wire::opt::ReplyOptions;
use meridian::wire::{Repeated, Transport};

/// A reply whose records fit.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The header.
    pub(crate) metadata: Metadata,
    /// The answer section.
    pub(crate) answers: Vec<Record>,
    /// The authority section.
    pub(crate) authorities: Vec<Record>,
    /// The additional section, OPT aside.
    pub(crate) additionals: Vec<Record>,
    /// The OPT.
    pub(crate) edns: Option<HickoryEdns>,
}

/// Makes the reply to a request.
///
/// # Errors
/// If hickory-proto cannot express a part of it.
pub(crate) fn reply(
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
    let limit = transport.limit(edns);
    let options = edns.map(|edns| ReplyOptions::new(&edns, answer, question, limit));
    let mut draft = Draft {
        metadata,
        query: question.map(hickory_query).transpose()?,
        sets: Vec::new(),
        edns: options.as_ref().map(reply_edns),
        opt_length: options.as_ref().map_or(0, ReplyOptions::record_length),
    };
    for set in &answer.whole_sets() {
        draft.add(Section::Answer, set, question)?;
    }
    if let Some(set) = &answer.authority {
        draft.add(Section::Authority, set, question)?;
    }
    for (set, required) in answer.glue.iter().flat_map(|glue| glue.sets()) {
        let section = if required { Section::Glue } else { Section::Helpful };
        draft.add(section, &set, question)?;
    }
    draft.fit(limit)?;
    Ok(draft.finish())
}

/// Writes a reply with its question.
///
/// # Errors
/// If hickory-proto cannot express a part of it.
pub(crate) fn encode(
    reply: &Reply,
    question: Option<&Question<'_>>,
) -> Result<Vec<u8>, ProtoError> {
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
    opt_length: usize,
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
            // Header, question and OPT fit always: the options were made for the limit.
            let Some((section, _)) = self.sets.pop() else { return Ok(()) };
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
        let frame = HEADER + MAX_NAME + 4 + self.opt_length;
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

/// The OPT of a reply: our size, version 0, and what the reply holds.
fn reply_edns(options: &ReplyOptions<'_>) -> HickoryEdns {
    let mut edns = HickoryEdns::new();
    edns.set_max_payload(MAX_UDP).set_version(0).set_dnssec_ok(options.dnssec_ok);
    options.each(|code, data| {
        edns.options_mut().insert(EdnsOption::Unknown(code, data.to_vec()));
    });
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
        // `with` asserts that there are octets, which RFC 3597 does not ask for.
        _ if rdata.is_empty() => Ok(RData::Unknown { code, rdata: NULL::new() }),
        _ => Ok(RData::Unknown { code, rdata: NULL::with(rdata.to_vec()) }),
    }
}
