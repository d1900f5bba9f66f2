//! What the load balancers would answer to many queries: a log that is replayed, or a mix of clients
//! that is made up, taken through the decision core (operations.md, "simulate").
//!
//! ```text
//! a line of a log ─► log ─┐
//!                         ├─► Simulation: place_client ─► decide ─► pick ─► tally ─► report
//! shares by region ─► mix ┘         └─► one Outcome before, one after ─► moves ─► report
//! ```
//!
//! Nothing is decided here. Sequences are kept as one worker keeps them, so a log gives the answers
//! that a server with one worker would have given to it.

pub mod log;
pub mod mix;
pub mod moves;
pub mod quoted;
pub mod replay;
pub mod report;
mod show;
pub mod tally;

use std::collections::HashMap;

use crate::locate::place::{AvailabilityZoneId, Place, RegionId};
use crate::name::{Name, NameError};
use crate::query::Question;
use crate::respond::{ClientPlace, Responder, place_client};
use crate::rr::RecordType;
use crate::simulate::log::LoggedQuery;
use crate::simulate::tally::Tally;
use crate::state::State;
use crate::steer::availability::Health;
use crate::steer::load_balancer::{LoadBalancer, LoadBalancerId};
use crate::steer::plan::Plan;
use crate::steer::pool::{Family, OriginIndex, PoolId};
use crate::steer::session::Session;
use crate::steer::slots::Slots;
use crate::steer::zonal::zone_in;
use crate::steer::{FirstOnly, Outcome as Chosen, decide, pick};

/// How many names are remembered: a log may ask for any number of them.
const MOST_NAMES: usize = 1 << 16;

/// One configuration that answers, and what it answered so far.
#[derive(Debug)]
pub struct Simulation<'s> {
    /// The configuration.
    pub state: &'s State,
    /// What the assumed health makes of it.
    pub plan: Plan,
    /// The numbers of the answers, as one worker counts them. Sessions need not be kept: see
    /// [`Simulation::answer`].
    sequences: Slots,
    names: HashMap<Box<str>, Named, foldhash::fast::FixedState>,
    tally: Tally,
}

/// What a name of a log is.
#[derive(Clone, Copy, Debug)]
enum Named {
    /// A steered name, or one that leads to it.
    Steered(LoadBalancerId),
    /// Any other.
    Other,
}

/// What came of one query for a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The load balancer.
    pub balancer: LoadBalancerId,
    /// The client's region.
    pub region: Option<RegionId>,
    /// The family that was asked for.
    pub family: Family,
    /// The pool that answers; none for SERVFAIL.
    pub pool: Option<PoolId>,
    /// Whether it answers as the fallback pool.
    pub fallback: bool,
    /// The client's zone, as far as it counts in the pool.
    pub zone: Option<AvailabilityZoneId>,
    /// Whether the client is in any zone.
    pub is_zoned: bool,
    /// The first origin of the answer; none for "no data".
    pub origin: Option<OriginIndex>,
}

impl<'s> Simulation<'s> {
    /// Begins with a configuration at a state of health.
    pub fn new(state: &'s State, health: &Health) -> Self {
        Self {
            state,
            plan: Plan::new(&state.pools, health),
            sequences: Slots::new(state.slot_count),
            names: HashMap::default(),
            tally: Tally::new(state),
        }
    }

    /// What was answered so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Answers a query of a log; none if the name and type are not steered.
    ///
    /// # Errors
    /// [`NameError`] if the name is none.
    pub fn ask(&mut self, query: &LoggedQuery<'_>) -> Result<Option<Outcome>, NameError> {
        let named = match self.names.get(query.name) {
            Some(&named) => named,
            None => self.look_up(query.name)?,
        };
        let family = match query.record_type {
            RecordType::A => Family::V4,
            RecordType::AAAA => Family::V6,
            _ => {
                self.tally.others += 1;
                return Ok(None);
            }
        };
        let Named::Steered(id) = named else {
            self.tally.others += 1;
            return Ok(None);
        };
        let state = self.state;
        let Some(balancer) = state.balancer(id) else { return Ok(None) };
        let client = place_client(state, balancer, &query.client);
        Ok(Some(self.answer((id, balancer), &client, family)))
    }

    /// Answers an A query for a load balancer from a place.
    pub fn ask_from(&mut self, id: LoadBalancerId, place: &Place) -> Option<Outcome> {
        let balancer = self.state.balancer(id)?;
        let client = ClientPlace {
            place: *place,
            place_index: u32::MAX,
            address: None,
            by_subnet: false,
            session_subnet: None,
            ecs_scope: 0,
        };
        Some(self.answer((id, balancer), &client, Family::V4))
    }

    fn answer(
        &mut self,
        (id, balancer): (LoadBalancerId, &LoadBalancer),
        client: &ClientPlace,
        family: Family,
    ) -> Outcome {
        let steering = self.state.steering(&self.plan);
        let place = &client.place;
        // At one state of health a session is where it would be placed. A client without an address has
        // none; its answers have the same shares.
        let session = balancer.sessions.as_ref().zip(client.session_subnet);
        let session = session.map(|(of, subnet)| Session::find(of, subnet, &FirstOnly));
        let decision = match &session {
            Some(session) => session.decide(&steering, balancer, place),
            None => decide(&steering, balancer, place, family, &self.sequences),
        };
        let (pool, fallback) = match decision.outcome {
            Chosen::Available(pool) => (Some(pool), false),
            Chosen::Fallback(pool) => (Some(pool), true),
            Chosen::Nothing(_) => (None, false),
        };
        let first = pool.and_then(|pool| {
            let sequences = &self.sequences;
            // Nothing is resolved here: where addresses would be answered, the origin is what counts.
            let family = match self.state.pool(pool) {
                Some(pool) if pool.origins.iter().all(|o| o.host.is_some()) => Family::Host,
                _ => family,
            };
            let pick = match &session {
                Some(session) => session.place(&steering, balancer, pool, place, family, sequences),
                None => pick(&steering, balancer, pool, place, family, sequences),
            };
            pick?.members().next().map(|member| member.origin)
        });
        let zone = pool.and_then(|pool| zone_in(self.state.pool(pool)?, place));
        let outcome = Outcome {
            balancer: id,
            region: place.region,
            family,
            pool,
            fallback,
            zone,
            is_zoned: place.zone.is_some(),
            origin: first,
        };
        self.tally.add(self.state, &outcome);
        outcome
    }

    /// Finds out what a name is, by asking for its addresses, and remembers it.
    fn look_up(&mut self, text: &str) -> Result<Named, NameError> {
        let name = Name::parse_absolute(text)?;
        let responder = Responder { state: self.state, plan: &self.plan, sequences: &FirstOnly };
        let question = Question::of(&name, RecordType::A);
        let answer = responder.answer(&question, crate::respond::Client::UNKNOWN);
        let is_it = |&(_, balancer): &(LoadBalancerId, &LoadBalancer)| {
            answer.steered_by.is_some_and(|steered| std::ptr::eq(steered, balancer))
        };
        let mut balancers = (0u32..).map(LoadBalancerId).zip(&self.state.balancers);
        let named = balancers.find(is_it).map_or(Named::Other, |(id, _)| Named::Steered(id));
        if self.names.len() >= MOST_NAMES {
            self.names.clear();
        }
        self.names.insert(text.into(), named);
        Ok(named)
    }
}
