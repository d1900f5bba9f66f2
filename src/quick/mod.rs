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

use crate::cookies::{Cookies, Judged};
use crate::locate::Locator;
use crate::query::{CLASS_IN, HEADER, MAX_UDP, OPTION_CLIENT_SUBNET, OPTION_COOKIE, Rcode};
use crate::quick::pools::{Pools, Target};
use crate::quick::query::Key;
use crate::quick::sessions::{Asked, Sessions};
use crate::rr::Ttl;
use crate::served::{Scoped, Served, Steered};
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
    key_length: u8,
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

/// A query whose name was found, and whose client was located and its cookie judged.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    target: Target,
    /// The first of the load balancer's counters, and which of them this is.
    counters: (u32, u16),
    place: u32,
    ttl: Ttl,
    scope: u8,
    session: Option<Asked>,
    judged: Option<Judged>,
}

impl Located {
    /// The number of the counter, as far as no session says otherwise.
    #[inline]
    pub fn counter(&self) -> u32 {
        let (first, choice) = self.counters;
        first.saturating_add(u32::from(choice))
    }

    /// What the query's cookie is worth; none if it has none.
    #[inline]
    pub fn judged(&self) -> Option<&Judged> {
        self.judged.as_ref()
    }
}

/// A query whose name was found: the number of its entry.
#[derive(Clone, Copy, Debug)]
pub struct Found(u32);

impl Quick {
    /// Starts the table's memory on its way for a query.
    #[inline]
    pub fn approach(&self, query: &CommonQuery) -> u32 {
        self.slots.get(self.first_slot(query)).map_or(0, |slot| slot.entry)
    }

    #[inline]
    fn first_slot(&self, query: &CommonQuery) -> usize {
        // The table's length is a power of two, or 0.
        #[allow(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
        let index = query.hash as usize & self.slots.len().wrapping_sub(1);
        index
    }

    /// Locates the client of a query whose name was found, and starts the memory of the pool that it
    /// leads to on its way. None where it takes the long way.
    #[inline]
    pub fn locate(
        &self,
        query: &CommonQuery,
        found: Found,
        source: IpAddr,
        locator: &Locator,
        cookies: &Cookies,
    ) -> Option<Located> {
        let entry = self.entries.get(found.0 as usize)?;
        let subnet = match entry.client {
            ClientSource::Ecs => query.subnet_address(),
            ClientSource::Resolver => None,
        };
        let address = subnet.unwrap_or_else(|| source.to_canonical());
        let located = locator.locate(address);
        let depends = subnet.is_some() && entry.depends_on_client;
        let mut scope = if depends { located.scope } else { 0 };
        let mut session = None;
        if entry.session != 0 {
            let known =
                query.subnet.filter(|_| subnet.is_some()).map(|subnet| subnet.source_prefix);
            let (asked, length) =
                self.sessions.ask(entry.session, address, known.unwrap_or(u8::MAX))?;
            session = Some(asked);
            scope = if subnet.is_some() { scope.max(length) } else { scope };
        }
        let place = located.place_index;
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
        let counters = (entry.first_counter, choice);
        let judged = query.cookie().and_then(|cookie| cookies.judge(cookie, source));
        Some(Located { target, counters, place, ttl: entry.ttl, scope, session, judged })
    }

    /// Starts the memory of a query's pool on its way; gives its sequence slot, whose memory is the
    /// caller's.
    #[inline]
    pub fn approach_pool(&self, located: &Located) -> (u32, u32) {
        (self.pools.approach(located.target), located.target.slot)
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
                if entry.key_length == query.key_length && entry.key == query.key {
                    return Some(Found(number));
                }
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
    }

    /// Answers a query into `out`; gives the length of the reply, and what it is counted by. None where it
    /// takes the long way: no number was drawn, and nothing need be kept of `out` then.
    #[inline]
    pub fn answer(
        &self,
        message: &[u8],
        query: &CommonQuery,
        located: Located,
        locator: &Locator,
        memory: &impl Memory,
        out: &mut [u8],
    ) -> Option<Short> {
        let Located { target, place, session, .. } = located;
        let served = |counter, pool, is_last_resort| Served {
            steered: Some(Steered { counter, pool: Some(PoolId(pool)), place, is_last_resort }),
            subnet: Scoped::new(query.subnet, located.scope),
            ..Served::new(Rcode::NoError)
        };
        if let Some(asked) = session {
            let kept = self.sessions.address(asked, target.pool, query.family, memory)?;
            let length = write(message, query, &located, kept.address, out)?;
            // In the pool that is chosen, it is known whether that is the fallback pool.
            let counter = match kept.pool == target.pool {
                true => located.counter(),
                false => located.counters.0.saturating_add(u32::from(kept.choice)),
            };
            return Some(Short { length, served: served(counter, kept.pool, false) });
        }
        let set = self.pools.set(target, query.family, place, locator)?;
        let n = memory.next(target.slot + set.slot, set.fingerprint);
        let length = write(message, query, &located, set.address(n)?, out)?;
        Some(Short { length, served: served(located.counter(), target.pool, set.is_last_resort) })
    }
}

/// A reply that was written the short way.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// Its length.
    pub length: usize,
    /// What was answered.
    pub served: Served,
}

/// The half of a hash that a slot keeps.
#[inline]
fn tag_of(hash: u64) -> u32 {
    // The lower half chooses the slot; the upper one tells names in it apart.
    #[allow(clippy::cast_possible_truncation, reason = "the shift leaves 32 bits")]
    let tag = (hash >> 32) as u32;
    tag
}

/// Writes a reply with one address record, as `wire::write` does.
#[inline]
fn write(
    message: &[u8],
    query: &CommonQuery,
    located: &Located,
    address: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let question_end = usize::from(query.question_end);
    let record_type: u16 = match query.family {
        Family::V4 => 1,
        Family::V6 => 28,
        Family::Host => return None,
    };
    let [id_high, id_low, flags, ..] = *message.first_chunk::<HEADER>()?;
    out.get_mut(..question_end)?.copy_from_slice(message.get(..question_end)?);
    // QR, AA, and RD as it came; NOERROR; one question, one answer, the OPT.
    let with_opt = u8::from(query.edns.is_some());
    let header = [id_high, id_low, 0x84 | (flags & 1), 0, 0, 1, 0, 1, 0, 0, 0, with_opt];
    out.first_chunk_mut::<HEADER>()?.copy_from_slice(&header);

    let record = out.get_mut(question_end..)?;
    let [type_high, type_low] = record_type.to_be_bytes();
    let [class_high, class_low] = CLASS_IN.to_be_bytes();
    let [ttl_0, ttl_1, ttl_2, ttl_3] = located.ttl.seconds().to_be_bytes();
    let length = u8::try_from(address.len()).ok()?;
    let fixed = [
        0xc0, 12, type_high, type_low, class_high, class_low, ttl_0, ttl_1, ttl_2, ttl_3, 0, length,
    ];
    record.first_chunk_mut::<12>()?.copy_from_slice(&fixed);
    record.get_mut(12..12 + address.len())?.copy_from_slice(address);
    let mut end = question_end + 12 + address.len();

    if let Some(edns) = &query.edns {
        let option = query.subnet.map(|subnet| subnet.reply(located.scope));
        let data = option.as_deref().unwrap_or_default();
        let subnet = if option.is_some() { 4 + data.len() } else { 0 };
        let cookie = located.judged.as_ref().map(|judged| &judged.reply);
        let options = subnet + cookie.map_or(0, |cookie| 4 + cookie.len());
        let opt = out.get_mut(end..end + OPT + options)?;
        let [size_high, size_low] = MAX_UDP.to_be_bytes();
        let dnssec_ok = if edns.dnssec_ok { 0x80 } else { 0 };
        let fixed =
            [0, 0, 41, size_high, size_low, 0, 0, dnssec_ok, 0, 0, u8::try_from(options).ok()?];
        opt.first_chunk_mut::<OPT>()?.copy_from_slice(&fixed);
        if option.is_some() {
            let [code_high, code_low] = OPTION_CLIENT_SUBNET.to_be_bytes();
            let head = [code_high, code_low, 0, u8::try_from(data.len()).ok()?];
            opt.get_mut(OPT..OPT + 4)?.copy_from_slice(&head);
            opt.get_mut(OPT + 4..OPT + subnet)?.copy_from_slice(data);
        }
        if let Some(cookie) = cookie {
            let [code_high, code_low] = OPTION_COOKIE.to_be_bytes();
            let head = [code_high, code_low, 0, u8::try_from(cookie.len()).ok()?];
            let (to_head, to_data) = opt.get_mut(OPT + subnet..)?.split_first_chunk_mut::<4>()?;
            *to_head = head;
            to_data.copy_from_slice(cookie);
        }
        end += OPT + options;
    }
    Some(end)
}
