// One colour a pool, for as long as the page is open: the first eight that are busy get one of their own.

import { keyOfPool } from "./health.js";

const OWN = 8;
const taken = new Map();

/** The class that gives a pool its colour. */
export function colourOf(pool) {
  return `c${taken.get(keyOfPool(pool)) ?? "x"}`;
}

/** Gives colours to pools, the busiest first, as far as there are any left. */
export function assign(pools) {
  for (const pool of pools) {
    if (taken.size >= OWN) return;
    const key = keyOfPool(pool);
    if (!taken.has(key)) taken.set(key, taken.size);
  }
}
