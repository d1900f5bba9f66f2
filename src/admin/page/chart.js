// Small drawings: a line of the last minutes, and a bar of shares.

import { el, svg } from "./dom.js";
import { colourOf } from "./colours.js";
import { plainName, share } from "./format.js";

const WIDTH = 120;
const HEIGHT = 28;

/** The line of a series, from `peak` down to 0, with what is below it shaded. */
export function line(series, peak, colour, label) {
  const most = Math.max(peak, 1e-9);
  const step = WIDTH / Math.max(1, series.length - 1);
  const at = (value, index) =>
    `${(index * step).toFixed(1)} ${(HEIGHT - 1.5 - Math.min(1, value / most) * (HEIGHT - 4)).toFixed(1)}`;
  const points = series.map(at);
  const shape = {
    class: `line ${colour}`,
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  };
  if (points.length < 2) return svg("svg", shape);
  const path = `M${points.join("L")}`;
  return svg(
    "svg",
    shape,
    svg("path", { class: "below", d: `${path}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}z` }),
    svg("path", { class: "above", d: path, "vector-effect": "non-scaling-stroke" }),
  );
}

/** A bar of the shares of pools: `[{ zone, pool, share }]`. */
export function bar(parts) {
  const label = parts.map((part) => `${part.pool} ${share(part.share)}`).join(", ");
  const drawing = svg("svg", {
    class: "bar",
    viewBox: "0 0 1000 10",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  });
  let from = 0;
  for (const part of parts) {
    const width = part.share * 1000;
    const piece = svg(
      "rect",
      {
        class: colourOf(part),
        x: from.toFixed(1),
        y: 0,
        width: Math.max(0, width - 2).toFixed(1),
        height: 10,
      },
      svg("title", null, `${part.pool}: ${share(part.share)}`),
    );
    drawing.append(piece);
    from += width;
  }
  return drawing;
}

/** The name of a pool with the swatch of its colour; the zone is said where there are several. */
export function poolLabel(pool, zones) {
  const zone =
    pool.zone === null || zones.length < 2
      ? null
      : el("span", { class: "dim" }, ` ${plainName(pool.zone)}`);
  return el(
    "span",
    { class: "pool-label" },
    el("span", { class: `swatch ${colourOf(pool)}`, "aria-hidden": "true" }),
    pool.pool,
    zone,
  );
}
