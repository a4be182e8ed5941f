// Elements that several views share.

import { address, setParam } from "./address.js";
import { el, put, setText, setAttr } from "./dom.js";

/** stateTone maps the state of an extension to a tone: good, busy, warn, bad or rest. */
export const stateTone = {
  ready: "good", idle: "rest", spawning: "busy", restarting: "busy", draining: "busy",
  failed: "bad", skipped: "warn", untrusted: "warn", not_ready: "bad", disabled: "rest", shutdown: "rest",
};

/** badge returns {node, update(word)}: a word with the colour and shape of its tone. */
export function badge(toneOf) {
  const node = el("span.badge");
  return {
    node,
    update(word) {
      setText(node, word);
      setAttr(node, "data-tone", toneOf(word));
    },
  };
}

export const stateBadge = () => badge((state) => stateTone[state] ?? "rest");

/** outcomeTone: ok is good, errors of tools or callers and denials are warnings, all others are bad. */
export const outcomeTone = (outcome) =>
  outcome === "ok" ? "good" : ["tool_error", "rejected", "canceled", "invalid_arguments", "tool_not_found"].includes(outcome) ? "warn" : "bad";

export const levelTone = (level) => ({ ERROR: "bad", WARN: "warn", INFO: "rest" })[level] ?? "faint";

/** panel returns a box with a title. */
export function panel(title, ...children) {
  const extra = el("div.extra");
  const body = el("div.body", {}, ...children);
  return { node: el("section.panel", {}, el("header", {}, el("h2", {}, title), extra), body), extra, body };
}

/** block returns {node, set(text)}: preformatted text that the keyboard can scroll. */
export function block(label, text = "") {
  const node = el("pre", { tabindex: "0", role: "region", "aria-label": label }, text);
  return { node, set(now) { setText(node, now); } };
}

/** table returns {node, body} with a header for each column: its title, or a cell of [sortable]. */
export function table(spec, columns) {
  const body = el("tbody");
  const head = (c) => (c instanceof Node ? c : el("th", { scope: "col" }, c));
  return { node: el("table" + spec, {}, el("thead", {}, el("tr", {}, ...columns.map(head))), body), body };
}

/**
 * sortable returns {heads, order(list, params)}: the header cells of a table whose buttons sort its rows. A column is
 * [title, value], value(item) being what it sorts by; one without a value does not sort. A first press sorts numbers
 * from the largest and texts from A, a second one in reverse, a third one as before.
 */
export function sortable(columns) {
  let first = null; // the first row, which tells numbers from texts
  const heads = columns.map(([title, value]) => {
    const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    const mark = el("i", { "aria-hidden": "true" });
    const node = el("th", { scope: "col" }, value ? el("button.sort", { type: "button", onclick: press }, title, mark) : title);
    function press() {
      const from = first && typeof value(first) === "number" ? ["-", ""] : ["", "-"];
      const now = address().params.get("sort");
      setParam("sort", now === from[0] + name ? from[1] + name : now === from[1] + name ? "" : from[0] + name);
    }
    return { name, value, node, mark };
  });
  return {
    heads: heads.map((h) => h.node),
    order(list, params) {
      first = list.find(Boolean) ?? null;
      const wanted = params.get("sort") ?? "";
      const sign = wanted.startsWith("-") ? -1 : 1;
      const by = heads.find((h) => h.value && h.name === wanted.replace("-", ""));
      for (const h of heads) {
        setAttr(h.node, "aria-sort", h !== by ? null : sign < 0 ? "descending" : "ascending");
        setText(h.mark, h !== by ? "" : sign < 0 ? "↓" : "↑");
      }
      return by ? list.toSorted((a, b) => compare(by.value(a), by.value(b), sign)) : list;
    },
  };
}

/** compare orders two values of a column; a missing one comes last in both directions. */
function compare(a, b, sign) {
  const none = (v) => v === undefined || v === null || v === "";
  if (none(a) || none(b)) return none(a) - none(b);
  return sign * (typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

/** empty returns the text for an empty list, with a hint. */
export const empty = (text, hint) => el("p.empty", {}, text, hint ? el("span", {}, hint) : null);

/** action returns a button that runs act, after a confirmation if there is one, and reports the outcome. */
export function action(label, act, { tone = "", confirm = "" } = {}) {
  let armed = 0;
  const button = el("button", { type: "button", "data-tone": tone, onclick: press }, label);
  async function press() {
    if (confirm && !armed) {
      setText(button, confirm);
      armed = setTimeout(reset, 3000);
      return;
    }
    clearTimeout(armed);
    button.disabled = true;
    setText(button, "…");
    try {
      await act();
      toast(`${label}: done`, "good");
    } catch (error) {
      toast(`${label}: ${error.message}`, "bad");
    }
    button.disabled = false;
    reset();
  }
  function reset() {
    armed = 0;
    setText(button, label);
  }
  return button;
}

let fieldCount = 0;

/**
 * labelled returns {node, input, wrong(misfits)}: a control with its label and hint. Misfits are errors about it, each
 * with a button that takes what it suggests; replaced() is called then, if the caller has set it.
 */
export function labelled(label, input, hint) {
  const id = `field-${++fieldCount}`;
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-hint ${id}-wrong`);
  const errors = el("div.wrong", { id: `${id}-wrong`, role: "alert" });
  const field = {
    input, replaced: null,
    node: el("div.field", {}, el("label", { for: id }, label), input, el("small", { id: `${id}-hint` }, hint), errors),
    wrong(misfits) {
      setAttr(input, "aria-invalid", misfits.length ? "true" : null);
      const now = JSON.stringify(misfits);
      if (now === errors.dataset.shown) return; // a repeated alert would be read again
      errors.dataset.shown = now;
      put(errors, misfits.map((m) => el("p", {}, m.message, m.suggestion && " ", m.suggestion && el("button", { type: "button", onclick: () => take(m) }, `take ${m.suggestion}`))));
    },
  };
  function take(m) {
    const lines = input.value.split("\n");
    input.value = m.value ? lines.map((line) => (line.trim() === m.value ? m.suggestion : line)).join("\n") : m.suggestion;
    input.focus();
    field.replaced?.();
  }
  return field;
}

/** fill sets the choices of a drop-down list, unless it has them. The one that is chosen stays so if it is among them. */
export function fill(node, choices) {
  const value = node.selectedOptions[0]?.value;
  if (choices.length === node.options.length && choices.every(([v], i) => node.options[i].value === v)) return;
  node.replaceChildren(...choices.map(([v, text]) => el("option", { value: v }, text)));
  if (choices.some(([v]) => v === value)) node.value = value;
}

/** choose returns a drop-down list with a value that may be missing. */
export function choose(choices, value = "") {
  const node = el("select");
  fill(node, choices);
  node.value = value;
  return node;
}

/** toast shows a text for six seconds, and at most three texts at a time. */
export function toast(text, tone) {
  const node = el("div.toast", { role: "status", "data-tone": tone }, text);
  let box = document.querySelector(".toasts");
  if (!box) document.body.append((box = el("div.toasts", { "aria-live": "polite" })));
  box.append(node);
  while (box.children.length > 3) box.firstChild.remove();
  setTimeout(() => node.remove(), 6000);
}

/** matches reports whether each word of the query occurs in the texts. */
export function matches(query, ...texts) {
  const all = texts.join(" ").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** select returns a labelled drop-down list. */
export function select(label, choices, onchange) {
  const node = el("select", { "aria-label": label, onchange: () => onchange(node.value) });
  fill(node, choices);
  return { node, fill: (list) => fill(node, list) };
}

/** filter returns a drop-down list whose choice is a filter in the address, and read(params), which returns it. */
export function filter(label, choices, param) {
  const list = select(label, choices, (value) => setParam(param, value));
  return {
    ...list,
    read(params) {
      const value = params.get(param) ?? "";
      if (list.node.value !== value) list.node.value = value; // empty for one that the list does not have
      return value;
    },
  };
}
