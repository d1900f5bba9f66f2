// The strip at the top: whether all is well, and the figures that one looks for first.

import { byId, el, icon, setAttribute, setIcon, setText } from "./dom.js";
import { count, lasting, moment, plural, rate } from "./format.js";
import { ofBalancer, ofOrigin, ofPool } from "./health.js";
import { line } from "./chart.js";

const verdict = el(
  "div",
  { class: "verdict" },
  icon("unknown"),
  el("div", null, el("strong"), el("span", { class: "dim" })),
);
const figures = new Map(
  ["Queries per second", "Pools up", "Origins healthy", "Load balancers up"].map((name) => {
    const value = el("span", { class: "value" }, "–");
    const more = el("span", { class: "more-of-it" });
    return [
      name,
      {
        node: el(
          "div",
          { class: "figure" },
          el("span", { class: "name" }, name),
          el("div", { class: "figure-line" }, value, more),
        ),
        value,
        more,
      },
    ];
  }),
);

byId("overview").append(verdict, ...[...figures.values()].map((figure) => figure.node));

function showPart(name, good, all) {
  const { node, value, more } = figures.get(name);
  setText(value, count(good));
  setText(more, `of ${count(all)}`);
  setAttribute(node, "data-all", good === all);
}

/** Shows the status. */
export function showStatus(status, pools) {
  const poolStates = status.pools.map((pool) => ofPool(pool).kind);
  const origins = status.pools.flatMap((pool) => pool.origins).filter((origin) => origin.enabled);
  const balancers = status.load_balancers.map((balancer) => ofBalancer(balancer, pools).kind);
  const have = (kinds, kind) => kinds.filter((found) => found === kind).length;
  showPart("Pools up", status.pools.filter((pool) => pool.available).length, status.pools.length);
  showPart(
    "Origins healthy",
    origins.filter((origin) => origin.health === "healthy").length,
    origins.length,
  );
  showPart("Load balancers up", balancers.length - have(balancers, "down"), balancers.length);

  const down = have(poolStates, "down");
  const unanswered = have(balancers, "down");
  const impaired = have(poolStates, "impaired");
  const out = status.pools.filter((pool) => ofPool(pool).kind === "out" && !pool.available).length;
  const states = origins.map((origin) => ofOrigin(origin).kind);
  const unhealthy = have(states, "down");
  const takenOut = have(states, "out");
  const refused = status.refused_reload;
  const told = [
    down && `${plural(down, "pool", "pools")} down`,
    unanswered && `${plural(unanswered, "name", "names")} without an available pool`,
    refused && "Last reload refused",
    impaired && `${plural(impaired, "pool", "pools")} impaired`,
    unhealthy && `${plural(unhealthy, "origin", "origins")} unhealthy`,
    out && `${plural(out, "pool", "pools")} taken out`,
    takenOut && `${plural(takenOut, "origin", "origins")} taken out`,
  ].filter(Boolean);
  const kind =
    !status.ready || down || unanswered
      ? "down"
      : impaired || refused
        ? "impaired"
        : told.length > 0
          ? "out"
          : "up";
  const well = `${plural(status.pools.length, "pool", "pools")}, ${plural(origins.length, "origin", "origins")}`;
  const headline = status.ready ? (told[0] ?? "All is well") : "Not ready";
  const others = status.ready
    ? told.length === 0
      ? well
      : told.slice(1).join(", ")
    : (status.not_ready ?? "");
  const why = refused && `reload refused ${moment(refused.at)}: ${refused.error}`;
  const rest = [others, why].filter(Boolean).join("; ");
  setIcon(verdict.firstChild, kind);
  setAttribute(verdict, "data-state", kind);
  const [strong, more] = verdict.lastChild.children;
  setText(strong, headline);
  setText(more, rest);
  document.title = kind === "up" ? "Meridian" : `${headline} · Meridian`;
  setText(
    byId("server"),
    `${status.version} · up ${lasting(status.uptime_seconds)} · generation ${status.generation}`,
  );
}

/** Shows the queries per second, and the answers of the last minutes as a line. */
export function showTraffic(traffic) {
  const { value, more } = figures.get("Queries per second");
  setText(value, rate(traffic.queries_per_second));
  const length = Math.max(0, ...traffic.pools.map((pool) => pool.series.length));
  const sum = Array.from({ length }, (_, index) =>
    traffic.pools.reduce((all, pool) => all + (pool.series[index] ?? 0), 0),
  );
  more.replaceChildren(
    line(sum, Math.max(...sum, 0), "accent", "answers per second in the last minutes"),
  );
}
