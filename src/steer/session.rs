//! Session affinity (steering.md, "Session affinity"): a client subnet keeps its origin while its
//! session lives, and a new session is placed by hashing.
//!
//! ```text
//! client subnet ─► Session::find (the caller's table) ─► does it still stand? ─► its origin first
//!     └─► otherwise: decide ─► eligible ─► zonal ─► rendezvous::winner ─► a new session
//! ```
//!
//! The table and the time are the caller's ([`Sessions`]); nothing here knows either.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::locate::place::Place;
use crate::name::Name;
use crate::steer::load_balancer::LoadBalancer;
use crate::steer::plan::{Member, Plan, Stay};
use crate::steer::pool::{Family, OriginIndex, Pool, PoolId};
use crate::steer::rendezvous::{hash, stir, winner};
use crate::steer::{
    Decision, FirstOnly, Memory, NoAnswer, Outcome, Pick, Steering, candidates, decide, fallback,
    family_plan, pick,
};

/// The difference between the length of an IPv4 prefix and of the same in mapped addresses.
const MAPPED_LENGTH: u8 = 96;

/// Where sessions are kept. The defaults keep none.
pub trait Sessions {
    /// The origin of the session with this key, if there is one that lives: its last query is not
    /// longer ago than `ttl` seconds. This query is its last now.
    fn find(&self, _key: SessionKey, _ttl: u32) -> Option<OriginTag> {
        None
    }

    /// Begins a session, in the place of one with the same key.
    fn begin(&self, _key: SessionKey, _origin: OriginTag) {}
}

/// Which session it is: a hash of the load balancer's name and the client subnet. Two subnets of one
/// load balancer have different keys if they are of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub u64);

/// An origin of a load balancer, by the names of pool and origin: it means the same after a reload, and
/// on another node. No two origins of a load balancer share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginTag(pub u32);

/// What is configured of a load balancer's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// How many seconds a session lives after its last query.
    pub ttl: u32,
    /// How much of an IPv4 address is the client subnet.
    pub ipv4_prefix: u8,
    /// The same of an IPv6 address.
    pub ipv6_prefix: u8,
    /// What happens when a better pool recovers.
    pub failback: Failback,
}

/// What happens to a session when another pool than its own is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failback {
    /// It stays.
    #[default]
    Keep,
    /// It is placed anew.
    Move,
}

/// How a client becomes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionKeys {
    /// What is configured.
    pub settings: SessionSettings,
    /// What the load balancer's name contributes.
    seed: u64,
}

/// The sessions of a load balancer, as a decision reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAffinity {
    /// How clients become keys.
    pub keys: SessionKeys,
    /// Every pool that can be answered, sorted by its number.
    pools: Vec<TaggedPool>,
    /// All origins, sorted by tag.
    origins: Vec<(OriginTag, PoolId, OriginIndex)>,
}

impl SessionKeys {
    /// The client subnet of an address of which so many bits are known.
    #[inline]
    pub fn subnet(&self, address: IpAddr, known: u8) -> Option<IpNet> {
        let SessionSettings { ipv4_prefix, ipv6_prefix, .. } = self.settings;
        let subnet = match (address, address.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(ip)) => {
                let known = known.saturating_sub(MAPPED_LENGTH);
                IpNet::V4(Ipv4Net::new(ip, known.min(ipv4_prefix)).ok()?)
            }
            (_, IpAddr::V4(ip)) => IpNet::V4(Ipv4Net::new(ip, known.min(ipv4_prefix)).ok()?),
            (_, IpAddr::V6(ip)) => IpNet::V6(Ipv6Net::new(ip, known.min(ipv6_prefix)).ok()?),
        };
        Some(subnet.trunc())
    }

    /// The key of a client subnet's session.
    #[inline]
    pub fn key(&self, subnet: IpNet) -> SessionKey {
        let length = u64::from(subnet.prefix_len());
        SessionKey(match subnet {
            IpNet::V4(net) => {
                stir(self.seed ^ (4 << 40 | u64::from(net.addr().to_bits()) << 8 | length))
            }
            IpNet::V6(net) => {
                let bits = net.addr().to_bits();
                #[allow(clippy::cast_possible_truncation, reason = "the halves are taken apart")]
                let (high, low) = ((bits >> 64) as u64, bits as u64);
                stir(stir(stir(self.seed ^ (6 << 40 | length)) ^ high) ^ low)
            }
        })
    }
}

/// A pool with the numbers that sessions know it and its origins by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaggedPool {
    id: PoolId,
    /// From its name.
    number: u32,
    /// Of its origins, in their order.
    origins: Vec<OriginTag>,
}

impl SessionAffinity {
    /// For a load balancer of this name, which can answer these pools.
    pub fn new(settings: SessionSettings, name: &Name, pools: &[(PoolId, &Pool)]) -> Self {
        let mut named: Vec<_> = pools
            .iter()
            .flat_map(|&(id, pool)| {
                pool.indexed().map(move |(index, origin)| (&pool.name, &origin.name, id, index))
            })
            .collect();
        // In an order that does not depend on the files', so that every node has the same tags.
        named.sort_unstable();
        let mut taken = HashSet::new();
        let mut origins: Vec<_> = named
            .into_iter()
            .map(|(pool_name, name, pool, index)| {
                let named = pool_name.bytes().chain([b'/']).chain(name.bytes());
                let mut tag = OriginTag(half(hash(named)));
                while !taken.insert(tag) {
                    tag.0 = tag.0.wrapping_add(1);
                }
                (tag, pool, index)
            })
            .collect();
        origins.sort_unstable_by_key(|&(_, pool, index)| (pool, index));
        let tagged = |&(id, pool): &(PoolId, &Pool)| {
            let first = origins.partition_point(|&(_, of, _)| of < id);
            let of_pool = origins.iter().skip(first).take(pool.origins.len());
            TaggedPool {
                id,
                number: half(hash(pool.name.bytes())),
                origins: of_pool.map(|&(tag, ..)| tag).collect(),
            }
        };
        let mut pools: Vec<_> = pools.iter().map(tagged).collect();
        pools.sort_unstable_by_key(|pool| pool.id);
        origins.sort_unstable();
        let keys = SessionKeys { settings, seed: hash(name.to_key().iter().copied()) };
        Self { keys, pools, origins }
    }

    /// All origins, sorted by their tags.
    pub fn origins(&self) -> impl Iterator<Item = (OriginTag, PoolId, OriginIndex)> + '_ {
        self.origins.iter().copied()
    }

    /// The origin with a tag.
    #[inline]
    pub fn origin(&self, tag: OriginTag) -> Option<(PoolId, OriginIndex)> {
        let found = self.origins.binary_search_by_key(&tag, |&(tag, ..)| tag).ok()?;
        self.origins.get(found).map(|&(_, pool, index)| (pool, index))
    }

    /// The pools that sessions can be in.
    pub fn pools(&self) -> impl Iterator<Item = PoolId> + '_ {
        self.pools.iter().map(|pool| pool.id)
    }

    fn pool(&self, id: PoolId) -> Option<&TaggedPool> {
        let found = self.pools.binary_search_by_key(&id, |pool| pool.id).ok()?;
        self.pools.get(found)
    }
}

/// Half of a hash.
fn half(hash: u64) -> u32 {
    let [.., a, b, c, d] = hash.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The length of a client subnet as a scope, where the option gave this address.
pub fn scope_of(subnet: IpNet, address: IpAddr) -> u8 {
    match (subnet, address) {
        (IpNet::V4(net), IpAddr::V6(_)) => net.prefix_len() + MAPPED_LENGTH,
        (net, _) => net.prefix_len(),
    }
}

/// The session of a client subnet with a load balancer, or that there is none.
#[derive(Clone, Copy, Debug)]
pub struct Session<'s> {
    affinity: &'s SessionAffinity,
    key: SessionKey,
    /// Where it was placed, if it lives and the origin is still one of the load balancer's.
    placed: Option<(PoolId, OriginIndex)>,
}

/// What of a session is good for an answer.
#[derive(Clone, Copy, Debug)]
enum Standing<'s> {
    /// There is none, or its origin cannot keep it: a new one is placed.
    Over,
    /// Its origin keeps it, and has nothing for an answer of the family at the moment.
    Waits(PoolId),
    /// Its origin answers.
    Stands(PoolId, &'s Member),
}

impl<'s> Session<'s> {
    /// Looks a client subnet's session up.
    #[inline]
    pub fn find(affinity: &'s SessionAffinity, subnet: IpNet, sessions: &impl Sessions) -> Self {
        let key = affinity.keys.key(subnet);
        let tag = sessions.find(key, affinity.keys.settings.ttl);
        Self { affinity, key, placed: tag.and_then(|tag| affinity.origin(tag)) }
    }

    /// Chooses the origins of an answer: for the first of the families that has any.
    ///
    /// # Errors
    /// [`NoAnswer`] if no session stands and no pool can answer.
    pub fn pick(
        mut self,
        steering: &Steering<'s>,
        balancer: &'s LoadBalancer,
        place: &Place,
        families: &[Family],
        memory: &impl Memory,
    ) -> Result<Option<(Family, Pick<'s>)>, NoAnswer> {
        let resume = |session: &Self| {
            families.iter().find_map(|&family| {
                Some((family, session.resume(steering, balancer, place, family, memory)?))
            })
        };
        let may_move = self.affinity.keys.settings.failback == Failback::Move;
        if !may_move && let Some(resumed) = resume(&self) {
            return Ok(Some(resumed));
        }
        let pool = match self.decide(steering, balancer, place).outcome {
            Outcome::Available(pool) | Outcome::Fallback(pool) => pool,
            // What stands is better than no answer.
            Outcome::Nothing(reason) => return resume(&self).map(Some).ok_or(reason),
        };
        if may_move {
            self.placed = self.placed.filter(|&(own, _)| own == pool);
            if let Some(resumed) = resume(&self) {
                return Ok(Some(resumed));
            }
        }
        Ok(families.iter().find_map(|&family| {
            Some((family, self.place(steering, balancer, pool, place, family, memory)?))
        }))
    }

    /// Chooses the pool that a new session would be placed in. With random steering that is a matter of
    /// hashing too: another number would be another pool at each query.
    pub fn decide(
        &self,
        steering: &Steering<'s>,
        balancer: &'s LoadBalancer,
        place: &Place,
    ) -> Decision<'s> {
        let decision = |outcome| {
            let rules = steering.plan.rules(balancer);
            Decision { rule: candidates::matching(rules, place, steering.parents), outcome }
        };
        let Some(random) = &balancer.random else {
            return decide(steering, balancer, place, Family::V4, &FirstOnly);
        };
        let available = || random.available(steering.plan);
        let number = |pool| self.affinity.pool(pool).map_or(0, |pool| pool.number);
        let candidates = available().map(|(pool, weight)| (number(pool), weight));
        let chosen = winner(self.key.0, candidates).and_then(|found| available().nth(found));
        decision(match chosen {
            Some((pool, _)) => Outcome::Available(pool),
            None => fallback(steering, balancer),
        })
    }

    /// The answer of a session that stands.
    fn resume(
        &self,
        steering: &Steering<'s>,
        balancer: &LoadBalancer,
        place: &Place,
        family: Family,
        memory: &impl Memory,
    ) -> Option<Pick<'s>> {
        let Standing::Stands(pool, member) = self.standing(steering.plan, family) else {
            return None;
        };
        // What would only be answered for want of better, or takes no new clients, is not put beside
        // an origin that is well.
        let drained = steering.plan.pool(pool).is_some_and(|plan| plan.drained);
        let plan = family_plan(steering, pool, place, family);
        let others = plan.filter(|plan| !plan.any_health && !drained);
        Some(Pick::led(member, others, balancer, (pool, family), memory))
    }

    /// Places a session in a pool, and answers from it.
    pub fn place(
        &self,
        steering: &Steering<'s>,
        balancer: &LoadBalancer,
        pool: PoolId,
        place: &Place,
        family: Family,
        memory: &impl Memory,
    ) -> Option<Pick<'s>> {
        // A session that waits is neither moved nor forgotten. Its other family is answered from its
        // pool if that can be, so that both meet in one pool.
        let waits_in = match self.standing(steering.plan, family) {
            Standing::Waits(pool) => Some(pool),
            Standing::Over | Standing::Stands(..) => None,
        };
        let answers = |&own: &PoolId| {
            let available = steering.plan.pool(own).is_some_and(|plan| plan.available);
            let set = || family_plan(steering, own, place, family);
            available && set().is_some_and(|plan| !plan.set.is_empty())
        };
        let pool = waits_in.filter(answers).unwrap_or(pool);
        let plan = family_plan(steering, pool, place, family)?;
        if plan.any_health {
            // An unhealthy origin is answered for want of better: no client is bound to it.
            return pick(steering, balancer, pool, place, family, memory);
        }
        let tags = &self.affinity.pool(pool)?.origins;
        let tag = |member: &Member| tags.get(usize::from(member.origin.0)).copied();
        let candidates = plan.set.members.iter().map(|m| (tag(m).map_or(0, |tag| tag.0), m.weight));
        let member = plan.set.members.get(winner(self.key.0, candidates)?)?;
        if waits_in.is_none() {
            memory.begin(self.key, tag(member)?);
        }
        Some(Pick::led(member, Some(plan), balancer, (pool, family), memory))
    }

    fn standing(&self, plan: &'s Plan, family: Family) -> Standing<'s> {
        let Some((pool, origin)) = self.placed else { return Standing::Over };
        match plan.pool(pool).map(|plan| plan.stay(origin, family)) {
            None | Some(Stay::Ends) => Standing::Over,
            Some(Stay::Waits) => Standing::Waits(pool),
            Some(Stay::Answers(member)) => Standing::Stands(pool, member),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::decimal::Decimal;
    use crate::steer::pool::{FailoverPolicy, Origin, Role, ZonalAffinity};

    const SETTINGS: SessionSettings =
        SessionSettings { ttl: 60, ipv4_prefix: 24, ipv6_prefix: 56, failback: Failback::Keep };

    fn pool(name: &str, origins: usize) -> Pool {
        let origin = |number| Origin {
            name: format!("o{number}"),
            host: None,
            addresses: Vec::new(),
            zone: None,
            weight: Decimal::ONE,
            role: Role::Primary,
            enabled: true,
        };
        Pool {
            name: name.to_owned(),
            enabled: true,
            region: None,
            location: None,
            monitor: None,
            minimum_origins: 1,
            zonal_affinity: ZonalAffinity::Disabled,
            failover_policy: FailoverPolicy::default(),
            origins: (0..origins).map(origin).collect(),
            keeps_sessions: true,
        }
    }

    fn affinity(name: &str, pools: &[(PoolId, &Pool)]) -> SessionAffinity {
        SessionAffinity::new(SETTINGS, &Name::parse_absolute(name).unwrap(), pools)
    }

    #[test]
    fn a_client_subnet_is_what_is_known_of_the_address_at_most() {
        let keys = affinity("www.example.test", &[]).keys;
        for (address, known, expected, scope) in [
            ("192.0.2.77", u8::MAX, "192.0.2.0/24", 24),
            ("192.0.2.77", 24, "192.0.2.0/24", 24),
            ("192.0.0.0", 20, "192.0.0.0/20", 20),
            ("::ffff:192.0.2.77", 128, "192.0.2.0/24", 120),
            ("::ffff:192.0.0.0", 116, "192.0.0.0/20", 116),
            ("2001:db8:1:2ff::1", u8::MAX, "2001:db8:1:200::/56", 56),
            ("2001:db8::", 32, "2001:db8::/32", 32),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let subnet = keys.subnet(address, known).unwrap();
            assert_eq!(subnet.to_string(), expected);
            assert_eq!(scope_of(subnet, address), scope, "{address}");
        }
    }

    #[test]
    fn keys_tell_clients_and_load_balancers_apart() {
        let (www, api) = (affinity("www.example.test", &[]), affinity("api.example.test", &[]));
        let spelled = affinity("WWW.Example.test", &[]);
        let subnets = ["192.0.2.0/24", "192.0.2.0/23", "192.0.3.0/24", "::/24", "2001:db8::/56"];
        let mut keys = HashSet::new();
        for subnet in subnets {
            let subnet = subnet.parse().unwrap();
            assert!(keys.insert(www.keys.key(subnet)) && keys.insert(api.keys.key(subnet)));
            assert_eq!(www.keys.key(subnet), spelled.keys.key(subnet), "case does not matter");
        }
    }

    // The same after a reload, and on another node, whatever the order of the files.
    #[test]
    fn tags_follow_from_the_names_alone() {
        let (a, b) = (pool("a", 300), pool("b", 200));
        let one = affinity("www.example.test", &[(PoolId(0), &a), (PoolId(1), &b)]);
        let other = affinity("www.example.test", &[(PoolId(7), &a), (PoolId(3), &b)]);
        let mut seen = HashSet::new();
        for (tag, pool, index) in one.origins() {
            assert!(seen.insert(tag), "each its own");
            let (there, index_there) = other.origin(tag).unwrap();
            assert_eq!((there == PoolId(7), index_there), (pool == PoolId(0), index));
            assert_eq!(one.pool(pool).unwrap().origins[usize::from(index.0)], tag);
            assert_eq!(one.origin(tag), Some((pool, index)));
        }
        assert_eq!(seen.len(), 500);
        assert_eq!(one.pool(PoolId(1)).unwrap().number, other.pool(PoolId(3)).unwrap().number);
        assert!(other.pool(PoolId(0)).is_none());
    }
}
