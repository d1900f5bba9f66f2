//! `[load_balancers]`: steered names, from TOML to candidate lists (steering.md, "Steering
//! policies").

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use crate::config::duration::parse_duration;
use crate::config::pool_weights::{all_alike, pool_weights};
use crate::config::proximity::{Orders, proximity_rules};
use crate::config::reader::{Place, Table, Value};
use crate::config::report::remedy_for_name;
use crate::config::sessions::session_affinity;
use crate::locate::codes::Area;
use crate::locate::place::{Country, RegionId, Subdivision};
use crate::locate::{Locator, Regions};
use crate::name::Name;
use crate::rr::Ttl;
use crate::steer::load_balancer::{
    Answers, ClientSource, LoadBalancer, MAX_ANSWERS, Policy, RttTolerance, Rule, Rules,
};
use crate::steer::plan::slot_count;
use crate::steer::pool::{Family, Pool, PoolId, ZonalAffinity};
use crate::steer::random::{self, RandomPools};
use crate::steer::rtt::{self, RttTable};
use crate::steer::session::SessionAffinity;
use crate::zone::rdata::ends_in_zone;

/// The TTL of steered records where none is given.
pub const DEFAULT_TTL: Ttl = Ttl::saturating(30);

/// What the names in a load balancer refer to.
pub struct BalancerScope<'s> {
    /// The apex of its zone.
    pub apex: &'s Name,
    /// The pools that it can name.
    pub pool_names: &'s HashMap<String, PoolId>,
    /// All pools.
    pub pools: &'s [Pool],
    /// The region tree.
    pub regions: &'s Regions,
    /// Where clients can be.
    pub locator: &'s Locator,
    /// The orders by distance, as far as they are known.
    pub orders: &'s Orders,
    /// The round-trip times.
    pub rtt: &'s RttTable,
    /// The pop of this node.
    pub pop: Option<&'s str>,
    /// The zone's negative TTL.
    pub negative_ttl: Ttl,
}

/// A load balancer that was read, with what is not of the decision's concern.
pub struct ParsedBalancer {
    /// The load balancer; its sequence slots are not numbered yet.
    pub balancer: LoadBalancer,
    /// A disabled one is as if it were not there.
    pub enabled: bool,
    /// Where it stands.
    pub place: Place,
    /// The tolerance of its RTT order.
    pub rtt_tolerance: RttTolerance,
    /// `pools` as configured.
    pub pools: Vec<PoolId>,
    /// Whether host names are answered as their addresses wherever it stands.
    pub flatten: bool,
}

/// Reads a load balancer.
pub fn parse_balancer(
    key: &str,
    value: &Value<'_, '_>,
    scope: &BalancerScope<'_>,
) -> Option<ParsedBalancer> {
    let table = value.table("a table of a load balancer's keys")?;
    let name = match Name::parse(key, Some(scope.apex)) {
        Ok(name) if name.is_at_or_below(scope.apex) => {
            if ends_in_zone(key, scope.apex) {
                value.key_warning(
                    format!("the name is relative: the load balancer is that of {name}"),
                    "give the name without the zone's, as \"www\", if that is not meant",
                );
            }
            Some(name)
        }
        Ok(name) => {
            value.key_error(
                format!("{name} is not in the zone {}", scope.apex),
                "give a name relative to the zone, as \"www\"",
            );
            None
        }
        Err(error) => {
            value.key_error(format!("{key:?} is not a domain name: {error}"), "correct the name");
            None
        }
    };
    let enabled = table.optional("enabled").and_then(|value| value.boolean()).unwrap_or(true);
    let pools_value =
        table.required("pools", "give the pools in failover order, as [\"weu\", \"use\"]");
    let pools = pools_value.as_ref().map(|value| pool_list(value, scope)).unwrap_or_default();
    let fallback = match table.optional("fallback_pool") {
        Some(value) => pool(&value, scope),
        None => pools.last().copied(),
    };
    let steering = table.optional("steering");
    let policy = match &steering {
        Some(value) => value.choice(&Policy::ALL),
        None => Some(Policy::default()),
    };
    let clients = [("ecs", ClientSource::Ecs), ("resolver", ClientSource::Resolver)];
    let client =
        table.optional("client").and_then(|value| value.choice(&clients)).unwrap_or_default();
    let ttl = table.optional("ttl").and_then(|value| Some((value.ttl()?, value)));
    if let Some((ttl, value)) = &ttl {
        warn_of_ttl(*ttl, value, scope.negative_ttl);
    }
    let ttl = ttl.map_or(DEFAULT_TTL, |(ttl, _)| ttl);
    let answers = table.optional("answers").and_then(|value| answers(&value));
    let rules = match (policy, &steering) {
        (Some(Policy::Geo), _) => geo_rules(&table, scope, &pools),
        (Some(Policy::Proximity), Some(value)) => proximity_rules(value, scope, &pools),
        _ => Rules { lists: vec![rule("pools", pools.clone())], ..Rules::default() },
    };
    belongs_to(&table, policy, Policy::Geo, &["pop_pools", "country_pools", "region_pools"]);
    let tolerance = table.optional("rtt_tolerance").and_then(|value| rtt_tolerance(&value));
    belongs_to(&table, policy, Policy::Rtt, &["rtt_tolerance"]);
    let weights = table.optional("pool_weights").map(|value| pool_weights(&value, scope, &pools));
    belongs_to(&table, policy, Policy::Random, &["pool_weights"]);
    let flatten = table.optional("flatten");
    let flattens = flatten.as_ref().and_then(|value| value.boolean()).unwrap_or(false);
    let affinity = table.optional("session_affinity");
    let affinity = affinity.and_then(|value| session_affinity(&value, ttl));
    table.finish();

    let rtt_tolerance = tolerance.unwrap_or_default();
    let policy = policy.unwrap_or_default();
    let rules = if policy == Policy::Rtt {
        rtt::rules(&pools, scope.rtt, scope.pop, scope.regions, rtt_tolerance)
    } else {
        rules
    };
    let mut balancer = LoadBalancer {
        name: name?,
        policy,
        client,
        ttl,
        answers: answers.unwrap_or(Answers::Count(1)),
        fallback_pool: fallback?,
        rules,
        random: (policy == Policy::Random).then(|| RandomPools {
            weights: weights.unwrap_or_else(|| all_alike(&pools)),
            first_slot: 0,
        }),
        measured: None,
        slots: Vec::new(),
        aliases: false,
        hint_slots: None,
        depends_on_client: false,
        sessions: None,
    };
    balancer.depends_on_client = depends_on_client(&balancer, scope.pools);
    balancer.sessions = affinity.map(|settings| {
        let pool = |id: PoolId| Some((id, scope.pools.get(id.0 as usize)?));
        let pools: Vec<_> = reachable_pools(&balancer).into_iter().filter_map(pool).collect();
        SessionAffinity::new(settings, &balancer.name, &pools)
    });
    warn_of_families(&balancer, value, scope.pools);
    check_hosts(&balancer, value, flatten.as_ref().filter(|_| flattens), scope.pools);
    let (place, flatten) = (value.key_place(), flattens);
    Some(ParsedBalancer { balancer, enabled, place, rtt_tolerance, pools, flatten })
}

/// Numbers the sequence slots of a load balancer's pools from `first` on; gives the next free one.
pub fn number_slots(balancer: &mut LoadBalancer, pools: &[Pool], first: u32) -> u32 {
    let mut next = first;
    balancer.slots.clear();
    for id in reachable_pools(balancer) {
        balancer.slots.push((id, next));
        next = next.saturating_add(pools.get(id.0 as usize).map_or(0, slot_count));
    }
    if let Some(random) = &mut balancer.random {
        random.first_slot = next;
        next = next.saturating_add(random::SLOTS);
    }
    if let Some(apart) = &mut balancer.hint_slots {
        *apart = next.saturating_sub(first);
        next = next.saturating_add(*apart);
    }
    next
}

/// Every pool that a load balancer can answer, each once, in a fixed order.
pub fn reachable_pools(balancer: &LoadBalancer) -> Vec<PoolId> {
    let lists = balancer.rules.lists.iter().flat_map(|rule| rule.candidates.iter().copied());
    let mut pools: Vec<_> = lists.chain([balancer.fallback_pool]).collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

fn rule(name: impl Into<String>, candidates: Vec<PoolId>) -> Rule {
    Rule { name: name.into(), candidates }
}

/// Refuses keys that only one policy uses.
fn belongs_to(table: &Table<'_, '_>, policy: Option<Policy>, owner: Policy, keys: &[&'static str]) {
    let word = owner.word();
    for key in keys {
        if let Some(value) = table.optional(key)
            && policy.is_some_and(|policy| policy != owner)
        {
            value.key_error(
                format!("{key} is used with steering = {word:?} only"),
                format!("remove the key, or set steering = {word:?}"),
            );
        }
    }
}

fn warn_of_ttl(ttl: Ttl, value: &Value<'_, '_>, negative_ttl: Ttl) {
    if ttl.seconds() == 0 {
        value.warning(
            "with a TTL of 0 resolvers ask for every client query",
            "give 5 or more seconds, or leave it if that is meant",
        );
    } else if ttl > negative_ttl {
        value.warning(
            format!("the TTL exceeds the zone's minimum of {} s", negative_ttl.seconds()),
            format!("give {} or less, or a larger minimum in the SOA", negative_ttl.seconds()),
        );
    }
}

/// A type that some clients get and others do not is seldom meant (steering.md, "ECS scope").
fn warn_of_families(balancer: &LoadBalancer, value: &Value<'_, '_>, pools: &[Pool]) {
    let reachable: Vec<&Pool> = reachable_pools(balancer)
        .into_iter()
        .filter_map(|id| pools.get(id.0 as usize))
        // What a host name has is not known here.
        .filter(|pool| pool.enabled && !pool.origins.is_empty() && !pool.has_hosts())
        .collect();
    for (family, record_type) in [(Family::V4, "A"), (Family::V6, "AAAA")] {
        let has = |pool: &&&Pool| {
            let enabled = pool.origins.iter().filter(|origin| origin.enabled);
            enabled.flat_map(|origin| &origin.addresses).any(|address| family.holds(address.ip))
        };
        let (with, without): (Vec<&Pool>, Vec<&Pool>) =
            reachable.iter().partition(|pool| has(pool));
        if !with.is_empty() && !without.is_empty() {
            let names: Vec<&str> = without.iter().map(|pool| pool.name.as_str()).collect();
            value.key_warning(
                format!(
                    "{record_type} is answered from some pools and not from {}",
                    names.join(", ")
                ),
                "give every pool addresses of both families, or none of this one",
            );
        }
    }
}

/// A pool of addresses and host names can be answered as addresses only; `flatten` is the key where it
/// is set.
fn check_hosts(
    balancer: &LoadBalancer,
    value: &Value<'_, '_>,
    flatten: Option<&Value<'_, '_>>,
    pools: &[Pool],
) {
    let reachable = reachable_pools(balancer);
    let mut with_hosts = reachable
        .iter()
        .filter_map(|id| pools.get(id.0 as usize))
        .filter(|pool| pool.has_hosts())
        .peekable();
    if let Some(flatten) = flatten {
        if with_hosts.peek().is_none() {
            flatten.key_warning(
                "the pools of this load balancer have no origin given by host name",
                "remove the key: there is nothing to flatten",
            );
        }
        return;
    }
    for pool in with_hosts {
        if pool.origins.iter().any(|origin| origin.host.is_none()) {
            value.key_error(
                format!("pool {:?} has both addresses and host names", pool.name),
                "set flatten = true to answer the addresses of both, or make two pools of it",
            );
        }
    }
}

fn answers(value: &Value<'_, '_>) -> Option<Answers> {
    let wanted = "\"all\", or a number of origins";
    if value.is_string() {
        let all = value.string(wanted)? == "all";
        if !all {
            let help = format!("give {wanted} from 1 to {MAX_ANSWERS}");
            value.error("the number of answers is \"all\" or a number", help);
        }
        return all.then_some(Answers::All);
    }
    let count = value.integer(1..=u64::from(MAX_ANSWERS), wanted)?;
    u8::try_from(count).ok().map(Answers::Count)
}

fn pool(value: &Value<'_, '_>, scope: &BalancerScope<'_>) -> Option<PoolId> {
    let name = value.string("a pool's name")?;
    let id = scope.pool_names.get(name).copied();
    if id.is_none() {
        let if_none = format!("add [pools.{name}]");
        let help = remedy_for_name(name, scope.pool_names.keys(), "pools", &if_none);
        value.error(format!("there is no pool {name:?}"), help);
    }
    id
}

/// A list of pools: not empty, none twice.
fn pool_list(value: &Value<'_, '_>, scope: &BalancerScope<'_>) -> Vec<PoolId> {
    let entries = value.list("a list of pools").unwrap_or_default();
    if value.is_empty_list() {
        value.error("the list is empty", "name at least one pool");
    }
    let mut pools = Vec::new();
    for entry in entries {
        let Some(id) = pool(&entry, scope) else { continue };
        if pools.contains(&id) {
            entry.error("the pool is in the list already", "name each pool once");
        } else {
            pools.push(id);
        }
    }
    pools
}

fn geo_rules(table: &Table<'_, '_>, scope: &BalancerScope<'_>, pools: &[PoolId]) -> Rules {
    let mut rules = Rules { lists: vec![rule("pools", pools.to_vec())], ..Rules::default() };
    let mut explicit = false;
    let add = |rules: &mut Rules, value: &Value<'_, '_>, name: String| {
        rules.lists.push(rule(name, pool_list(value, scope)));
        u16::try_from(rules.lists.len() - 1).unwrap_or(u16::MAX)
    };
    let entries = |key| -> Option<Vec<(String, Value<'_, '_>)>> {
        Some(table.optional(key)?.table("a table of lists of pools")?.entries())
    };
    for (pop, value) in entries("pop_pools").inspect(|_| explicit = true).unwrap_or_default() {
        let list = add(&mut rules, &value, format!("pop_pools.{pop}"));
        if scope.pop == Some(pop.as_str()) {
            rules.pop = Some(list);
        }
    }
    let mut countries: BTreeMap<Country, u16> = BTreeMap::new();
    let mut subdivisions: BTreeMap<Subdivision, u16> = BTreeMap::new();
    for (code, value) in entries("country_pools").inspect(|_| explicit = true).unwrap_or_default() {
        let list = add(&mut rules, &value, format!("country_pools.{code}"));
        let duplicate = match Area::parse(&code) {
            Ok(Area::Country(country)) => countries.insert(country, list).is_some(),
            Ok(Area::Subdivision(subdivision)) => subdivisions.insert(subdivision, list).is_some(),
            Err(error) => {
                value.key_error(error.to_string(), error.help());
                false
            }
        };
        if duplicate {
            value.key_error(format!("{code} has a list already"), "give each code once");
        }
    }
    let mut regions: BTreeMap<RegionId, u16> = BTreeMap::new();
    for (name, value) in entries("region_pools").inspect(|_| explicit = true).unwrap_or_default() {
        let list = add(&mut rules, &value, format!("region_pools.{name}"));
        match scope.regions.find(&name) {
            Some(region) => {
                regions.insert(region, list);
            }
            None => {
                let message = format!("there is no region {name:?}");
                let help = match scope.regions.nearest(&name) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => "name a region of geo/regions.toml".to_owned(),
                };
                value.key_error(message, help);
            }
        }
    }
    if !explicit {
        regions = implied_regions(&mut rules, scope, pools);
    }
    rules.countries = sorted(countries);
    rules.subdivisions = sorted(subdivisions);
    rules.regions = sorted(regions);
    rules
}

fn sorted<K: Ord + Hash>(map: BTreeMap<K, u16>) -> Vec<(K, u16)> {
    map.into_iter().collect()
}

/// Without any map, region_pools follows from the pools: for every region that a pool lies in (or an
/// ancestor of it), those pools first, in their order, then the others in theirs.
fn implied_regions(
    rules: &mut Rules,
    scope: &BalancerScope<'_>,
    pools: &[PoolId],
) -> BTreeMap<RegionId, u16> {
    let lineage = |pool: &PoolId| -> Vec<RegionId> {
        let region = scope.pools.get(pool.0 as usize).and_then(|pool| pool.region);
        region.map(|region| scope.regions.ancestors(region).collect()).unwrap_or_default()
    };
    let lineages: Vec<(PoolId, Vec<RegionId>)> =
        pools.iter().map(|pool| (*pool, lineage(pool))).collect();
    let mut regions = BTreeMap::new();
    for region in lineages.iter().flat_map(|(_, lineage)| lineage) {
        if regions.contains_key(region) {
            continue;
        }
        let (inside, outside): (Vec<_>, Vec<_>) =
            lineages.iter().partition(|(_, lineage)| lineage.contains(region));
        let candidates = inside.iter().chain(&outside).map(|(pool, _)| *pool).collect();
        rules.lists.push(rule(format!("region_pools.{}", scope.regions.name(*region)), candidates));
        regions.insert(*region, u16::try_from(rules.lists.len() - 1).unwrap_or(u16::MAX));
    }
    regions
}

/// `["5ms", "10%"]`: a duration, a percentage, or both; what is left out is 0.
fn rtt_tolerance(value: &Value<'_, '_>) -> Option<RttTolerance> {
    let wanted = "a duration and a percentage, as [\"5ms\", \"10%\"]";
    let entries = value.list(wanted)?;
    let mut tolerance = RttTolerance { absolute: Duration::ZERO, relative_micros: 0 };
    let (mut durations, mut percentages) = (0, 0);
    for entry in &entries {
        let text = entry.string(wanted)?;
        if let Some(percent) = text.strip_suffix('%').and_then(parse_percent) {
            tolerance.relative_micros = percent;
            percentages += 1;
        } else if let Some(duration) = parse_duration(text) {
            tolerance.absolute = duration;
            durations += 1;
        } else {
            entry.error(
                format!("{text:?} is neither a duration nor a percentage"),
                format!("give {wanted}"),
            );
        }
    }
    if durations > 1 || percentages > 1 || entries.is_empty() {
        value.error(
            "the tolerance is one duration, one percentage or both",
            format!("give {wanted}"),
        );
    }
    Some(tolerance)
}

/// A percentage from 0 to 100 with at most four decimals, in millionths of the whole.
fn parse_percent(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
        return None;
    }
    let percent: u32 = whole.parse().ok().filter(|&percent| percent <= 100)?;
    let micros = percent * 10_000 + format!("{fraction:0<4}").parse::<u32>().ok()?;
    (micros <= 1_000_000).then_some(micros)
}

/// Whether the answer can depend on where the client is; it follows from the configuration, not
/// from momentary health (steering.md, "ECS scope").
fn depends_on_client(balancer: &LoadBalancer, pools: &[Pool]) -> bool {
    if balancer.client == ClientSource::Resolver {
        return false;
    }
    let rules = &balancer.rules;
    let default = rules.lists.get(usize::from(rules.default)).map(|rule| &rule.candidates);
    let indices = rules.subdivisions.iter().map(|&(_, list)| list);
    let indices = indices.chain(rules.countries.iter().map(|&(_, list)| list));
    let indices = indices.chain(rules.spots.iter().map(|&(_, list)| list));
    let mut indices = indices.chain(rules.regions.iter().map(|&(_, list)| list));
    // Times can be measured for any region at any time.
    let has_choice = |rule: &Rule| rule.candidates.windows(2).any(|pair| pair[0] != pair[1]);
    let by_time = balancer.policy == Policy::Rtt && rules.lists.iter().any(has_choice);
    let differs = rules.pop.is_none()
        && indices
            .any(|list| rules.lists.get(usize::from(list)).map(|rule| &rule.candidates) != default);
    let zonal = |id: PoolId| {
        pools.get(id.0 as usize).is_some_and(|pool| {
            let by_zone =
                pool.zonal_affinity != ZonalAffinity::Disabled || balancer.answers == Answers::All;
            let zoned = pool.origins.iter().any(|o| o.is_configured() && o.zone.is_some());
            by_zone && zoned && pool.region.is_some()
        })
    };
    differs || by_time || reachable_pools(balancer).into_iter().any(zonal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_exact() {
        assert_eq!(parse_percent("10"), Some(100_000));
        assert_eq!(parse_percent("12.5"), Some(125_000));
        assert_eq!(parse_percent("0.0001"), Some(1));
        for wrong in ["101", "-1", "1.00001", "", "x", "100.1"] {
            assert_eq!(parse_percent(wrong), None, "{wrong}");
        }
    }
}
