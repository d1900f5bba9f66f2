//! What of a zone is published: its records, and its steered names as their answers to a client without a
//! location, with all origins healthy and the first number.

use crate::answer::{Data, Owner, Set};
use crate::query::Question;
use crate::respond::{Client, Responder};
use crate::rr::RecordType;
use crate::state::State;
use crate::steer::FirstOnly;
use crate::steer::availability::{Health, HealthState};
use crate::steer::plan::Plan;
use crate::steer::pool::Pool;
use crate::zone::node::Node;

/// The plan of a state with all origins healthy. Of the pools of the moment only the addresses of host names
/// are taken: what an operator says of origins is not published.
pub fn plan(state: &State, current: &[Pool]) -> Plan {
    let health = Health::uniform(state.probes.targets().len(), HealthState::Healthy);
    if !state.pools.iter().any(Pool::has_hosts) {
        return Plan::new(&state.pools, &health);
    }
    let mut pools = state.pools.to_vec();
    for (pool, current) in pools.iter_mut().zip(current) {
        for (origin, current) in pool.origins.iter_mut().zip(&current.origins) {
            if origin.host.is_none() {
                continue;
            }
            origin.addresses.clone_from(&current.addresses);
            // What is probed of them has numbers that are not the state's.
            origin.addresses.iter_mut().for_each(|address| address.probe = None);
        }
    }
    Plan::new(&pools, &health)
}

/// The record sets of a name, without the SOA, which stands at both ends of a transfer.
pub fn sets<'s>(responder: &Responder<'s, FirstOnly>, node: &'s Node) -> Vec<Set<'s>> {
    let owner = || Owner::Wire(node.owner.as_wire());
    let answered = |record_type| {
        let question = Question::of(&node.owner, record_type);
        let answer = responder.answer(&question, Client::UNKNOWN);
        // What follows an alias has its place elsewhere.
        let own = answer.whole_sets().into_iter().next();
        own.filter(|set| matches!(set.owner, Owner::Question))
            .map(|set| Set { owner: owner(), ..set })
    };
    let mut sets = Vec::new();
    let is_steered = node.steered.is_some();
    for set in node.rrsets.iter().filter(|set| set.record_type != RecordType::SOA) {
        if is_steered && node.hinted.contains(&set.record_type) {
            sets.extend(answered(set.record_type));
        } else {
            sets.push(Set::of(owner(), set));
        }
    }
    if is_steered {
        for set in [RecordType::A, RecordType::AAAA].into_iter().filter_map(answered) {
            // An alias answers both.
            if sets.iter().all(|known| known.record_type != set.record_type) {
                sets.push(set);
            }
        }
    }
    sets
}

/// The data of a set's records, each once: two origins may have the same address.
pub fn records<'a>(set: &'a Set<'_>) -> Vec<&'a [u8]> {
    let mut records: Vec<&[u8]> = Vec::new();
    let may_repeat = matches!(set.data, Data::Steered(_));
    for rdata in set.rdata() {
        if !may_repeat || !records.contains(&rdata) {
            records.push(rdata);
        }
    }
    records
}
