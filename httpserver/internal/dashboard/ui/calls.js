// Calls that have ended, the newest first.

import { el, setAttr, setText, Rows } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { empty, matches, outcomeTone, select } from "./parts.js";
import { store } from "./store.js";

export function calls() {
  const body = el("tbody");
  const rows = new Rows(body, row);
  let only = "", held = null;
  const outcome = select("Outcome", [["", "every outcome"], ["bad", "not ok"], ["rejected", "rejected"], ["slow", "slower than 1 s"]], (v) => { only = v; });
  const pause = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
    held = held ? null : store.calls.slice();
    setAttr(pause, "aria-pressed", String(Boolean(held)));
    setText(pause, held ? "Resume" : "Pause");
  } }, "Pause");
  const missed = el("span.total");
  const none = empty("No calls since this page was opened.", "They appear here as clients make them. For earlier calls see exthost policy explain and the audit log.");
  return {
    node: el("div", {}, el("div.bar", {}, outcome.node, pause, missed),
      el("table.calls-table", {}, el("thead", {}, el("tr", {}, ...["Time", "Tool", "Outcome", "Took", "Caller", "Decision", ""].map((c) => el("th", { scope: "col" }, c)))), body), none),
    search: "Find by tool, outcome or caller",
    update(s, { query }) {
      const list = (held ?? s.calls).filter((c) => wanted(c, only) && matches(query, c.tool ?? "", c.method, c.outcome, c.caller ?? "", c.message ?? "", c.decision_id ?? "", c.policy ?? "", c.trace_id ?? ""));
      const top = Math.max(...list.slice(0, 200).map((c) => c.took_ns), 1);
      rows.update(list.slice(0, 200).map((c) => ({ ...c, share: c.took_ns / top })), (c) => c.key);
      setText(missed, s.missed ? `${count(s.missed)} more calls arrived too fast to be shown; they are counted` : "");
      none.hidden = list.length > 0;
    },
  };
}

const wanted = (c, only) => !only || (only === "bad" ? c.outcome !== "ok" : only === "slow" ? c.took_ns > 1e9 : c.outcome === only);

function row(c) {
  const bar = el("i.share");
  const note = [c.message, c.code, c.replayed && "sent again", c.trace_id && `trace ${c.trace_id}`].filter(Boolean).join(" · ");
  const decision = c.decision_id ? el("a.mono", { href: `#/governance/${encodeURIComponent(c.decision_id)}` }, c.decision_id) : null;
  return {
    node: el("tr", { "data-tone": outcomeTone(c.outcome) }, el("td", {}, el("time", { datetime: c.time }, clock(c.time))), el("th", { scope: "row" }, c.tool || c.method),
      el("td", { "data-name": "Outcome" }, el("span.badge", { "data-tone": outcomeTone(c.outcome) }, c.outcome.replaceAll("_", " "))),
      el("td.took", { "data-name": "Took" }, duration(c.took_ns), bar), el("td", { "data-name": "Caller" }, c.caller || "–"), el("td", { "data-name": "Decision" }, decision), el("td.note", {}, note)),
    update(c) { bar.style.width = `${Math.max(2, 100 * c.share)}%`; },
  };
}
