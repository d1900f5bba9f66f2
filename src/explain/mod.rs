//! Why a client gets its answer: the steps of the decision with the reason for each
//! (operations.md, "The shape of `explain --json`").
//!
//! The answer is that of [`Responder`]; the steps are shown by calling the functions that the plan
//! is made of, so that what is explained is what is served.

mod asker;
mod assume;
mod facts;
mod show;
mod steps;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::explain::asker::{Asker, ClientText};
pub use crate::explain::assume::{Assumption, assume, assume_everywhere};
pub use crate::explain::facts::{Facts, NoFacts, Said};
pub(crate) use crate::explain::steps::{origin_reason, pool_part};

use crate::answer::Answer;
use crate::locate::MatchSource;
use crate::name::Name;
use crate::query::{Question, Rcode};
use crate::respond::{Client, ClientPlace, Responder, place_client};
use crate::rr::RecordType;
use crate::state::State;
use crate::steer::FirstOnly;
use crate::steer::availability::Health;
use crate::steer::load_balancer::ClientSource;
use crate::steer::plan::Plan;
use crate::steer::pool::{Pool, PoolId};
use crate::zone::rdata::describe;

/// The state that is explained: assumed, or of one moment of a server.
#[derive(Clone, Copy)]
pub struct Scene<'e> {
    /// The configuration.
    pub state: &'e State,
    /// Its pools, as far as an operator did not disable or drain them.
    pub pools: &'e [Pool],
    /// The health.
    pub health: &'e Health,
    /// What it makes of the pools.
    pub plan: &'e Plan,
    /// What else is known.
    pub facts: &'e dyn Facts,
}

impl<'e> Scene<'e> {
    /// An assumed state, of which nothing else is known.
    pub fn assumed(state: &'e State, health: &'e Health, plan: &'e Plan) -> Self {
        Self { state, pools: &state.pools, health, plan, facts: &NoFacts }
    }

    pub(crate) fn pool(&self, id: PoolId) -> Option<&'e Pool> {
        self.pools.get(id.0 as usize)
    }
}

/// One of a few words; owned where it was read from another server.
type Word = Cow<'static, str>;

/// The explanation of one answer. Names are the configuration's; new keys may be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// What is asked, and for whom.
    pub query: QueryPart,
    /// Where the client is.
    pub location: LocationPart,
    /// The load balancer, if the name is steered.
    pub load_balancer: Option<String>,
    /// True if the health of monitored origins is assumed, as nothing is probed. For people: the document has
    /// the same keys wherever it comes from.
    #[serde(skip)]
    pub health_is_assumed: bool,
    /// The candidate pools, and why these.
    pub steering: Option<SteeringPart>,
    /// Whether each candidate is available, and why.
    pub pools: Option<Vec<PoolPart>>,
    /// The pool that answers.
    pub pool: Option<String>,
    /// Whether it answers because no candidate is available.
    pub fallback: Option<bool>,
    /// The pool's origins.
    pub origins: Option<Vec<OriginPart>>,
    /// The failover policy's result.
    pub failover: Option<FailoverPart>,
    /// Zonal affinity's result.
    pub zonal: Option<ZonalPart>,
    /// The session that the client would get; none without session affinity.
    pub session: Option<SessionPart>,
    /// The shares of the origins that the answer is chosen from.
    pub choice: Option<ChoicePart>,
    /// The answer of sequence number 0.
    pub answer: AnswerPart,
}

/// What is asked, and for whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueryPart {
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub record_type: String,
    /// The address or subnet that locates the client.
    pub client: String,
    /// `ecs` or `resolver`.
    pub client_source: Word,
}

/// Where the client is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LocationPart {
    /// Its region.
    pub region: Option<String>,
    /// Its availability zone.
    pub zone: Option<String>,
    /// Its country.
    pub country: Option<String>,
    /// The subdivision of that.
    pub subdivision: Option<String>,
    /// Its latitude and longitude in degrees.
    pub location: Option<[f64; 2]>,
    /// The subnet or network that says so.
    pub matched: Option<String>,
    /// `subnets` or `database`.
    pub source: Option<Word>,
}

/// The candidate pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SteeringPart {
    /// The policy.
    pub policy: Word,
    /// The list that the client matched.
    pub rule: String,
    /// Its pools, in order.
    pub candidates: Vec<String>,
    /// With `rtt`: the milliseconds that the order follows from, by pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<BTreeMap<String, f64>>,
    /// With `proximity`: where distances are measured from, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FromPart>,
    /// With `proximity`: the kilometres from there, by pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<BTreeMap<String, f64>>,
    /// With `random`: the share of the answers of each pool that can be chosen, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<BTreeMap<String, f64>>,
}

/// Where distances are measured from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FromPart {
    /// The latitude and longitude in degrees.
    pub location: [f64; 2],
    /// `client`, or `country` where they are those of its middle.
    pub of: Word,
}

/// A candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolPart {
    /// The pool.
    pub pool: String,
    /// Whether it is available.
    pub available: bool,
    /// Why.
    pub reason: String,
}

/// An origin of the pool that answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OriginPart {
    /// Its name.
    pub origin: String,
    /// `primary` or `failover`.
    pub role: Word,
    /// Its zone.
    pub zone: Option<String>,
    /// Its weight.
    pub weight: f64,
    /// `healthy`, `unhealthy` or `unknown`.
    pub health: Word,
    /// Whether it may take new answers by its health.
    pub eligible: bool,
    /// Why.
    pub reason: String,
}

/// The failover policy's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailoverPart {
    /// Set A.
    pub original_eligible: Vec<String>,
    /// Where it came from.
    pub from: Word,
}

/// Zonal affinity's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ZonalPart {
    /// The mode.
    pub mode: Word,
    /// The ratio, with `spill_cross_zone`.
    pub spillover_ratio: Option<String>,
    /// Whether there is a zonal match.
    #[serde(rename = "match")]
    pub is_match: bool,
    /// Why.
    pub reason: String,
    /// Set C.
    pub matched: Vec<String>,
    /// count(A∩C)/count(C).
    pub ratio: Option<String>,
    /// The set that the answer is chosen from.
    pub modified_eligible: Vec<String>,
}

/// The session of a client that has none yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionPart {
    /// The client subnet.
    pub key: Option<String>,
    /// How many seconds it lives after its last query.
    pub ttl: u32,
    /// `keep` or `move`.
    pub failback: Word,
    /// The origin that it is placed on.
    pub placed: Option<String>,
    /// Why.
    pub reason: String,
}

/// The shares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChoicePart {
    /// The share of each origin in first place, 0 to 1.
    pub share: BTreeMap<String, f64>,
    /// How many origins an answer carries, or `all`.
    pub answers: serde_json::Value,
    /// With sessions: `session`, the first origin is that of the client's session, and shares are of
    /// the clients and not of the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Word>,
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnswerPart {
    /// The response code.
    pub rcode: Word,
    /// The answer section.
    pub records: Vec<RecordPart>,
    /// The scope; none without a client subnet.
    pub ecs_scope: Option<u8>,
    /// The extended error.
    pub ede: Option<ErrorPart>,
    /// What the authority section says: a negative answer's zone, or a delegation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authority: Vec<RecordPart>,
}

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordPart {
    /// The owner.
    pub name: String,
    /// The TTL.
    pub ttl: u32,
    /// The type.
    #[serde(rename = "type")]
    pub record_type: String,
    /// The data in master-file form.
    pub data: String,
}

/// An extended error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorPart {
    /// The INFO-CODE.
    pub code: u16,
    /// The EXTRA-TEXT.
    pub text: String,
}

impl Explanation {
    /// True if the answer is SERVFAIL or REFUSED.
    pub fn is_failure(&self) -> bool {
        let failures = [Rcode::ServFail, Rcode::Refused].map(Rcode::mnemonic);
        failures.contains(&self.answer.rcode.as_ref())
    }
}

/// Explains the answer to a question.
pub fn explain(
    scene: &Scene<'_>,
    name: &Name,
    record_type: RecordType,
    asker: Asker,
) -> Explanation {
    let Scene { state, plan, .. } = *scene;
    let responder = Responder { state, plan, sequences: &FirstOnly };
    let question = Question::of(name, record_type);
    let mut client = asker.client();
    let mut answer = responder.answer(&question, client);
    // "Where the load balancer has client = "resolver" and only IP/LEN is given, IP is the resolver."
    if let Some(balancer) = answer.steered_by
        && balancer.client == ClientSource::Resolver
        && let Asker::Subnet(subnet, None) = asker
    {
        client.resolver = Some(subnet.addr());
        answer = responder.answer(&question, client);
    }
    let place = match answer.steered_by {
        Some(balancer) => place_client(state, balancer, &client),
        None => place_client_of_no_balancer(state, &client),
    };
    let steps = answer
        .steered_by
        .map(|balancer| steps::Steps { scene, balancer, client: &place }.explain(record_type));
    let steps = steps.unwrap_or_default();
    Explanation {
        query: query_part(name, record_type, asker, &place),
        location: location_part(state, &place),
        load_balancer: answer.steered_by.map(|balancer| balancer.name.to_string()),
        health_is_assumed: scene.facts.is_assumed() && steps.is_monitored,
        steering: steps.steering,
        pools: steps.pools,
        pool: steps.pool,
        fallback: steps.fallback,
        origins: steps.origins,
        failover: steps.failover,
        zonal: steps.zonal,
        session: steps.session,
        choice: steps.choice,
        answer: answer_part(&answer, &question, client.subnet.is_some()),
    }
}

/// Where the client of a name without a load balancer is: it does not matter, but is shown.
fn place_client_of_no_balancer(state: &State, client: &Client) -> ClientPlace {
    let subnet = client.subnet.and_then(|subnet| subnet.locating_address());
    let address = subnet.or(client.resolver);
    let located = address.map(|address| state.locator.locate(address));
    ClientPlace {
        place: located.map(|located| located.place).unwrap_or_default(),
        place_index: located.map_or(u32::MAX, |located| located.place_index),
        address,
        by_subnet: subnet.is_some(),
        session_subnet: None,
        ecs_scope: 0,
    }
}

fn query_part(
    name: &Name,
    record_type: RecordType,
    asker: Asker,
    place: &ClientPlace,
) -> QueryPart {
    let client = match (asker, place.by_subnet) {
        (Asker::Subnet(subnet, _), true) => subnet.to_string(),
        _ => place.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string()),
    };
    QueryPart {
        name: name.to_string(),
        record_type: record_type.to_string(),
        client,
        client_source: if place.by_subnet { "ecs" } else { "resolver" }.into(),
    }
}

fn location_part(state: &State, client: &ClientPlace) -> LocationPart {
    let place = &client.place;
    let matched = client.address.map(|address| state.locator.describe(address));
    let source = matched.and_then(|matched| match matched.source {
        MatchSource::Subnets => Some("subnets".into()),
        MatchSource::Database => Some("database".into()),
        MatchSource::None => None,
    });
    let regions = state.locator.regions();
    LocationPart {
        region: place.region.map(|region| regions.name(region).to_owned()),
        zone: place.zone.map(|zone| state.availability_zones.name(zone).to_owned()),
        country: place.country.map(|country| country.to_string()),
        subdivision: place.subdivision.map(|subdivision| subdivision.to_string()),
        location: place.coordinates.map(|coordinates| coordinates.to_degrees()),
        matched: matched.and_then(|matched| matched.network).map(|network| network.to_string()),
        source,
    }
}

fn answer_part(answer: &Answer<'_>, question: &Question<'_>, with_subnet: bool) -> AnswerPart {
    let records = |sets: &[crate::answer::Set<'_>]| -> Vec<RecordPart> {
        sets.iter().flat_map(|set| record_parts(set, question)).collect()
    };
    AnswerPart {
        rcode: answer.rcode.mnemonic().into(),
        records: records(&answer.whole_sets()),
        ecs_scope: with_subnet.then_some(answer.ecs_scope),
        ede: answer
            .extended_error
            .map(|error| ErrorPart { code: error.code(), text: error.to_string() }),
        authority: answer
            .authority
            .as_ref()
            .map(|set| record_parts(set, question))
            .unwrap_or_default(),
    }
}

fn record_parts(set: &crate::answer::Set<'_>, question: &Question<'_>) -> Vec<RecordPart> {
    let wire = set.owner.wire(question.name);
    let name = Name::from_wire(wire).map(|name| name.to_string()).unwrap_or_default();
    let part = |rdata| RecordPart {
        name: name.clone(),
        ttl: set.ttl.seconds(),
        record_type: set.record_type.to_string(),
        data: describe(set.record_type, rdata),
    };
    set.rdata().map(part).collect()
}
