//! All that is measured, by vantage point and pool.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::rtt::Vantage;
use crate::rtt::average::Average;
use crate::state::State;
use crate::steer::pool::PoolId;

/// The averages of one state's pools.
#[derive(Clone, Debug, Default)]
pub struct Book {
    averages: HashMap<(Vantage, PoolId), Average>,
}

impl Book {
    /// Takes a sample in.
    pub fn add(&mut self, vantage: Vantage, pool: PoolId, sample: Duration, at: Instant) {
        self.averages
            .entry((vantage, pool))
            .and_modify(|average| average.add(sample, at))
            .or_insert_with(|| Average::new(sample, at));
    }

    /// Forgets what is older than `max_age`.
    pub fn drop_older(&mut self, max_age: Duration, now: Instant) {
        self.averages.retain(|_, average| now.saturating_duration_since(average.last()) <= max_age);
    }

    /// All averages.
    pub fn iter(&self) -> impl Iterator<Item = ((Vantage, PoolId), &Average)> {
        self.averages.iter().map(|(&cell, average)| (cell, average))
    }

    /// The average of a vantage point and a pool.
    pub fn get(&self, vantage: Vantage, pool: PoolId) -> Option<&Average> {
        self.averages.get(&(vantage, pool))
    }

    /// The same by the numbers of another state: of the pools and regions that it has, too.
    pub fn carry_over(self, old: &State, new: &State) -> Self {
        let ids = (0u32..).map(PoolId);
        let named = new.pools.iter().zip(&new.pool_zones).map(key);
        let pools: HashMap<_, _> = named.zip(ids).collect();
        let pool = |id: PoolId| {
            let index = id.0 as usize;
            pools.get(&key((old.pools.get(index)?, old.pool_zones.get(index)?))).copied()
        };
        let region = |vantage| match vantage {
            Vantage::Pop => Some(Vantage::Pop),
            Vantage::Region(region) => {
                let name = old.locator.regions().name(region);
                new.locator.regions().find(name).map(Vantage::Region)
            }
        };
        let moved = |((vantage, id), average)| Some(((region(vantage)?, pool(id)?), average));
        Self { averages: self.averages.into_iter().filter_map(moved).collect() }
    }
}

/// What a pool is called, from one state to the next.
fn key(
    (pool, zone): (&crate::steer::pool::Pool, &Option<crate::name::Name>),
) -> (String, Option<String>) {
    (pool.name.clone(), zone.as_ref().map(|zone| zone.to_string().to_ascii_lowercase()))
}
