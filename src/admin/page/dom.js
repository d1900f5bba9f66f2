// Elements. Text of the server comes in as text nodes and attributes only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (value === true) {
      node.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value);
    }
  }
  node.append(
    ...children.filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

/** A new element of the page: `el("p", { class: "dim" }, "text", node)`. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** A new element of a drawing. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The icon of a state. */
export function icon(kind) {
  return svg(
    "svg",
    { class: `icon is-${kind}`, "aria-hidden": "true" },
    svg("use", { href: `#icon-${kind}` }),
  );
}

/** Changes an icon's state. */
export function setIcon(node, kind) {
  setAttribute(node, "class", `icon is-${kind}`);
  setAttribute(node.firstChild, "href", `#icon-${kind}`);
}

/** Sets a text, if it is another one. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute, if it is another one; null removes it. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Draws the eye to a node that has changed. */
export function flash(node) {
  node.classList.remove("changed");
  requestAnimationFrame(() => node.classList.add("changed"));
}

const ROWS = new WeakMap();

/**
 * Makes the children of a node those of a list. What is there already stays and is updated, so that the
 * focus, and what the user has opened, outlast a refresh. `make` gives `{ node, update(item) }`.
 */
export function keep(parent, items, keyOf, make) {
  if (!ROWS.has(parent)) ROWS.set(parent, new Map());
  const rows = ROWS.get(parent);
  const wanted = new Set(items.map(keyOf));
  for (const [key, row] of rows) {
    if (wanted.has(key)) continue;
    row.node.remove();
    rows.delete(key);
  }
  let next = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = rows.get(key);
    if (!row) rows.set(key, (row = make(item)));
    row.update(item);
    if (row.node === next) next = next.nextSibling;
    else parent.insertBefore(row.node, next);
  }
}
