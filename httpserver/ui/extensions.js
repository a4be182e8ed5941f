// The table of extensions, and the details of one.

import { el, setAttr, put, setText, Rows } from "./dom.js";
import { curve } from "./chart.js";
import { LAST_HOURS, columnsOf, latencyChart, outcomesChart, total } from "./history.js";
import { bytes, clock, count, duration, percent, plural, retryText, since } from "./format.js";
import { action, badge, block, empty, matches, sortable, stateTone, stateBadge, table } from "./parts.js";
import { failed, memory, serves } from "./store.js";
import { get, post } from "./api.js";

const order = { bad: 0, warn: 1, busy: 2, good: 3, rest: 4 };

/** byUrgency sorts extensions by the severity of their state, then by calls. */
export const byUrgency = (list) => list.toSorted((a, b) => order[stateTone[a.state] ?? "rest"] - order[stateTone[b.state] ?? "rest"] || b.requests - a.requests);

const startOf = (x) => x.instances?.find((i) => i.pid)?.started_at;
const shareOf = (n, x) => (x.requests ? n / x.requests : undefined);

/** columnsOfAll are the columns of the view of extensions, which sorts by them. */
const columnsOfAll = [
  ["Extension", (x) => x.id], ["State", (x) => order[stateTone[x.state] ?? "rest"]], ["Up", (x) => startOf(x) && Date.now() - Date.parse(startOf(x))],
  ["Calls", (x) => x.requests], ["Denied", (x) => shareOf(x.denied, x)], ["Errors", (x) => shareOf(failed(x), x)], ["Tool errors", (x) => shareOf(x.tool_errors, x)],
  ["p50", (x) => x.latency?.p50_ms], ["p95", (x) => x.latency?.p95_ms], ["Memory", (x) => memory(x) || undefined],
  ["Breaker", worstBreaker], ["Restarts", (x) => x.restarts], ["Activity", null],
];

/** extensionTable returns {node, update(store, list)} with the given header cells. */
export function extensionTable(nav, heads, { brief = false } = {}) {
  const { node, body } = table(".extensions" + (brief ? ".brief" : ""), heads);
  const rows = new Rows(body, (x) => row(x, nav, brief));
  return {
    node,
    update(s, list) { rows.update(list.map((x) => ({ ...x, activity: s.activity.get(x.id) })), (x) => x.id + x.path); },
  };
}

function row(x, nav, brief) {
  const href = `#/extensions/${encodeURIComponent(x.id)}`;
  const state = stateBadge(), breaker = badge((b) => ({ open: "bad", "half open": "busy" })[b] ?? "off");
  const version = el("small"), note = el("small.note");
  const cell = (name, child) => el("td", { "data-name": name }, child ?? null);
  const line = brief ? null : curve(`calls of ${x.id} over the last five minutes`);
  const cells = {
    up: cell("Up"), calls: cell("Calls"), denied: cell("Denied"), errors: cell("Errors"), tool: cell("Tool errors"), p50: cell("p50"), p95: cell("p95"), both: cell("p50 / p95"), memory: cell("Memory"), restarts: cell("Restarts"),
  };
  const node = el("tr", { onclick: (e) => { if (!e.target.closest("a,button")) nav(href); } },
    el("th", { scope: "row" }, el("a", { href }, x.id), version, note), cell("State", state.node),
    ...(brief ? [cells.calls, cells.denied, cells.errors, cells.tool, cells.both]
      : [cells.up, cells.calls, cells.denied, cells.errors, cells.tool, cells.p50, cells.p95, cells.memory, cell("Breaker", breaker.node), cells.restarts, cell("Activity", line.node)]));
  return {
    node,
    update(x) {
      state.update(x.state);
      setText(version, x.version ?? "");
      setText(note, x.state === "ready" || x.state === "idle" ? "" : x.reason ?? "");
      setText(cells.calls, count(x.requests));
      for (const [cell, n, tone] of [[cells.denied, x.denied, "warn"], [cells.errors, failed(x), "bad"], [cells.tool, x.tool_errors, "warn"]]) {
        setText(cell, percent(n, x.requests));
        setAttr(cell, "title", `${count(n)} of ${count(x.requests)}`);
        setAttr(cell, "data-tone", n > 0.05 * x.requests ? tone : null);
      }
      if (brief) {
        setText(cells.both, x.latency ? `${duration(x.latency.p50_ms)} / ${duration(x.latency.p95_ms)}` : "–");
        return;
      }
      setText(cells.up, since(startOf(x)));
      setText(cells.p50, duration(x.latency?.p50_ms));
      setText(cells.p95, duration(x.latency?.p95_ms));
      setText(cells.memory, bytes(memory(x)));
      const worst = worstBreaker(x);
      breaker.update(worst || "–");
      setText(cells.restarts, count(x.restarts));
      line.draw(x.activity ?? []);
    },
  };
}

function worstBreaker(x) {
  const all = (x.instances ?? []).map((i) => i.breaker).filter(Boolean);
  return (all.find((b) => b === "open") ?? all.find((b) => b === "half_open") ?? all[0] ?? "").replace("_", " ");
}

export function extensions(nav) {
  const columns = sortable(columnsOfAll);
  const table = extensionTable(nav, columns.heads);
  const none = empty("No extension matches, or there is none.", "exthost init NAME writes one into ./extensions.");
  const detail = details(nav);
  const node = el("div.extensions-view", {}, el("div.scroll", {}, table.node, none), detail.node);
  return {
    node,
    search: "Find by name, state or reason",
    update(s, { query, rest, params }) {
      if (!s.status) return;
      const found = byUrgency(s.status.runs.filter((x) => matches(query, x.id, x.name ?? "", x.description ?? "", x.state, x.reason ?? "")));
      table.update(s, columns.order(found, params));
      none.hidden = found.length > 0;
      detail.update(s, rest);
    },
  };
}

/** details returns the side panel about one extension. */
function details(nav) {
  const title = el("h2"), state = stateBadge(), actions = el("div.actions"), body = el("div.body"), past = lastHours();
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/extensions") }, "✕");
  const node = el("aside.details", { hidden: true, "aria-label": "Extension" }, el("header", {}, title, state.node, close), actions, body);
  let shown = null, drawn = "";
  return {
    node,
    update(s, id) {
      const x = [...s.status.runs, ...(s.status.policies ?? []).flatMap((p) => p.process ?? [])].find((x) => x.id === id);
      node.hidden = !x;
      if (!x) {
        shown = null;
        return;
      }
      setText(title, x.id);
      state.update(x.state);
      if (s.phase === "live") past.update(x);
      if (shown !== id + x.state) {
        shown = id + x.state;
        put(actions, ...actionsFor(x));
      }
      const now = JSON.stringify([x, s.tools.length]); // redrawing would drop the user's selection of text
      if (now !== drawn && !(drawn && String(getSelection()) && node.contains(getSelection().anchorNode))) {
        drawn = now;
        put(body, ...content(x, s, past.node));
      }
    },
  };
}

/** lastHours returns the charts of one extension, which are hidden while there was no call. */
function lastHours() {
  const calls = outcomesChart(LAST_HOURS), took = latencyChart(LAST_HOURS);
  const node = el("div.hours", { hidden: true }, el("h3", {}, "Calls of the last 6 hours"), calls.node, el("h3", {}, "Latency"), took.node);
  let shown = "";
  return {
    node,
    update(x) {
      const now = `${x.id} ${x.requests} ${Math.floor(Date.now() / LAST_HOURS.step)}`;
      if (now === shown) return;
      if (shown.split(" ")[0] !== x.id) node.hidden = true;
      shown = now;
      get(`/history?extension=${encodeURIComponent(x.id)}`).then((history) => {
        if (shown !== now) return;
        const columns = columnsOf(history, LAST_HOURS), sum = total(columns);
        node.hidden = !sum.calls;
        calls.draw(columns, `${count(sum.calls)} calls in the last 6 hours, ${count(sum.errors)} failed, ${count(sum.denied)} denied`);
        took.draw(columns, `p95 of the latest calls: ${duration(columns.findLast((m) => m?.p95 !== undefined)?.p95)}`);
      }, () => { if (shown === now) shown = ""; }); // asked again with the next status
    },
  };
}

function actionsFor(x) {
  const path = `/extensions/${encodeURIComponent(x.id)}`;
  const list = [];
  if (serves("post", "/extensions/{id}/restart") && !["skipped", "untrusted", "disabled", "not_ready"].includes(x.state)) list.push(action("Restart", () => post(path + "/restart"), { confirm: "Really restart?" }));
  if (serves("post", "/extensions/{id}/disable") && x.state !== "disabled" && !x.bridged && !x.id.startsWith("policy:")) list.push(action("Disable", () => post(path + "/disable"), { tone: "bad", confirm: "Really disable?" }));
  if (serves("post", "/extensions/{id}/enable") && x.state === "disabled") list.push(action("Enable", () => post(path + "/enable")));
  list.push(el("a.button", { href: `#/logs?ext=${encodeURIComponent(x.id)}` }, "Logs"));
  if (!["skipped", "untrusted", "disabled", "not_ready"].includes(x.state)) list.push(el("a.button", { href: `#/wire/${encodeURIComponent(x.id)}` }, "Wire"));
  return list;
}

function content(x, s, past) {
  return [
    x.description ? el("p", {}, x.description) : null,
    x.reason ? el("p.reason", { "data-tone": stateTone[x.state] }, x.reason) : null,
    ...crashDetails(x),
    facts([
      ["version", x.version], ["runs as", [...new Set([x.transport, x.protocol])].filter(Boolean).join(" / ")], ["activation", x.activation], ["listens at", x.listens],
      ["command", (x.command ?? []).join(" ")], ["manifest", x.path], ["state directory", x.state_dir],
      ["calls", `${count(Math.max(x.requests, x.calls + x.refused))}, ${count(x.errors)} failed, ${count(x.refused)} refused, ${count(x.denied)} denied, ${count(x.invalid_arguments)} with invalid arguments, ${count(x.tool_errors)} errors of tools`],
      ["latency", x.latency ? `p50 ${duration(x.latency.p50_ms)}, p95 ${duration(x.latency.p95_ms)}` : ""],
      ["secrets passed", (x.env_passed_secrets ?? []).join(", ")], ["withheld", (x.env_withheld ?? []).join(", ")], ["containment", x.containment],
      ["hooks", (x.hooks ?? []).join(", ")],
      ...confinement(x),
    ]),
    past,
    x.instances?.length ? el("h3", {}, plural(x.instances.length, "instance")) : null,
    ...(x.instances ?? []).map((i) => facts([
      [i.key || "process", [i.state, i.pid ? `pid ${i.pid}` : "", i.pid ? `up ${since(i.started_at)}` : "", bytes(i.rss_bytes) === "–" ? "" : bytes(i.rss_bytes)].filter(Boolean).join(", ")],
      ["load", `${i.in_flight} in flight, ${i.queued} queued`],
      ["doubt", i.doubt ?? ""],
      ["breaker", i.breaker ? i.breaker.replace("_", " ") + (i.next_probe ? `, next probe ${clock(i.next_probe)}` : "") : ""],
      ["restarts", i.restarts ? count(i.restarts) + (i.next_retry ? `, ${retryText(i.next_retry)}` : "") : ""],
    ])),
    x.skills?.length ? el("h3", {}, plural(x.skills.length, "skill")) : null,
    el("ul.tools", {}, ...(x.skills ?? []).map((k) => el("li", {}, el("b.mono", { title: k.uri }, k.name),
      el("small", {}, `${k.description} (${plural(k.files, "file")}, ${bytes(k.bytes)})`), k.held ? el("p.reason", { "data-tone": "warn" }, `held: ${k.held}`) : null))),
    x.tools.length ? el("h3", {}, plural(x.tools.length, "tool")) : null,
    el("ul.tools", {}, ...s.tools.filter((t) => t.extension === x.id).map((t) => el("li", {}, el("a", { href: `#/tools/${encodeURIComponent(t.name)}` }, t.name), el("small", {}, t.description)))),
  ];
}

/** confinement says what the kernel enforces of an extension's sandbox, and what it may touch. */
function confinement(x) {
  const box = x.sandbox;
  if (!box) return x.instances?.length ? [["sandbox", "none: it may touch what its user may"]] : [];
  return [
    ["sandbox", box.holds?.length ? `enforced by the kernel: ${box.holds.join(", ")}` : "not enforced"], ["not enforced", (box.lacks ?? []).join("; ")],
    ["reads", (box.read ?? []).join(", ")], ["writes", (box.write ?? []).join(", ")], ["reaches", box.net === "none" ? "no network" : box.net],
  ];
}

/** evidence returns the evidence of the last failed process; undefined if none failed. */
export const evidence = (x) => x.last_crash?.evidence ?? (x.instances ?? []).find((i) => i.evidence)?.evidence;

/** crashDetails describes the last crash. */
function crashDetails(x) {
  const e = evidence(x);
  return [
    x.last_crash ? el("h3", {}, "Last crash") : e ? el("h3", {}, "Last exit") : null,
    x.last_crash || e ? facts([["when", x.last_crash && `${clock(x.last_crash.time)}, ${since(x.last_crash.time)} ago`], ["why", x.last_crash?.reason !== x.reason && x.last_crash?.reason],
      ["exit", e?.signal || (e?.exit_code !== undefined ? `code ${e.exit_code}` : "")]]) : null,
    e?.stderr?.length ? block("Last output", e.stderr.join("\n")).node : null,
  ];
}

/** facts lists names and values, and omits empty values. */
export function facts(pairs) {
  return el("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
