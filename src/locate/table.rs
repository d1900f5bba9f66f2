//! The compiled location table: from an address to its place and its scope, in a few memory reads.
//!
//! Each family has a trie that first takes 16 bits and then 8 at a time. The first level is a plain
//! array. A node below it covers 256 slots but holds an entry only where the content changes: a
//! bitmap marks where, and counting its bits finds the entry. So a node takes some 60 octets and
//! not a kilobyte, and a country table as a whole stays in the processor's caches.
//!
//! A table never changes. Look-ups neither allocate nor lock.

use std::net::IpAddr;

use crate::locate::place::Place;
use crate::locate::runs::{Bits, Block, Runs};

/// The most places that a table can hold: an entry has 23 bits for the place.
pub const MAX_PLACES: usize = (1 << PLACE_BITS) - 1;

const PLACE_BITS: u32 = 23;
/// The place of the block of IPv4-mapped addresses: never answered, and different from all others.
const MAPPED: u32 = (1 << PLACE_BITS) - 1;
/// The length of the prefix of IPv4-mapped addresses (RFC 4291 section 2.5.5.2).
const MAPPED_LENGTH: u8 = 96;
const MAPPED_FIRST: u128 = 0xffff << 32;

/// What is known of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Where it is.
    pub place: Place,
    /// The place's number in the table; equal places have equal numbers.
    pub place_index: u32,
    /// The length of the shortest prefix of the address within which the whole place is the same.
    pub scope: u8,
}

/// The table is too large to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// More than [`MAX_PLACES`].
    #[error("there are more than {MAX_PLACES} distinct places")]
    Places,
    /// More nodes than can be numbered.
    #[error("the networks need a table of more than 8 GiB")]
    Entries,
}

/// The places of all addresses. By default none has a location.
#[derive(Debug, Default)]
pub struct Table {
    v4: Trie,
    v6: Trie,
    places: Box<[Place]>,
}

impl Table {
    /// Compiles runs whose values are indices into `places`.
    ///
    /// IPv4-mapped IPv6 addresses are IPv4 addresses, so their block is cut out of the IPv6 runs: no
    /// IPv6 scope covers it, unless all of both have one place.
    ///
    /// # Errors
    /// [`TableError`] if there are too many places or entries.
    pub fn build(places: Vec<Place>, v4: &Runs<u32>, v6: &Runs<u128>) -> Result<Self, TableError> {
        if places.len() > MAX_PLACES {
            return Err(TableError::Places);
        }
        let mapped = Block { first: MAPPED_FIRST, prefix_length: MAPPED_LENGTH, value: 1 };
        let place_of_mapped = v4.only_value().unwrap_or(MAPPED);
        let v6 = v6.overlaid(&Runs::from_nested([mapped], 0), |place, mapped| {
            if mapped == 0 { place } else { place_of_mapped }
        });
        Ok(Self { v4: Trie::build(v4)?, v6: Trie::build(&v6)?, places: places.into() })
    }

    /// The number of an address's place, and the scope. The scope of an IPv4-mapped IPv6 address is that
    /// of the IPv4 address plus 96.
    #[inline]
    pub fn find(&self, address: &IpAddr) -> (u32, u8) {
        let (leaf, added_scope) = match address {
            IpAddr::V4(v4) => (self.v4.find(v4.to_bits()), 0),
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                match u32::try_from(bits ^ MAPPED_FIRST) {
                    Ok(v4) => (self.v4.find(v4), MAPPED_LENGTH),
                    Err(_) => (self.v6.find(bits), 0),
                }
            }
        };
        (leaf.place(), leaf.prefix_length() + added_scope)
    }

    /// Starts the memory of a look-up's first step on its way.
    #[inline]
    pub fn approach(&self, address: &IpAddr) -> u32 {
        match address {
            IpAddr::V4(v4) => self.v4.root(v4.to_bits()).0,
            IpAddr::V6(v6) => self.v6.root(v6.to_bits()).0,
        }
    }

    /// The same for the second step, once the first has come.
    #[inline]
    pub fn approach_node(&self, address: &IpAddr) -> u32 {
        match address {
            IpAddr::V4(v4) => self.v4.approach_node(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.approach_node(v6.to_bits()),
        }
    }

    /// The same with the place.
    pub fn locate(&self, address: IpAddr) -> Located {
        let (place_index, scope) = self.find(&address);
        const NOWHERE: &Place = &Place {
            region: None,
            zone: None,
            country: None,
            subdivision: None,
            coordinates: None,
        };
        Located {
            // A copy of the whole; `unwrap_or_default` would copy field by field.
            place: *self.places.get(place_index as usize).unwrap_or(NOWHERE),
            place_index,
            scope,
        }
    }

    /// The distinct places, by their numbers.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The octets of memory that it takes.
    pub fn memory(&self) -> usize {
        self.v4.memory() + self.v6.memory() + size_of_val(&*self.places)
    }
}

/// A slot's content: a leaf (the place and the prefix length of its block), or a node to go on to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    const NODE: u32 = 1 << 31;

    fn leaf(place: u32, prefix_length: u8) -> Self {
        Self(u32::from(prefix_length) << PLACE_BITS | (place & MAPPED))
    }

    fn place(self) -> u32 {
        self.0 & MAPPED
    }

    fn prefix_length(self) -> u8 {
        // The node bit is above these eight.
        (self.0 >> PLACE_BITS).to_le_bytes()[0]
    }

    /// Where the node to go on to begins; none for a leaf.
    fn node(self) -> Option<usize> {
        (self.0 & Self::NODE != 0).then_some((self.0 & !Self::NODE) as usize)
    }
}

/// How many words of a node mark which of its 256 slots have an entry of their own.
const STARTS: usize = 8;
/// How many words stand before a node's entries: those, and for each of them an octet that counts
/// the entries of the words before it.
const HEADER: usize = STARTS + STARTS / 4;

/// The octets of a cache line.
const LINE: usize = 64;

/// The table of one family.
#[derive(Debug, Default)]
struct Trie {
    /// The entries of the first 16 bits.
    root: Box<[Entry]>,
    /// All nodes, each a header and its entries, so that one or two cache lines hold a small one.
    nodes: Box<[u32]>,
}

impl Trie {
    /// The leaf of an address.
    #[inline]
    fn find<A: Bits>(&self, address: A) -> Entry {
        let (_, mut rest) = address.split_pair();
        let mut entry = self.root(address);
        while let Some(node) = entry.node() {
            let slot;
            (slot, rest) = rest.split_octet();
            entry = self.entry(node, slot).unwrap_or_default();
        }
        entry
    }

    /// The entry of an address's first 16 bits.
    #[inline]
    fn root<A: Bits>(&self, address: A) -> Entry {
        let (slot, _) = address.split_pair();
        self.root.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Starts the memory of the node that the root leads to on its way.
    #[inline]
    fn approach_node<A: Bits>(&self, address: A) -> u32 {
        let Some(node) = self.root(address).node() else { return 0 };
        // Most nodes are shorter than a cache line, and lie in two of them.
        let at = |index| self.nodes.get(index).copied().unwrap_or_default();
        at(node) ^ at(node + LINE / size_of::<u32>())
    }

    /// The entry of a node's slot: that of the nearest slot up to it that has one.
    #[inline]
    fn entry(&self, node: usize, slot: u8) -> Option<Entry> {
        let node = self.nodes.get(node..)?;
        let header = node.first_chunk::<HEADER>()?;
        let word = usize::from(slot >> 5);
        let up_to_slot = u32::MAX >> (31 - (slot & 31));
        let here = (header[word] & up_to_slot).count_ones();
        let before = header[STARTS + word / 4] >> (word % 4 * 8) & 0xff;
        // The first slot always has an entry, so there is at least one.
        node.get(HEADER - 1 + (here + before) as usize).copied().map(Entry)
    }

    fn build<A: Bits>(runs: &Runs<A>) -> Result<Self, TableError> {
        let mut blocks = runs.blocks();
        let mut builder = Builder { current: blocks.next(), blocks, nodes: Vec::new() };
        let root = (0..=u16::MAX).map(|slot| {
            let [high, low] = slot.to_be_bytes();
            builder.slot(A::FIRST.with(0, 8, high).with(8, 8, low), 16)
        });
        Ok(Self { root: root.collect::<Result<_, _>>()?, nodes: builder.nodes.into() })
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.root) + size_of_val(&*self.nodes)
    }
}

/// Builds nodes from blocks, which are taken in ascending order.
struct Builder<A, B> {
    blocks: B,
    current: Option<Block<A>>,
    nodes: Vec<u32>,
}

impl<A: Bits, B: Iterator<Item = Block<A>>> Builder<A, B> {
    /// The content of the slot that begins at `first` and has a prefix of `depth` bits.
    fn slot(&mut self, first: A, depth: u8) -> Result<Entry, TableError> {
        while let Some(block) = self.current
            && block.first.block_end(block.prefix_length) < first
        {
            self.current = self.blocks.next();
        }
        match self.current {
            Some(block) if block.prefix_length > depth => self.node(first, depth),
            Some(block) => Ok(Entry::leaf(block.value, block.prefix_length)),
            // Blocks cover all addresses, so this does not happen.
            None => Ok(Entry::default()),
        }
    }

    /// Adds the node for the 256 slots below a slot, after the nodes below it.
    fn node(&mut self, first: A, depth: u8) -> Result<Entry, TableError> {
        let mut header = [0_u32; HEADER];
        let mut entries = Vec::with_capacity(16);
        let mut next = Some(0_u8);
        while let Some(slot) = next {
            let entry = self.slot(first.with(depth, 8, slot), depth + 8)?;
            if entries.last() != Some(&entry.0) {
                entries.push(entry.0);
                header[usize::from(slot >> 5)] |= 1 << (slot & 31);
            }
            // A leaf covers more than a slot where its block is larger.
            let spare_bits = match entry.node() {
                Some(_) => 0,
                None => (depth + 8).saturating_sub(entry.prefix_length()),
            };
            let width = 1_u8.checked_shl(spare_bits.into());
            next = width.and_then(|width| slot.checked_add(width));
        }
        let mut before = [0_u8; STARTS];
        let mut count = 0_u32;
        for (before, starts) in before.iter_mut().zip(header) {
            *before = count.to_le_bytes()[0];
            count += starts.count_ones();
        }
        for (word, counts) in header.iter_mut().skip(STARTS).zip(before.chunks(4)) {
            *word = counts.iter().rev().fold(0, |word, &count| word << 8 | u32::from(count));
        }
        let start = u32::try_from(self.nodes.len()).map_err(|_| TableError::Entries)?;
        if start & Entry::NODE != 0 {
            return Err(TableError::Entries);
        }
        self.nodes.extend(header);
        self.nodes.extend(entries);
        Ok(Entry(start | Entry::NODE))
    }
}

#[cfg(test)]
mod tests;
