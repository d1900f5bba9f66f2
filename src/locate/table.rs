//! The compiled location table: from an address to its place and its scope, in a few memory reads.
//!
//! Each family has a trie that first takes 16 bits and then 8 at a time. The first level is a plain
//! array. A node below it covers 256 slots but holds an entry only where the value changes; a
//! bitmap marks where, and counting its bits finds the entry. So a node takes some 50 octets and
//! not a kilobyte, and the whole table stays in the processor's caches far longer than arrays would.
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
/// How many slots the first level has.
const ROOT_SLOTS: usize = 1 << 16;

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
    /// More nodes or entries than can be numbered.
    #[error("the networks need more than 2,147,483,647 table entries")]
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

    /// The place and scope of an address. The scope of an IPv4-mapped IPv6 address is that of the
    /// IPv4 address plus 96.
    pub fn locate(&self, address: IpAddr) -> Located {
        match address {
            IpAddr::V4(v4) => self.located(self.v4.find(v4.octets()), 0),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => self.located(self.v4.find(v4.octets()), MAPPED_LENGTH),
                None => self.located(self.v6.find(v6.octets()), 0),
            },
        }
    }

    fn located(&self, leaf: Entry, added_scope: u8) -> Located {
        let place_index = leaf.place();
        let place = self.places.get(place_index as usize).copied();
        Located {
            place: place.unwrap_or_default(),
            place_index,
            scope: leaf.prefix_length() + added_scope,
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

    /// The index of the node to go on to; none for a leaf.
    fn node(self) -> Option<usize> {
        (self.0 & Self::NODE != 0).then_some((self.0 & !Self::NODE) as usize)
    }
}

/// 256 slots, of which only those that differ from the slot before them have an entry.
#[derive(Clone, Debug)]
struct Node {
    /// A bit for every slot that has an entry of its own; the first always has.
    starts: [u64; 4],
    /// How many bits are set in the words before each word.
    counts: [u8; 4],
    /// The index of the entry of the first slot.
    base: u32,
}

impl Node {
    /// The index of the entry of a slot.
    fn entry_of(&self, slot: u8) -> usize {
        let word = usize::from(slot >> 6);
        let up_to_slot = u64::MAX >> (63 - (slot & 63));
        let starts = (self.starts[word] & up_to_slot).count_ones() + u32::from(self.counts[word]);
        // The first slot has an entry, so there is at least one.
        (self.base + starts) as usize - 1
    }
}

/// The table of one family.
#[derive(Debug, Default)]
struct Trie {
    root: Box<[Entry]>,
    nodes: Box<[Node]>,
    entries: Box<[Entry]>,
}

impl Trie {
    /// The leaf of an address, given in network order.
    fn find<const OCTETS: usize>(&self, octets: [u8; OCTETS]) -> Entry {
        let mut octets = octets.into_iter();
        let mut next = || octets.next().unwrap_or(0);
        let root_slot = u16::from_be_bytes([next(), next()]);
        let mut entry = self.root.get(usize::from(root_slot)).copied();
        while let Some(index) = entry.and_then(Entry::node) {
            let node = self.nodes.get(index);
            entry = node.and_then(|node| self.entries.get(node.entry_of(next())).copied());
        }
        entry.unwrap_or_default()
    }

    fn build<A: Bits>(runs: &Runs<A>) -> Result<Self, TableError> {
        let mut blocks = runs.blocks();
        let mut builder =
            Builder { current: blocks.next(), blocks, nodes: Vec::new(), entries: Vec::new() };
        let root = (0..ROOT_SLOTS)
            .map(|slot| {
                let [_, _, high, low] = u32::try_from(slot).unwrap_or(0).to_be_bytes();
                builder.slot(A::FIRST.with(0, 8, high).with(8, 8, low), 16)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { root, nodes: builder.nodes.into(), entries: builder.entries.into() })
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.root) + size_of_val(&*self.nodes) + size_of_val(&*self.entries)
    }
}

/// Builds nodes from blocks, which are taken in ascending order.
struct Builder<A, B> {
    blocks: B,
    current: Option<Block<A>>,
    nodes: Vec<Node>,
    entries: Vec<Entry>,
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

    fn node(&mut self, first: A, depth: u8) -> Result<Entry, TableError> {
        let mut slots = Vec::with_capacity(16);
        let (mut starts, mut counts) = ([0_u64; 4], [0_u8; 4]);
        for slot in 0..=u8::MAX {
            let entry = self.slot(first.with(depth, 8, slot), depth + 8)?;
            if slots.last() != Some(&entry) {
                slots.push(entry);
                starts[usize::from(slot >> 6)] |= 1 << (slot & 63);
            }
            // After the last slot of a word, what is counted so far stands before the next word.
            if let Some(count) = counts.get_mut(usize::from(slot >> 6) + 1) {
                *count = u8::try_from(slots.len()).map_err(|_| TableError::Entries)?;
            }
        }
        let base = u32::try_from(self.entries.len()).map_err(|_| TableError::Entries)?;
        self.entries.extend(slots);
        let index = u32::try_from(self.nodes.len()).map_err(|_| TableError::Entries)?;
        if index & Entry::NODE != 0 || base & Entry::NODE != 0 {
            return Err(TableError::Entries);
        }
        self.nodes.push(Node { starts, counts, base });
        Ok(Entry(index | Entry::NODE))
    }
}
