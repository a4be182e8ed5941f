// The overview: measures, problems and the latest calls.

import { el, put, setText, Rows } from "./dom.js";
import { curve } from "./chart.js";
import { bytes, clock, count, duration, json, percent, retryText } from "./format.js";
import { action, badge, empty, stateTone, outcomeTone, panel, stateBadge } from "./parts.js";
import { byUrgency, evidence, extensionTable } from "./extensions.js";
import { failed, serves } from "./store.js";
import { post } from "./api.js";

export function overview(nav) {
  const tiles = {
    rate: tile("Calls", "per second"), p95: tile("Latency", "p95"),
    denied: tile("Denied", "of calls now"), errors: tile("Failing", "of calls now"), toolErrors: tile("Tool errors", "of calls now"),
    busy: tile("In flight", "and queued"), memory: tile("Memory", "in total"), tools: tile("Tools", "for the model", false),
  };
  const attention = panel("Needs attention");
  const troubles = new Rows(attention.body, trouble);
  const table = extensionTable(nav, { brief: true });
  const fleet = panel("Extensions", table.node);
  const stream = panel("Live calls");
  const calls = new Rows(put(stream.body, el("ol.calls")).firstChild, brief);
  put(stream.extra, el("a", { href: "#/calls" }, "all"));
  put(fleet.extra, el("a", { href: "#/extensions" }, "all"));
  const quiet = empty("No calls since this page was opened.", "They appear here as clients make them.");
  stream.body.append(quiet);
  const bare = empty("No extension was found.", "exthost init NAME writes one into ./extensions, and exthost import adds the MCP servers that other programs are configured with.");
  fleet.body.append(bare);
  bare.hidden = attention.node.hidden = true; // until the status is known
  const node = el("div.overview", {}, el("div.tiles", {}, ...Object.values(tiles).map((t) => t.node)), attention.node,
    el("div.split", {}, fleet.node, stream.node));
  return {
    node,
    update(s) {
      if (!s.status) return;
      tiles.rate.update(rate(s.curves.rate.at(-1)), s.curves.rate);
      tiles.p95.update(duration(latest(s.curves.p95)), s.curves.p95);
      for (const [key, n] of Object.entries(totals(s.status.runs))) {
        const curve = s.curves[key];
        tiles[key].update(curve.length ? percent(curve.at(-1), 1) : "–", curve, 1, `${count(n)} in all`);
      }
      tiles.busy.update(count(s.curves.busy.at(-1)), s.curves.busy);
      tiles.memory.update(bytes(s.curves.memory.at(-1)), s.curves.memory);
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

/** totals counts what the tiles of shares show. */
const totals = (runs) => runs.reduce((t, x) => ({ denied: t.denied + x.denied, errors: t.errors + failed(x), toolErrors: t.toolErrors + x.tool_errors }), { denied: 0, errors: 0, toolErrors: 0 });

const rate = (n) => (n === undefined ? "–" : n >= 100 ? count(Math.round(n)) : n.toFixed(1).replace(/\.0$/, ""));
const latest = (curve) => curve.findLast((v) => v !== null);

function tile(name, unit, curved = true) {
  const value = el("strong", {}, "–");
  const note = el("small", {}, unit);
  const line = curved ? curve(`${name} over the last five minutes`) : null;
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
const RECENT = 15 * 60_000; // for which a crash is shown after the extension runs again

/** troublesOf returns all problems and pending approvals, the most urgent first. */
function troublesOf(s) {
  const list = s.approvals.map((q) => ({
    key: "q" + q.id, tone: "ask", word: "waits", title: q.tool || q.method, text: `${q.policy} asks: ${q.reason}`, said: [json(q.arguments)], href: "#/approvals", next: `exthost approve ${q.id}`,
  }));
  for (const x of [...s.status.runs, ...(s.status.policies ?? []).filter((p) => p.process).map((p) => p.process)]) list.push(...troublesWith(x, s));
  for (const d of s.status.diagnostics.filter((d) => d.level === "error" && !s.status.runs.some((x) => x.id === d.extension))) {
    const place = d.line ? `${d.path}:${d.line}: ` : "";
    list.push({ key: "d" + d.path + d.message, tone: "bad", word: d.code.replaceAll("_", " "), title: d.extension || d.path.split(/[\\/]/).slice(-2)[0] || d.code,
      text: place + d.message + (d.hint ? ` → ${d.hint}` : ""), next: "exthost validate" });
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
  } else if (x.last_crash && Date.now() - Date.parse(x.last_crash.time) < RECENT) {
    list.push({ ...about, key: "c" + x.id + x.last_crash.time, tone: "warn", word: "crashed", said: evidence(x)?.stderr, next: `exthost logs ${x.id}`,
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
  return {
    node: el("div.trouble", {}, mark.node, title, el("span.text", {}, text, said), el("span.do", {}, next, restart)),
    update(now) {
      mark.update(now.state ?? now.word);
      setText(text, now.text);
      const last = (now.said ?? []).filter(Boolean).slice(-2).join("\n").slice(0, 400);
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
      el("time", {}, clock(c.time)), el("span.tool", {}, c.tool || c.method), el("span.outcome", {}, c.outcome.replaceAll("_", " ")), el("span.took", {}, duration(c.took_ns))),
  };
}
