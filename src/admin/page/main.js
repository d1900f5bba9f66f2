// The page follows the server: the status on every event and every few seconds, the traffic every ten,
// the events as they come. What is lost is said.

import { assign } from "./colours.js";
import { onChange } from "./change.js";
import { byId, setAttribute, setText } from "./dom.js";
import { lasting, timeOfDay } from "./format.js";
import { keyOfPool } from "./health.js";
import { Failure, follow, get, token } from "./server.js";
import * as balancers from "./balancers.js";
import * as events from "./events.js";
import * as explain from "./explain.js";
import * as map from "./map.js";
import * as overview from "./overview.js";
import * as pools from "./pools.js";
import * as traffic from "./traffic.js";

const STATUS_EVERY = 4000;
const TRAFFIC_EVERY = 10_000;
/** Several events that come together are one reason to look. */
const TOGETHER = 150;
/** After so long without a status, and a failure, the page says that it shows the past. */
const LOST_AFTER = 6000;
/** So much later than it was due, a status is missing, even if nothing failed. */
const OVERDUE = 13_000;
/** How often what the server does not have is asked for again. */
const ABSENT_AGAIN = 300_000;
const JOURNAL = "/api/v1/journal?limit=200";

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

let seen = null;
let due = Date.now();
let problem = "";
let streaming = false;
let locked = null;
let unlock = () => {};
/** What the server said of the last token, if it refused it. */
let rejected = "";

// ------------------------------------------------------------------------------ What the page knows of itself

/** Waits until there is a token to try, if the server asked for one. */
const allowed = () => locked ?? Promise.resolve();

function lock(failure) {
  if (failure.status !== 401 || locked) return;
  if (token.get() !== "") {
    // It is wrong, or has been replaced. Without it one may be allowed to read.
    token.set("");
    rejected = failure.message;
    look();
    return;
  }
  locked = new Promise((resolve) => {
    unlock = resolve;
  });
  byId("locked").hidden = false;
  byId("all").hidden = true;
  setText(byId("locked-error"), rejected);
  byId("locked-token").focus();
}

function tryToken(text) {
  token.set(text);
  rejected = "";
  byId("locked-token").value = "";
  byId("locked").hidden = true;
  byId("all").hidden = false;
  locked = null;
  unlock();
  look();
}

byId("locked").addEventListener("submit", (event) => {
  event.preventDefault();
  tryToken(byId("locked-token").value.trim());
});

function showLink() {
  const age = seen === null ? null : Date.now() - seen;
  const failed = problem !== "" && (age === null || age > LOST_AFTER);
  const lost = failed || Date.now() > due + OVERDUE;
  const banner = byId("lost");
  const since = seen === null ? "No data yet" : `No data since ${timeOfDay(new Date(seen))} UTC`;
  if (lost && locked === null) {
    banner.hidden = false;
    setText(
      banner,
      `${since}: ${problem || "the server does not answer"}.${seen === null ? "" : " What is shown is from then."}`,
    );
  } else {
    banner.hidden = true;
    setText(banner, "");
  }
  document.body.classList.toggle("is-lost", lost && seen !== null);
  const link = byId("link");
  const state = locked
    ? "locked"
    : lost
      ? "lost"
      : seen === null
        ? "connecting"
        : streaming
          ? "live"
          : "polling";
  setAttribute(link, "data-state", state);
  setText(
    link,
    {
      locked: "token needed",
      lost: `lost ${age === null ? "" : lasting(age / 1000)}`.trim(),
      connecting: "connecting",
      live: "live",
      polling: "every few seconds",
    }[state],
  );
}

// ------------------------------------------------------------------------------ The status

let looking = null;
let again = false;

async function status() {
  await allowed();
  try {
    const found = await get("/api/v1/status");
    found.load_balancers ??= [];
    const byKey = new Map(found.pools.map((pool) => [keyOfPool(pool), pool]));
    seen = Date.now();
    problem = "";
    if (found.pools.length <= 8) assign(found.pools);
    for (const part of [overview, pools, balancers, map, traffic, explain])
      part.showStatus(found, byKey);
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    lock(failure);
    problem = failure.message;
  }
  showLink();
}

/** Looks at the status now. Whoever asks while that runs is served by one more look after it. */
function look() {
  if (looking) {
    again = true;
    return looking;
  }
  looking = status().finally(() => {
    looking = null;
    if (again) {
      again = false;
      look();
    }
  });
  return looking;
}

let soon = null;

function lookSoon() {
  soon ??= setTimeout(() => {
    soon = null;
    look();
  }, TOGETHER);
}

async function followStatus() {
  for (;;) {
    const begun = Date.now();
    await look();
    // A server with very many origins is not kept busy by those who look at it.
    const rest = Math.max(STATUS_EVERY, 5 * (Date.now() - begun));
    due = Date.now() + rest;
    await pause(rest);
  }
}

// ------------------------------------------------------------------------------ Traffic and events

async function followTraffic() {
  for (;;) {
    await allowed();
    let rest = TRAFFIC_EVERY;
    try {
      const found = await get("/api/v1/traffic");
      // The last step goes on, and would look like a fall.
      for (const pool of found.pools) pool.series.pop();
      assign([...found.pools].sort((a, b) => b.share - a.share));
      overview.showTraffic(found);
      for (const part of [pools, balancers, map]) part.showTraffic(found);
      traffic.show(found);
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      lock(failure);
      if (failure.status === 404) {
        traffic.absent();
        rest = ABSENT_AGAIN;
      }
    }
    await pause(rest);
  }
}

function took(event) {
  events.add(event);
  setText(byId("live"), event.text ?? "");
  lookSoon();
  return event.seq;
}

async function followEvents() {
  for (let fruitless = 0; ;) {
    await allowed();
    let rest = Math.min(15_000, 500 * 2 ** fruitless);
    try {
      // From the journal anew each time: another server may have taken the place of the one before.
      const journal = await get(JOURNAL);
      events.replace(journal.events);
      const last = journal.events.at(-1)?.seq ?? Math.max(0, (journal.next ?? 1) - 1);
      const opened = () => {
        streaming = true;
        fruitless = 0;
        showLink();
      };
      await follow(last, opened, took);
      rest = 500;
    } catch (failure) {
      lock(failure);
      fruitless += 1;
      if (failure.status === 404) {
        events.absent();
        rest = ABSENT_AGAIN;
      }
    }
    streaming = false;
    showLink();
    lookSoon();
    await pause(rest);
  }
}

// ------------------------------------------------------------------------------ The token

const tokenDialog = byId("token-dialog");

byId("token").addEventListener("click", () => {
  byId("token-value").value = "";
  byId("token-forget").hidden = token.get() === "";
  tokenDialog.showModal();
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("token-value").value.trim();
  tokenDialog.close();
  if (text) tryToken(text);
});
byId("token-forget").addEventListener("click", () => {
  token.set("");
  tokenDialog.close();
  look();
});
byId("token-cancel").addEventListener("click", () => tokenDialog.close());

// ------------------------------------------------------------------------------ Start

onChange((warning) => {
  if (warning) setText(byId("live"), warning);
  look();
});
setInterval(showLink, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) lookSoon();
});
followStatus();
followTraffic();
followEvents();
