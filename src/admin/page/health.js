// What the server's words mean to the eye: one state, with an icon and a word, for each origin, pool and
// load balancer. The first in this order is what an operator should see first.

export const ORDER = ["down", "impaired", "unknown", "out", "up"];

const SAID = {
  disabled: "disabled",
  drained: "drained",
  "forced-up": "forced up",
  "forced-down": "forced down",
};

/** The word of an override, for people. */
export const wordOf = (said) => SAID[said.word] ?? said.word;

/** The state of an origin: `{ kind, word }`. */
export function ofOrigin(origin) {
  const said = origin.override && wordOf(origin.override);
  if (!origin.enabled) return { kind: "out", word: said ?? "disabled" };
  if (said === "forced down") return { kind: "out", word: said };
  if (origin.weight === 0) return { kind: "out", word: said === "drained" ? said : "weight 0" };
  if (origin.health === "unhealthy") return { kind: "down", word: "unhealthy" };
  if (origin.health === "unknown") return { kind: "unknown", word: "not probed" };
  const probed = said ? [] : origin.addresses;
  if (probed.some((at) => at.health === "unhealthy")) return { kind: "impaired", word: "in part" };
  return { kind: "up", word: said ?? "healthy" };
}

/** The state of a pool. */
export function ofPool(pool) {
  const said = pool.override && wordOf(pool.override);
  if (!pool.enabled) return { kind: "out", word: said ?? "disabled" };
  if (!pool.available) {
    if (said === "drained" || said === "forced down") return { kind: "out", word: said };
    return { kind: "down", word: "down" };
  }
  if (said === "forced up") return { kind: "impaired", word: said };
  const kinds = pool.origins.map((origin) => ofOrigin(origin).kind);
  if (kinds.includes("down") || kinds.includes("impaired"))
    return { kind: "impaired", word: "impaired" };
  if (kinds.includes("unknown")) return { kind: "unknown", word: "not probed" };
  if (pool.origins.some((origin) => origin.override)) return { kind: "out", word: "partly out" };
  return { kind: "up", word: "up" };
}

/** Since when an origin has its state, by what is known of it; none if nothing is. */
export function sinceOfOrigin(origin) {
  if (origin.override) return origin.override.since;
  const known = origin.addresses.filter((address) => address.since);
  const bad = known.filter((address) => address.health === "unhealthy");
  const times = (bad.length > 0 ? bad : known).map((address) => address.since).sort();
  // It is not as it should be from the first address on that fails, and well from the last one on.
  return (bad.length > 0 ? times[0] : times.at(-1)) ?? null;
}

/** Since when a pool is not as it should be: from its origins, as the server tells no more. */
export function sinceOfPool(pool) {
  if (pool.override) return pool.override.since;
  const bad = pool.origins.filter((origin) => ofOrigin(origin).kind !== "up");
  return bad.map(sinceOfOrigin).filter(Boolean).sort().at(-1) ?? null;
}

/** One name for a pool among all zones. */
export const keyOfPool = ({ zone, pool }) => `${zone ?? ""} ${pool}`;

/** The pool that a load balancer means by a name: its zone's, or a shared one. */
export function poolOf(pools, zone, name) {
  return (
    pools.get(keyOfPool({ zone, pool: name })) ?? pools.get(keyOfPool({ zone: null, pool: name }))
  );
}

/** The state of a load balancer, from its pools. */
export function ofBalancer(balancer, pools) {
  if (!balancer.available) {
    const fallback = poolOf(pools, balancer.zone, balancer.fallback_pool);
    if (fallback?.enabled && fallback.origins.length > 0)
      return { kind: "down", word: "fallback only" };
    return { kind: "down", word: "no answer" };
  }
  const states = balancer.pools.map((name) => poolOf(pools, balancer.zone, name)).filter(Boolean);
  return states.every((pool) => pool.available)
    ? { kind: "up", word: "up" }
    : { kind: "impaired", word: "some pools out" };
}
