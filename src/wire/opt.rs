//! What the OPT of a reply holds.

use arrayvec::ArrayVec;

use crate::answer::{Answer, ExtendedError};
use crate::query::{Edns, HEADER, OPTION_CLIENT_SUBNET, OPTION_EXTENDED_ERROR, Question};

/// The octets of an OPT record without options (RFC 6891 section 6.1.2).
pub const OPT: usize = 11;
/// The octets of an option's code and length.
const OPTION: usize = 4;
/// The longest text of an extended error, in octets.
const MAX_ERROR_TEXT: usize = 256;

/// The options of a reply.
#[derive(Debug)]
pub struct ReplyOptions<'s> {
    /// The DO bit, as it came (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// The data of the client subnet option, if the query had one.
    pub client_subnet: Option<ArrayVec<u8, 20>>,
    /// The extended error, and the most octets that its text may have.
    pub extended_error: Option<(ExtendedError<'s>, usize)>,
}

impl<'s> ReplyOptions<'s> {
    /// The options of a reply of at most `limit` octets. The text of an extended error takes what
    /// room there is beside header and question.
    pub fn new(
        edns: &Edns,
        answer: &Answer<'s>,
        question: Option<&Question<'_>>,
        limit: usize,
    ) -> Self {
        let client_subnet = edns.client_subnet.map(|subnet| subnet.reply(answer.ecs_scope));
        let question = question.map_or(0, Question::length);
        let subnet = client_subnet.as_ref().map_or(0, |data| OPTION + data.len());
        let taken = HEADER + question + OPT + subnet + OPTION + 2;
        let extended_error = answer
            .extended_error
            .filter(|_| taken <= limit)
            .map(|error| (error, MAX_ERROR_TEXT.min(limit - taken)));
        Self { dnssec_ok: edns.dnssec_ok, client_subnet, extended_error }
    }

    /// The length of the OPT record with these options.
    pub fn record_length(&self) -> usize {
        let mut length = OPT;
        self.each(|_, data| length += OPTION + data.len());
        length
    }

    /// Gives each option's code and data.
    pub fn each(&self, mut give: impl FnMut(u16, &[u8])) {
        if let Some(data) = &self.client_subnet {
            give(OPTION_CLIENT_SUBNET, data);
        }
        if let Some((error, room)) = &self.extended_error {
            // Rare, so this may allocate.
            let text: String =
                error.to_string().chars().filter(char::is_ascii).take(*room).collect();
            let data = [&error.code().to_be_bytes(), text.as_bytes()].concat();
            give(OPTION_EXTENDED_ERROR, &data);
        }
    }
}
