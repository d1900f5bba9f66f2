//! The one function that answers: a query, a client address and the state of the moment to an
//! [`Answer`]. Every transport, `explain` and every test of answers goes through it.

use std::net::IpAddr;

use arrayvec::ArrayVec;

use ipnet::IpNet;

use crate::answer::{Answer, Data, ExtendedError, GlueSets, Hints, MAX_ALIASES, Owner, Set};
use crate::locate::place::Place;
use crate::name::{MAX_NAME, wire_length};
use crate::query::{CLASS_CH, ClientSubnet, Question, Rcode, Request};
use crate::rr::{Rdata, RecordType, RrSet, Ttl};
use crate::served::{Choice, Steered};
use crate::state::State;
use crate::steer::load_balancer::{ClientSource, LoadBalancer, LoadBalancerId};
use crate::steer::plan::Plan;
use crate::steer::pool::{Family, PoolId};
use crate::steer::session::{Session, scope_of};
use crate::steer::{Apart, Memory, NoAnswer, Outcome, Pick, decide, pick};
use crate::zone::lookup::Found;
use crate::zone::node::{Cut, Node, Zone};

/// What answers are made from.
#[derive(Debug)]
pub struct Responder<'s, S> {
    /// The configuration.
    pub state: &'s State,
    /// What health makes of it.
    pub plan: &'s Plan,
    /// The numbers of the answers, and the sessions.
    pub sequences: &'s S,
}

/// Who asks: the source address of the query, and its client subnet.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The source address; none for a resolver without a location, which `explain` knows.
    pub resolver: Option<IpAddr>,
    /// The client subnet of the query.
    pub subnet: Option<ClientSubnet>,
}

impl Client {
    /// A client of whom nothing is known.
    pub const UNKNOWN: Self = Self { resolver: None, subnet: None };
}

/// Where a load balancer's client is, and the scope that goes with it.
#[derive(Clone, Copy, Debug)]
pub struct ClientPlace {
    /// Where the client is.
    pub place: Place,
    /// The number of that place in the location table.
    pub place_index: u32,
    /// The address that says so.
    pub address: Option<IpAddr>,
    /// True if the address is the query's client subnet, not its source.
    pub by_subnet: bool,
    /// The client subnet that a session belongs to, with session affinity.
    pub session_subnet: Option<IpNet>,
    /// The ECS scope prefix of an answer that is steered by it.
    pub ecs_scope: u8,
}

/// Answers anything that is not a message to be ignored; none for that.
pub fn respond<'s>(
    request: &Request<'_>,
    resolver: IpAddr,
    responder: &Responder<'s, impl Memory>,
) -> Option<Answer<'s>> {
    let mut answer = Answer::empty(Rcode::NoError);
    match request {
        Request::Ignore => return None,
        Request::Refused(refused) => answer.rcode = refused.rcode,
        Request::CookieOnly(_) => {}
        Request::Query(query) if query.question.class == CLASS_CH => {
            responder.fill_chaos(&query.question, &mut answer);
        }
        // Who may have a zone is decided where it is known who asks.
        Request::Query(query) if query.question.is_transfer() => {
            answer.rcode = Rcode::Refused;
            answer.extended_error = Some(ExtendedError::TransferNotAllowed);
        }
        Request::Query(query) => {
            let subnet = query.edns.and_then(|edns| edns.client_subnet);
            let client = Client { resolver: Some(resolver), subnet };
            responder.fill(&query.question, client, &mut answer);
        }
    }
    if request.echoed().1.is_some_and(|edns| edns.wants_nsid) {
        answer.extras.nsid = responder.state.identity.nsid.as_deref();
    }
    Some(answer)
}

/// Where the client of a load balancer is (steering.md, "Who the client is").
pub fn place_client(state: &State, balancer: &LoadBalancer, client: &Client) -> ClientPlace {
    let by_subnet = match balancer.client {
        ClientSource::Ecs => client.subnet.and_then(|subnet| {
            let ClientSubnet { source_prefix, .. } = subnet;
            Some((subnet.locating_address()?, source_prefix))
        }),
        ClientSource::Resolver => None,
    };
    let by_source = || Some((client.resolver?.to_canonical(), u8::MAX));
    let known = by_subnet.or_else(by_source);
    let located = known.map(|(address, _)| state.locator.locate(address));
    // The scope says for whom an answer holds. It is 0 where the answer cannot depend on the
    // client, and where it was steered by the resolver's own address.
    let depends = by_subnet.is_some() && balancer.depends_on_client;
    let mut ecs_scope = if depends { located.map_or(0, |located| located.scope) } else { 0 };
    let session_subnet = balancer.sessions.as_ref().and_then(|affinity| {
        known.and_then(|(address, length)| affinity.keys.subnet(address, length))
    });
    // An answer is that of a session, whatever became of it, and so holds for its subnet at most.
    if let (Some(subnet), Some((address, _))) = (session_subnet, by_subnet) {
        ecs_scope = ecs_scope.max(scope_of(subnet, address));
    }
    ClientPlace {
        place: located.map(|located| located.place).unwrap_or_default(),
        place_index: located.map_or(u32::MAX, |located| located.place_index),
        address: known.map(|(address, _)| address),
        by_subnet: by_subnet.is_some(),
        session_subnet,
        ecs_scope,
    }
}

impl<'s, S: Memory> Responder<'s, S> {
    /// Answers a question of a client.
    pub fn answer(&self, question: &Question<'_>, client: Client) -> Answer<'s> {
        let mut answer = Answer::empty(Rcode::NoError);
        self.fill(question, client, &mut answer);
        answer
    }

    /// Answers a question in class CH: what the server says of itself, if it is configured to.
    fn fill_chaos(&self, question: &Question<'_>, answer: &mut Answer<'s>) {
        let is_text = matches!(question.record_type, RecordType::TXT | RecordType::ANY);
        let text = self.state.identity.chaos.text(&question.key).filter(|_| is_text);
        let Some(text) = text else {
            answer.rcode = Rcode::Refused;
            return;
        };
        answer.authoritative = true;
        let data = Data::Static(std::slice::from_ref(text));
        let (owner, ttl) = (Owner::Question, Ttl::saturating(0));
        let full =
            answer.answer.try_push(Set { owner, record_type: RecordType::TXT, ttl, data }).is_err();
        debug_assert!(!full, "the answer was empty");
    }

    /// Fills an empty answer in: it is large, and moving it is a good part of a query's cost.
    fn fill(&self, question: &Question<'_>, client: Client, answer: &mut Answer<'s>) {
        let found = self.state.zones.find_numbered(&question.key, question.record_type);
        let Some((number, zone)) = found else {
            answer.rcode = Rcode::Refused;
            answer.extended_error = Some(ExtendedError::NotAuthoritative);
            return;
        };
        answer.authoritative = true;
        answer.zone = Some(number);
        Walk { responder: self, zone, client, record_type: question.record_type, answer }
            .from(&question.key);
    }
}

/// Following a name through a zone, aliases included, filling in the answer.
struct Walk<'w, 's, S> {
    responder: &'w Responder<'s, S>,
    zone: &'s Zone,
    client: Client,
    record_type: RecordType,
    answer: &'w mut Answer<'s>,
}

/// The origins of an answer, and how they were come to.
struct Chosen<'s> {
    family: Family,
    pick: Pick<'s>,
    /// True if no candidate is available.
    is_fallback: bool,
}

/// Where the walk goes on.
enum Step<'s> {
    Done,
    /// At the target of an alias.
    To(Owner<'s>),
}

impl<'s, S: Memory> Walk<'_, 's, S> {
    fn from(&mut self, question: &[u8]) {
        let mut step = self.visit(question, Owner::Question);
        let mut lower = [0u8; MAX_NAME];
        for _ in 0..MAX_ALIASES {
            let Step::To(owner) = step else { return };
            let target = owner.wire(question);
            // Aliases that lead back to one of them are followed once round: a record stands in an
            // answer once (RFC 2181 section 5).
            if self.has(RecordType::CNAME, target, question) {
                return;
            }
            let Some(key) = lower.get_mut(..target.len()) else { return };
            key.copy_from_slice(target);
            key.make_ascii_lowercase();
            // A target inside the zone is followed, one outside never is (steering.md).
            let inside = self.responder.state.zones.find(key, self.record_type);
            if !inside.is_some_and(|zone| std::ptr::eq(zone, self.zone)) {
                return;
            }
            step = self.visit(key, owner);
        }
    }

    /// True if the answer has records of the type for the owner already.
    fn has(&self, record_type: RecordType, owner: &[u8], question: &[u8]) -> bool {
        let mut sets = self.answer.answer.iter().filter(|set| set.record_type == record_type);
        sets.any(|set| set.owner.wire(question).eq_ignore_ascii_case(owner))
    }

    /// Answers for one name.
    fn visit(&mut self, key: &[u8], owner: Owner<'s>) -> Step<'s> {
        let found = self.zone.lookup(key, self.record_type);
        if matches!(owner, Owner::Question) {
            let node = match found {
                Found::Node(node) | Found::Dname { node, .. } => Some(node),
                Found::Cut(cut) => self.zone.node(cut.node),
                Found::Nothing => None,
            };
            let name = node.map_or(&self.zone.apex, |node| &node.owner);
            self.answer.matched = Some(name.as_wire());
        }
        match found {
            Found::Node(node) => self.node(node, owner),
            Found::Cut(cut) => self.refer(cut),
            Found::Dname { node, rrset } => self.redirect(node, rrset, key, owner),
            Found::Nothing => {
                self.answer.rcode = Rcode::NxDomain;
                self.negative(self.zone.soa.negative_ttl);
                Step::Done
            }
        }
    }

    /// Answers from a node: steered types from its load balancer, else its records of the type,
    /// else its alias, else NODATA.
    fn node(&mut self, node: &'s Node, owner: Owner<'s>) -> Step<'s> {
        let steered = node.steered.and_then(|id| Some((id, self.responder.state.balancer(id)?)));
        if let Some((id, balancer)) = steered {
            let is_steered = self.record_type.is_steered() || self.record_type == RecordType::ANY;
            // A CNAME answers every type.
            if is_steered || balancer.aliases {
                return self.steer(id, balancer, owner);
            }
            if let Some(by) = balancer.hint_slots
                && node.hinted.contains(&self.record_type)
                && let Some(set) = node.rrset(self.record_type)
            {
                self.hint((id, balancer), by, set, owner);
                return Step::Done;
            }
        }
        // ANY gets one set (RFC 8482 section 4.1), never an alias to follow.
        let set = match self.record_type {
            RecordType::ANY => node.rrsets.first(),
            record_type => node.rrset(record_type),
        };
        if let Some(set) = set {
            self.push(Set::of(owner, set));
            return Step::Done;
        }
        if let Some(set) = node.rrset(RecordType::CNAME) {
            self.push(Set::of(owner, set));
            return set.rdata.first().map_or(Step::Done, |target| Step::To(Owner::Wire(target)));
        }
        self.negative(self.zone.soa.negative_ttl);
        Step::Done
    }

    /// Answers a steered type.
    fn steer(
        &mut self,
        id: LoadBalancerId,
        balancer: &'s LoadBalancer,
        owner: Owner<'s>,
    ) -> Step<'s> {
        let Responder { state, sequences, .. } = *self.responder;
        let client = place_client(state, balancer, &self.client);
        self.answer.steered_by = Some(balancer);
        let mut families: ArrayVec<Family, 3> = ArrayVec::new();
        if balancer.aliases {
            families.push(Family::Host);
        }
        match self.record_type {
            RecordType::A => families.push(Family::V4),
            RecordType::AAAA => families.push(Family::V6),
            RecordType::ANY => families.extend(Family::ALL),
            _ => {}
        }
        let chosen = self.choose(balancer, &client, &families, sequences);
        let noted = chosen.as_ref().map(Option::as_ref).map_err(|_| ());
        self.note(id, balancer, &client, noted);
        match chosen {
            Ok(Some(Chosen { family, pick, .. })) => {
                // The parts of a chain hold for the narrowest of their scopes.
                self.answer.ecs_scope = self.answer.ecs_scope.max(client.ecs_scope);
                let record_type = match family {
                    Family::V4 => RecordType::A,
                    Family::V6 => RecordType::AAAA,
                    Family::Host => RecordType::CNAME,
                };
                let target = pick.rdata().next();
                let ttl = pick.ttl(balancer.ttl);
                self.push(Set { owner, record_type, ttl, data: Data::Steered(pick) });
                let is_asked_for = matches!(self.record_type, RecordType::CNAME | RecordType::ANY);
                if let Some(target) = target
                    && family == Family::Host
                    && !is_asked_for
                {
                    return Step::To(Owner::Wire(target));
                }
            }
            Ok(None) => self.negative(self.zone.soa.negative_ttl.min(balancer.ttl)),
            Err(reason) => {
                // Not NODATA: that would be cached, and outlive the fault (steering.md).
                self.answer.rcode = Rcode::ServFail;
                self.answer.authoritative = false;
                self.answer.answer.clear();
                self.answer.ecs_scope = self.answer.ecs_scope.max(client.ecs_scope);
                let fallback = state.pool_name(balancer.fallback_pool);
                self.answer.extended_error =
                    Some(ExtendedError::NoAnswer { balancer, fallback, reason });
            }
        }
        Step::Done
    }

    /// Notes what a load balancer made of the query; none where its pool has nothing of the type.
    fn note(
        &mut self,
        id: LoadBalancerId,
        balancer: &LoadBalancer,
        client: &ClientPlace,
        chosen: Result<Option<&Chosen<'s>>, ()>,
    ) {
        let pool_of = |chosen: &Chosen<'s>| chosen.pick.pool;
        let choice = match chosen {
            Ok(Some(chosen)) if chosen.is_fallback => Choice::Fallback,
            Ok(Some(chosen)) => {
                balancer.position(pool_of(chosen)).map_or(Choice::NoData, Choice::Candidate)
            }
            Ok(None) => Choice::NoData,
            Err(()) => Choice::Failure,
        };
        let number = u32::try_from(choice.number(balancer.slots.len())).unwrap_or(0);
        let chosen = chosen.ok().flatten();
        self.answer.steered = Some(Steered {
            counter: self.responder.state.layout.first(id).saturating_add(number),
            pool: chosen.map(pool_of),
            place: client.place_index,
            is_last_resort: chosen.is_some_and(|chosen| chosen.pick.is_last_resort),
        });
    }

    /// The origins of an answer, for the first of the families that has any.
    fn choose(
        &self,
        balancer: &'s LoadBalancer,
        client: &ClientPlace,
        families: &[Family],
        memory: &impl Memory,
    ) -> Result<Option<Chosen<'s>>, NoAnswer> {
        let Responder { state, plan, .. } = *self.responder;
        let (steering, place) = (state.steering(plan), &client.place);
        if let Some((affinity, subnet)) = balancer.sessions.as_ref().zip(client.session_subnet) {
            let session = Session::find(affinity, subnet, memory);
            let picked = session.pick(&steering, balancer, place, families, memory)?;
            return Ok(picked.map(|(family, pick)| {
                // A session tells its pool; whether that is the last choice, the decision tells.
                let is_fallback = |pool: PoolId| {
                    pool == balancer.fallback_pool
                        && session.decide(&steering, balancer, place).outcome
                            == Outcome::Fallback(pool)
                };
                Chosen { family, is_fallback: is_fallback(pick.pool), pick }
            }));
        }
        let family = if families.contains(&Family::V6) && !families.contains(&Family::V4) {
            Family::V6
        } else {
            Family::V4
        };
        let outcome = decide(&steering, balancer, place, family, memory).outcome;
        let is_fallback = matches!(outcome, Outcome::Fallback(_));
        match outcome {
            Outcome::Available(pool) | Outcome::Fallback(pool) => {
                let of = |&family| {
                    let pick = pick(&steering, balancer, pool, place, family, memory)?;
                    Some(Chosen { family, pick, is_fallback })
                };
                Ok(families.iter().find_map(of))
            }
            Outcome::Nothing(reason) => Err(reason),
        }
    }

    /// Answers HTTPS or SVCB records with the addresses as hints that A and AAAA would give this
    /// client. The numbers of these answers are their own: those of A would not be even any more
    /// where each client asks for both.
    fn hint(
        &mut self,
        (id, balancer): (LoadBalancerId, &'s LoadBalancer),
        by: u32,
        set: &'s RrSet,
        owner: Owner<'s>,
    ) {
        let Responder { state, sequences, .. } = *self.responder;
        let client = place_client(state, balancer, &self.client);
        self.answer.steered_by = Some(balancer);
        self.answer.ecs_scope = self.answer.ecs_scope.max(client.ecs_scope);
        let memory = Apart { memory: sequences, by };
        // Where nothing can be answered, what is static in the record holds all the same.
        let chosen = Family::ALL
            .map(|family| self.choose(balancer, &client, &[family], &memory).ok().flatten());
        self.note(id, balancer, &client, Ok(chosen.iter().flatten().next()));
        let picks = chosen.map(|chosen| chosen.map(|chosen| chosen.pick));
        let ttl = picks.iter().flatten().fold(set.ttl.min(balancer.ttl), |ttl, pick| pick.ttl(ttl));
        self.answer.hints = Some(Hints { owner: balancer.name.as_wire(), picks });
        let data = Data::Hinted(&set.rdata);
        self.push(Set { owner, record_type: set.record_type, ttl, data });
    }

    /// Refers to the name servers of a delegated zone; not authoritative, unless aliases of this
    /// zone led there.
    fn refer(&mut self, cut: &'s Cut) -> Step<'s> {
        let Some(node) = self.zone.node(cut.node) else { return Step::Done };
        self.answer.authoritative = !self.answer.answer.is_empty();
        self.answer.authority =
            node.rrset(RecordType::NS).map(|set| Set::of(Owner::Wire(node.owner.as_wire()), set));
        self.answer.glue = Some(GlueSets { zone: self.zone, glue: &cut.glue });
        Step::Done
    }

    /// Answers with a DNAME and the CNAME that follows from it (RFC 6672 section 3.2).
    fn redirect(
        &mut self,
        node: &'s Node,
        dname: &'s RrSet,
        key: &[u8],
        owner: Owner<'s>,
    ) -> Step<'s> {
        // One that redirects into itself is met again; its owner is never the question's name.
        if !self.has(RecordType::DNAME, node.owner.as_wire(), &[]) {
            self.push(Set::of(Owner::Wire(node.owner.as_wire()), dname));
        }
        let prefix = key.len().saturating_sub(node.owner.as_wire().len());
        let target = dname.rdata.first().map_or(&[][..], |target| target);
        let substituted = [key.get(..prefix).unwrap_or_default(), target].concat();
        if wire_length(&substituted) != Some(substituted.len()) {
            // The substitution has no room (RFC 6672 section 2.2).
            self.answer.rcode = Rcode::YxDomain;
            return Step::Done;
        }
        let substituted = Rdata::from(substituted);
        let data = Data::Synthesised(substituted.clone());
        self.push(Set { owner, record_type: RecordType::CNAME, ttl: dname.ttl, data });
        if matches!(self.record_type, RecordType::CNAME | RecordType::ANY) {
            return Step::Done;
        }
        Step::To(Owner::Synthesised(substituted))
    }

    /// Adds the SOA of a negative answer (RFC 2308), unless the chain left the answer empty for
    /// another reason. Negative answers have scope 0 (RFC 7871 section 7.4).
    fn negative(&mut self, ttl: Ttl) {
        let soa = &self.zone.soa.rrset;
        let owner = Owner::Wire(self.zone.apex.as_wire());
        self.answer.authority = Some(Set { ttl, ..Set::of(owner, soa) });
    }

    /// Adds a set to the answer section; a chain is shorter than its capacity.
    fn push(&mut self, set: Set<'s>) {
        let full = self.answer.answer.try_push(set).is_err();
        debug_assert!(!full, "a chain of aliases is bounded");
    }
}
