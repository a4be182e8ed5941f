// Calls that have ended, the newest first.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { clock, count, duration, json, since } from "./format.js";
import { block, empty, filter, matches, outcomeTone, sortable, table } from "./parts.js";
import { facts } from "./extensions.js";
import { store } from "./store.js";
import { get } from "./api.js";

export function calls(nav) {
  const columns = sortable([["Time", (c) => Date.parse(c.time)], ["Call", (c) => c.tool || c.method], ["Outcome", (c) => c.outcome],
    ["Took", (c) => c.took_ms], ["Caller", (c) => c.caller], ["Decision", null], ["Note", null]]);
  const list = table(".calls-table", columns.heads);
  const rows = new Rows(list.body, (c) => row(c, nav));
  const detail = details(nav);
  let held = null;
  const outcome = filter("Outcome", [["", "every outcome"], ["bad", "not ok"], ["rejected", "rejected"], ["slow", "slower than 1 s"]], "outcome");
  const within = filter("Time", [["", "any time"], ["1", "the last minute"], ["5", "the last 5 minutes"], ["15", "the last 15 minutes"], ["60", "the last hour"]], "minutes");
  const pause = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
    held = held ? null : store.calls.slice();
    setAttr(pause, "aria-pressed", String(Boolean(held)));
    setText(pause, held ? "Resume" : "Pause");
  } }, "Pause");
  const missed = el("span.total"), waiting = el("ul.waiting", { hidden: true });
  const none = empty("No calls.", "They appear here as clients make them. The host keeps the last 256; earlier ones are in the audit log.");
  return {
    node: el("div.calls-view", {}, el("div.scroll", {}, el("div.bar", {}, outcome.node, within.node, pause, missed), waiting, list.node, none), detail.node),
    search: "Find by tool, outcome or caller",
    update(s, { query, rest, params }) {
      const only = outcome.read(params), from = Date.now() - 60_000 * (Number(within.read(params)) || Infinity);
      const found = (held ?? s.calls).filter((c) => wanted(c, only) && Date.parse(c.time) >= from && matches(query, c.tool ?? "", c.method, c.outcome, c.caller ?? "", c.message ?? "", c.decision_id ?? "", c.policy ?? "", c.trace_id ?? "", c.client ?? ""));
      const chosen = columns.order(found, params);
      const top = Math.max(...chosen.slice(0, 200).map((c) => c.took_ms), 1);
      rows.update(chosen.slice(0, 200).map((c) => ({ ...c, share: c.took_ms / top })), (c) => c.key);
      setText(missed, s.missed ? `${count(s.missed)} more calls arrived too fast to be shown; they are counted` : "");
      const asked = s.status?.questions ?? [];
      waiting.hidden = !asked.length;
      put(waiting, asked.slice(0, 10).map((q) => el("li", {}, question(q))), asked.length > 10 && el("li", {}, `and ${count(asked.length - 10)} more`));
      none.hidden = chosen.length > 0;
      detail.update(rest);
    },
  };
}

/** question says what a call in flight waits for. */
const question = (q) => `${q.tool || q.extension} waits for ${q.method} of ${q.caller || "an anonymous caller"}${q.node ? ` of node ${q.node}` : ""}${q.client ? `, ${q.client}` : ""}, for ${since(q.since)}`;

const wanted = (c, only) => !only || (only === "bad" ? c.outcome !== "ok" : only === "slow" ? c.took_ms > 1000 : c.outcome === only);

function row(c, nav) {
  const bar = el("i.share"), href = `#/calls/${c.id}`;
  const note = [c.node && `at node ${c.node}`, c.message, c.code, c.replayed && "sent again", c.trace_id && `trace ${c.trace_id}`].filter(Boolean).join(" · ");
  const decision = c.decision_id ? el("a.mono", { href: `#/governance/${encodeURIComponent(c.decision_id)}` }, c.decision_id) : null;
  return {
    node: el("tr", { "data-tone": outcomeTone(c.outcome), onclick: (e) => { if (!e.target.closest("a")) nav(href); } },
      el("td", {}, el("time", { datetime: c.time }, clock(c.time))), el("th", { scope: "row" }, el("a", { href }, c.tool || c.method)),
      el("td", { "data-name": "Outcome" }, el("span.badge", { "data-tone": outcomeTone(c.outcome) }, c.outcome.replaceAll("_", " "))),
      el("td.took", { "data-name": "Took" }, duration(c.took_ms), bar), el("td", { "data-name": "Caller" }, c.caller || "–"), el("td", { "data-name": "Decision" }, decision), el("td.note", {}, note)),
    update(c) { bar.style.width = `${Math.max(2, 100 * c.share)}%`; },
  };
}

/** details returns the side panel about one call, with what it carried. */
function details(nav) {
  const title = el("h2"), body = el("div.body");
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/calls") }, "✕");
  const node = el("aside.details", { hidden: true, "aria-label": "Call" }, el("header", {}, title, close), body);
  let shown = "";
  return {
    node,
    update(id) {
      node.hidden = !id;
      if (shown === id) return;
      shown = id;
      if (!id) return;
      setText(title, `Call ${id}`);
      put(body, "…");
      get(`/calls/${encodeURIComponent(id)}`).then((c) => shown === id && (setText(title, c.tool || c.method), put(body, ...content(c))), (e) => shown === id && put(body, e.message));
    },
  };
}

function content(c) {
  return [
    c.message ? el("p.reason", { "data-tone": outcomeTone(c.outcome) }, c.message) : null,
    facts([
      ["outcome", c.outcome.replaceAll("_", " ")], ["ended", clock(c.time)], ["took", duration(c.took_ms)], ["method", c.method],
      ["extension", c.extension && el("a", { href: `#/extensions/${encodeURIComponent(c.extension)}` }, c.extension)], ["node", c.node], ["caller", c.caller || "anonymous"],
      ["client", c.client], ["protocol", c.protocol || "a call of the program itself"], ["session", c.session], ["policy", c.policy], ["code", c.code], ["trace", c.trace_id],
      ["decision", c.decision_id && el("a", { href: `#/governance/${encodeURIComponent(c.decision_id)}` }, c.decision_id)], ["sent again", c.replayed && "yes"],
    ]),
    ...timeline(c), ...excerpt("Request", c.request), ...excerpt("Result", c.response),
  ];
}

/** timeline shows the stages of a call one after the other. */
function timeline(c) {
  if (!c.stages) return [];
  const rows = c.stages.map((s) => {
    const bar = el("i"), percent = (ms) => `${Math.min(100, 100 * ms / Math.max(c.took_ms, 1e-6))}%`;
    bar.style.marginLeft = `min(${percent(s.at_ms)}, calc(100% - 2px))`;
    bar.style.width = `max(2px, ${percent(s.took_ms)})`;
    return el("tr", {}, el("th", { scope: "row" }, s.name.replaceAll("_", " ")), el("td.took", {}, duration(s.took_ms)), el("td.time", { title: `after ${duration(s.at_ms)}` }, bar));
  });
  return [el("h3", {}, "Stages"), el("table.timeline", {}, el("tbody", {}, ...rows))];
}

/** excerpt shows the beginning of a payload. */
const excerpt = (name, of) => of?.text ? [el("h3", {}, of.cut ? `${name}, the beginning of ${count(of.bytes)} bytes` : name), block(name, json(of.text, { lines: true })).node] : [];
