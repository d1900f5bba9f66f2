//! The candidate lists of proximity steering: one for each order that the distances to the pools make
//! somewhere among the clients, worked out for every place that a client can be located at.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use crate::config::load_balancers::BalancerScope;
use crate::config::reader::Value;
use crate::locate::place::{Coordinates, Country};
use crate::locate::{Locator, centroids};
use crate::steer::load_balancer::{Rule, Rules};
use crate::steer::pool::{Pool, PoolId};
use crate::steer::proximity::{Point, order};

/// The orders by distance; a mistake or doubt is reported at the policy.
pub(super) fn proximity_rules(
    value: &Value<'_, '_>,
    scope: &BalancerScope<'_>,
    pools: &[PoolId],
) -> Rules {
    let located =
        |id: &&PoolId| scope.pools.get(id.0 as usize).is_some_and(|pool| pool.location.is_some());
    if pools.len() > 1 && pools.iter().filter(located).count() < 2 {
        value.warning(
            "fewer than two of the pools have a location, so all clients get `pools` in its order",
            "give the pools their location = [latitude, longitude]",
        );
    }
    scope.orders.rules(pools, scope.pools, scope.locator).unwrap_or_else(|TooManyOrders| {
        value.error(
            "the distances to the pools make more than 65,535 orders",
            "use fewer pools with a location here: make one pool of those that stand together",
        );
        Rules::default()
    })
}

/// There are more orders than can be numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyOrders;

/// What is worked out once for all load balancers of a configuration: a city database has some
/// hundred thousand places.
#[derive(Debug, Default)]
pub struct Orders {
    /// The distinct coordinates of clients, sorted.
    spots: OnceCell<Vec<(Coordinates, Point)>>,
    /// The rules of pools that were asked for already.
    known: RefCell<HashMap<Vec<PoolId>, Rules>>,
}

impl Orders {
    /// The rules of a load balancer with these pools.
    ///
    /// # Errors
    /// [`TooManyOrders`] if there are more lists than 16 bits can number.
    pub fn rules(
        &self,
        ids: &[PoolId],
        pools: &[Pool],
        locator: &Locator,
    ) -> Result<Rules, TooManyOrders> {
        if let Some(rules) = self.known.borrow().get(ids) {
            return Ok(rules.clone());
        }
        let location = |id: PoolId| pools.get(id.0 as usize).and_then(|pool| pool.location);
        let located: Vec<_> = ids.iter().map(|&id| (id, location(id).map(Point::from))).collect();
        let mut lists = Lists::new(ids);
        let (mut spots, mut countries) = (Vec::new(), Vec::new());
        if located.iter().any(|(_, point)| point.is_some()) {
            for &(coordinates, point) in self.spots.get_or_init(|| distinct_spots(locator)) {
                spots.push((coordinates, lists.number_of(order(&located, point))?));
            }
            for (country, middle) in centroids::all() {
                countries.push((country, lists.number_of(order(&located, middle.into()))?));
            }
        }
        let rules = rules(lists, spots, countries);
        self.known.borrow_mut().insert(ids.to_vec(), rules.clone());
        Ok(rules)
    }
}

fn rules(lists: Lists, spots: Vec<(Coordinates, u16)>, countries: Vec<(Country, u16)>) -> Rules {
    Rules { lists: lists.rules, spots: Arc::from(spots), countries, ..Rules::default() }
}

fn distinct_spots(locator: &Locator) -> Vec<(Coordinates, Point)> {
    let places = locator.table().places().iter();
    let mut spots: Vec<_> = places.filter_map(|place| place.coordinates).collect();
    spots.sort_unstable();
    spots.dedup();
    spots.into_iter().map(|coordinates| (coordinates, coordinates.into())).collect()
}

/// The distinct lists, numbered as they come; the first is `pools` as configured, for clients without
/// coordinates.
struct Lists {
    rules: Vec<Rule>,
    numbers: HashMap<Vec<PoolId>, u16>,
}

impl Lists {
    fn new(pools: &[PoolId]) -> Self {
        let default = Rule { name: "pools".to_owned(), candidates: pools.to_vec() };
        Self { rules: vec![default], numbers: HashMap::new() }
    }

    fn number_of(&mut self, candidates: Vec<PoolId>) -> Result<u16, TooManyOrders> {
        if let Some(&number) = self.numbers.get(&candidates) {
            return Ok(number);
        }
        let number = u16::try_from(self.rules.len()).map_err(|_| TooManyOrders)?;
        self.numbers.insert(candidates.clone(), number);
        self.rules.push(Rule { name: "distance".to_owned(), candidates });
        Ok(number)
    }
}
