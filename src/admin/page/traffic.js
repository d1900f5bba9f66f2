// The answers of the last minutes, by pool and by the region of the client.

import { byId, el, keep, setText } from "./dom.js";
import { bar, line, poolLabel } from "./chart.js";
import { colourOf } from "./colours.js";
import { count, lasting, rate, share } from "./format.js";
import { keyOfPool } from "./health.js";

/** How many pools and regions are shown one by one. */
const MOST = 8;

let zones = [];

function makePool() {
  const label = el("span", { class: "label" });
  const chart = el("span", { class: "chart" });
  const speed = el("span", { class: "number" });
  const part = el("span", { class: "number strong" });
  return {
    node: el("li", null, label, chart, speed, part),
    update({ pool, peak }) {
      label.replaceChildren(pool.rest ? `${pool.rest} others` : poolLabel(pool, zones));
      chart.replaceChildren(
        line(
          pool.series,
          peak,
          pool.rest ? "cx" : colourOf(pool),
          `answers per second, ${pool.pool}`,
        ),
      );
      setText(speed, `${rate(pool.series.at(-1) ?? 0)}/s`);
      setText(part, share(pool.share));
    },
  };
}

function makeRegion() {
  const name = el("span", { class: "label" });
  const drawing = el("span", { class: "chart" });
  const part = el("span", { class: "number strong" });
  return {
    node: el("li", null, name, drawing, part),
    update({ region, all }) {
      setText(name, region.region ?? "not located");
      drawing.replaceChildren(bar(byShare(region.pools)));
      setText(part, share(region.answers / all));
    },
  };
}

const byShare = (pools) => [...pools].sort((a, b) => b.share - a.share);

/** The pools beyond the first ones as one. */
function rest(pools) {
  const series = (pools[0]?.series ?? []).map((_, index) =>
    pools.reduce((sum, pool) => sum + (pool.series[index] ?? 0), 0),
  );
  const part = pools.reduce((sum, pool) => sum + pool.share, 0);
  return { zone: null, pool: "\u0000rest", rest: pools.length, share: part, series };
}

/** The zones that there are: where they are several, pools are shown with theirs. */
export function showStatus(status) {
  zones = status.zones;
}

/** Shows the traffic. */
export function show(traffic) {
  const pools = byShare(traffic.pools.filter((pool) => pool.answers > 0));
  const listed =
    pools.length > MOST + 1 ? [...pools.slice(0, MOST), rest(pools.slice(MOST))] : pools;
  const peak = Math.max(0, ...listed.flatMap((pool) => pool.series));
  keep(
    byId("traffic-pools"),
    listed.map((pool) => ({ pool, peak })),
    (row) => keyOfPool(row.pool),
    makePool,
  );
  const regions = [...traffic.regions]
    .filter((region) => region.answers > 0)
    .sort((a, b) => b.answers - a.answers);
  const all = regions.reduce((sum, region) => sum + region.answers, 0);
  keep(
    byId("traffic-regions"),
    regions.slice(0, MOST).map((region) => ({ region, all })),
    (row) => row.region.region ?? "",
    makeRegion,
  );
  byId("regions-title").hidden = regions.length === 0;
  const answers = traffic.pools.reduce((sum, pool) => sum + (pool.answers ?? 0), 0);
  setText(byId("traffic-note"), `${count(answers)} answers in ${lasting(traffic.window)}`);
  const none = byId("traffic-none");
  none.hidden = pools.length > 0;
  setText(none, "No steered answers yet.");
}

/** Says that the server does not count. */
export function absent() {
  const none = byId("traffic-none");
  none.hidden = false;
  byId("regions-title").hidden = true;
  setText(none, "This server does not tell its traffic.");
}
