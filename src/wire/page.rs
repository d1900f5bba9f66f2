//! Writes one of the several messages of a zone transfer (RFC 5936 section 2.2).

#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::answer::{Answer, Set};
use crate::query::{Edns, HEADER, Question, Rcode};
use crate::wire::Repeated;
use crate::wire::opt::ReplyOptions;
use crate::wire::write::{Counts, Writer};

/// How long a message becomes, unless one record is longer: compression reaches no further.
const USUAL: usize = 16 << 10;

/// A message that is being written.
pub struct Page<'o> {
    writer: Writer<'o>,
    has_question: bool,
    options: Option<ReplyOptions<'static>>,
    counts: Counts,
    /// The most that it may become.
    limit: usize,
}

impl<'o> Page<'o> {
    /// Begins a message of at most `limit` octets. The first one repeats the question, and has EDNS if the
    /// query had (RFC 5936 section 2.2.1, 2.2.5). None if there is no room.
    pub fn begin(
        question: Option<&Question<'_>>,
        edns: Option<&Edns>,
        out: &'o mut [u8],
        limit: usize,
    ) -> Option<Self> {
        let limit = limit.min(out.len());
        let answer = Answer::empty(Rcode::NoError);
        let options = edns.map(|edns| ReplyOptions::new(edns, &answer, question, limit));
        let reserved = options.as_ref().map_or(0, ReplyOptions::record_length);
        let limit = limit.checked_sub(reserved)?;
        let usual = USUAL.min(limit);
        let mut writer = Writer { out, at: HEADER, limit: usual, targets: ArrayVec::new() };
        if let Some(question) = question {
            writer.question(question)?;
        }
        let has_question = question.is_some();
        Some(Self { writer, has_question, options, counts: Counts::default(), limit })
    }

    /// Adds a record of a set; none if it does not fit.
    pub fn record(&mut self, set: &Set<'_>, rdata: &[u8]) -> Option<()> {
        let (at, targets) = (self.writer.at, self.writer.targets.len());
        let count = self.counts.answers.checked_add(1)?;
        if self.writer.record(set, rdata, None).is_none() {
            self.writer.at = at;
            self.writer.targets.truncate(targets);
            return None;
        }
        self.counts.answers = count;
        Some(())
    }

    /// True if it has a record.
    pub fn is_begun(&self) -> bool {
        self.counts.answers > 0
    }

    /// Makes room for a record that is longer than messages usually are; false if there is no more.
    pub fn widen(&mut self) -> bool {
        let is_wider = self.limit > self.writer.limit;
        self.writer.limit = self.limit;
        is_wider
    }

    /// Ends the message, and gives its length.
    pub fn finish(mut self, repeated: Repeated) -> Option<usize> {
        let mut answer = Answer::empty(Rcode::NoError);
        answer.authoritative = true;
        if let Some(options) = &self.options {
            self.writer.limit = self.writer.limit.saturating_add(options.record_length());
            self.writer.opt(&answer, options)?;
            self.counts.additionals += 1;
        }
        self.writer.header(repeated, &answer, self.has_question, false, &self.counts)?;
        Some(self.writer.at)
    }
}
