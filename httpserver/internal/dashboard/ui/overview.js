// The overview: measures, problems and the latest calls.

import { el, put, setText, Rows } from "./dom.js";
import { curve, hourChart } from "./chart.js";
import { bytes, clock, count, duration, json, percent, retryText } from "./format.js";
import { action, badge, empty, stateTone, outcomeTone, panel, stateBadge } from "./parts.js";
import { byUrgency, evidence, extensionTable } from "./extensions.js";
import { busy, failed, memory, serves } from "./store.js";
import { post } from "./api.js";

export function overview(nav) {
  const tiles = {
    rate: tile("Calls", "per second"), p95: tile("Latency", "p95"),
    denied: tile("Denied", ""), errors: tile("Failed", ""), tool_errors: tile("Tool errors", ""),
    busy: tile("In flight", "or queued"), memory: tile("Memory", "in total"), tools: tile("Tools", "for the model", false),
  };
  const attention = panel("Needs attention");
  const troubles = new Rows(attention.body, trouble);
  const table = extensionTable(nav, { brief: true });
  const hour = hourChart([["good", "answered", "good"], ["tool_errors", "errors of tools", "busy"], ["errors", "failed", "bad"], ["denied", "denied", "ask"]], { stacked: true, scale: (n) => count(n) });
  const took = hourChart([["p95", "p95", "warn"], ["p50", "p50", "good"]], { scale: duration });
  const inFlight = hourChart([["busy", "highest of each minute", "busy"]], { scale: count });
  const used = hourChart([["memory", "host and all processes", "good"]], { scale: bytes });
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
      const minutes = minutesOf(s.history), lately = total(minutes.slice(-5)), all = totals(s.status.runs);
      for (const key of ["denied", "errors", "tool_errors"]) {
        tiles[key].update(percent(lately[key], lately.calls), minutes.slice(-30).map((m) => (m?.calls ? m[key] / m.calls : 0)), 1, `of 5 min, ${count(all[key])} in all`);
        tiles[key].node.dataset.tone = lately[key] > 0.05 * lately.calls ? "bad" : "";
      }
      hour.draw(minutes, `${count(total(minutes).calls)} calls in the last hour, ${count(total(minutes).denied)} denied`);
      took.draw(minutes, `p95 of the last minute with calls: ${duration(minutes.findLast((m) => m?.p95 !== undefined)?.p95)}`);
      const sum = (of) => s.status.runs.reduce((n, x) => n + of(x), 0);
      const now = { busy: sum(busy), memory: (s.status.host?.rss_bytes ?? 0) + sum(memory) };
      inFlight.draw(minutes, `${count(now.busy)} calls in flight and queued`);
      used.draw(minutes, `${bytes(now.memory)} in all`);
      for (const [key, text] of [["busy", count], ["memory", bytes]]) {
        tiles[key].update(text(now[key]), [...minutes.slice(-30).map((m) => m?.[key] ?? null), now[key]]);
      }
      tiles.tools.update(count(s.tools.length), null, null, `~${count(s.tools.reduce((n, t) => n + t.tokens, 0))} tokens`);
      const list = troublesOf(s);
      troubles.update(list, (t) => t.key);
      attention.node.hidden = !list.length;
      table.update(s, byUrgency(s.status.runs).slice(0, 12));
      table.node.hidden = !s.status.runs.length;
      bare.hidden = s.status.runs.length > 0;
      calls.update(s.calls.slice(0, 14), (c) => c.key);
      quiet.hidden = s.calls.length > 0;
    },
  };
}

/** totals counts what became of all requests. */
const totals = (runs) => runs.reduce((t, x) => ({ denied: t.denied + x.denied, errors: t.errors + failed(x), tool_errors: t.tool_errors + x.tool_errors }), { denied: 0, errors: 0, tool_errors: 0 });

const counted = ["calls", "good", "denied", "errors", "tool_errors"];

/** minutesOf adds the steps of the history up to the last 60 minutes, null for those of which the host knows nothing. */
function minutesOf(history) {
  const minutes = new Array(60).fill(null), now = Date.now();
  for (const p of history?.points ?? []) {
    const i = 59 - Math.floor((now - Date.parse(p.time)) / 60_000);
    if (i < 0 || i > 59) continue;
    const m = (minutes[i] ??= { calls: 0, good: 0, denied: 0, errors: 0, tool_errors: 0 });
    const good = p.calls - p.denied - p.errors - p.tool_errors;
    for (const key of counted) m[key] += key === "good" ? good : p[key];
    if (p.memory_bytes) m.memory = Math.max(m.memory ?? 0, p.memory_bytes), m.busy = Math.max(m.busy ?? 0, p.in_flight ?? 0);
    if (p.latency) m.p50 = Math.max(m.p50 ?? 0, p.latency.p50_ms), m.p95 = Math.max(m.p95 ?? 0, p.latency.p95_ms);
  }
  return minutes;
}

const total = (minutes) => Object.fromEntries(counted.map((key) => [key, minutes.reduce((n, m) => n + (m?.[key] ?? 0), 0)]));

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

const urgency = { ask: 0, bad: 1, busy: 2, warn: 3 };
const RECENT = 5 * 60_000; // for which a crash is shown after the extension runs again

/** ended names the way in which the run of an extension ended; the host's own replacement of a stuck process needs no attention. */
const ended = (x) => (x.last_crash.kind === "overloaded" ? "" : ["http", "sse"].includes(x.transport) ? "disconnected" : x.last_crash.pid ? "crashed" : "did not start");

/** troublesOf returns all problems and pending approvals, the most urgent first. */
function troublesOf(s) {
  const list = s.approvals.map((q) => ({
    key: "q" + q.id, tone: "ask", word: "waits", title: q.tool || q.method, text: `${q.policy} asks: ${q.reason}`, said: [json(q.arguments)], href: "#/approvals", next: `exthost approve ${q.id}`, asks: q.id,
  }));
  for (const x of [...s.status.runs, ...(s.status.policies ?? []).filter((p) => p.process).map((p) => p.process)]) list.push(...troublesWith(x, s));
  const workers = new Set([...s.status.runs.map((x) => x.id), ...(s.status.policies ?? []).filter((p) => p.process).map((p) => p.process.id)]);
  for (const d of s.status.diagnostics.filter((d) => d.level === "error" && !workers.has(d.extension))) {
    const config = d.code === "config_invalid" && !d.extension, path = d.path ?? "";
    const place = d.line ? `${path}:${d.line}: ` : config && path ? `${path}: ` : "";
    list.push({ key: "d" + path + d.message, tone: "bad", word: config ? "not in force" : d.code.replaceAll("_", " "),
      title: config ? "configuration" : d.extension || path.split(/[\\/]/).slice(-2)[0] || d.code,
      text: place + d.message + (d.hint ? ` → ${d.hint}` : "") + (config ? "; the configuration before it stays in force" : ""), next: config ? "exthost reload" : "exthost validate" });
  }
  for (const p of s.status.policies ?? []) for (const d of p.diagnostics ?? []) {
    list.push({ key: "p" + p.name + d.message, tone: "warn", word: "without effect", title: p.name, href: "#/governance", text: d.message + (d.hint ? ` → ${d.hint}` : ""), next: "exthost policy list" });
  }
  return list.sort((a, b) => urgency[a.tone] - urgency[b.tone]);
}

/** troublesWith returns the problems of an extension, each with reason, last output and next step. */
function troublesWith(x, s) {
  const about = { title: x.id, href: `#/extensions/${encodeURIComponent(x.id)}` };
  const list = [];
  if (!["ready", "idle", "disabled"].includes(x.state)) {
    const hint = s.status.diagnostics.find((d) => d.extension === x.id && d.hint && d.level !== "info")?.hint;
    const retry = (x.instances ?? []).find((i) => i.next_retry)?.next_retry;
    list.push({ ...about, key: "x" + x.id, state: x.state, tone: stateTone[x.state] in urgency ? stateTone[x.state] : "warn", said: evidence(x)?.stderr,
      text: (x.reason || "the reason is not known yet") + (retry ? `; ${retryText(retry)}` : "") + (hint ? ` → ${hint}` : ""),
      next: x.state === "skipped" ? (hint ? "exthost reload" : `exthost info ${x.id}`) : `exthost logs ${x.id}`, restart: x.state === "failed" ? x.id : null });
  } else if (x.last_crash && ended(x) && Date.now() - Date.parse(x.last_crash.time) < RECENT) {
    list.push({ ...about, key: "c" + x.id + x.last_crash.time, tone: "warn", word: ended(x), said: evidence(x)?.stderr, next: `exthost logs ${x.id}`,
      text: `${x.last_crash.reason}; at ${clock(x.last_crash.time)}, and ${x.state} again` });
  }
  const open = (x.instances ?? []).find((i) => i.breaker && i.breaker !== "closed");
  if (open) list.push({ ...about, key: "b" + x.id, tone: "bad", word: `breaker ${open.breaker.replace("_", " ")}`, next: `exthost logs ${x.id}`, restart: x.id,
    text: (open.reason || x.reason || "calls fail one after another") + (open.next_probe ? `; next probe at ${clock(open.next_probe)}` : "") });
  return list;
}

function trouble(t) {
  const mark = t.state ? stateBadge() : badge(() => t.tone);
  const text = el("span"), said = el("code.said", { hidden: true }), next = el("code.next", { title: "the command to run next" });
  const title = t.href ? el("a.title", { href: t.href }, t.title) : el("span.title", {}, t.title);
  const restart = t.restart && serves("post", "/extensions/{id}/restart")
    ? action("Restart", () => post(`/extensions/${encodeURIComponent(t.restart)}/restart`)) : null;
  const path = `/approvals/${encodeURIComponent(t.asks)}`;
  const answers = t.asks && serves("post", "/approvals/{id}/approve")
    ? [action("Approve", () => post(path + "/approve"), { tone: "good", confirm: "Really approve?" }), action("Deny", () => post(path + "/deny", {}), { tone: "bad" })] : null;
  return {
    node: el("div.trouble", {}, mark.node, title, el("span.text", {}, text, said), el("span.do", {}, next, restart, answers)),
    update(now) {
      mark.update(now.state ?? now.word);
      setText(text, now.text);
      const last = (now.said ?? []).filter((line) => line && !/^npm (notice|warn)|A complete log of this run can be found in/.test(line)).slice(-2).join("\n").slice(0, 400);
      setText(said, last);
      said.hidden = !last;
      setText(next, now.next ?? "");
      next.hidden = !now.next;
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
