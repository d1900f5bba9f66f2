//! Finding a name in a zone: the algorithm of RFC 1034 section 4.3.2 with wildcards (RFC 4592) and
//! DNAME (RFC 6672). What the node found has of the asked type is the caller's next question.

use crate::name::parent_of;
use crate::rr::{RecordType, RrSet};
use crate::zone::node::{Cut, Node, Zone};

/// What is found under a name.
#[derive(Clone, Copy, Debug)]
pub enum Found<'z> {
    /// The name exists, or a wildcard answers for it. A node without records is an empty
    /// non-terminal: NODATA.
    Node(&'z Node),
    /// The name is at or below a zone cut: another zone's.
    Cut(&'z Cut),
    /// The name is below one that is redirected as a whole.
    Dname {
        /// The owner of the DNAME.
        node: &'z Node,
        /// The DNAME record.
        rrset: &'z RrSet,
    },
    /// The name does not exist, and no wildcard answers for it; nothing exists below it either
    /// (RFC 8020).
    Nothing,
}

impl Zone {
    /// Finds a name of this zone, in lower-case wire form.
    pub fn lookup(&self, key: &[u8], record_type: RecordType) -> Found<'_> {
        if let Some(node) = self.node_at(key) {
            return match node.cut.and_then(|cut| self.cut(cut)) {
                None => Found::Node(node),
                // DS belongs to the parent side of the cut (RFC 4035 section 3.1.4.1).
                Some(cut) if record_type == RecordType::DS && self.is_at(cut, node) => {
                    Found::Node(node)
                }
                Some(cut) => Found::Cut(cut),
            };
        }
        let Some(encloser) = self.closest_encloser(key) else { return Found::Nothing };
        if let Some(cut) = encloser.cut.and_then(|cut| self.cut(cut)) {
            return Found::Cut(cut);
        }
        if let Some(rrset) = encloser.rrset(RecordType::DNAME) {
            return Found::Dname { node: encloser, rrset };
        }
        // The source of synthesis is the closest encloser's own wildcard child or none
        // (RFC 4592 section 3.3.1).
        match encloser.wildcard.and_then(|wildcard| self.node(wildcard)) {
            // A delegation at a wildcard is refused at load; if one were there it would refer.
            Some(node) => match node.cut.and_then(|cut| self.cut(cut)) {
                Some(cut) => Found::Cut(cut),
                None => Found::Node(node),
            },
            None => Found::Nothing,
        }
    }

    /// The longest existing ancestor of a name that does not exist itself.
    fn closest_encloser(&self, key: &[u8]) -> Option<&Node> {
        let mut suffix = parent_of(key);
        while let Some(name) = suffix {
            if let Some(node) = self.node_at(name) {
                return Some(node);
            }
            suffix = parent_of(name);
        }
        None
    }

    /// True if the node owns the cut's NS records itself.
    fn is_at(&self, cut: &Cut, node: &Node) -> bool {
        self.node(cut.node).is_some_and(|owner| std::ptr::eq(owner, node))
    }
}
