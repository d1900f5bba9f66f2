// The world: where clients are, which pools they are sent to, and where those stand.

import { byId, el, keep, setText, svg } from "./dom.js";
import { colourOf } from "./colours.js";
import { count, country, share } from "./format.js";
import { keyOfPool, ofPool } from "./health.js";
import { HEIGHT, LAND, WIDTH, project } from "./world.js";

/** How many places are drawn, and how many ways from them to pools. */
const MOST_PLACES = 150;
const MOST_WAYS = 60;
/** How many pools are named on the map. */
const MOST_NAMES = 16;
/** The radius of the smallest and the largest circle. */
const SMALLEST = 9;
const LARGEST = 46;
/** Above this the map is ice, and below it sea. */
const UPPER = 70;
const LOWER = HEIGHT - 20;

const ways = svg("g", { class: "ways" });
const places = svg("g", { class: "places" });
const sites = svg("g", { class: "sites" });
const drawing = svg(
  "svg",
  {
    viewBox: `0 ${UPPER} ${WIDTH} ${LOWER - UPPER}`,
    role: "img",
    "aria-labelledby": "map-title map-note",
  },
  svg("path", { class: "land", d: LAND }),
  ways,
  places,
  sites,
);
byId("map").append(drawing);

let pools = new Map();
let latest = null;
/** What the map was drawn from. */
let drawn = "";

/** The way between two places, bent to the north as a flight is. */
function way([x1, y1], [x2, y2]) {
  const bend = Math.hypot(x2 - x1, y2 - y1) * 0.18;
  return `M${x1.toFixed(1)} ${y1.toFixed(1)}Q${((x1 + x2) / 2).toFixed(1)} ${((y1 + y2) / 2 - bend).toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
}

/** A circle cut by the shares of pools. */
function pie([x, y], radius, parts) {
  if (parts.length === 1 || parts[0].share > 0.995) {
    return [
      svg("circle", {
        class: colourOf(parts[0]),
        cx: x.toFixed(1),
        cy: y.toFixed(1),
        r: radius.toFixed(1),
      }),
    ];
  }
  let from = -Math.PI / 2;
  const at = (angle) =>
    `${(x + radius * Math.cos(angle)).toFixed(1)} ${(y + radius * Math.sin(angle)).toFixed(1)}`;
  return parts
    .filter((part) => part.share > 0)
    .map((part) => {
      const to = from + part.share * 2 * Math.PI;
      const large = part.share > 0.5 ? 1 : 0;
      const d = `M${x.toFixed(1)} ${y.toFixed(1)}L${at(from)}A${radius.toFixed(1)} ${radius.toFixed(1)} 0 ${large} 1 ${at(to)}z`;
      from = to;
      return svg("path", { class: colourOf(part), d });
    });
}

const sentence = (place) =>
  `${country(place.country)}: ${count(place.answers)} answers, ${place.pools.map((part) => `${part.pool} ${share(part.share)}`).join(", ")}`;

function drawPlaces(found) {
  const most = found[0]?.answers ?? 1;
  const placed = found
    .filter((place) => place.location && place.pools.length > 0)
    .slice(0, MOST_PLACES);
  places.replaceChildren(
    ...placed.map((place) => {
      const radius = SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(place.answers / most);
      return svg(
        "g",
        null,
        svg("title", null, sentence(place)),
        ...pie(project(place.location), radius, place.pools),
      );
    }),
  );
  const flows = placed.flatMap((place) =>
    place.pools.map((part) => ({
      place,
      part,
      answers: place.answers * part.share,
      pool: pools.get(keyOfPool(part)),
    })),
  );
  const busiest = flows
    .filter((flow) => flow.pool?.location && flow.answers > 0)
    .sort((a, b) => b.answers - a.answers)
    .slice(0, MOST_WAYS);
  ways.replaceChildren(
    ...busiest.map(({ place, part, answers, pool }) =>
      svg("path", {
        class: colourOf(part),
        d: way(project(place.location), project(pool.location)),
        "stroke-width": (1.5 + 6 * Math.sqrt(answers / most)).toFixed(1),
      }),
    ),
  );
}

function drawSites() {
  const located = [...pools.values()].filter((pool) => pool.location);
  const named = located.length <= MOST_NAMES;
  sites.replaceChildren(
    ...located.slice(0, MOST_PLACES).map((pool) => {
      const [x, y] = project(pool.location);
      const state = ofPool(pool);
      const mark = svg("rect", {
        class: `site ${colourOf(pool)}`,
        x: x - 9,
        y: y - 9,
        width: 18,
        height: 18,
        transform: `rotate(45 ${x} ${y})`,
      });
      const bad =
        state.kind === "up"
          ? null
          : svg("use", {
              href: `#icon-${state.kind}`,
              class: `icon is-${state.kind}`,
              x: x - 22,
              y: y - 22,
              width: 44,
              height: 44,
            });
      const right = x < WIDTH - 260;
      const text = named
        ? svg(
            "text",
            { x: right ? x + 26 : x - 26, y: y + 11, "text-anchor": right ? "start" : "end" },
            pool.pool,
          )
        : null;
      return svg(
        "g",
        null,
        svg("title", null, `pool ${pool.pool}: ${state.word}, ${pool.reason}`),
        mark,
        bad,
        text,
      );
    }),
  );
}

function makeRow() {
  const name = el("th", { scope: "row" });
  const answers = el("td", { class: "number" });
  const parts = el("td");
  return {
    node: el("tr", null, name, answers, parts),
    update(place) {
      setText(name, country(place.country));
      setText(answers, count(place.answers));
      setText(parts, place.pools.map((part) => `${part.pool} ${share(part.share)}`).join(", "));
    },
  };
}

function draw() {
  drawSites();
  if (!latest) return;
  const found = latest.countries
    .map((place) => ({ ...place, pools: [...place.pools].sort((a, b) => b.share - a.share) }))
    .sort((a, b) => b.answers - a.answers);
  drawPlaces(found);
  keep(byId("map-table"), found.slice(0, 60), (place) => `${place.country}`, makeRow);
  const all = found.reduce((sum, place) => sum + place.answers, 0);
  const unknown = found
    .filter((place) => !place.location)
    .reduce((sum, place) => sum + place.answers, 0);
  const note =
    all === 0
      ? "no answers yet"
      : `clients to pools, by samples${unknown > 0 ? `; ${share(unknown / all)} not located` : ""}`;
  setText(byId("map-note"), note);
}

/** Shows the pools of the status where they stand. */
export function showStatus(status, byKey) {
  pools = byKey;
  const sitesNow = JSON.stringify(
    [...byKey].map(([key, pool]) => [key, pool.location, ofPool(pool).kind]),
  );
  if (sitesNow === drawn) return;
  drawn = sitesNow;
  draw();
}

/** Shows the countries of the traffic. */
export function showTraffic(traffic) {
  latest = traffic;
  draw();
}
