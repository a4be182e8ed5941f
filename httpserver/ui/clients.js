// Who is connected, and the tools that each client sees.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { clock, count, plural, since } from "./format.js";
import { empty, panel, sortable, table } from "./parts.js";
import { facts } from "./extensions.js";
import { get } from "./api.js";

const MODERN = "2026-07-28"; // clients from this revision on have no sessions

const keyOf = (c) => [c.session, c.name, c.caller, c.protocol].map((x) => encodeURIComponent(x ?? "")).join(",");

/** clients returns the table of the connected clients, and the side panel about one of them. */
export function clients(nav) {
  const body = panel("Clients"), columns = sortable([["Client", (c) => c.name], ["Caller", (c) => c.caller], ["Front", (c) => c.front], ["Protocol", (c) => c.protocol], ["Tools", (c) => c.tools],
    ["Session", null], ["Since", (c) => Date.parse(c.since) || undefined], ["Extension", (c) => c.extension], ["Last call", (c) => Date.parse(c.last_call) || undefined]]);
  const list = table(".clients", columns.heads);
  const rows = new Rows(list.body, (c) => row(c, nav));
  const nobody = empty("No client is connected.", "exthost serve prints how to connect one.");
  put(body.body, list.node, nobody);
  const detail = details(nav);
  return {
    node: body.node,
    detail: detail.node,
    update(s, key, params) {
      const all = s.status.clients ?? [];
      rows.update(columns.order(all, params), keyOf);
      list.node.hidden = !all.length;
      nobody.hidden = all.length > 0;
      detail.update(s, all.find((c) => keyOf(c) === key));
    },
  };
}

function row(c, nav) {
  const called = el("td", { "data-name": "Last call" });
  const kind = c.protocol >= MODERN ? "modern" : "legacy";
  const href = `#/host/${encodeURIComponent(keyOf(c))}`;
  return {
    node: el("tr", { onclick: (e) => { if (!e.target.closest("a")) nav(href); } }, el("th", { scope: "row" }, el("a", { href, title: "The tools that this client sees" }, c.name || "without a name")),
      el("td", { "data-name": "Caller" }, (c.caller || "anonymous") + (c.toolset ? `, toolset ${c.toolset}` : "")), el("td", { "data-name": "Front" }, c.front || "–"),
      el("td", { "data-name": "Protocol" }, `${c.protocol} (${kind})`), el("td", { "data-name": "Tools" }, c.tools || "–"), el("td.mono", { "data-name": "Session" }, c.session || "–"), el("td", { "data-name": "Since" }, c.since ? clock(c.since) : "–"), el("td", { "data-name": "Extension" }, c.extension || "all"), called),
    update(c) {
      setText(called, c.last_call ? `${since(c.last_call)} ago` : "–");
      setAttr(called, "title", c.last_call ? clock(c.last_call) : null);
    },
  };
}

function details(nav) {
  const title = el("h2"), body = el("div.body");
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/host") }, "✕");
  const node = el("aside.details", { hidden: true, "aria-label": "Client" }, el("header", {}, title, close), body);
  let shown = "";
  return {
    node,
    update(s, c) {
      node.hidden = !c;
      const now = c ? `${keyOf(c)} ${s.status.generation}` : "";
      if (now === shown || c && s.phase !== "live") return;
      shown = now;
      if (!c) return;
      setText(title, c.name || c.caller || "without a name");
      const asked = new URLSearchParams(Object.entries({ caller: c.caller ?? "", toolset: c.toolset, extension: c.extension }).filter(([, v]) => v !== undefined));
      get(`/tools?${asked}`).then((seen) => shown === now && put(body, ...content(c, seen)), (e) => shown === now && put(body, e.message));
    },
  };
}

/** content returns what is known of a client, and its tools. */
function content(c, { tools, hidden = [] }) {
  return [
    facts([["caller", c.caller || "anonymous"], ["toolset", c.toolset || "none: sees everything"], ["lists", { all: "all tools", search: "ext_find, what calls the tools it finds, and favourites" }[c.tools]], ["session", c.session], ["extension", c.extension],
      ["tokens", `~${count(tools.reduce((n, t) => n + t.tokens, 0))} of every request`]]),
    el("h3", {}, `Sees ${plural(tools.length, "tool")}`),
    el("ul.tools", {}, ...tools.map((t) => el("li", {}, el("b.mono", {}, t.name), el("small", {}, t.description)))),
    hidden.length ? el("h3", {}, `Policies hide ${plural(hidden.length, "tool")}`) : null,
    el("ul.tools", {}, ...hidden.map((name) => el("li.mono", {}, name))),
  ];
}
