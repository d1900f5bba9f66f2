//! From the records of a zone's sources to its tree: sorts them into sets, makes the empty
//! non-terminals, finds the cuts, and refuses what a zone cannot hold.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use crate::config::reader::Place;
use crate::config::report::Report;
use crate::name::Name;
use crate::rr::{Rdata, Record, RecordType, RrSet, Ttl};
use crate::steer::load_balancer::LoadBalancerId;
use crate::zone::checks::Checks;
use crate::zone::master::SourcedRecord;
use crate::zone::node::{Cut, CutId, Glue, NameMap, Node, NodeId, Soa, Zone, soa_minimum};

/// What a zone is made of.
#[derive(Debug)]
pub struct ZoneParts {
    /// The name of the zone.
    pub apex: Name,
    /// Where its file says so.
    pub place: Place,
    /// The records of the zone's TOML, SOA aside.
    pub toml_records: Vec<SourcedRecord>,
    /// The records of its master file.
    pub master_records: Vec<SourcedRecord>,
    /// False if a record could not be read: what seems to be missing may be what is wrong.
    pub is_complete: bool,
    /// `[soa]`, completed when the name servers are known; none for the defaults.
    pub soa: SoaFields,
    /// The files that the zone comes from.
    pub sources: Vec<PathBuf>,
    /// Names and types whose records get hints, and where that is said.
    pub hinted: Vec<(Name, RecordType, Place)>,
    /// The steered names, and where they stand.
    pub steered: Vec<(Name, LoadBalancerId, Place)>,
}

/// The fields of `[soa]`, with their defaults (config.md).
#[derive(Clone, Debug)]
pub struct SoaFields {
    /// Where `[soa]` stands, if it is there.
    pub place: Option<Place>,
    /// The primary name server; the first NS if none.
    pub mname: Option<Name>,
    /// The mailbox of the person in charge, as a name.
    pub rname: Option<Name>,
    /// The TTL of the SOA record.
    pub ttl: Ttl,
    /// The serial; derived if none.
    pub serial: Option<u32>,
    /// Refresh, retry, expire and minimum in seconds.
    pub timers: [u32; 4],
}

impl Default for SoaFields {
    fn default() -> Self {
        Self {
            place: None,
            mname: None,
            rname: None,
            ttl: Ttl::saturating(3600),
            serial: None,
            timers: [7200, 900, 1_209_600, 60],
        }
    }
}

/// The sets of a zone under construction, by owner (in canonical order of its key) and type.
type Sets = BTreeMap<Box<[u8]>, Owner>;

struct Owner {
    name: Name,
    sets: BTreeMap<RecordType, (RrSet, Place)>,
}

/// Builds a zone. Mistakes are reported; none where the zone has no usable apex.
pub fn build(mut parts: ZoneParts, report: &Report) -> Option<Zone> {
    let mut sets = Sets::new();
    let master = std::mem::take(&mut parts.master_records);
    for sourced in master {
        insert(&mut sets, sourced, report);
    }
    let of_master: Vec<(Box<[u8]>, RecordType, u32)> = sets
        .iter()
        .flat_map(|(key, owner)| {
            owner.sets.iter().map(|(&t, (_, place))| (key.clone(), t, place.position.line))
        })
        .collect();
    let of_master: HashMap<(Box<[u8]>, RecordType), u32> =
        of_master.into_iter().map(|(key, t, line)| ((key, t), line)).collect();
    for sourced in std::mem::take(&mut parts.toml_records) {
        let SourcedRecord { record, place } = &sourced;
        if let Some(line) = of_master.get(&(record.owner.to_key(), record.record_type)) {
            place.error(
                report,
                format!(
                    "{} {} is in the zone's master file already, on line {line}",
                    record.owner, record.record_type
                ),
                "give each name and type in one of both",
            );
            continue;
        }
        insert(&mut sets, sourced, report);
    }
    let soa = start_of_authority(&parts, &mut sets, report)?;
    let mut zone = Zone {
        apex: parts.apex.clone(),
        soa,
        sources: parts.sources,
        nodes: Vec::new(),
        index: NameMap::default(),
        cuts: Vec::new(),
    };
    let mut places: HashMap<(NodeId, RecordType), Place> = HashMap::new();
    zone.ensure(&parts.apex.clone());
    for owner in sets.into_values() {
        let id = zone.ensure(&owner.name);
        for (record_type, (set, place)) in owner.sets {
            places.insert((id, record_type), place);
            if let Some(node) = zone.nodes.get_mut(id.0 as usize) {
                node.rrsets.push(set);
            }
        }
    }
    let mut steered_places = Vec::new();
    for (name, balancer, place) in &parts.steered {
        let id = zone.ensure(name);
        if let Some(node) = zone.nodes.get_mut(id.0 as usize) {
            node.steered = Some(*balancer);
        }
        steered_places.push((id, place));
    }
    for (name, record_type, place) in &parts.hinted {
        let id = zone.ensure(name);
        let Some(node) = zone.nodes.get_mut(id.0 as usize) else { continue };
        node.hinted.push(*record_type);
        if node.steered.is_none() {
            let message = format!("{name} has no load balancer whose addresses could be hints");
            place.warning(report, message, "remove the key, or add the load balancer");
        }
    }
    zone.find_cuts();
    let is_complete = parts.is_complete;
    let checks = Checks { zone: &zone, places: &places, is_complete, report };
    checks.nodes();
    checks.steered(&steered_places);
    zone.find_glue();
    Some(zone)
}

/// Adds a record to its set: equal ones once, the lowest TTL for all (RFC 2181 section 5).
fn insert(sets: &mut Sets, sourced: SourcedRecord, report: &Report) {
    let SourcedRecord { record: Record { owner, record_type, ttl, rdata }, place } = sourced;
    let entry = sets
        .entry(owner.to_key())
        .or_insert_with(|| Owner { name: owner.clone(), sets: BTreeMap::new() });
    let set = entry
        .sets
        .entry(record_type)
        .or_insert_with(|| (RrSet { record_type, ttl, rdata: Vec::new() }, place.clone()));
    let (set, _) = set;
    if set.rdata.contains(&rdata) {
        place.warning(report, "the record is there twice", "remove one of both");
    } else {
        set.rdata.push(rdata);
    }
    set.ttl = set.ttl.min(ttl);
}

/// Makes the SOA from the master file or `[soa]`, and puts it into the sets.
fn start_of_authority(parts: &ZoneParts, sets: &mut Sets, report: &Report) -> Option<Soa> {
    let apex_key = parts.apex.to_key();
    let apex = sets.get(&apex_key);
    let Some((name_servers, _)) = apex.and_then(|owner| owner.sets.get(&RecordType::NS)) else {
        if parts.is_complete {
            parts.place.error(
                report,
                "the zone has no NS record at its apex",
                "add [[records]] with name = \"@\", type = \"NS\" and data = [\"ns1\"]",
            );
        }
        return None;
    };
    let fields = &parts.soa;
    if let Some((set, place)) = apex.and_then(|owner| owner.sets.get(&RecordType::SOA)) {
        if let Some(given) = &fields.place {
            let line = place.position.line;
            given.error(
                report,
                format!("the zone's master file has a SOA already, on line {line}"),
                "give the SOA in one of both",
            );
        }
        if set.rdata.len() > 1 {
            place.error(report, "the zone has more than one SOA", "keep one");
        }
        let minimum = set.rdata.first().and_then(|rdata| soa_minimum(rdata));
        let negative_ttl = set.ttl.min(Ttl::saturating(minimum.unwrap_or(0)));
        return Some(Soa { rrset: set.clone(), negative_ttl, serial_is_given: true });
    }
    let default_mname = || name_servers.rdata.first().and_then(|rdata| Name::from_wire(rdata).ok());
    let default_rname = || Name::parse("hostmaster", Some(&parts.apex)).ok();
    let mname = fields.mname.clone().or_else(default_mname)?;
    let rname = fields.rname.clone().or_else(default_rname)?;
    let mut rdata = [mname.as_wire(), rname.as_wire()].concat();
    rdata.extend_from_slice(&fields.serial.unwrap_or(0).to_be_bytes());
    for timer in fields.timers {
        rdata.extend_from_slice(&timer.to_be_bytes());
    }
    let rrset =
        RrSet { record_type: RecordType::SOA, ttl: fields.ttl, rdata: vec![Rdata::from(rdata)] };
    let place = fields.place.clone().unwrap_or_else(|| parts.place.clone());
    if let Some(owner) = sets.get_mut(&apex_key) {
        owner.sets.insert(RecordType::SOA, (rrset.clone(), place));
    }
    let [_, _, _, minimum] = fields.timers;
    let negative_ttl = fields.ttl.min(Ttl::saturating(minimum));
    Some(Soa { rrset, negative_ttl, serial_is_given: fields.serial.is_some() })
}

impl Zone {
    /// The node of a name, made with all its ancestors up to the apex if it is not there.
    fn ensure(&mut self, name: &Name) -> NodeId {
        let key = name.to_key();
        if let Some(&id) = self.index.get(&key) {
            return id;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node {
            owner: name.clone(),
            rrsets: Vec::new(),
            hinted: Vec::new(),
            steered: None,
            cut: None,
            wildcard: None,
        });
        self.index.insert(key, id);
        if *name != self.apex
            && let Some(parent) = name.parent()
        {
            let parent = self.ensure(&parent);
            if name.is_wildcard()
                && let Some(node) = self.nodes.get_mut(parent.0 as usize)
            {
                node.wildcard = Some(id);
            }
        }
        id
    }

    /// Marks the zone cuts, and everything at or below them; of nested ones the topmost counts.
    fn find_cuts(&mut self) {
        let apex_key = self.apex.to_key();
        let cut_nodes: Vec<NodeId> = (0u32..)
            .map(NodeId)
            .zip(&self.nodes)
            .filter(|(_, node)| {
                node.rrset(RecordType::NS).is_some() && node.owner.to_key() != apex_key
            })
            .map(|(id, _)| id)
            .collect();
        let mut by_node: HashMap<NodeId, CutId> = HashMap::new();
        for node in cut_nodes {
            by_node.insert(node, CutId(u32::try_from(self.cuts.len()).unwrap_or(u32::MAX)));
            self.cuts.push(Cut { node, glue: Vec::new() });
        }
        if by_node.is_empty() {
            return;
        }
        let topmost = |zone: &Self, owner: &Name| {
            let mut found = None;
            let mut name = Some(owner.clone());
            while let Some(current) = name.filter(|name| *name != zone.apex) {
                let id = zone.index.get(&current.to_key());
                found = id.and_then(|id| by_node.get(id)).copied().or(found);
                name = current.parent();
            }
            found
        };
        let cuts: Vec<Option<CutId>> =
            self.nodes.iter().map(|node| topmost(self, &node.owner)).collect();
        for (node, cut) in self.nodes.iter_mut().zip(cuts) {
            node.cut = cut;
        }
    }

    /// Collects the addresses of the cuts' name servers that this zone knows.
    fn find_glue(&mut self) {
        let glue_of = |cut: &Cut| -> Vec<Glue> {
            let Some(owner) = self.node(cut.node) else { return Vec::new() };
            let targets = owner.rrset(RecordType::NS).map_or(&[][..], |set| &set.rdata);
            let mut glue = Vec::new();
            for target in targets.iter().filter_map(|rdata| Name::from_wire(rdata).ok()) {
                let Some(&node) = self.index.get(&target.to_key()) else { continue };
                let required = target.is_at_or_below(&owner.owner);
                for record_type in [RecordType::A, RecordType::AAAA] {
                    if self.node(node).is_some_and(|node| node.rrset(record_type).is_some()) {
                        glue.push(Glue { node, record_type, required });
                    }
                }
            }
            // What a referral cannot do without goes first.
            glue.sort_by_key(|glue| !glue.required);
            glue
        };
        let all: Vec<Vec<Glue>> = self.cuts.iter().map(glue_of).collect();
        for (cut, glue) in self.cuts.iter_mut().zip(all) {
            cut.glue = glue;
        }
    }
}
