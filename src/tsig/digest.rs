//! What a MAC is made of (RFC 8945 section 4.3).

use ring::hmac;

use crate::query::CLASS_ANY;
use crate::tsig::Key;

/// The fields of a TSIG record that are signed beside the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'v> {
    /// The key's name in lower-case wire form.
    pub(super) key_name: &'v [u8],
    /// Seconds since 1970, 48 bits.
    pub(super) time: u64,
    pub(super) fudge: u16,
    pub(super) error: u16,
    pub(super) other: &'v [u8],
}

/// What of a message is signed: all before its TSIG record, with the id that it was signed with, and without
/// the record in the count of the additional ones (RFC 8945 section 4.3.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered<'m> {
    pub(super) id: u16,
    pub(super) flags_and_counts: &'m [u8],
    pub(super) additionals: u16,
    pub(super) rest: &'m [u8],
}

impl<'m> Covered<'m> {
    /// Of a message that ends before its TSIG record, which its header counts or not.
    pub(super) fn of(message: &'m [u8], id: u16, is_counted: bool) -> Option<Self> {
        let (header, rest) = message.split_at_checked(crate::query::HEADER)?;
        let (_, flags_and_counts) = header.split_at_checked(2)?;
        let (flags_and_counts, count) = flags_and_counts.split_at_checked(8)?;
        let count = u16::from_be_bytes(count.try_into().ok()?);
        let additionals = if is_counted { count.checked_sub(1)? } else { count };
        Some(Self { id, flags_and_counts, additionals, rest })
    }
}

/// Makes the MAC of a message. `prior` is the MAC that it follows: the request's for a reply, the last
/// message's for the next one of a transfer, which `continues`: of its variables only the times are signed
/// (RFC 8945 section 5.3.1).
pub(super) fn mac(
    key: &Key,
    prior: &[u8],
    covered: &Covered<'_>,
    variables: &Variables<'_>,
    continues: bool,
) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&key.hmac);
    let number = |context: &mut hmac::Context, number: u16| context.update(&number.to_be_bytes());
    let length = |octets: &[u8]| u16::try_from(octets.len()).unwrap_or(u16::MAX);
    if !prior.is_empty() {
        number(&mut context, length(prior));
        context.update(prior);
    }
    number(&mut context, covered.id);
    context.update(covered.flags_and_counts);
    number(&mut context, covered.additionals);
    context.update(covered.rest);
    let times = |context: &mut hmac::Context| {
        context.update(&time_octets(variables.time));
        number(context, variables.fudge);
    };
    if continues {
        times(&mut context);
    } else {
        context.update(variables.key_name);
        number(&mut context, CLASS_ANY);
        // The TTL.
        context.update(&[0; 4]);
        context.update(key.algorithm.wire());
        times(&mut context);
        number(&mut context, variables.error);
        number(&mut context, length(variables.other));
        context.update(variables.other);
    }
    context.sign()
}

/// A time as it is written, in 48 bits.
pub(super) fn time_octets(time: u64) -> [u8; 6] {
    let [_, _, octets @ ..] = time.to_be_bytes();
    octets
}
