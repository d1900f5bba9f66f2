//! Writes an [`Answer`] as a reply, straight into the buffer that is sent. Nothing is allocated. A test
//! holds it to what hickory-proto makes of the same answer.

#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::answer::{Answer, Data, Hints, Owner, Set};
use crate::name::parent_of;
use crate::query::{CLASS_IN, HEADER, MAX_UDP, OPTION_PADDING, Question, Request};
use crate::rr::RecordType;
use crate::wire::Repeated;
use crate::wire::opt::{OPT, ReplyOptions};
use crate::zone::rdata::{HINTS, hint_places};

/// How many names of a reply later ones can point to; what comes after is written out.
const MAX_TARGETS: usize = 128;
/// The largest offset that a compression pointer reaches (RFC 1035 section 4.1.4).
const MAX_POINTER: usize = 0x3fff;
/// The two bits of a compression pointer.
const POINTER: u16 = 0xc000;
/// A pointer to the name in the question.
const TO_QUESTION: [u8; 2] = [0xc0, 12];

/// Writes the reply to a request into `out`, at most `limit` octets of it. Gives its length; none if
/// there is no room for header, question and OPT.
#[inline]
pub fn write(
    request: &Request<'_>,
    repeated: Repeated,
    answer: &Answer<'_>,
    limit: usize,
    out: &mut [u8],
) -> Option<usize> {
    let (question, edns) = request.echoed();
    let limit = limit.min(out.len());
    let options = edns.map(|edns| ReplyOptions::new(&edns, answer, question, limit));
    let reserved = options.as_ref().map_or(0, ReplyOptions::record_length);
    let limit_of_sets = limit.checked_sub(reserved)?;
    let mut writer = Writer { out, at: HEADER, limit: limit_of_sets, targets: ArrayVec::new() };
    if let Some(question) = question {
        writer.question(question)?;
    }
    let mut counts = Counts::default();
    let truncated = writer.sections(answer, question, &mut counts).is_none();
    writer.limit = limit;
    if let Some(options) = &options {
        writer.opt(answer, options)?;
        counts.additionals += 1;
    }
    let truncated = truncated || answer.extras.truncated;
    writer.header(repeated, answer, question.is_some(), truncated, &counts)?;
    Some(writer.at)
}

/// How many records each section got.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) answers: u16,
    pub(super) authorities: u16,
    pub(super) additionals: u16,
}

/// A message that is being written.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut [u8],
    pub(super) at: usize,
    pub(super) limit: usize,
    /// Where the labels of the names so far begin.
    pub(super) targets: ArrayVec<u16, MAX_TARGETS>,
}

impl Writer<'_> {
    #[inline]
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let end = self.at + octets.len();
        if end > self.limit {
            return None;
        }
        self.out.get_mut(self.at..end)?.copy_from_slice(octets);
        self.at = end;
        Some(())
    }

    pub(super) fn question(&mut self, question: &Question<'_>) -> Option<()> {
        self.remember(question.name, self.at);
        self.put(question.name)?;
        self.put(&question.record_type.0.to_be_bytes())?;
        self.put(&question.class.to_be_bytes())
    }

    /// Writes sets while they fit; none if one that was needed did not.
    #[inline]
    fn sections(
        &mut self,
        answer: &Answer<'_>,
        question: Option<&Question<'_>>,
        counts: &mut Counts,
    ) -> Option<()> {
        for set in &answer.answer {
            let hints = answer.hints.as_ref().filter(|_| matches!(set.data, Data::Hinted(_)));
            counts.answers += self.set(set, hints, question)?;
        }
        if let Some(set) = &answer.authority {
            counts.authorities += self.set(set, None, question)?;
        }
        for (set, required) in answer.glue.iter().flat_map(|glue| glue.sets()) {
            match self.set(&set, None, question) {
                Some(records) => counts.additionals += records,
                // What only helps is left out in silence (RFC 2181 section 9).
                None if !required => break,
                None => return None,
            }
        }
        Some(())
    }

    /// Writes a set whole, or nothing of it; gives the number of its records.
    #[inline]
    fn set(
        &mut self,
        set: &Set<'_>,
        hints: Option<&Hints<'_>>,
        question: Option<&Question<'_>>,
    ) -> Option<u16> {
        let (at, targets) = (self.at, self.targets.len());
        let mut records = 0;
        for rdata in set.rdata() {
            let written = match hints {
                None => self.record(set, rdata, question),
                Some(hints) => self.hinted(set, rdata, hints, question),
            };
            if written.is_none() {
                self.at = at;
                self.targets.truncate(targets);
                return None;
            }
            records += 1;
        }
        Some(records)
    }

    #[inline]
    pub(super) fn record(
        &mut self,
        set: &Set<'_>,
        rdata: &[u8],
        question: Option<&Question<'_>>,
    ) -> Option<()> {
        match (&set.owner, question) {
            (Owner::Question, Some(_)) => self.put(&TO_QUESTION)?,
            (owner, _) => self.name(owner.wire(&[0]))?,
        }
        let [type_high, type_low] = set.record_type.0.to_be_bytes();
        let class = question.map_or(CLASS_IN, |question| question.class);
        let [class_high, class_low] = class.to_be_bytes();
        let [ttl_0, ttl_1, ttl_2, ttl_3] = set.ttl.seconds().to_be_bytes();
        let [length_high, length_low] = u16::try_from(rdata.len()).ok()?.to_be_bytes();
        self.put(&[
            type_high,
            type_low,
            class_high,
            class_low,
            ttl_0,
            ttl_1,
            ttl_2,
            ttl_3,
            length_high,
            length_low,
        ])?;
        match set.record_type {
            // The types of RFC 1035 whose names may be compressed (RFC 3597 section 4).
            RecordType::NS | RecordType::CNAME | RecordType::PTR => self.compressed(rdata, 0, 1),
            RecordType::MX => self.compressed(rdata, 2, 1),
            RecordType::SOA => self.compressed(rdata, 0, 2),
            _ => self.put(rdata),
        }
    }

    /// Writes a record with hints among its parameters, if it can have some.
    fn hinted(
        &mut self,
        set: &Set<'_>,
        rdata: &[u8],
        hints: &Hints<'_>,
        question: Option<&Question<'_>>,
    ) -> Option<()> {
        let Some(places) = hint_places(rdata, hints.owner) else {
            return self.record(set, rdata, question);
        };
        // What stands before them follows the length of all, which is corrected at the end.
        let mut begin = places[0];
        self.record(set, rdata.get(..begin)?, question)?;
        let start = self.at - begin;
        for ((place, key), addresses) in places.into_iter().zip(HINTS).zip(hints.addresses()) {
            self.put(rdata.get(begin..place)?)?;
            begin = place;
            self.hint(key, addresses)?;
        }
        self.put(rdata.get(begin..)?)?;
        self.correct_length(start)
    }

    /// Writes a parameter that is a list of addresses; an empty list is malformed, and left out.
    fn hint<'a>(&mut self, key: u16, addresses: impl Iterator<Item = &'a [u8]>) -> Option<()> {
        let at = self.at;
        self.put(&key.to_be_bytes())?;
        self.put(&[0; 2])?;
        let start = self.at;
        for address in addresses {
            self.put(address)?;
        }
        if self.at == start {
            self.at = at;
            return Some(());
        }
        self.correct_length(start)
    }

    /// Corrects a length that stands in front of what was written from `start` on.
    fn correct_length(&mut self, start: usize) -> Option<()> {
        let length = u16::try_from(self.at - start).ok()?.to_be_bytes();
        self.out.get_mut(start - 2..start)?.copy_from_slice(&length);
        Some(())
    }

    /// Writes RDATA that has `names` names after its first `before` octets, and corrects the length
    /// that stands in front of it.
    fn compressed(&mut self, rdata: &[u8], before: usize, names: usize) -> Option<()> {
        let start = self.at;
        self.put(rdata.get(..before)?)?;
        let mut rest = rdata.get(before..)?;
        for _ in 0..names {
            let length = crate::name::wire_length(rest)?;
            let (name, after) = rest.split_at_checked(length)?;
            self.name(name)?;
            rest = after;
        }
        self.put(rest)?;
        self.correct_length(start)
    }

    /// Writes a name, its longest suffix that stands in the message already as a pointer.
    fn name(&mut self, wire: &[u8]) -> Option<()> {
        let mut suffix = wire;
        while suffix.len() > 1 {
            if let Some(target) =
                self.targets.iter().find(|&&target| self.stands_at(suffix, target))
            {
                let pointer = (POINTER | target).to_be_bytes();
                self.remember_until(wire, suffix);
                self.put(wire.get(..wire.len() - suffix.len())?)?;
                return self.put(&pointer);
            }
            suffix = parent_of(suffix)?;
        }
        self.remember(wire, self.at);
        self.put(wire)
    }

    /// True if the name stands at an offset of the message, in the same spelling.
    fn stands_at(&self, mut name: &[u8], target: u16) -> bool {
        let mut at = usize::from(target);
        loop {
            let Some(&length) = self.out.get(at) else { return false };
            if length >= 0xc0 {
                let Some(&low) = self.out.get(at + 1) else { return false };
                // What was written points backwards only.
                at = usize::from(length & 0x3f) << 8 | usize::from(low);
                continue;
            }
            let end = at + 1 + usize::from(length);
            let (Some(label), Some(written)) =
                (name.get(..=usize::from(length)), self.out.get(at..end))
            else {
                return false;
            };
            if label != written || end > self.at {
                return false;
            }
            if length == 0 {
                return true;
            }
            let Some(rest) = name.get(label.len()..) else { return false };
            (name, at) = (rest, end);
        }
    }

    /// Remembers where the labels of a name begin that is written at `at`.
    fn remember(&mut self, wire: &[u8], at: usize) {
        let mut suffix = wire;
        while suffix.len() > 1 {
            let offset = at + wire.len() - suffix.len();
            if offset > MAX_POINTER || self.targets.is_full() {
                return;
            }
            self.targets.push(u16::try_from(offset).unwrap_or(0));
            let Some(parent) = parent_of(suffix) else { return };
            suffix = parent;
        }
    }

    /// Remembers the labels of a name that is written here, those before its `tail`.
    fn remember_until(&mut self, wire: &[u8], tail: &[u8]) {
        let count = self.targets.len();
        self.remember(wire, self.at);
        let end = self.at + wire.len() - tail.len();
        let new = self.targets.get(count..).unwrap_or_default();
        let kept = new.iter().take_while(|&&offset| usize::from(offset) < end).count();
        self.targets.truncate(count + kept);
    }

    pub(super) fn opt(&mut self, answer: &Answer<'_>, options: &ReplyOptions<'_>) -> Option<()> {
        let [size_high, size_low] = MAX_UDP.to_be_bytes();
        let extended = u8::try_from(answer.rcode.code() >> 4).unwrap_or(0);
        let flags = if options.dnssec_ok { 0x80 } else { 0 };
        let length = options.record_length() - OPT;
        let padding = options.padding(self.at + OPT + length, self.limit);
        let length = length + padding.map_or(0, |zeros| 4 + zeros);
        let [length_high, length_low] = u16::try_from(length).ok()?.to_be_bytes();
        self.put(&[0, 0, 41, size_high, size_low, extended, 0, flags, 0, length_high, length_low])?;
        let mut written = Some(());
        options.each(|code, data| {
            let length = u16::try_from(data.len()).unwrap_or(0);
            written = written
                .and_then(|()| self.put(&code.to_be_bytes()))
                .and_then(|()| self.put(&length.to_be_bytes()))
                .and_then(|()| self.put(data));
        });
        written?;
        let Some(zeros) = padding else { return Some(()) };
        self.put(&OPTION_PADDING.to_be_bytes())?;
        self.put(&u16::try_from(zeros).ok()?.to_be_bytes())?;
        self.out.get_mut(self.at..self.at + zeros)?.fill(0);
        self.at += zeros;
        Some(())
    }

    #[inline]
    pub(super) fn header(
        &mut self,
        repeated: Repeated,
        answer: &Answer<'_>,
        with_question: bool,
        truncated: bool,
        counts: &Counts,
    ) -> Option<()> {
        let [id_high, id_low] = repeated.id.to_be_bytes();
        let flags = 0x80
            | (repeated.opcode & 0x0f) << 3
            | u8::from(answer.authoritative) << 2
            | u8::from(truncated) << 1
            | u8::from(repeated.recursion_desired);
        let rcode = u8::try_from(answer.rcode.code() & 0x0f).unwrap_or(0);
        let [answers, authorities, additionals] =
            [counts.answers, counts.authorities, counts.additionals].map(u16::to_be_bytes);
        let header = [
            id_high,
            id_low,
            flags,
            rcode,
            0,
            u8::from(with_question),
            answers[0],
            answers[1],
            authorities[0],
            authorities[1],
            additionals[0],
            additionals[1],
        ];
        self.out.get_mut(..HEADER)?.copy_from_slice(&header);
        Some(())
    }
}
