// The overview: measures, problems and the latest calls.

import { el, put, setText, Rows } from "./dom.js";
import { curve, timeChart } from "./chart.js";
import { LAST_HOUR, columnsOf, latencyChart, outcomesChart, total, whole } from "./history.js";
import { bytes, clock, count, duration, percent } from "./format.js";
import { empty, outcomeTone, panel } from "./parts.js";
import { byUrgency, extensionTable } from "./extensions.js";
import { busy, failed, memory } from "./store.js";
import { trouble, troublesOf } from "./troubles.js";

export function overview(nav) {
  const tiles = {
    rate: tile("Calls", "per second"), p95: tile("Latency", "p95"),
    denied: tile("Denied", ""), errors: tile("Failed", ""), tool_errors: tile("Tool errors", ""),
    busy: tile("In flight", "or queued"), memory: tile("Memory", "in total"), tools: tile("Tools", "for the model", false),
  };
  const attention = panel("Needs attention");
  const troubles = new Rows(attention.body, trouble);
  const table = extensionTable(nav, ["Extension", "State", "Calls", "Denied", "Errors", "Tool errors", "p50 / p95"], { brief: true });
  const hour = outcomesChart(LAST_HOUR), took = latencyChart(LAST_HOUR);
  const inFlight = timeChart(LAST_HOUR, [["busy", "highest of each minute", "busy"]], { scale: whole });
  const used = timeChart(LAST_HOUR, [["memory", "host and all processes", "good"]], { scale: bytes });
  const charts = el("div.split.even", {}, panel("Calls per minute, last hour", hour.node).node, panel("Latency, last hour", took.node).node,
    panel("In flight and queued, last hour", inFlight.node).node, panel("Memory, last hour", used.node).node);
  const fleet = panel("Extensions", table.node);
  const stream = panel("Live calls");
  const calls = new Rows(put(stream.body, el("ol.calls")).firstChild, brief);
  put(stream.extra, el("a", { href: "#/calls" }, "all"));
  put(fleet.extra, el("a", { href: "#/extensions" }, "all"));
  const quiet = empty("No calls.", "They appear here as clients make them.");
  stream.body.append(quiet);
  const bare = empty("No extension was found.", "exthost init NAME writes one into ./extensions, and exthost import adds the MCP servers that other programs are configured with.");
  fleet.body.append(bare);
  bare.hidden = attention.node.hidden = true; // until the status is known
  const node = el("div.overview", {}, el("div.tiles", {}, ...Object.values(tiles).map((t) => t.node)), attention.node,
    charts, el("div.split", {}, fleet.node, stream.node));
  return {
    node,
    update(s) {
      if (!s.status) return;
      tiles.rate.update(rate(s.curves.rate.at(-1)), s.curves.rate);
      tiles.p95.update(duration(latest(s.curves.p95)), s.curves.p95);
      const minutes = columnsOf(s.history, LAST_HOUR), lately = total(minutes.slice(-5)), all = totals(s.status.runs);
      for (const key of ["denied", "errors", "tool_errors"]) {
        tiles[key].update(percent(lately[key], lately.calls), minutes.slice(-30).map((m) => m && (m.calls ? m[key] / m.calls : 0)), 1, `of 5 min, ${count(all[key])} in all`);
        tiles[key].node.dataset.tone = lately[key] > 0.05 * lately.calls ? "bad" : "";
      }
      hour.draw(minutes, `${count(total(minutes).calls)} calls in the last hour, ${count(total(minutes).denied)} denied`);
      took.draw(minutes, `p95 of the last minute with calls: ${duration(minutes.findLast((m) => m?.p95 !== undefined)?.p95)}`);
      const sum = (of) => s.status.runs.reduce((n, x) => n + of(x), 0);
      const now = { busy: sum(busy), memory: (s.status.host?.rss_bytes ?? 0) + sum(memory) };
      inFlight.draw(minutes, `${count(now.busy)} calls in flight and queued`);
      used.draw(minutes, `${bytes(now.memory)} in all`);
      for (const [key, text] of [["busy", count], ["memory", bytes]]) {
        tiles[key].update(text(now[key]), [...minutes.slice(-30, -1).map((m) => m?.[key] ?? null), now[key]]);
      }
      tiles.tools.update(count(s.tools.length), null, null, `~${count(s.tools.reduce((n, t) => n + t.tokens, 0))} tokens`);
      const list = troublesOf(s);
      troubles.update(list, (t) => t.key);
      attention.node.hidden = !list.length;
      table.update(s, byUrgency(s.status.runs).slice(0, 12));
      table.node.hidden = charts.hidden = !s.status.runs.length;
      bare.hidden = s.status.runs.length > 0;
      calls.update(s.calls.slice(0, 14), (c) => c.key);
      quiet.hidden = s.calls.length > 0;
    },
  };
}

/** totals counts what became of all requests. */
const totals = (runs) => runs.reduce((t, x) => ({ denied: t.denied + x.denied, errors: t.errors + failed(x), tool_errors: t.tool_errors + x.tool_errors }), { denied: 0, errors: 0, tool_errors: 0 });

const rate = (n) => (n === undefined ? "–" : n >= 100 ? count(Math.round(n)) : n.toFixed(1).replace(/\.0$/, ""));
const latest = (curve) => curve.findLast((v) => v !== null);

function tile(name, unit, curved = true) {
  const value = el("strong", {}, "–");
  const note = el("small", {}, unit);
  const line = curved ? curve(`${name} over the last minutes`) : null;
  return {
    node: el("div.tile", {}, el("span.name", {}, name), value, note, line?.node),
    update(text, values, top, noteText) {
      setText(value, text);
      if (noteText) setText(note, noteText);
      if (values) line.draw(values, top ?? undefined);
    },
  };
}

/** brief shows a call on one line. */
function brief(c) {
  return {
    node: el("li", { "data-tone": outcomeTone(c.outcome), title: c.message ?? "" },
      el("time", {}, clock(c.time)), el("a.tool", { href: `#/calls/${c.id}` }, c.tool || c.method), el("span.outcome", {}, c.outcome.replaceAll("_", " ")), el("span.took", {}, duration(c.took_ms))),
  };
}
