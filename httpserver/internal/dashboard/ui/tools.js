// The catalog, and the descriptor of one tool.

import { el, put, setText, Rows } from "./dom.js";
import { count, json } from "./format.js";
import { action, empty, matches, select, toast } from "./parts.js";
import { facts } from "./extensions.js";
import { get, postText } from "./api.js";

export function tools(nav) {
  const body = el("tbody");
  const rows = new Rows(body, (t) => row(t, nav));
  const total = el("span.total");
  let only = "";
  const by = select("Extension", [["", "all extensions"]], (value) => { only = value; drawn = null; });
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
      el("table.catalog", {}, el("thead", {}, el("tr", {}, ...["Tool", "Description", "Tokens"].map((c) => el("th", { scope: "col" }, c)))), body), none), detail.node),
    search: "Find a tool by name or description",
    update(s, { query, rest }) {
      by.fill([["", "all extensions"], ...new Set(s.tools.map((t) => t.extension))].map((x) => (Array.isArray(x) ? x : [x, x || "the host"])));
      const state = [s.tools, query, only];
      if (!drawn || state.some((v, i) => v !== drawn[i])) { // there may be a thousand rows
        drawn = state;
        const list = s.tools.filter((t) => (!only || t.extension === only) && matches(query, t.name, t.description, t.extension));
        rows.update(list, (t) => t.name);
        setText(total, `${count(list.length)} of ${count(s.tools.length)} tools, ~${count(list.reduce((n, t) => n + t.tokens, 0))} tokens of every request`);
        none.hidden = list.length > 0;
      }
      detail.update(s, rest);
    },
  };
}

function row(t, nav) {
  const href = `#/tools/${encodeURIComponent(t.name)}`;
  const about = el("td.about"), cost = el("td.number", { "data-name": "Tokens" });
  return {
    node: el("tr", { onclick: (e) => { if (!e.target.closest("a")) nav(href); } }, el("th", { scope: "row" }, el("a", { href }, t.name)), about, cost),
    update(t) {
      setText(about, t.description);
      setText(cost, count(t.tokens));
    },
  };
}

function details(nav) {
  const title = el("h2"), body = el("div.body");
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/tools") }, "✕");
  const node = el("aside.details", { hidden: true, "aria-label": "Tool" }, el("header", {}, title, close), body);
  let shown = null;
  return {
    node,
    update(s, name) {
      node.hidden = !name || !s.tools.some((t) => t.name === name);
      if (node.hidden || shown === name) {
        if (node.hidden) shown = null;
        return;
      }
      shown = name;
      setText(title, name);
      put(body, "…");
      get(`/tools/${encodeURIComponent(name)}`).then((t) => shown === name && put(body, ...content(t)), (e) => put(body, e.message));
    },
  };
}

function content(t) {
  const d = t.descriptor ?? {};
  const args = el("textarea", { "aria-label": "Arguments", spellcheck: "false", rows: "4" });
  args.value = "{}";
  const answer = el("pre", { hidden: true });
  const run = action("Call it", async () => {
    JSON.parse(args.value); // reports the place of a syntax error
    const result = await postText(`/tools/${encodeURIComponent(t.name)}/call`, args.value);
    answer.hidden = false;
    setText(answer, json(result, { lines: true }));
  }, { confirm: "Really call it?" });
  const hints = Object.entries(d.annotations ?? {}).map(([k, v]) => `${k}: ${v}`).join(", ");
  return [
    el("p", {}, t.description),
    facts([["extension", t.extension || "the host"], ["own name", t.tool], ["tokens", `~${count(t.tokens)}`], ["annotations", hints]]),
    el("h3", {}, "Input"), el("pre", {}, JSON.stringify(d.inputSchema ?? {}, null, 2)),
    d.outputSchema ? el("h3", {}, "Output") : null, d.outputSchema ? el("pre", {}, JSON.stringify(d.outputSchema, null, 2)) : null,
    el("h3", {}, "Try it"), el("p.hint", {}, "A real call: it passes governance, and may have effects."), args, el("div.actions", {}, run), answer,
  ];
}
