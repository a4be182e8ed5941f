// The catalog, and the descriptor of one tool.

import { el, put, setText, Rows } from "./dom.js";
import { count, duration, json, percent } from "./format.js";
import { action, block, empty, filter, matches, sortable, table, toast } from "./parts.js";
import { argumentsOf } from "./arguments.js";
import { facts } from "./extensions.js";
import { get, postText } from "./api.js";

export function tools(nav) {
  const columns = sortable([["Tool", (t) => t.name], ["Description", null], ["Calls", (t) => t.use?.calls], ["Denied", (t) => share(t.use?.denied, t.use)],
    ["Failed", (t) => share(t.use && t.use.errors + t.use.tool_errors, t.use)], ["p50 / p95", (t) => t.use?.latency?.p95_ms], ["Risk", (t) => risks.indexOf(t.risk)], ["Tokens", (t) => t.tokens]]);
  const list = table(".catalog", columns.heads);
  const rows = new Rows(list.body, (t) => row(t, nav));
  const total = el("span.total");
  let only = "";
  const by = filter("Extension", [["", "all extensions"]], "ext");
  const formats = ["anthropic", "openai", "openai-chat", "gemini", "mcp"].map((f) => el("button", { type: "button", onclick: () => download(f).catch((e) => toast(`export: ${e.message}`, "bad")) }, f));
  const none = empty("No tool matches.");
  const detail = details(nav);
  let drawn = null;
  async function download(format) {
    const out = await get(`/tools/export?format=${format}` + (only ? `&extension=${encodeURIComponent(only)}` : ""));
    const url = URL.createObjectURL(new Blob([JSON.stringify(out.definitions, null, 2)], { type: "application/json" }));
    const link = el("a", { href: url, download: `tools.${format}.json` });
    link.click();
    URL.revokeObjectURL(url);
  }
  return {
    node: el("div.tools-view", {}, el("div.scroll", {}, el("div.bar", {}, by.node, total, el("span.export", {}, "export for", ...formats)),
      list.node, none), detail.node),
    search: "Find a tool by name or description",
    keys: { r: () => detail.toggle() },
    update(s, { query, rest, params }) {
      by.fill([["", "all extensions"], ...new Set(s.tools.map((t) => t.extension))].map((x) => (Array.isArray(x) ? x : [x, x || "the host"])));
      only = by.read(params);
      const state = [s.tools, query, only, params.get("sort")];
      if (!drawn || state.some((v, i) => v !== drawn[i])) { // there may be a thousand rows
        drawn = state;
        const found = s.tools.filter((t) => (!only || t.extension === only) && matches(query, t.name, t.description, t.extension));
        rows.update(columns.order(found, params), (t) => t.name);
        setText(total, `${count(found.length)} of ${count(s.tools.length)} tools, ~${count(found.reduce((n, t) => n + t.tokens, 0))} tokens of every request`);
        none.hidden = found.length > 0;
      }
      detail.update(s, rest);
    },
  };
}

const risks = ["read", "write", "destroy"]; // the lowest first

const share = (part, use) => (use?.calls ? part / use.calls : undefined);

function row(t, nav) {
  const href = `#/tools/${encodeURIComponent(t.name)}`;
  const cell = (name) => el("td.number", { "data-name": name });
  const about = el("td.about"), risk = el("td", { "data-name": "Risk" }), cost = cell("Tokens"), calls = cell("Calls"), denied = cell("Denied"), failed = cell("Failed"), took = cell("p50 / p95");
  return {
    node: el("tr", { onclick: (e) => { if (!e.target.closest("a")) nav(href); } }, el("th", { scope: "row" }, el("a", { href }, t.name)), about, calls, denied, failed, took, risk, cost),
    update(t) {
      setText(about, t.description);
      setText(risk, t.risk);
      setText(cost, count(t.tokens));
      const u = t.use;
      setText(calls, u ? count(u.calls) : "–");
      setText(denied, u ? percent(u.denied, u.calls) : "–");
      setText(failed, u ? percent(u.errors + u.tool_errors, u.calls) : "–");
      setText(took, u?.latency ? `${duration(u.latency.p50_ms)} / ${duration(u.latency.p95_ms)}` : "–");
    },
  };
}

function details(nav) {
  const title = el("h2"), body = el("div.body");
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/tools") }, "✕");
  const node = el("aside.details", { hidden: true, "aria-label": "Tool" }, el("header", {}, title, close), body);
  let shown = null, tried = null;
  return {
    node,
    toggle: () => tried?.toggle(),
    update(s, name) {
      node.hidden = !name || !s.tools.some((t) => t.name === name);
      if (node.hidden || shown === name) {
        if (node.hidden) shown = null;
        return;
      }
      shown = name;
      setText(title, name);
      tried = null;
      put(body, "…");
      get(`/tools/${encodeURIComponent(name)}`).then((t) => {
        if (shown !== name) return;
        tried = argumentsOf(t.descriptor?.inputSchema);
        put(body, ...content(t, tried));
      }, (e) => shown === name && put(body, e.message));
    },
  };
}

function content(t, args) {
  const d = t.descriptor ?? {};
  const answer = block("Answer");
  answer.node.hidden = true;
  const run = action("Call it", async () => {
    const text = args.text();
    answer.node.hidden = false;
    answer.set("…");
    try {
      answer.set(json(await postText(`/tools/${encodeURIComponent(t.name)}/call`, text), { lines: true }));
    } catch (e) {
      answer.set(e.message);
      throw e;
    }
  }, { confirm: "Really call it?" });
  const hints = Object.entries(d.annotations ?? {}).map(([k, v]) => `${k}: ${v}`).join(", ");
  return [
    el("p", {}, t.description),
    facts([["extension", t.extension || "the host"], ["own name", t.tool], ["tokens", `~${count(t.tokens)}`], ["risk", t.risk], ["annotations", hints],
      ["calls", t.use && `${count(t.use.calls)}, ${count(t.use.denied)} denied, ${count(t.use.errors)} failed, ${count(t.use.tool_errors)} errors of the tool`],
      ["latency", t.use?.latency && `p50 ${duration(t.use.latency.p50_ms)}, p95 ${duration(t.use.latency.p95_ms)}`]]),
    el("h3", {}, "Try it"), el("p.hint", {}, "A real call, made by the caller operator: it passes governance, and may have effects."), args.node, el("div.actions", {}, run, args.change), answer.node,
    el("h3", {}, "Input"), block("Input schema", JSON.stringify(d.inputSchema ?? {}, null, 2)).node,
    d.outputSchema ? el("h3", {}, "Output") : null, d.outputSchema ? block("Output schema", JSON.stringify(d.outputSchema, null, 2)).node : null,
  ];
}
