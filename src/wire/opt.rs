//! What the OPT of a reply holds.

use std::fmt::{self, Write};

use arrayvec::ArrayVec;

use crate::answer::{Answer, ExtendedError, Extras};
use crate::query::{
    Edns, HEADER, MAX_SUBNET, OPTION, OPTION_CLIENT_SUBNET, OPTION_COOKIE, OPTION_EXTENDED_ERROR,
    OPTION_KEEPALIVE, OPTION_NSID, Question,
};

/// The octets of an OPT record without options (RFC 6891 section 6.1.2).
pub const OPT: usize = 11;
/// The longest text of an extended error, in octets.
const MAX_ERROR_TEXT: usize = 256;
/// Padded replies are a multiple of this many octets long (RFC 8467 section 4.1).
const BLOCK: usize = 468;

/// The options of a reply.
#[derive(Debug)]
pub struct ReplyOptions<'s> {
    /// The DO bit, as it came (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// The data of the client subnet option, if the query had one.
    pub client_subnet: Option<ArrayVec<u8, MAX_SUBNET>>,
    /// The server's identifier, cookie and keepalive.
    pub extras: Extras<'s>,
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
        let mut options = Self {
            dnssec_ok: edns.dnssec_ok,
            client_subnet,
            extras: answer.extras,
            extended_error: None,
        };
        let taken = HEADER + question + options.record_length() + OPTION + 2;
        options.extended_error = answer
            .extended_error
            .filter(|_| taken <= limit)
            .map(|error| (error, MAX_ERROR_TEXT.min(limit - taken)));
        options
    }

    /// The octets of zeros that pad a reply which is this long without the option; none if it is not padded,
    /// or there is no room.
    pub fn padding(&self, length: usize, limit: usize) -> Option<usize> {
        let least = length + OPTION;
        let padded = least.next_multiple_of(BLOCK).min(limit);
        if self.extras.padded { padded.checked_sub(least) } else { None }
    }

    /// The length of the OPT record with these options, without padding.
    pub fn record_length(&self) -> usize {
        let mut length = OPT;
        self.each(|_, data| length += OPTION + data.len());
        length
    }

    /// Gives each option's code and data, but for padding.
    pub fn each(&self, mut give: impl FnMut(u16, &[u8])) {
        if let Some(data) = &self.client_subnet {
            give(OPTION_CLIENT_SUBNET, data);
        }
        if let Some(cookie) = &self.extras.cookie {
            give(OPTION_COOKIE, cookie);
        }
        if let Some(nsid) = self.extras.nsid {
            give(OPTION_NSID, nsid);
        }
        if let Some(keepalive) = self.extras.keepalive {
            give(OPTION_KEEPALIVE, &keepalive.to_be_bytes());
        }
        if let Some((error, room)) = &self.extended_error {
            let mut data =
                ErrorData { octets: ArrayVec::from_iter(error.code().to_be_bytes()), room: *room };
            // What does not fit is left out.
            let _whole = write!(data, "{error}");
            give(OPTION_EXTENDED_ERROR, &data.octets);
        }
    }
}

/// The code and the text of an extended error: its ASCII characters, as many as there is room for.
struct ErrorData {
    octets: ArrayVec<u8, { 2 + MAX_ERROR_TEXT }>,
    /// How many may follow.
    room: usize,
}

impl Write for ErrorData {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for octet in text.bytes().filter(u8::is_ascii) {
            self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
            self.octets.try_push(octet).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}
