//! What an operator's word for a pool or an origin means: ORIGIN, POOL/ORIGIN or POOL, among the pools
//! of a zone or of all zones. For the assumptions of `explain` and the admin service.

use crate::config::report::nearest;
use crate::name::Name;
use crate::rr::RecordType;
use crate::state::State;
use crate::steer::pool::{OriginIndex, Pool, PoolId};

/// The pools among which a name is looked for.
#[derive(Debug)]
pub struct Scope<'s> {
    pools: Vec<Entry<'s>>,
    /// The zone that they can be used from; none for all zones.
    zone: Option<String>,
}

/// A pool, and the zone that it belongs to.
#[derive(Clone, Copy, Debug)]
struct Entry<'s> {
    id: PoolId,
    pool: &'s Pool,
    owner: Option<&'s Name>,
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A pool as a whole.
    Pool(PoolId),
    /// One origin.
    Origin(PoolId, OriginIndex),
}

/// Why a name means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// Nothing has the name.
    #[error(
        "there is no origin or pool {name:?}{}{}",
        .zone.as_ref().map(|zone| format!(" that {zone} can use")).unwrap_or_default(),
        hint(.nearest)
    )]
    Unknown {
        /// The name.
        name: String,
        /// The zone in which it was looked for.
        zone: Option<String>,
        /// A name that is near.
        nearest: Option<String>,
    },
    /// Several things have the name.
    #[error("{name:?} is not one thing: it is {}; name one of them", .meanings.join(" and "))]
    Ambiguous {
        /// The name.
        name: String,
        /// What it could be.
        meanings: Vec<String>,
    },
    /// There is no such zone.
    #[error("there is no zone {name:?}{}", hint(.nearest))]
    UnknownZone {
        /// The name.
        name: String,
        /// A name that is near.
        nearest: Option<String>,
    },
}

impl FindError {
    /// What was named.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. }
            | Self::Ambiguous { name, .. }
            | Self::UnknownZone { name, .. } => name,
        }
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

impl<'s> Scope<'s> {
    /// The pools that the zone of a domain name can use.
    pub fn of_name(state: &'s State, name: &Name) -> Self {
        let zone = state.zones.find(&name.to_key(), RecordType::A).map(|zone| &zone.apex);
        let mut scope = Self::usable_by(state, zone);
        scope.zone = Some(zone.unwrap_or(name).to_string());
        scope
    }

    /// The pools that a zone can use.
    ///
    /// # Errors
    /// [`FindError::UnknownZone`].
    pub fn of_zone(state: &'s State, zone: &str) -> Result<Self, FindError> {
        let absolute = Name::parse_absolute(zone).ok();
        let found = absolute.and_then(|name| state.zones.at(&name)).map(|zone| &zone.apex);
        let Some(apex) = found else {
            let zones: Vec<_> = state.zones.iter().map(|zone| zone.apex.to_string()).collect();
            let near = nearest(zone, zones.iter().map(|zone| zone.trim_end_matches('.')));
            let nearest = near.map(str::to_owned);
            return Err(FindError::UnknownZone { name: zone.to_owned(), nearest });
        };
        let mut scope = Self::usable_by(state, Some(apex));
        scope.zone = Some(apex.to_string());
        Ok(scope)
    }

    /// All pools.
    pub fn all(state: &'s State) -> Self {
        let pools = (0u32..).map(PoolId).zip(state.pools.iter()).zip(&state.pool_zones);
        let entry =
            |((id, pool), owner): (_, &'s Option<Name>)| Entry { id, pool, owner: owner.as_ref() };
        Self { pools: pools.map(entry).collect(), zone: None }
    }

    fn usable_by(state: &'s State, zone: Option<&Name>) -> Self {
        let mut scope = Self::all(state);
        scope.pools.retain(|entry| entry.owner.is_none() || entry.owner == zone);
        scope
    }

    /// What ORIGIN, POOL/ORIGIN or POOL means.
    ///
    /// # Errors
    /// [`FindError`] if that is nothing, or several things.
    pub fn find(&self, name: &str) -> Result<Found, FindError> {
        if let Some((pool, origin)) = name.split_once('/') {
            let pools = self.pools.iter().filter(|entry| entry.pool.name == pool);
            return self.only(name, pools.flat_map(|entry| entry.origins(origin)).collect());
        }
        let pools = self.pools.iter().filter(|entry| entry.pool.name == name);
        let pools = pools.map(|&entry| (entry, Found::Pool(entry.id)));
        let origins = self.pools.iter().flat_map(|entry| entry.origins(name));
        self.only(name, pools.chain(origins).collect())
    }

    /// The pool of this name.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn pool(&self, name: &str) -> Result<PoolId, FindError> {
        let pools = self.pools.iter().filter(|entry| entry.pool.name == name);
        match self.only(name, pools.map(|&entry| (entry, Found::Pool(entry.id))).collect())? {
            Found::Pool(id) | Found::Origin(id, _) => Ok(id),
        }
    }

    /// The origins that are meant: of a pool all.
    pub fn origins(&self, found: Found) -> Vec<(PoolId, OriginIndex)> {
        match found {
            Found::Origin(pool, origin) => vec![(pool, origin)],
            Found::Pool(id) => {
                let pool = self.pools.iter().find(|entry| entry.id == id);
                let origins = pool.into_iter().flat_map(|entry| entry.pool.indexed());
                origins.map(|(index, _)| (id, index)).collect()
            }
        }
    }

    fn only(&self, name: &str, found: Vec<(Entry<'s>, Found)>) -> Result<Found, FindError> {
        match found.as_slice() {
            [] => Err(self.unknown(name)),
            [(_, found)] => Ok(*found),
            several => {
                let meanings = several.iter().map(|&(entry, found)| self.meaning(entry, found));
                Err(FindError::Ambiguous { name: name.to_owned(), meanings: meanings.collect() })
            }
        }
    }

    fn meaning(&self, entry: Entry<'_>, found: Found) -> String {
        let pool = &entry.pool.name;
        let named = match found {
            Found::Pool(_) => format!("pool {pool}"),
            Found::Origin(_, index) => {
                format!("{pool}/{}", entry.pool.origin(index).map_or("", |origin| &origin.name))
            }
        };
        match (&self.zone, entry.owner) {
            (Some(_), _) => named,
            (None, Some(zone)) => format!("{named} of zone {zone}"),
            (None, None) => format!("{named}, shared"),
        }
    }

    fn unknown(&self, name: &str) -> FindError {
        let pools = self.pools.iter().map(|entry| entry.pool);
        let near = match name.split_once('/') {
            None => {
                let names = pools.flat_map(|pool| {
                    let origins = pool.origins.iter().map(|origin| origin.name.as_str());
                    std::iter::once(pool.name.as_str()).chain(origins)
                });
                nearest(name, names).map(str::to_owned)
            }
            Some(_) => {
                let names: Vec<_> = pools
                    .flat_map(|pool| {
                        let named = move |origin: &crate::steer::pool::Origin| {
                            format!("{}/{}", pool.name, origin.name)
                        };
                        pool.origins.iter().map(named)
                    })
                    .collect();
                nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
            }
        };
        FindError::Unknown { name: name.to_owned(), zone: self.zone.clone(), nearest: near }
    }
}

impl<'s> Entry<'s> {
    /// Its origins of this name: one, or none.
    fn origins(&self, name: &str) -> Vec<(Self, Found)> {
        let found = self.pool.indexed().filter(|(_, origin)| origin.name == name);
        found.map(|(index, _)| (*self, Found::Origin(self.id, index))).collect()
    }
}
