// Pieces that several views are made of.

import { el, say, mark } from "./dom.js";

/** good, busy, bad or off: what a state of an extension means to an operator. */
export const meaning = {
  ready: "good", idle: "rest", spawning: "busy", restarting: "busy", draining: "busy",
  failed: "bad", skipped: "warn", disabled: "rest", shutdown: "rest",
};

/** badge returns {node, update(word)}: a state as a word with a colour and a shape. */
export function badge(toneOf) {
  const node = el("span.badge");
  return {
    node,
    update(word) {
      say(node, word);
      mark(node, "data-tone", toneOf(word));
    },
  };
}

export const stateBadge = () => badge((state) => meaning[state] ?? "rest");

/** outcomes: ok is good, a tool's own failure and a denial are warnings, all else is bad. */
export const outcomeTone = (outcome) =>
  outcome === "ok" ? "good" : ["tool_error", "rejected", "canceled", "invalid_arguments", "tool_not_found"].includes(outcome) ? "warn" : "bad";

export const levelTone = (level) => ({ ERROR: "bad", WARN: "warn", INFO: "rest" })[level] ?? "faint";

/** panel is a titled box. */
export function panel(title, ...children) {
  const extra = el("div.extra");
  const body = el("div.body", {}, ...children);
  return { node: el("section.panel", {}, el("header", {}, el("h2", {}, title), extra), body), extra, body };
}

/** empty is what stands where there is nothing, and what to do about it. */
export const empty = (text, hint) => el("p.empty", {}, text, hint ? el("span", {}, hint) : null);

/** action is a button that works once, and says why when it does not. */
export function action(label, act, { tone = "", confirm = "" } = {}) {
  let armed = 0;
  const button = el("button", { type: "button", "data-tone": tone, onclick: press }, label);
  async function press() {
    if (confirm && !armed) {
      say(button, confirm);
      armed = setTimeout(reset, 3000);
      return;
    }
    clearTimeout(armed);
    button.disabled = true;
    say(button, "…");
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
    say(button, label);
  }
  return button;
}

/** toast says something for a while. */
export function toast(text, tone) {
  const node = el("div.toast", { role: "status", "data-tone": tone }, text);
  let box = document.querySelector(".toasts");
  if (!box) document.body.append((box = el("div.toasts", { "aria-live": "polite" })));
  box.append(node);
  setTimeout(() => node.remove(), 6000);
}

/** matches reports whether all words of the query are in one of the texts. */
export function matches(query, ...texts) {
  const all = texts.join(" ").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** select returns a labelled list of choices. */
export function select(label, choices, onchange) {
  const node = el("select", { "aria-label": label, onchange: () => onchange(node.value) });
  const fill = (list) => {
    const value = node.value;
    if (list.length === node.options.length && list.every(([v], i) => node.options[i].value === v)) return;
    node.replaceChildren(...list.map(([v, text]) => el("option", { value: v }, text)));
    if (list.some(([v]) => v === value)) node.value = value;
  };
  fill(choices);
  return { node, fill };
}
