//! The records of a zone in the messages of its transfer: the SOA, everything else, and the SOA again
//! (RFC 5936 section 2.2).

use crate::answer::{Owner, Set};
use crate::respond::Responder;
use crate::steer::FirstOnly;
use crate::transfer::published::{records, sets};
use crate::wire::page::Page;
use crate::zone::node::Zone;

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    stage: Stage,
    /// The next node, the next of its sets, the next record of that.
    node: usize,
    set: usize,
    record: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    FirstSoa,
    Records,
    LastSoa,
    Done,
}

/// A record that is too large for any message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record is too large for a message")]
pub struct TooLarge;

impl Cursor {
    /// True if all records are written.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// True if none is.
    pub fn is_new(&self) -> bool {
        self.stage == Stage::FirstSoa
    }

    /// Writes the next records to a page, as many as fit.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn fill<'s>(
        &mut self,
        zone: &'s Zone,
        responder: &Responder<'s, FirstOnly>,
        page: &mut Page<'_>,
    ) -> Result<(), TooLarge> {
        loop {
            let fits = match self.stage {
                Stage::FirstSoa | Stage::LastSoa => {
                    let soa = Set::of(Owner::Wire(zone.apex.as_wire()), &zone.soa.rrset);
                    soa.rdata().all(|rdata| page.record(&soa, rdata).is_some())
                }
                Stage::Records => self.fill_records(zone, responder, page),
                Stage::Done => return Ok(()),
            };
            if fits {
                self.stage = match self.stage {
                    Stage::FirstSoa => Stage::Records,
                    Stage::Records => Stage::LastSoa,
                    Stage::LastSoa | Stage::Done => Stage::Done,
                };
            } else if page.is_begun() {
                return Ok(());
            } else if !page.widen() {
                return Err(TooLarge);
            }
        }
    }

    /// Writes the records between the two SOA; false if the next one does not fit.
    fn fill_records<'s>(
        &mut self,
        zone: &'s Zone,
        responder: &Responder<'s, FirstOnly>,
        page: &mut Page<'_>,
    ) -> bool {
        for node in zone.nodes().skip(self.node) {
            for set in sets(responder, node).iter().skip(self.set) {
                for rdata in records(set).into_iter().skip(self.record) {
                    if page.record(set, rdata).is_none() {
                        return false;
                    }
                    self.record += 1;
                }
                (self.set, self.record) = (self.set + 1, 0);
            }
            (self.node, self.set) = (self.node + 1, 0);
        }
        true
    }
}
