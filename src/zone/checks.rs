//! What a zone cannot hold, and what it holds but hardly means: the last step of its loading, on the
//! finished tree.

use std::collections::HashMap;

use crate::config::reader::Place;
use crate::config::report::Report;
use crate::name::Name;
use crate::rr::RecordType;
use crate::zone::node::{Node, NodeId, Zone};

/// What a zone cannot hold (RFC 1034, 2181, 4592, 6672), or should not.
pub(super) struct Checks<'z> {
    pub(super) zone: &'z Zone,
    pub(super) places: &'z HashMap<(NodeId, RecordType), Place>,
    pub(super) is_complete: bool,
    pub(super) report: &'z Report,
}

impl Checks<'_> {
    fn place(&self, id: NodeId, record_type: RecordType) -> Option<&Place> {
        self.places.get(&(id, record_type))
    }

    /// Checks every name.
    pub(super) fn nodes(&self) {
        for (id, node) in (0u32..).map(NodeId).zip(&self.zone.nodes) {
            self.singletons(id, node);
            self.alone(id, node);
            self.redirected(id, node);
            self.delegated(id, node);
            self.targets(id, node);
        }
    }

    /// SOA stands at the apex only; CNAME and DNAME have one record.
    fn singletons(&self, id: NodeId, node: &Node) {
        let soa = self.place(id, RecordType::SOA).filter(|_| node.owner != self.zone.apex);
        if let Some(place) = soa {
            let help = "remove it, or make a zone of its own of this name";
            place.error(self.report, "a SOA stands below the apex", help);
        }
        for record_type in [RecordType::CNAME, RecordType::DNAME] {
            let several = node.rrset(record_type).is_some_and(|set| set.rdata.len() > 1);
            if let Some(place) = self.place(id, record_type).filter(|_| several) {
                let message = format!("{} has more than one {record_type}", node.owner);
                place.error(self.report, message, "keep one (RFC 2181 section 10.1)");
            }
        }
    }

    /// A CNAME has no other data beside it (RFC 1034 section 3.6.2).
    fn alone(&self, id: NodeId, node: &Node) {
        let others = || node.rrsets.iter().map(|set| set.record_type);
        let other = others().find(|&t| t != RecordType::CNAME);
        if let (Some(place), Some(other)) = (self.place(id, RecordType::CNAME), other) {
            let at = self.place(id, other).map(Place::line).unwrap_or_default();
            place.error(
                self.report,
                format!("{} has a CNAME and also {other} (see {at})", node.owner),
                "a CNAME stands alone: remove it or the other records",
            );
        }
    }

    /// Nothing stands below a DNAME (RFC 6672 section 2.4), and it is not at a cut.
    fn redirected(&self, id: NodeId, node: &Node) {
        let mut ancestor = node.owner.parent();
        while let Some(name) = ancestor.filter(|name| name.is_at_or_below(&self.zone.apex)) {
            let above = self.zone.node_at(&name.to_key());
            if above.is_some_and(|above| above.rrset(RecordType::DNAME).is_some())
                && let Some(place) =
                    node.rrsets.iter().find_map(|set| self.place(id, set.record_type))
            {
                place.error(
                    self.report,
                    format!("{} is below the DNAME at {name}, which redirects it", node.owner),
                    "remove it or the DNAME",
                );
                return;
            }
            ancestor = name.parent();
        }
    }

    /// At a cut stand NS and DS, below it addresses of name servers; the rest is never answered.
    fn delegated(&self, id: NodeId, node: &Node) {
        let Some(cut) = node.cut.and_then(|cut| self.zone.cut(cut)) else { return };
        if node.owner.is_wildcard()
            && let Some(place) = self.place(id, RecordType::NS)
        {
            let help = "delegate each name by itself (RFC 4592 section 4.2)";
            place.error(self.report, "a wildcard is delegated", help);
        }
        let at_cut = cut.node == id;
        for set in &node.rrsets {
            let useful = match set.record_type {
                RecordType::NS | RecordType::DS => at_cut,
                RecordType::A | RecordType::AAAA => true,
                _ => false,
            };
            if let Some(place) = self.place(id, set.record_type).filter(|_| !useful) {
                let cut_owner = self.zone.node(cut.node).map(|node| node.owner.to_string());
                place.warning(
                    self.report,
                    format!(
                        "{} {} is never answered: {} is delegated",
                        node.owner,
                        set.record_type,
                        cut_owner.unwrap_or_default()
                    ),
                    "remove it, or the NS records of the delegation",
                );
            }
        }
        if at_cut {
            self.has_glue(id, node);
        }
    }

    /// A name server within the delegated zone can be found by its address here only.
    fn has_glue(&self, id: NodeId, node: &Node) {
        let servers = node.rrset(RecordType::NS).map_or(&[][..], |set| &set.rdata);
        for server in servers.iter().filter_map(|rdata| Name::from_wire(rdata).ok()) {
            let known = self.zone.node_at(&server.to_key()).is_some_and(has_address);
            if server.is_at_or_below(&node.owner)
                && !known
                && let Some(place) = self.place(id, RecordType::NS)
            {
                place.warning(
                    self.report,
                    format!("the name server {server} has no address here"),
                    "add an A or AAAA record of it: the delegated zone cannot be reached without",
                );
            }
        }
    }

    /// Names that NS, MX and SRV records of this zone refer to exist, and are no aliases
    /// (RFC 2181 section 10.3).
    fn targets(&self, id: NodeId, node: &Node) {
        if !self.is_complete {
            return;
        }
        let prefixes = [
            (RecordType::NS, 0),
            (RecordType::MX, 2),
            (RecordType::SRV, 6),
            (RecordType::CNAME, 0),
        ];
        for (record_type, prefix) in prefixes {
            let Some(set) = node.rrset(record_type) else { continue };
            let names = set.rdata.iter().filter_map(|rdata| rdata.get(prefix..));
            for target in names.filter_map(|wire| Name::from_wire(wire).ok()) {
                self.target(id, node, record_type, &target);
            }
        }
    }

    fn target(&self, id: NodeId, node: &Node, record_type: RecordType, target: &Name) {
        use crate::zone::lookup::Found;
        if target.is_root() || !target.is_at_or_below(&self.zone.apex) || node.cut.is_some() {
            return;
        }
        let Some(place) = self.place(id, record_type) else { return };
        let problem = match self.zone.lookup(&target.to_key(), RecordType::A) {
            Found::Nothing => Some(("does not exist", "correct the name, or add it")),
            Found::Node(found) if record_type != RecordType::CNAME => {
                if found.rrset(RecordType::CNAME).is_some() {
                    Some(("is an alias (RFC 2181 section 10.3)", "name what the alias stands for"))
                } else if has_address(found) || found.steered.is_some() {
                    None
                } else {
                    Some(("has no address", "correct the name, or add an A or AAAA record of it"))
                }
            }
            _ => None,
        };
        if let Some((problem, help)) = problem {
            let message = format!("{target}, which this {record_type} record names, {problem}");
            place.warning(self.report, message, help);
        }
    }

    /// A load balancer owns A, AAAA and CNAME of its name, and is not at or below a cut.
    pub(super) fn steered(&self, steered: &[(NodeId, &Place)]) {
        for &(id, place) in steered {
            let Some(node) = self.zone.node(id) else { continue };
            for set in node.rrsets.iter().filter(|set| set.record_type.is_steered()) {
                let at = self.place(id, set.record_type).map(Place::line).unwrap_or_default();
                place.error(
                    self.report,
                    format!(
                        "{} has static {} records (see {at}), and a load balancer owns that type",
                        node.owner, set.record_type
                    ),
                    "remove the records, or the load balancer",
                );
            }
            let mut ancestor = node.owner.parent();
            while let Some(name) = ancestor.filter(|name| name.is_at_or_below(&self.zone.apex)) {
                let above = self.zone.node_at(&name.to_key());
                if above.is_some_and(|above| above.rrset(RecordType::DNAME).is_some()) {
                    let message = format!("{} is below the DNAME at {name}", node.owner);
                    place.error(self.report, message, "remove the DNAME, or the load balancer");
                }
                ancestor = name.parent();
            }
            if let Some(cut) = node.cut.and_then(|cut| self.zone.cut(cut)) {
                let owner = self.zone.node(cut.node).map(|node| node.owner.to_string());
                place.error(
                    self.report,
                    format!("{} is delegated at {}", node.owner, owner.unwrap_or_default()),
                    "a load balancer there is never asked: remove it, or the NS records",
                );
            }
        }
    }
}

fn has_address(node: &Node) -> bool {
    node.rrset(RecordType::A).is_some() || node.rrset(RecordType::AAAA).is_some()
}
