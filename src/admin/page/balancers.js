// The load balancers, with the pools that they answer from.

import { byId, el, icon, keep, setAttribute, setIcon, setText } from "./dom.js";
import { plainName, share } from "./format.js";
import { ORDER, ofBalancer, ofPool, poolOf } from "./health.js";

const STEP = 20;
let shown = STEP;
let latest = null;
const shares = new Map();

const keyOf = (balancer) => `${balancer.zone} ${balancer.name}`;

function make() {
  const name = el("strong");
  const steering = el("span", { class: "dim" });
  const sign = icon("unknown");
  const word = el("span");
  const pools = el("span", { class: "chips" });
  const part = el("td", { class: "number strong" });
  const node = el(
    "tr",
    null,
    el("th", { scope: "row" }, name, steering, pools),
    el("td", { class: "state" }, sign, word),
    part,
  );
  return {
    node,
    update({ balancer, state, members }) {
      setText(name, plainName(balancer.name));
      setText(steering, ` ${balancer.steering}`);
      setIcon(sign, state.kind);
      setText(word, state.word);
      setAttribute(node, "data-state", state.kind);
      const text = members.map(([pool, kind]) => `${pool} ${kind}`).join(" ");
      if (pools.dataset.shown !== text) {
        pools.dataset.shown = text;
        pools.replaceChildren(
          ...members.map(([pool, kind]) => el("span", { class: "chip" }, icon(kind), pool)),
        );
      }
      const known = shares.get(keyOf(balancer));
      setText(part, known === undefined ? "–" : share(known));
    },
  };
}

function members(balancer, pools) {
  const names = balancer.pools.includes(balancer.fallback_pool)
    ? balancer.pools
    : [...balancer.pools, balancer.fallback_pool];
  return names.map((name) => {
    const pool = poolOf(pools, balancer.zone, name);
    const label = balancer.pools.includes(name) ? name : `${name} (fallback)`;
    return [label, pool ? ofPool(pool).kind : "unknown"];
  });
}

function show() {
  if (!latest) return;
  const { status, pools } = latest;
  const rows = status.load_balancers.map((balancer) => ({
    balancer,
    state: ofBalancer(balancer, pools),
    members: members(balancer, pools),
  }));
  rows.sort(
    (a, b) =>
      ORDER.indexOf(a.state.kind) - ORDER.indexOf(b.state.kind) ||
      (shares.get(keyOf(b.balancer)) ?? 0) - (shares.get(keyOf(a.balancer)) ?? 0) ||
      a.balancer.name.localeCompare(b.balancer.name),
  );
  keep(byId("balancers"), rows.slice(0, shown), (row) => keyOf(row.balancer), make);
  const none = byId("balancers-none");
  none.hidden = rows.length > 0;
  byId("balancers-table").hidden = rows.length === 0;
  setText(none, "No load balancer is enabled.");
  const more = byId("balancers-more");
  more.hidden = rows.length <= shown;
  setText(more, `Show more (${rows.length - shown} are not shown)`);
}

byId("balancers-more").addEventListener("click", () => {
  shown += STEP;
  show();
});

/** Shows the load balancers of the status. */
export function showStatus(status, pools) {
  latest = { status, pools };
  show();
}

/** Shows each one's share of the answers. */
export function showTraffic(traffic) {
  shares.clear();
  for (const balancer of traffic.load_balancers) shares.set(keyOf(balancer), balancer.share);
  show();
}
