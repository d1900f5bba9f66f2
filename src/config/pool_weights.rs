//! `pool_weights`: the shares of the pools of a load balancer with random steering.

use crate::config::decimal::Decimal;
use crate::config::load_balancers::BalancerScope;
use crate::config::reader::Value;
use crate::config::report::remedy_for_name;
use crate::steer::pool::PoolId;

/// The weight of each pool where none is given: 1.
pub(super) fn all_alike(pools: &[PoolId]) -> Vec<(PoolId, u32)> {
    pools.iter().map(|&pool| (pool, Decimal::ONE.micros())).collect()
}

/// `{ weu = 0.7, use = 0.3 }`: the weights of the pools; what is left out has 1.
pub(super) fn pool_weights(
    value: &Value<'_, '_>,
    scope: &BalancerScope<'_>,
    pools: &[PoolId],
) -> Vec<(PoolId, u32)> {
    let mut weights = all_alike(pools);
    let table = value.table("the weights of pools, as { weu = 0.7, use = 0.3 }");
    for (name, entry) in table.map(|table| table.entries()).unwrap_or_default() {
        let weight = entry.decimal("a weight");
        let id = scope.pool_names.get(&name);
        match weights.iter_mut().find(|(pool, _)| Some(pool) == id) {
            Some((_, to)) => *to = weight.map_or(*to, Decimal::micros),
            // Without pools beside an error they could not be read, and that has been said.
            None if pools.is_empty() => {}
            None => {
                let of = |&pool: &PoolId| scope.pools.get(pool.0 as usize).map(|p| p.name.clone());
                let names: Vec<String> = pools.iter().filter_map(of).collect();
                let help = remedy_for_name(&name, &names, "pools here", "add it to `pools`");
                entry.key_error(format!("{name:?} is not one of `pools`"), help);
            }
        }
    }
    if !weights.is_empty() && weights.iter().all(|&(_, weight)| weight == 0) {
        value.error("all weights are 0: no pool would be chosen", "give one a weight above 0");
    }
    weights
}
