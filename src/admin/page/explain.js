// The explain form: the decision for one client, step by step, as `meridian explain` shows it.

import { byId, el, icon, keep } from "./dom.js";
import { plainName, share } from "./format.js";
import { get } from "./server.js";

const list = (words) => (words.length === 0 ? "nothing" : words.join(", "));

/** A step: its name, what came of it, and what that rests on. */
const step = (name, result, ...more) =>
  el(
    "li",
    null,
    el("span", { class: "step" }, name),
    el("div", { class: "result" }, el("p", null, result), ...more),
  );

function location(part) {
  const said = ["region", "zone", "country", "subdivision"]
    .filter((key) => part[key])
    .map((key) => `${key} ${part[key]}`);
  if (part.location) said.push(`at ${part.location.join(", ")}`);
  const source = part.matched
    ? ` (${part.source === "subnets" ? "subnets.toml" : "database"}, ${part.matched})`
    : "";
  return `${said.length === 0 ? "unknown" : said.join(", ")}${source}`;
}

function steering(part, pools) {
  const figures = (name) =>
    [
      part.rtt?.[name] !== undefined && `${part.rtt[name]} ms`,
      part.distance?.[name] !== undefined && `${part.distance[name]} km`,
      part.shares?.[name] !== undefined && share(part.shares[name]),
    ]
      .filter(Boolean)
      .join(", ");
  const rows = (pools ?? []).map((pool) =>
    el(
      "li",
      null,
      icon(pool.available ? "up" : "down"),
      el(
        "span",
        null,
        el("strong", null, pool.pool),
        ` ${pool.available ? "available" : "not available"}: ${pool.reason}`,
        figures(pool.pool) ? ` (${figures(pool.pool)})` : "",
      ),
    ),
  );
  const from = part.from
    ? `, from ${part.from.location.join(", ")}${part.from.of === "country" ? ", the middle of the country" : ""}`
    : "";
  return step(
    "Steering",
    `${part.policy}, ${part.rule}: ${list(part.candidates)}${from}`,
    el("ul", { class: "plain" }, ...rows),
  );
}

function pool(found) {
  if (!found.pool) return "none: the fallback pool cannot answer either";
  if (found.fallback) return `${found.pool}, the fallback pool: no candidate is available`;
  return found.steering?.shares
    ? `${found.pool}, the first of the sequence`
    : `${found.pool}, the first available`;
}

function origins(parts) {
  const kind = (origin) =>
    origin.eligible
      ? "up"
      : origin.health === "unhealthy"
        ? "down"
        : origin.health === "unknown"
          ? "unknown"
          : "out";
  return el(
    "ul",
    { class: "plain" },
    ...parts.map((origin) =>
      el(
        "li",
        null,
        icon(kind(origin)),
        el(
          "span",
          null,
          el("strong", null, origin.origin),
          ` ${origin.role}${origin.zone ? `, zone ${origin.zone}` : ""}, weight ${origin.weight}: ${origin.reason}`,
        ),
      ),
    ),
  );
}

function choice(part) {
  const rows = Object.entries(part.share).map(([origin, of]) =>
    el(
      "li",
      { class: "share" },
      el("span", null, origin),
      el("meter", { min: 0, max: 1, value: of, "aria-hidden": "true" }),
      el("span", { class: "number" }, share(of)),
    ),
  );
  const answers =
    part.answers === "all" ? "all origins in an answer" : `${part.answers} in an answer`;
  return step(
    "Choice",
    `${answers}${part.by ? ", by session" : ""}`,
    el("ul", { class: "plain" }, ...rows),
  );
}

function answer(part) {
  const scope = part.ecs_scope === null ? "" : `, ECS scope ${part.ecs_scope}`;
  const error = part.ede ? `, extended error ${part.ede.code} (${part.ede.text})` : "";
  const authority = part.authority ?? [];
  const empty = part.records.length === 0 && part.rcode === "NOERROR";
  const referral = authority.some((record) => record.type === "NS");
  const nothing = !empty ? "" : referral ? ", a referral" : ", no data of this type";
  const records = [...part.records, ...authority].map(
    (record) => `${record.name} ${record.ttl} IN ${record.type} ${record.data}`,
  );
  return step(
    "Answer",
    `${part.rcode}${scope}${error}${nothing}`,
    records.length > 0 && el("pre", { tabindex: "0" }, records.join("\n")),
  );
}

/** The steps, in the order of the decision. */
function steps(found) {
  const source = found.query.client_source === "ecs" ? "client subnet" : "resolver";
  const failover = found.failover;
  const zonal = found.zonal;
  const session = found.session;
  return el(
    "ol",
    { class: "steps" },
    step("Query", `${found.query.name} ${found.query.type} for ${found.query.client} (${source})`),
    step("Location", location(found.location)),
    step(
      "Load balancer",
      found.load_balancer
        ? plainName(found.load_balancer)
        : "none: this name and type are not steered",
    ),
    found.steering && steering(found.steering, found.pools),
    found.load_balancer && step("Pool", pool(found), found.origins && origins(found.origins)),
    failover &&
      step(
        "Eligible",
        `${failover.from.replaceAll("_", " ")}: ${list(failover.original_eligible)}`,
      ),
    zonal &&
      step(
        "Zonal",
        `${zonal.mode}${zonal.spillover_ratio ? ` ${zonal.spillover_ratio}` : ""}, ${zonal.match ? "match" : "no match"}: ${zonal.reason}`,
      ),
    session &&
      step(
        "Session",
        `${session.key ?? "none"}, ${session.ttl} s${session.placed ? `, ${session.placed}` : ""}: ${session.reason}`,
      ),
    found.choice && choice(found.choice),
    answer(found.answer),
  );
}

let asked = 0;

byId("explain").addEventListener("submit", async (event) => {
  event.preventDefault();
  const parameters = new URLSearchParams();
  for (const key of ["name", "type", "client", "resolver"]) {
    const value = byId(`explain-${key}`).value.trim();
    if (value) parameters.set(key, value);
  }
  const number = (asked += 1);
  const out = byId("explained");
  out.setAttribute("aria-busy", "true");
  let shown;
  try {
    shown = steps(await get(`/api/v1/explain?${parameters}`));
  } catch (failure) {
    shown = el(
      "p",
      { class: "error" },
      failure.message,
      failure.help && el("span", { class: "dim" }, ` ${failure.help}`),
    );
  }
  // The answer to an earlier question may come later.
  if (number !== asked) return;
  out.replaceChildren(shown);
  out.removeAttribute("aria-busy");
});

/** Offers the names of the load balancers. */
export function showStatus(status) {
  const names = status.load_balancers
    .map((balancer) => plainName(balancer.name))
    .filter((name) => !name.includes("*"));
  keep(
    byId("names"),
    names.slice(0, 100),
    (name) => name,
    (name) => ({ node: el("option", { value: name }), update() {} }),
  );
  const field = byId("explain-name");
  if (field.placeholder === "www.example.com" && names.length > 0) field.placeholder = names[0];
}
