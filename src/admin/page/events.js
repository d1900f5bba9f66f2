// What happened lately, the newest first.

import { byId, el, keep, setText } from "./dom.js";
import { moment } from "./format.js";

/** How many events are held, and how many of them are shown. */
const HELD = 500;
const SHOWN = 80;

const KINDS = new Set();
let events = [];

/** What an event is to the eye: a state's icon is not enough, as a reload has none. */
function markOf(event) {
  const to = String(event.to ?? "");
  if (event.kind === "health") return { healthy: "up", unhealthy: "down" }[to] ?? "unknown";
  if (event.kind === "pool") return to === "available" ? "up" : "down";
  if (event.kind === "override") return event.to ? "out" : "up";
  if (event.kind === "reload") return to === "refused" ? "down" : "up";
  return "plain";
}

function make(event) {
  const time = el("time", { datetime: event.at });
  const node = el(
    "li",
    { class: `event is-${markOf(event)}`, "data-kind": event.kind, "data-seq": event.seq },
    time,
    el("span", { class: "kind" }, event.kind),
    el("span", { class: "text" }, event.text ?? ""),
  );
  return { node, update: () => setText(time, moment(event.at)) };
}

function show() {
  const kind = byId("events-kind").value;
  const listed = events
    .filter((event) => !kind || event.kind === kind)
    .slice(-SHOWN)
    .reverse();
  keep(byId("events"), listed, (event) => event.seq, make);
  const none = byId("events-none");
  none.hidden = listed.length > 0;
  byId("events").hidden = listed.length === 0;
  setText(none, "Nothing has happened yet.");
}

function learn(event) {
  if (KINDS.has(event.kind)) return;
  KINDS.add(event.kind);
  byId("events-kind").append(el("option", { value: event.kind }, event.kind));
}

byId("events-kind").addEventListener("change", show);

/** Shows these events in place of all others. */
export function replace(list) {
  events = list.slice(-HELD);
  events.forEach(learn);
  show();
}

/** Adds an event that has come. */
export function add(event) {
  if (events.some((known) => known.seq === event.seq)) return;
  events = [...events, event].slice(-HELD);
  learn(event);
  show();
}

/** Says that the server has no journal. */
export function absent() {
  events = [];
  show();
  setText(byId("events-none"), "This server does not tell its events.");
}
