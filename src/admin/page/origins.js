// The row of an origin: what its state is, why and since when.

import { el, flash, icon, setAttribute, setIcon, setText } from "./dom.js";
import { moment } from "./format.js";
import { sinceOfOrigin } from "./health.js";
import { openChange } from "./change.js";

/** The rows are laid out as a grid, so they say what they are. */
const cell = (...children) => el("div", { role: "cell" }, ...children);

/** A row for `{ pool, origin, state }`. */
export function makeOrigin() {
  const sign = icon("unknown");
  const word = el("span", { class: "word" });
  const name = el("div", { role: "rowheader", class: "origin-name" });
  const why = el("span", { class: "why" });
  const since = el("span", { class: "more-line" });
  const weight = el("span", { class: "more-line" });
  let meant = null;
  const button = el(
    "button",
    { type: "button", class: "quiet", onclick: () => openChange(meant) },
    "Change…",
  );
  const shown = el("div", { role: "cell", class: "state" }, sign, word, weight);
  const node = el(
    "div",
    { role: "row", class: "origin" },
    name,
    shown,
    cell(why, since),
    cell(button),
  );
  return {
    node,
    update({ pool, origin, state }) {
      meant = {
        zone: pool.zone,
        pool: pool.pool,
        origin: origin.origin,
        reason: origin.reason,
        said: origin.override,
      };
      const details = [origin.zone, origin.role === "failover" && "failover"]
        .filter(Boolean)
        .join(" · ");
      const address = origin.host ?? origin.addresses[0]?.address ?? "";
      const more = origin.addresses.length > 1 ? ` +${origin.addresses.length - 1}` : "";
      const label = `${origin.origin}\n${address}${more}${details ? ` · ${details}` : ""}`;
      if (name.dataset.shown !== label) {
        name.dataset.shown = label;
        name.replaceChildren(
          origin.origin,
          el("span", { class: "more-line" }, label.slice(origin.origin.length + 1)),
        );
        name.title = origin.addresses.map((at) => at.address).join("\n");
      }
      if (node.dataset.state && node.dataset.state !== state.kind) flash(node);
      node.dataset.origin = origin.origin;
      node.dataset.state = state.kind;
      setIcon(sign, state.kind);
      setText(word, state.word);
      setText(why, whyOf(origin));
      const from = sinceOfOrigin(origin);
      const times = origin.addresses.map((at) => at.rtt_ms).filter((ms) => ms !== null);
      const measured = times.length > 0 && `round trip ${Math.max(...times).toFixed(1)} ms`;
      setText(since, [from && `since ${moment(from)}`, measured].filter(Boolean).join(" · "));
      // Where the word says it, once is enough.
      setText(weight, state.word === "weight 0" ? "" : `weight ${origin.weight}`);
      setAttribute(button, "aria-label", `Change ${origin.origin}`);
    },
  };
}

/** Why it is so. Where one of several addresses is unlike the others, which one. */
function whyOf(origin) {
  const odd = origin.addresses.filter((at) => at.failure && !origin.reason.includes(at.failure));
  const more = odd.map((at) => `${at.address}: ${at.failure}`);
  const flags = [
    origin.addresses.some((at) => at.stale) && "the latest result is old",
    origin.addresses.some((at) => at.held_down) &&
      !origin.reason.includes("held down") &&
      "held down, because it flaps",
  ];
  return [origin.reason, ...more, ...flags.filter(Boolean)].join("; ");
}
