//! The steps between the load balancer and the choice, each with its reason.

use std::collections::BTreeMap;

use serde_json::json;

use crate::explain::{
    ChoicePart, FailoverPart, FromPart, OriginPart, PoolPart, Said, Scene, SessionPart,
    SteeringPart, ZonalPart,
};
use crate::health::overrides::Word;
use crate::respond::ClientPlace;
use crate::rr::RecordType;
use crate::steer::availability::{Assessment, Availability, HealthState, assess};
use crate::steer::eligible::{Original, Source, original_eligible};
use crate::steer::load_balancer::{Answers, LoadBalancer, Policy};
use crate::steer::plan::FamilyPlan;
use crate::steer::pool::{Family, Origin, OriginIndex, Pool, PoolId, Role, ZonalAffinity};
use crate::steer::proximity::{Point, client_coordinates};
use crate::steer::rtt::RttTable;
use crate::steer::session::{Failback, Session, SessionSettings};
use crate::steer::zonal::{Verdict, Zonal, modify, zone_in};
use crate::steer::{Decision, FirstOnly, Outcome, decide};

/// What the steps of one decision read.
pub(super) struct Steps<'e> {
    pub(super) scene: &'e Scene<'e>,
    pub(super) balancer: &'e LoadBalancer,
    pub(super) client: &'e ClientPlace,
}

/// The keys of an explanation from `steering` to `choice`, and what else follows from its pools.
#[derive(Default)]
pub(super) struct Explained {
    /// True if one of the pools that are shown has a monitor.
    pub(super) is_monitored: bool,
    pub(super) steering: Option<SteeringPart>,
    pub(super) pools: Option<Vec<PoolPart>>,
    pub(super) pool: Option<String>,
    pub(super) fallback: Option<bool>,
    pub(super) origins: Option<Vec<OriginPart>>,
    pub(super) failover: Option<FailoverPart>,
    pub(super) zonal: Option<ZonalPart>,
    pub(super) session: Option<SessionPart>,
    pub(super) choice: Option<ChoicePart>,
}

impl Steps<'_> {
    /// Explains all steps for a query of this type.
    pub(super) fn explain(&self, record_type: RecordType) -> Explained {
        let Decision { rule, outcome } = self.decide(record_type);
        let (chosen, shown, fallback) = match outcome {
            Outcome::Available(pool) => (Some(pool), pool, false),
            Outcome::Fallback(pool) => (Some(pool), pool, true),
            // The fallback pool was tried, and is shown for the reason that it cannot answer.
            Outcome::Nothing(_) => (None, self.balancer.fallback_pool, false),
        };
        let has_monitor =
            |&pool: &PoolId| self.scene.pool(pool).is_some_and(|pool| pool.monitor.is_some());
        let mut explained = Explained {
            is_monitored: rule.candidates.iter().chain([&shown]).any(has_monitor),
            steering: Some(self.steering(&rule.name, &rule.candidates)),
            pools: Some(rule.candidates.iter().map(|&pool| pool_part(self.scene, pool)).collect()),
            pool: chosen.map(|pool| self.scene.state.pool_name(pool).to_owned()),
            fallback: Some(fallback),
            ..Explained::default()
        };
        let Some(pool) = self.scene.pool(shown) else { return explained };
        let assessment = assess(shown, pool, self.scene.health);
        let original = if pool.enabled {
            original_eligible(pool, &assessment)
        } else {
            Original { members: Vec::new(), source: Source::None }
        };
        let zonal = modify(pool, &original, self.client.place.region, self.client.place.zone);
        let answered = self.family_plan(shown, pool, record_type).filter(|_| chosen.is_some());
        let is_answered =
            |index| answered.is_some_and(|plan| plan.set.members.iter().any(|m| m.origin == index));
        explained.origins =
            Some(self.origins((shown, pool), &assessment, (&original, &zonal), is_answered));
        explained.failover = Some(FailoverPart {
            original_eligible: names(pool, &original.members),
            from: from_word(original.source).into(),
        });
        let mut part = zonal_part(pool, &zonal, self);
        let members = answered.map_or(&[][..], |plan| &plan.set.members);
        if members.iter().any(|member| !zonal.modified.contains(&member.origin)) {
            part.reason.push_str("; none of them has an address of the type, so all zones answer");
        }
        explained.zonal = Some(part);
        explained.session = self.session(chosen, pool, answered, record_type);
        explained.choice = Some(self.choice(pool, answered));
        explained
    }

    /// The decision of sequence number 0.
    fn decide(&self, record_type: RecordType) -> Decision<'_> {
        let family = family_of(record_type);
        let steering = self.scene.state.steering(self.scene.plan);
        if let Some(session) = self.new_session() {
            return session.decide(&steering, self.balancer, &self.client.place);
        }
        decide(&steering, self.balancer, &self.client.place, family, &FirstOnly)
    }

    /// The round-trip times that the load balancer goes by: as measured, or those of the files.
    fn times(&self) -> &RttTable {
        let Scene { state, facts, .. } = self.scene;
        let mut balancers = state.balancers.iter().zip(&state.balancer_sources);
        let source = balancers.find(|(balancer, _)| std::ptr::eq(*balancer, self.balancer));
        let tolerance = source.map(|(_, source)| source.rtt_tolerance);
        tolerance.and_then(|tolerance| facts.times(tolerance)).unwrap_or(&state.rtt)
    }

    fn steering(&self, rule: &str, candidates: &[PoolId]) -> SteeringPart {
        let name = |&pool: &PoolId| self.scene.state.pool_name(pool).to_owned();
        let rtt = (self.balancer.policy == Policy::Rtt).then(|| {
            let state = self.scene.state;
            let pop = state.pop.as_deref();
            let row = self.times().row_for(self.client.place.region, &state.parents, pop);
            let figure = |pool: &PoolId| Some((name(pool), row?.get(pool)?.as_secs_f64() * 1000.0));
            candidates.iter().filter_map(figure).collect::<BTreeMap<_, _>>()
        });
        let from = (self.balancer.policy == Policy::Proximity)
            .then(|| client_coordinates(&self.client.place))
            .flatten();
        let distance = from.map(|from| {
            let kilometres = |pool: &PoolId| {
                let location = self.scene.state.pool(*pool)?.location?;
                let apart = Point::from(location).distance(Point::from(from));
                Some((name(pool), (apart * 10.0).round() / 10.0))
            };
            candidates.iter().filter_map(kilometres).collect::<BTreeMap<_, _>>()
        });
        let shares = self.balancer.random.as_ref().map(|random| {
            let share = |(pool, share)| (name(&pool), share);
            random.shares(self.scene.plan).into_iter().map(share).collect::<BTreeMap<_, _>>()
        });
        SteeringPart {
            policy: self.balancer.policy.word().into(),
            rule: rule.to_owned(),
            candidates: candidates.iter().map(name).collect(),
            rtt,
            from: from.map(|from| FromPart {
                location: from.to_degrees(),
                of: if self.client.place.coordinates.is_some() { "client" } else { "country" }
                    .into(),
            }),
            distance,
            shares,
        }
    }

    fn origins(
        &self,
        (id, pool): (PoolId, &Pool),
        assessment: &Assessment,
        (original, zonal): (&Original, &Zonal),
        is_answered: impl Fn(OriginIndex) -> bool,
    ) -> Vec<OriginPart> {
        let last_resort =
            |index| (original.is_last_resort() || zonal.stays_unhealthy) && is_answered(index);
        let part = |(index, origin): (OriginIndex, &Origin)| {
            let state = assessment.state(index);
            let eligible = assessment.is_eligible(index);
            let mut reason = origin_reason(self.scene, (id, pool), index, assessment);
            if last_resort(index) {
                reason.push_str(if zonal.stays_unhealthy {
                    "; answered all the same: the client stays in its zone"
                } else {
                    "; answered as a last resort: nothing in the pool is healthy"
                });
            }
            reason.push_str(&self.host_note(pool, origin));
            OriginPart {
                origin: origin.name.clone(),
                role: match origin.role {
                    Role::Primary => "primary".into(),
                    Role::Failover => "failover".into(),
                },
                zone: origin
                    .zone
                    .map(|zone| self.scene.state.availability_zones.name(zone).to_owned()),
                weight: origin.weight.to_f64(),
                health: state.word().into(),
                eligible,
                reason,
            }
        };
        pool.indexed().map(part).collect()
    }

    /// True if the pool's origins are answered as CNAME.
    fn is_alias(&self, pool: &Pool) -> bool {
        self.balancer.aliases && pool.has_hosts()
    }

    /// What an origin's host name is answered as, if it has one.
    fn host_note(&self, pool: &Pool, origin: &Origin) -> String {
        let Some(host) = &origin.host else { return String::new() };
        if self.is_alias(pool) {
            return format!("; answered as CNAME {host}");
        }
        if origin.addresses.is_empty() {
            return format!("; the addresses of {host} come from resolution, while serving");
        }
        let addresses: Vec<_> = origin.addresses.iter().map(|a| a.ip.to_string()).collect();
        format!("; {host} is {}", addresses.join(" "))
    }

    /// What the plan has for the client and the type that is asked for (for IPv4, where that is
    /// neither A nor AAAA).
    fn family_plan(&self, id: PoolId, pool: &Pool, record_type: RecordType) -> Option<&FamilyPlan> {
        let family = if record_type == RecordType::AAAA { Family::V6 } else { Family::V4 };
        let plan = self.scene.plan.pool(id)?.for_zone(zone_in(pool, &self.client.place));
        let family = if self.is_alias(pool) { Family::Host } else { family };
        plan.families.get(family.index())
    }

    /// The session of a client that has none yet.
    fn new_session(&self) -> Option<Session<'_>> {
        let affinity = self.balancer.sessions.as_ref()?;
        Some(Session::find(affinity, self.client.session_subnet?, &FirstOnly))
    }

    fn session(
        &self,
        chosen: Option<PoolId>,
        pool: &Pool,
        plan: Option<&FamilyPlan>,
        record_type: RecordType,
    ) -> Option<SessionPart> {
        let SessionSettings { ttl, failback, .. } = self.balancer.sessions.as_ref()?.keys.settings;
        let steering = self.scene.state.steering(self.scene.plan);
        let is_empty = plan.is_none_or(|plan| plan.set.is_empty());
        let last_resort = plan.is_some_and(|plan| plan.any_health);
        let placed = || {
            let (session, place) = (self.new_session()?, &self.client.place);
            let family = family_of(record_type);
            let pick =
                session.place(&steering, self.balancer, chosen?, place, family, &FirstOnly)?;
            Some(pool.origin(pick.members().next()?.origin)?.name.clone())
        };
        let reason = match chosen {
            _ if self.client.session_subnet.is_none() => "the client's address is unknown",
            None => "no pool can answer",
            Some(_) if is_empty => "nothing is answered for this type",
            Some(_) if last_resort => {
                "none is begun: what is answered is not healthy, and no client is bound to it"
            }
            Some(_) => "placed by hashing; a session that lives keeps its origin",
        };
        Some(SessionPart {
            key: self.client.session_subnet.map(|subnet| subnet.to_string()),
            ttl,
            failback: match failback {
                Failback::Keep => "keep".into(),
                Failback::Move => "move".into(),
            },
            placed: if is_empty || last_resort { None } else { placed() },
            reason: reason.to_owned(),
        })
    }

    /// The shares of the set that the answer is chosen from.
    fn choice(&self, pool: &Pool, plan: Option<&FamilyPlan>) -> ChoicePart {
        // A CNAME is one record.
        let answers = if self.is_alias(pool) { Answers::Count(1) } else { self.balancer.answers };
        let set = plan.map(|plan| match answers {
            Answers::Count(_) => &plan.set,
            Answers::All => &plan.lead,
        });
        let share = |set: &std::sync::Arc<crate::steer::plan::FamilySet>| {
            let of = |member: &crate::steer::plan::Member| {
                let name = pool.origin(member.origin)?.name.clone();
                // Both are far below 2^53.
                #[allow(clippy::cast_precision_loss, reason = "sums of at most 2^10 millions")]
                let share = f64::from(member.weight) / set.total_weight as f64;
                Some((name, share))
            };
            set.members.iter().filter_map(of).collect()
        };
        ChoicePart {
            share: set.map(share).unwrap_or_default(),
            answers: match answers {
                Answers::Count(count) => json!(count),
                Answers::All => json!("all"),
            },
            by: self.balancer.sessions.as_ref().map(|_| "session".into()),
        }
    }
}

fn family_of(record_type: RecordType) -> Family {
    if record_type == RecordType::AAAA { Family::V6 } else { Family::V4 }
}

/// Whether a pool is available, and why.
pub(crate) fn pool_part(scene: &Scene<'_>, id: PoolId) -> PoolPart {
    let Some(pool) = scene.pool(id) else {
        return PoolPart { pool: String::new(), available: false, reason: String::new() };
    };
    let assessment = assess(id, pool, scene.health);
    let said = scene.facts.said_of_pool(id);
    PoolPart {
        pool: pool.name.clone(),
        available: assessment.is_available(),
        reason: availability_reason(pool, &assessment, said.as_ref()),
    }
}

/// Why an origin may be answered or not. The words that were said are in the order of their
/// precedence.
pub(crate) fn origin_reason(
    scene: &Scene<'_>,
    (id, pool): (PoolId, &Pool),
    index: OriginIndex,
    assessment: &Assessment,
) -> String {
    let Some(origin) = pool.origin(index) else { return String::new() };
    let said = scene.facts.said_of_origin(id, index);
    let of = |word| Said::of(said.as_ref(), word);
    let no_weight = "weight 0: takes no new traffic";
    if !origin.enabled {
        return of(Word::Disabled).unwrap_or("disabled").to_owned();
    }
    let probed = scene.facts.probed(id, index);
    if let Some(forced) = of(Word::ForcedUp).or_else(|| of(Word::ForcedDown)) {
        let mut reason = forced.to_owned();
        if origin.weight.is_zero() {
            reason.push_str("; ");
            reason.push_str(no_weight);
        }
        if let Some(probed) = probed {
            reason.push_str("; by its probes ");
            reason.push_str(&probed);
        }
        return reason;
    }
    if origin.weight.is_zero() {
        return of(Word::Drained).unwrap_or(no_weight).to_owned();
    }
    match probed {
        Some(probed) => probed,
        None => {
            health_reason(pool, assessment.state(index), assessment.is_eligible(index)).to_owned()
        }
    }
}

fn names(pool: &Pool, members: &[OriginIndex]) -> Vec<String> {
    members.iter().filter_map(|&index| Some(pool.origin(index)?.name.clone())).collect()
}

fn from_word(source: Source) -> &'static str {
    match source {
        Source::HealthyPrimaries => "healthy_primaries",
        Source::HealthyFailovers => "healthy_failovers",
        Source::LastResort => "last_resort",
        Source::Dropped => "dropped",
        Source::None => "none",
    }
}

/// Why a pool is available or not.
fn availability_reason(pool: &Pool, assessment: &Assessment, said: Option<&Said>) -> String {
    let enabled = pool.origins.iter().filter(|origin| origin.enabled).count();
    let healthy = format!("{} of {enabled} origins healthy", assessment.counted);
    let said = |word, otherwise: &str| Said::of(said, word).unwrap_or(otherwise).to_owned();
    match assessment.availability {
        Availability::Available => healthy,
        Availability::Disabled => said(Word::Disabled, "the pool is disabled"),
        Availability::TooFewHealthy => {
            format!("{healthy}, minimum_origins is {}", pool.minimum_origins)
        }
        Availability::NothingEligible => {
            format!("{healthy}, but none of them has a weight above 0")
        }
        Availability::ForcedUp => format!("{}; {healthy}", said(Word::ForcedUp, "forced up")),
        Availability::ForcedDown => said(Word::ForcedDown, "forced down"),
        Availability::Drained => said(Word::Drained, "drained"),
    }
}

/// The reason without an operator's word.
fn health_reason(pool: &Pool, state: HealthState, eligible: bool) -> &'static str {
    match state {
        HealthState::Healthy if pool.monitor.is_none() => {
            "the pool has no monitor: counts as healthy"
        }
        HealthState::Healthy => "healthy",
        HealthState::Unhealthy => "unhealthy",
        HealthState::Unknown if eligible => "not probed yet, and no origin is known to be healthy",
        HealthState::Unknown => "not probed yet",
    }
}

fn zonal_part(pool: &Pool, zonal: &Zonal, steps: &Steps<'_>) -> ZonalPart {
    let (mode, spillover_ratio) = match pool.zonal_affinity {
        ZonalAffinity::Disabled => ("disabled", None),
        ZonalAffinity::StayWithinZone => ("stay_within_zone", None),
        ZonalAffinity::SpillCrossZone { spillover_ratio } => {
            ("spill_cross_zone", Some(spillover_ratio.to_string()))
        }
    };
    ZonalPart {
        mode: mode.into(),
        is_match: zonal.verdict == Verdict::Match,
        reason: zonal_reason(pool, zonal, spillover_ratio.as_deref(), steps),
        matched: names(pool, &zonal.matched),
        ratio: zonal.ratio.map(|(within, matched)| format!("{within}/{matched}")),
        modified_eligible: names(pool, &zonal.modified),
        spillover_ratio,
    }
}

fn zonal_reason(pool: &Pool, zonal: &Zonal, ratio: Option<&str>, steps: &Steps<'_>) -> String {
    let regions = steps.scene.state.locator.regions();
    let region = |id: Option<_>| id.map_or("no region", |id| regions.name(id));
    let zones = &steps.scene.state.availability_zones;
    let zone = steps.client.place.zone.map_or("", |zone| zones.name(zone));
    match zonal.verdict {
        Verdict::NothingEligible => "nothing is eligible".to_owned(),
        Verdict::Disabled => "the pool has no zonal affinity".to_owned(),
        Verdict::PoolWithoutRegion => "the pool lies in no region".to_owned(),
        Verdict::OtherRegion => format!(
            "the client is in {}, the pool in {}",
            region(steps.client.place.region),
            region(pool.region)
        ),
        Verdict::ClientWithoutZone => "the client is in no zone of its region".to_owned(),
        Verdict::NoBackendInZone => {
            format!("no origin of this role takes new clients in zone {zone}")
        }
        Verdict::Match => {
            let stays = zonal.modified.len() <= zonal.matched.len()
                && zonal.modified.iter().all(|index| zonal.matched.contains(index));
            match (zonal.ratio, ratio) {
                _ if zonal.stays_unhealthy => {
                    format!("stays in zone {zone}, although nothing in it is eligible")
                }
                (Some((within, matched)), Some(ratio)) => {
                    let what = if stays { "stays in the zone" } else { "spills to all zones" };
                    format!("{within} of {matched} in zone {zone} eligible, ratio {ratio}: {what}")
                }
                _ => format!("stays in zone {zone}"),
            }
        }
    }
}
