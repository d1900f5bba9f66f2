// What operators say of a pool or an origin: the dialog that asks what, for how long and why.

import { byId, el, setText } from "./dom.js";
import { moment, plainName } from "./format.js";
import { wordOf } from "./health.js";
import { change, token } from "./server.js";

const BY = "meridian-by";

/** The words, with what each means for an origin and for a pool. */
const WORDS = [
  ["drained", "Drained", "it gets no new clients", "its clients go elsewhere"],
  [
    "disabled",
    "Disabled",
    "as if it were not configured",
    "never answered, not even as the fallback",
  ],
  [
    "forced-up",
    "Forced up",
    "counts as healthy, whatever its probes say",
    "available while it has an origin to answer",
  ],
  ["forced-down", "Forced down", "counts as unhealthy, whatever its probes say", "not available"],
];

const dialog = byId("change");
let meant = null;
let done = () => {};

/** Calls this after each change. */
export function onChange(callback) {
  done = callback;
}

/** Opens the dialog for `{ zone, pool, origin, reason, said }`. */
export function openChange(subject) {
  meant = subject;
  const { zone, pool, origin, reason, said } = subject;
  setText(byId("change-title"), origin ? `Change origin ${pool}/${origin}` : `Change pool ${pool}`);
  const where = zone === null ? "shared by zones" : plainName(zone);
  setText(byId("change-now"), said ? where : `${where} · ${reason}`);
  byId("change-said").hidden = !said;
  if (said) {
    const parts = [
      wordOf(said),
      said.by && `by ${said.by}`,
      `since ${moment(said.since)}`,
      said.until ? `until ${moment(said.until)}` : "until it is enabled",
    ];
    setText(
      byId("change-said-text"),
      `${parts.filter(Boolean).join(" ")}${said.why ? `: ${said.why}` : ""}`,
    );
  }
  const choice = ([word, name, ofOrigin, ofPool], index) =>
    el(
      "label",
      { class: "choice" },
      el("input", { type: "radio", name: "word", value: word, checked: index === 0 }),
      el(
        "span",
        null,
        el("strong", null, name),
        el("span", { class: "dim" }, ` ${origin ? ofOrigin : ofPool}`),
      ),
    );
  const words = byId("change-words");
  words.replaceChildren(words.firstElementChild, ...WORDS.map(choice));
  byId("change-for").value = "";
  byId("change-why").value = "";
  byId("change-by").value = sessionStorage.getItem(BY) ?? "";
  byId("change-token").value = "";
  byId("change-token-label").hidden = token.get() !== "";
  setText(byId("change-error"), "");
  dialog.showModal();
}

async function send(method, body) {
  const entered = byId("change-token").value.trim();
  const buttons = dialog.querySelectorAll("button");
  buttons.forEach((button) => {
    button.disabled = true;
  });
  try {
    const answer = await change(method, "/api/v1/overrides", body, entered);
    if (entered) token.set(entered);
    dialog.close();
    done(answer.warning ?? "");
  } catch (failure) {
    // A token that is wrong is asked for again.
    if (failure.status === 401) {
      token.set("");
      byId("change-token-label").hidden = false;
    }
    setText(byId("change-error"), [failure.message, failure.help].filter(Boolean).join(": "));
  } finally {
    buttons.forEach((button) => {
      button.disabled = false;
    });
  }
}

/** The keys that name what is meant. */
function names() {
  const { zone, pool, origin } = meant;
  return { pool, ...(origin ? { origin } : {}), ...(zone ? { zone } : {}) };
}

byId("change-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = (id) => byId(id).value.trim();
  const by = value("change-by");
  if (by) sessionStorage.setItem(BY, by);
  else sessionStorage.removeItem(BY);
  const optional = { for: value("change-for"), why: value("change-why"), by };
  const given = Object.fromEntries(Object.entries(optional).filter(([, text]) => text));
  const word = new FormData(event.target).get("word");
  send("PUT", { ...names(), word, ...given });
});
byId("change-lift").addEventListener("click", () => send("DELETE", names()));
byId("change-cancel").addEventListener("click", () => dialog.close());
