//! The short way of a common query: an A or AAAA question for a steered name, with at most an OPT
//! of which a client subnet and a cookie matter, answered by one address. Everything else takes the long way, through
//! `query`, `respond` and `wire`.
//!
//! ```text
//! parse (in place) ─► find (name) ─► locate (place, rule, pool) ─► answer (n-th address, written)
//! ```
//!
//! Nothing is decided here: [`compile`](Quick::compile) asks the same functions that the long way
//! asks at each query (`steer::candidates`, `steer::outcome`, the plan's sets), once for every rule
//! and pool when health or configuration change, and lays their results into cache lines. What does
//! not fit this form is left to the long way. A test holds both ways to the same replies.
//!
//! The steps are apart so that a worker can take a whole batch through each of them: the memory that
//! the next step of one query needs arrives while the others are worked on.

mod compile;
mod pools;
mod query;
mod sessions;

use std::net::IpAddr;
use std::sync::Arc;

pub use crate::quick::query::{CommonQuery, parse};

use crate::cookies::{CLIENT as CLIENT_COOKIE, Judged, SERVER as SERVER_COOKIE};
use crate::locate::Locator;
use crate::query::{ClientSubnet, HEADER, MAX_SUBNET, MAX_UDP, OPTION, OPTION_COOKIE};
use crate::quick::pools::{Pools, Target};
use crate::quick::query::{Key, copy, is_same};
use crate::quick::sessions::{Asked, Sessions};
use crate::rr::Ttl;
use crate::served::{Scoped, Steered};
use crate::steer::Memory;
use crate::steer::load_balancer::{ClientSource, LoadBalancerId};
use crate::steer::pool::{Family, PoolId};
use crate::steer::session::SessionKey;
use crate::wire::opt::OPT;

/// What of the configuration and the plan common queries need, in the form they need it in.
#[derive(Debug, Default)]
pub struct Quick {
    /// An open-addressed table from the hash of a name to its entry; its size is a power of two.
    slots: Arc<[Slot]>,
    entries: Box<[Entry]>,
    /// The load balancer of each entry.
    balancers: Arc<[LoadBalancerId]>,
    /// For each profile the number of the rule that clients of each place match.
    profiles: Arc<[Box<[u8]>]>,
    /// For each entry, from its first on, what each rule leads to.
    targets: Vec<Target>,
    /// What each of them is counted as, of its load balancer.
    choices: Vec<u16>,
    pools: Pools,
    sessions: Sessions,
}

/// A slot of the table of names: the upper half of the hash, and the entry's number plus one.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    entry: u32,
}

/// A steered name, in two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
struct Entry {
    key: Key,
    client: ClientSource,
    depends_on_client: bool,
    rules: u8,
    ttl: Ttl,
    profile: u32,
    first_target: u32,
    /// The first of the load balancer's counters.
    first_counter: u32,
    /// The number of its sessions, from 1; 0 without.
    session: u32,
    /// What the first rules lead to; of more rules all are in the common list.
    targets: [Target; INLINE_TARGETS],
    /// What each of them is counted as.
    choices: [u16; INLINE_TARGETS],
}

const _: () = assert!(size_of::<Entry>() == 128, "an entry is two cache lines");

/// How many targets an entry has room for.
const INLINE_TARGETS: usize = 4;

/// A query whose name was found, and whose client was located.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    target: Target,
    /// What it is counted as, as far as no session says otherwise.
    counter: u32,
    /// The first of the load balancer's counters.
    first_counter: u32,
    place: u32,
    ttl: Ttl,
    scope: u8,
    session: Option<Asked>,
}

impl Located {
    /// The number of the counter, as far as no session says otherwise.
    #[inline]
    pub fn counter(&self) -> u32 {
        self.counter
    }

    /// The client subnet of the query and the scope of the answer.
    #[inline]
    pub fn scoped(&self, query: &CommonQuery) -> Option<Scoped> {
        Scoped::new(query.subnet.as_ref(), self.scope)
    }
}

/// A query whose name was found: the number of its entry.
#[derive(Clone, Copy, Debug)]
pub struct Found(u32);

impl Quick {
    /// Starts the memory of the first steps for a query on its way: of its name and of its client.
    #[inline]
    pub fn approach(&self, query: &CommonQuery, locator: &Locator) -> u32 {
        let slot = self.slots.get(self.first_slot(query)).map_or(0, |slot| slot.entry);
        slot ^ query.client_subnet().map_or(0, |address| locator.table().approach(address))
    }

    /// The same for the second steps, once the first have come.
    #[inline]
    pub fn approach_entry(&self, query: &CommonQuery, locator: &Locator) -> u32 {
        // Nearly always it is the first slot.
        let slot = self.slots.get(self.first_slot(query));
        let number = slot.map_or(0, |slot| slot.entry).wrapping_sub(1);
        // Both of its cache lines.
        let entry = self.entries.get(number as usize);
        let entry = entry.map_or(0, |entry| entry.profile ^ u32::from(entry.key[0]));
        entry ^ query.client_subnet().map_or(0, |address| locator.table().approach_node(address))
    }

    #[inline]
    fn first_slot(&self, query: &CommonQuery) -> usize {
        // The table's length is a power of two, or 0.
        #[allow(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
        let index = query.hash as usize & self.slots.len().wrapping_sub(1);
        index
    }

    /// Locates the client of a query whose name was found; `source` is asked for only if no client subnet
    /// says where it is. None where it takes the long way.
    #[inline]
    pub fn locate(
        &self,
        query: &CommonQuery,
        found: Found,
        source: impl Fn() -> Option<IpAddr>,
        locator: &Locator,
    ) -> Option<Located> {
        let entry = self.entries.get(found.0 as usize)?;
        // A subnet that does not locate its client does not count.
        let known = match (entry.client, &query.subnet) {
            (ClientSource::Ecs, Some(ClientSubnet { address: Some(address), source_prefix }))
                if *source_prefix > 0 =>
            {
                Some((address, *source_prefix))
            }
            _ => None,
        };
        let (place, length) = match known {
            Some((address, _)) => locator.find(address),
            None => locator.find(&source()?.to_canonical()),
        };
        let depends = known.is_some() && entry.depends_on_client;
        let mut scope = if depends { length } else { 0 };
        let mut session = None;
        if entry.session != 0 {
            let (address, prefix) = match known {
                Some((address, prefix)) => (*address, prefix),
                None => (source()?.to_canonical(), u8::MAX),
            };
            let (asked, length) = self.sessions.ask(entry.session, address, prefix)?;
            session = Some(asked);
            scope = if known.is_some() { scope.max(length) } else { scope };
        }
        let rule = *self.profiles.get(entry.profile as usize)?.get(place as usize)?;
        let rule = usize::from(rule);
        let (target, choice) = match usize::from(entry.rules) {
            rules if rule >= rules => return None,
            0..=INLINE_TARGETS => (*entry.targets.get(rule)?, *entry.choices.get(rule)?),
            _ => {
                let index = entry.first_target as usize + rule;
                (*self.targets.get(index)?, *self.choices.get(index)?)
            }
        };
        let first_counter = entry.first_counter;
        let counter = first_counter.saturating_add(choice.into());
        Some(Located { target, counter, first_counter, place, ttl: entry.ttl, scope, session })
    }

    /// Starts the memory of a query's pool on its way; gives its sequence slot, whose memory is the
    /// caller's.
    #[inline]
    pub fn approach_pool(&self, located: &Located) -> (u32, u32) {
        (self.pools.approach(located.target), located.target.slot)
    }

    /// True if a pool may be followed by more, which [`approach_zones`](Self::approach_zones) is for.
    #[inline]
    pub fn have_zones(&self) -> bool {
        self.pools.have_zones()
    }

    /// Starts what a query's pool has for zones on its way, once the pool has come.
    #[inline]
    pub fn approach_zones(&self, located: &Located) -> u16 {
        self.pools.approach_zones(located.target)
    }

    /// Starts what is known of a query's session on its way; gives the key, whose memory is the
    /// caller's. None without session affinity.
    #[inline]
    pub fn approach_session(&self, located: &Located) -> Option<(u32, SessionKey)> {
        let asked = located.session?;
        Some((self.sessions.approach(asked), asked.key))
    }

    /// Finds the name of a query. None where it takes the long way.
    #[inline]
    pub fn find(&self, query: &CommonQuery) -> Option<Found> {
        let tag = tag_of(query.hash);
        let mut index = self.first_slot(query);
        loop {
            // Half of the slots are empty, so the search ends.
            let slot = self.slots.get(index)?;
            let number = slot.entry.checked_sub(1)?;
            if slot.tag == tag {
                let entry = self.entries.get(number as usize)?;
                if is_same(&entry.key, &query.key) {
                    return Some(Found(number));
                }
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
    }

    /// Answers a query, with what its cookie is worth, into `out`; gives the length of the reply, and what it
    /// is counted by. None where it takes the long way: no number was drawn, and nothing need be kept of `out` then.
    #[inline]
    pub fn answer(
        &self,
        message: &[u8],
        query: &CommonQuery,
        (located, cookie): (&Located, Option<&Judged>),
        locator: &Locator,
        memory: &impl Memory,
        out: &mut [u8],
    ) -> Option<Short> {
        match query.family {
            Family::V4 => {
                self.answer_with::<4>(message, query, (located, cookie), locator, memory, out)
            }
            Family::V6 => {
                self.answer_with::<16>(message, query, (located, cookie), locator, memory, out)
            }
            Family::Host => None,
        }
    }

    /// The same with addresses of `N` octets.
    #[inline]
    fn answer_with<const N: usize>(
        &self,
        message: &[u8],
        query: &CommonQuery,
        (located, cookie): (&Located, Option<&Judged>),
        locator: &Locator,
        memory: &impl Memory,
        out: &mut [u8],
    ) -> Option<Short> {
        let Located { target, place, ref session, .. } = *located;
        let (counter, pool, is_last_resort);
        let address = match session {
            None => {
                let set = self.pools.set(target, query.family, place, locator)?;
                let n = memory.next(target.slot + set.slot, set.fingerprint);
                (counter, pool) = (located.counter, target.pool);
                is_last_resort = set.is_last_resort;
                set.address::<N>(n)?
            }
            Some(asked) => {
                let kept = self.sessions.address(asked, target.pool, query.family, memory)?;
                // In the pool that is chosen, it is known whether that is the fallback pool.
                counter = match kept.pool == target.pool {
                    true => located.counter,
                    false => located.first_counter.saturating_add(kept.choice.into()),
                };
                (pool, is_last_resort) = (kept.pool, false);
                kept.address.try_into().ok()?
            }
        };
        let length = write(message, query, (located, cookie), address, out)?;
        Some(Short { length, counter, pool, is_last_resort })
    }
}

/// A reply that was written the short way.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// Its length.
    pub length: usize,
    counter: u32,
    pool: u32,
    is_last_resort: bool,
}

impl Short {
    /// What the load balancer made of it.
    #[inline]
    pub fn steered(&self, located: &Located) -> Steered {
        let Self { counter, pool, is_last_resort, .. } = *self;
        Steered { counter, pool: Some(PoolId(pool)), place: located.place, is_last_resort }
    }
}

/// The half of a hash that a slot keeps.
#[inline]
fn tag_of(hash: u64) -> u32 {
    // The lower half chooses the slot; the upper one tells names in it apart.
    #[allow(clippy::cast_possible_truncation, reason = "the shift leaves 32 bits")]
    let tag = (hash >> 32) as u32;
    tag
}

/// The octets of an address record without its data, its name being a pointer (RFC 1035 section 4.1.3).
const RECORD: usize = 12;
/// The most octets after the question: a record, and an OPT with a subnet and a cookie.
const TAIL: usize =
    RECORD + 16 + OPT + OPTION + MAX_SUBNET + OPTION + CLIENT_COOKIE + SERVER_COOKIE;

/// Writes a reply with one address record, as `wire::write` does.
#[inline]
fn write<const N: usize>(
    message: &[u8],
    query: &CommonQuery,
    (located, cookie): (&Located, Option<&Judged>),
    address: &[u8; N],
    out: &mut [u8],
) -> Option<usize> {
    let question_end = usize::from(query.question_end);
    let (question, tail) = out.split_at_mut_checked(question_end)?;
    let asked = message.get(..question_end)?;
    copy(asked, question);
    let [_, _, flags, ..] = *asked.first_chunk::<HEADER>()?;
    let (_, header) = question.first_chunk_mut::<HEADER>()?.split_first_chunk_mut::<2>()?;
    // QR, AA, and RD as it came; NOERROR; one question, one answer, the OPT.
    let with_opt = u8::from(query.has_opt);
    header.copy_from_slice(&[0x84 | (flags & 1), 0, 0, 1, 0, 1, 0, 0, 0, with_opt]);

    let tail = tail.first_chunk_mut::<TAIL>()?;
    let record_type: u8 = if N == 4 { 1 } else { 28 };
    let [ttl_0, ttl_1, ttl_2, ttl_3] = located.ttl.seconds().to_be_bytes();
    // A pointer to the question's name, type, class IN, TTL, length.
    let length = N.to_le_bytes()[0];
    let fixed = [0xc0, 12, 0, record_type, 0, 1, ttl_0, ttl_1, ttl_2, ttl_3, 0, length];
    tail[..RECORD].copy_from_slice(&fixed);
    tail[RECORD..RECORD + N].copy_from_slice(address);
    if !query.has_opt {
        return Some(question_end + RECORD + N);
    }

    let (fixed, to_options) = tail[RECORD + N..].split_at_mut(OPT);
    let mut length = 0;
    if let Some(subnet) = &query.subnet {
        // What of it is beyond its length is overwritten, or not sent.
        length = subnet.write_reply(located.scope, to_options.first_chunk_mut()?);
    }
    if let Some(Judged { reply: cookie, .. }) = cookie {
        let [code_high, code_low] = OPTION_COOKIE.to_be_bytes();
        let head = [code_high, code_low, 0, cookie.len().to_le_bytes()[0]];
        let (to_head, to_data) = to_options.get_mut(length..)?.split_first_chunk_mut::<OPTION>()?;
        *to_head = head;
        *to_data.first_chunk_mut()? = *cookie;
        length += OPTION + cookie.len();
    }
    let [size_high, size_low] = MAX_UDP.to_be_bytes();
    let dnssec_ok = if query.dnssec_ok { 0x80 } else { 0 };
    let length_low = length.to_le_bytes()[0];
    fixed.copy_from_slice(&[0, 0, 41, size_high, size_low, 0, 0, dnssec_ok, 0, 0, length_low]);
    Some(question_end + RECORD + N + OPT + length)
}
