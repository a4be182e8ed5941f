// All elements are made here. Text becomes text nodes, never markup, because texts of
// extensions may be hostile.

const SVG = "http://www.w3.org/2000/svg";

/** el makes an element: el("a.class", {href: "#"}, "text", child). */
export function el(spec, props, ...children) {
  return build(document.createElement(nameOf(spec)), spec, props, children);
}

/** svg makes an SVG element in the same way. */
export function svg(spec, props, ...children) {
  return build(document.createElementNS(SVG, nameOf(spec)), spec, props, children);
}

const nameOf = (spec) => spec.split(".")[0] || "div";

function build(node, spec, props, children) {
  const classes = spec.split(".").slice(1);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  put(node, ...children);
  return node;
}

/** put replaces the children of node. */
export function put(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(plain(String(c))))));
  return node;
}

/** setText sets the text of node if it differs. */
export function setText(node, text) {
  const shown = plain(String(text));
  if (node.textContent !== shown) node.textContent = shown;
}

/** setAttr sets an attribute if it differs; null removes it. */
export function setAttr(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

// Characters that are invisible or reorder others. They are shown as code points.
const invisible = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** plain returns text with every such character replaced. */
export function plain(text) {
  return text.replace(invisible, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

/**
 * Rows synchronizes the children of a container with a list: one element for each key,
 * made once, then updated, moved and removed.
 */
export class Rows {
  constructor(container, make) {
    this.container = container;
    this.make = make;
    this.known = new Map();
  }

  /** update shows the items. make(item) returns {node, update(item)}. */
  update(items, keyOf) {
    const seen = new Set();
    let at = this.container.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      let row = this.known.get(key);
      if (!row) {
        row = this.make(item);
        this.known.set(key, row);
      }
      row.update?.(item);
      if (row.node === at) at = at.nextElementSibling;
      else this.container.insertBefore(row.node, at);
    }
    for (const [key, row] of this.known) {
      if (seen.has(key)) continue;
      row.node.remove();
      this.known.delete(key);
    }
  }
}
