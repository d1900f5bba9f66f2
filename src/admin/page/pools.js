// The pools: what is wrong first, and never more rows than one can read.

import { byId, el, flash, icon, keep, setAttribute, setIcon, setText } from "./dom.js";
import { colourOf } from "./colours.js";
import { moment, plainName, plural, rate, share } from "./format.js";
import { ORDER, keyOfPool, ofOrigin, ofPool, sinceOfPool } from "./health.js";
import { makeOrigin } from "./origins.js";
import { openChange } from "./change.js";

/** How many pools are shown at first, and how many more by each click. */
const STEP = 40;
/** How many origins of a pool are shown until all are asked for. */
const FEW_ORIGINS = 24;
/** With more pools than this only those with problems are shown at first. */
const CALM = 30;
/** How many pools with problems are unfolded by themselves. */
const UNFOLDED = 12;
/** With no more pools than this every one is unfolded. */
const ALL_UNFOLDED = 6;

let latest = [];
let zones = [];
let shown = STEP;
let which = null;
/** What the user folded or unfolded, by pool. */
const folds = new Map();
/** The pools all of whose origins were asked for. */
const whole = new Set();
let traffic = new Map();

const isProblem = (state) => state.kind !== "up";

// ------------------------------------------------------------------------------ Pools

let numbers = 0;

function makePool() {
  const body = el("div", { class: "pool-body", id: `pool-${(numbers += 1)}`, hidden: true });
  const rows = el("div", { class: "origins", role: "table" });
  const more = el("button", { type: "button", class: "more", hidden: true });
  body.append(rows, more);

  const swatch = el("span", { class: "swatch" });
  const name = el("span", { class: "pool-name" });
  const where = el("span", { class: "dim where" });
  const fold = el(
    "button",
    { type: "button", class: "fold", "aria-controls": body.id },
    icon("fold"),
    swatch,
    name,
    where,
  );
  const sign = icon("unknown");
  const word = el("span", { class: "word" });
  const why = el("span", { class: "why" });
  const since = el("span", { class: "more-line" });
  const pips = el("span", { class: "pips", "aria-hidden": "true" });
  const part = el("span", { class: "part" });
  let meant = null;
  const button = el(
    "button",
    { type: "button", class: "quiet", onclick: () => openChange(meant) },
    "Change…",
  );
  const node = el(
    "li",
    { class: "pool" },
    el(
      "div",
      { class: "pool-head" },
      el("h3", null, fold),
      el("span", { class: "state" }, sign, word),
      el("span", { class: "reason" }, why, since),
      el("span", { class: "numbers" }, part, pips),
      button,
    ),
    body,
  );
  let key = "";
  fold.addEventListener("click", () => {
    folds.set(key, body.hidden);
    show();
  });
  more.addEventListener("click", () => {
    whole.add(key);
    show();
  });
  return {
    node,
    update({ pool, state, origins, unfolded }) {
      key = keyOfPool(pool);
      meant = {
        zone: pool.zone,
        pool: pool.pool,
        origin: null,
        reason: pool.reason,
        said: pool.override,
      };
      if (node.dataset.state && node.dataset.state !== state.kind) flash(node);
      node.dataset.pool = pool.pool;
      node.dataset.state = state.kind;
      setAttribute(swatch, "class", `swatch ${colourOf(pool)}`);
      setText(name, pool.pool);
      const zone = pool.zone === null ? "shared" : zones.length > 1 ? plainName(pool.zone) : null;
      setText(where, [zone, pool.region].filter(Boolean).join(" · "));
      setIcon(sign, state.kind);
      setText(word, state.word);
      setText(why, pool.reason);
      const from = state.kind === "up" ? null : sinceOfPool(pool);
      setText(since, from ? `since ${moment(from)}` : "");
      const known = traffic.get(key);
      setText(part, known ? share(known.share) : "");
      part.title = known ? `of the answers; ${rate(known.series.at(-1) ?? 0)} in a second` : "";
      setAttribute(button, "aria-label", `Change pool ${pool.pool}`);
      setAttribute(rows, "aria-label", `Origins of ${pool.pool}`);
      setAttribute(fold, "aria-expanded", unfolded);
      body.hidden = !unfolded;
      pips.hidden = unfolded;
      if (!unfolded) {
        const few = origins.slice(0, FEW_ORIGINS).map((origin) => origin.state.kind);
        if (pips.dataset.shown !== few.join()) {
          pips.dataset.shown = few.join();
          pips.replaceChildren(...few.map(icon));
        }
        keep(rows, [], () => "", makeOrigin);
        return;
      }
      const listed = whole.has(key) ? origins : origins.slice(0, FEW_ORIGINS);
      keep(rows, listed, (entry) => entry.origin.origin, makeOrigin);
      more.hidden = listed.length === origins.length;
      setText(more, `Show all ${origins.length} origins`);
    },
  };
}

// ------------------------------------------------------------------------------ The list

function entryOf(pool) {
  const origins = pool.origins.map((origin) => ({ pool, origin, state: ofOrigin(origin) }));
  if (origins.length > FEW_ORIGINS)
    origins.sort((a, b) => ORDER.indexOf(a.state.kind) - ORDER.indexOf(b.state.kind));
  return { pool, state: ofPool(pool), origins };
}

function matches(entry, words) {
  const { pool, state, origins } = entry;
  const text = [
    pool.pool,
    pool.zone,
    pool.region,
    pool.monitor,
    state.word,
    pool.reason,
    ...origins.map(({ origin }) =>
      [origin.origin, origin.host, origin.zone, ...origin.addresses.map((at) => at.address)].join(
        " ",
      ),
    ),
  ]
    .join(" ")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

function show() {
  const words = byId("pools-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const problems = latest.filter((entry) => isProblem(entry.state)).length;
  const only = which ?? (latest.length > CALM ? "problems" : "all");
  for (const button of byId("pools-which").children) {
    setAttribute(button, "aria-pressed", button.dataset.which === only);
    setText(
      button,
      button.dataset.which === "all" ? `All ${latest.length}` : `Problems ${problems}`,
    );
  }
  const found = latest.filter(
    (entry) =>
      (only === "all" || words.length > 0 || isProblem(entry.state)) &&
      (words.length === 0 || matches(entry, words)),
  );
  const listed = found.slice(0, shown);
  listed.forEach((entry, index) => {
    const by = latest.length <= ALL_UNFOLDED || (isProblem(entry.state) && index < UNFOLDED);
    entry.unfolded = folds.get(keyOfPool(entry.pool)) ?? by;
  });
  keep(byId("pools"), listed, (entry) => keyOfPool(entry.pool), makePool);
  const none = byId("pools-none");
  none.hidden = listed.length > 0;
  setText(
    none,
    latest.length === 0
      ? "There are no pools."
      : words.length > 0
        ? "Nothing matches the filter."
        : `No problems: all ${plural(latest.length, "pool", "pools")} are up.`,
  );
  const more = byId("pools-more");
  more.hidden = found.length <= listed.length;
  setText(more, `Show more (${found.length - listed.length} are not shown)`);
}

for (const choice of ["problems", "all"]) {
  byId("pools-which").append(
    el("button", {
      type: "button",
      "data-which": choice,
      onclick: () => {
        which = choice;
        shown = STEP;
        show();
      },
    }),
  );
}
byId("pools-filter").addEventListener("input", () => {
  shown = STEP;
  show();
});
byId("pools-more").addEventListener("click", () => {
  shown += STEP;
  show();
});

/** Shows the pools of the status, those with problems first. */
export function showStatus(status) {
  zones = status.zones;
  latest = status.pools.map(entryOf);
  latest.sort(
    (a, b) =>
      ORDER.indexOf(a.state.kind) - ORDER.indexOf(b.state.kind) ||
      a.pool.pool.localeCompare(b.pool.pool) ||
      (a.pool.zone ?? "").localeCompare(b.pool.zone ?? ""),
  );
  show();
}

/** Shows each pool's share of the answers. */
export function showTraffic(document) {
  traffic = new Map(document.pools.map((pool) => [keyOfPool(pool), pool]));
  show();
}
