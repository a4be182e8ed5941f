// Who the clients of the host are, and what toolsets show them: the named clients and the toolsets of the configuration,
// edited in its files.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { clock, count, percent, plural, since } from "./format.js";
import { action, block, choose, empty, labelled, panel, table } from "./parts.js";
import { shapes } from "./shape.js";
import { get, getExact, post } from "./api.js";

const MOST = 300; // tools of a preview that are listed

export function access(nav) {
  const named = panel("Named clients"), clients = table(".clients.named", ["Client", "Token since", "Sees", "Sessions", "Last used", "Stated"]);
  const nobody = empty("No client has a name.", "A client with a name has a token of its own, and may have a toolset. As soon as there is one, every client over HTTP needs a token.");
  const sets = panel("Toolsets"), toolsets = table(".clients.toolsets", ["Toolset", "Include", "Exclude", "Clients", "Stated"]);
  const none = empty("No toolset is stated.", "A toolset states which tools, prompts and resources its clients see.");
  const clientRows = new Rows(clients.body, clientRow), toolsetRows = new Rows(toolsets.body, toolsetRow);
  const failure = el("p.reason", { "data-tone": "bad", role: "alert", hidden: true });
  const addClient = el("a", { href: "#/access/new-client", hidden: true }, "add a client"), addToolset = el("a", { href: "#/access/new-toolset", hidden: true }, "add a toolset");
  put(named.extra, addClient);
  put(named.body, clients.node, nobody);
  put(sets.extra, addToolset);
  put(sets.body, toolsets.node, none);
  const title = el("h2"), body = el("div.body");
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/access") }, "✕");
  const detail = el("aside.details", { hidden: true, "aria-label": "Client or toolset" }, el("header", {}, title, close), body);
  let stated = null, shown = "";

  /** load reads what the files state. A form that is open keeps what it was opened with. */
  async function load() {
    try {
      const [c, t] = await Promise.all([get("/clients"), getExact("/toolsets")]);
      stated = { clients: c, toolsets: t };
      failure.hidden = true;
    } catch (e) {
      stated = stated ?? { clients: { clients: [], toolsets: [] }, toolsets: { toolsets: [] } };
      failure.hidden = false;
      setText(failure, e.message);
    }
    draw();
  }

  function draw() {
    const c = stated.clients.clients, t = stated.toolsets.toolsets;
    addClient.hidden = !stated.clients.file;
    addToolset.hidden = !stated.toolsets.file;
    clientRows.update(c, (x) => x.name);
    toolsetRows.update(t, (x) => x.name);
    clients.node.hidden = !c.length;
    nobody.hidden = c.length > 0;
    toolsets.node.hidden = !t.length;
    none.hidden = t.length > 0;
  }

  /** open shows the form of an address. done(rest) opens another one, and reads the files again. */
  function open(rest) {
    const [kind, name] = [rest.split("/")[0], rest.split("/").slice(1).join("/")];
    const done = async (next) => {
      await load();
      shown = null; // also when the address stays
      nav(next ? `#/access/${next}` : "#/access");
      open(next);
    };
    const forms = {
      "new-client": () => ["New client", clientForm(null, stated.clients, done)],
      "new-toolset": () => ["New toolset", toolsetForm(null, stated.toolsets, done)],
      client: () => [name, clientForm(stated.clients.clients.find((c) => c.name === name), stated.clients, done)],
      toolset: () => [name, toolsetForm(stated.toolsets.toolsets.find((t) => t.name === name), stated.toolsets, done)],
    };
    shown = rest;
    detail.hidden = !rest;
    if (!rest) return;
    const [head, content] = forms[kind]?.() ?? [rest, null];
    setText(title, head);
    put(body, content ?? `The configuration has no ${rest.replace("/", " ")}.`);
    if (kind.startsWith("new-")) body.querySelector("input")?.focus();
  }

  return {
    node: el("div.access-view", {}, el("div.column", {}, failure, named.node, sets.node), detail),
    search: null,
    shown: () => { stated = null; shown = ""; detail.hidden = true; load(); },
    update(s, { rest }) {
      if (stated && shown !== rest) open(rest);
    },
  };
}

const sees = (c) => [c.scope && `${c.scope} alone`, c.toolset && `toolset ${c.toolset}`, c.mode && `mode ${c.mode}`].filter(Boolean).join(", ") || "–";
const place = (stated) => el("td", { "data-name": "Stated", title: stated }, stated.split("/").slice(-2).join("/"));

function clientRow(c) {
  const href = `#/access/client/${encodeURIComponent(c.name)}`;
  const token = el("td", { "data-name": "Token since" }), what = el("td", { "data-name": "Sees" }), sessions = el("td", { "data-name": "Sessions" }), used = el("td", { "data-name": "Last used" });
  return {
    node: el("tr", {}, el("th", { scope: "row" }, el("a", { href }, c.name)), token, what, sessions, used, place(c.stated)),
    update(c) {
      setText(token, !c.token ? "no token, stdio alone" : c.since ? `${since(c.since)} ago` : "unknown");
      setText(what, sees(c));
      setText(sessions, count(c.sessions));
      setText(used, c.last_used ? `at ${clock(c.last_used)}` : "–");
    },
  };
}

function toolsetRow(t) {
  const href = `#/access/toolset/${encodeURIComponent(t.name)}`;
  const cell = (name) => el("td.note.mono", { "data-name": name });
  const include = cell("Include"), exclude = cell("Exclude"), clients = el("td.note", { "data-name": "Clients" });
  return {
    node: el("tr", {}, el("th", { scope: "row" }, el("a", { href }, t.name)), include, exclude, clients, place(t.stated)),
    update(t) {
      setText(include, (t.include ?? ["*"]).join(", "));
      setText(exclude, (t.exclude ?? []).join(", ") || "–");
      setText(clients, [t.default && "all without their own", ...t.clients].filter(Boolean).join(", ") || "–");
    },
  };
}

/** form returns the fields and the buttons of an edit, whose errors stand beside the fields they are about. */
function form(fields, buttons, ...more) {
  const general = el("p.reason", { "data-tone": "bad", role: "alert", hidden: true });
  return {
    node: el("form.edit", { onsubmit: (e) => { e.preventDefault(); buttons[0].click(); } }, ...Object.values(fields).map((f) => f.node), general, el("div.actions", {}, ...buttons), ...more),
    /** wrong shows the error of an edit; null clears all. */
    wrong(error) {
      const misfits = error?.data?.misfits ?? [];
      const of = (m) => m.field.split(".")[0];
      for (const [name, f] of Object.entries(fields)) f.wrong(misfits.filter((m) => of(m) === name));
      const rest = misfits.filter((m) => !fields[of(m)]).map((m) => m.message);
      setText(general, !error ? "" : misfits.length ? rest.join("; ") : error.message);
      general.hidden = !general.textContent;
    },
  };
}

/** attempt returns what a button does: an edit whose errors the form shows. */
const attempt = (of, edit) => async () => {
  of().wrong(null);
  try {
    return await edit();
  } catch (e) {
    of().wrong(e);
    throw e;
  }
};

/** clientForm edits a client, or adds one; undefined is none that there is. */
function clientForm(c, all, done) {
  if (c === undefined) return null;
  const name = labelled("Name", el("input", { autocomplete: "off", spellcheck: "false", maxlength: "64" }), "Policies, budgets and the audit log know the client by it.");
  const toolset = labelled("Toolset", choose([["", "the default one"], ...all.toolsets.map((t) => [t, t])], c?.toolset), "The only one that it can use.");
  const mode = labelled("Tools are listed", choose([["", "as tools.mode says"], ["all", "all"], ["search", "by search"], ["auto", "as it suits the client"]], c?.mode), "");
  const scope = labelled("Scope", choose([["", "tools"], ["metrics", "metrics alone"]], c?.scope), "Whether its token opens tools, or /metrics and nothing else.");
  const fields = { ...(c ? {} : { name }), toolset, mode, scope };
  const settings = () => ({ toolset: toolset.input.value, mode: mode.input.value, scope: scope.input.value, digest: c ? c.digest : all.digest });
  const to = (verb) => `/clients/${encodeURIComponent(c ? c.name : name.input.value.trim())}/${verb}`;
  const token = el("div.body");
  let f = null;
  const add = action("Add", attempt(() => f, async () => {
    if (!name.input.value.trim()) throw missing("name", "such as laptop");
    const made = await (await post(to("add"), settings())).json();
    add.hidden = true;
    name.input.readOnly = true;
    put(token, ...secret(made, settings().scope), el("div.actions", {}, el("button", { type: "button", onclick: () => done("") }, "Done")));
    token.querySelector("pre").focus();
  }));
  const save = action("Save", attempt(() => f, async () => { await post(to("set"), settings()); await done(`client/${c.name}`); }));
  const remove = action("Remove", attempt(() => f, async () => { await post(to("remove"), { digest: c.digest }); await done(""); }), { tone: "bad", confirm: "Really remove it?" });
  f = form(fields, c ? [save, remove] : [add], el("p.hint", {}, `${c ? "" : "Written into "}${c ? c.stated : all.file}. Applied at once${c ? "; with another toolset or scope, its sessions end" : ""}.`), token);
  return [c ? el("p.who", {}, `${sees(c)}; ${plural(c.sessions, "session")}`) : null, f.node];
}

/** missing is the error for an empty field. */
const missing = (field, message) => Object.assign(new Error(`${field} is empty`), { data: { misfits: [{ field, message: `is empty; ${message}` }] } });

/** secret shows the token of a new client, with the settings to paste. */
function secret(made, scope) {
  const text = scope === "metrics"
    ? `scrape_configs:\n  - job_name: exthost\n    scheme: ${location.protocol.slice(0, -1)}\n    static_configs:\n      - targets: [${JSON.stringify(location.host)}]\n    authorization:\n      credentials: ${made.token}\n`
    : JSON.stringify({ mcpServers: { exthost: { type: "http", url: `${location.origin}/mcp`, headers: { Authorization: `Bearer ${made.token}` } } } }, null, 2);
  return [el("h3", {}, "Its token, which is shown this once"), el("p.hint", {}, "Paste this into the client's settings. The file has the hash alone."), block("Settings with the token", text).node,
    made.note ? el("p.reason", { "data-tone": "warn" }, made.note) : null];
}

/** toolsetForm edits a toolset, with the tools that it shows, or adds one; undefined is none that there is. */
function toolsetForm(t, all, done) {
  if (t === undefined) return null;
  const lines = (list) => el("textarea", { rows: String(Math.max(3, (list ?? []).length + 1)), spellcheck: "false", oninput: () => later() }, (list ?? []).join("\n"));
  const name = labelled("Name", el("input", { autocomplete: "off", spellcheck: "false", maxlength: "64" }), "Letters, digits, - and _; clients may use it at /t/NAME/mcp.");
  const include = labelled("Include", lines(t?.include), "One pattern on each line, such as ext_git_*; empty: everything.");
  const exclude = labelled("Exclude", lines(t?.exclude), "What is not shown although it is included.");
  const tools = shapes(t?.tools, () => later());
  const fields = { ...(t ? {} : { name }), include, exclude, tools };
  const patterns = (input) => [...new Set(input.value.split("\n").map((p) => p.trim()).filter(Boolean))];
  const body = (more) => ({ include: patterns(include.input), exclude: patterns(exclude.input), tools: tools.value(), ...more });
  const to = (verb) => `/toolsets/${encodeURIComponent(t ? t.name : name.input.value.trim() || "-")}/${verb}`;
  const summary = el("h3.summary", { "aria-live": "polite" }), cost = el("p.hint"), list = el("ul.preview"), more = el("p.hint"), listed = new Rows(list, toolRow);
  let f = null, due = 0, asked = 0;

  const later = () => { clearTimeout(due); due = setTimeout(preview, 200); };
  async function preview() {
    const mine = ++asked;
    try {
      const p = await (await post(to("preview"), body({ show: tools.tool() }))).json();
      if (mine !== asked) return;
      f.wrong(p.misfits.length ? { data: { misfits: p.misfits } } : null);
      anyway.hidden = !p.misfits.length;
      show(p);
    } catch (e) {
      if (mine === asked) f.wrong(e);
    }
  }
  function show({ before, after, tokens, was_tokens, shown }) {
    const was = new Set(before), is = new Set(after);
    const every = [...new Set([...before, ...after, ...tools.names()])].sort();
    const gone = every.filter((n) => !is.has(n)), added = t ? every.filter((n) => !was.has(n) && is.has(n)) : [], same = t ? every.filter((n) => was.has(n) && is.has(n)) : after;
    setText(summary, `Shows ${plural(after.length, "tool")}${t ? `, ${count(before.length)} before: ${count(added.length)} more, ${count(gone.filter((n) => was.has(n)).length)} no longer` : ""}`);
    setText(cost, `~${count(tokens)} tokens of every request${was_tokens > tokens ? `, ${percent(was_tokens - tokens, was_tokens)} less than without shapes` : ""}`);
    tools.preview(shown);
    const line = (tone, mark) => (n) => ({ name: n, tone, mark });
    const rows = [...gone.map((n) => line("bad", was.has(n) ? "no longer" : "not shown")(n)), ...added.map(line("good", "new")), ...same.map(line(null, ""))];
    listed.update(rows.slice(0, MOST), (r) => r.name);
    setText(more, rows.length > MOST ? `and ${count(rows.length - MOST)} more` : "");
  }
  function toolRow({ name: n }) {
    const mark = el("span.mark"), shape = el("button", { type: "button", onclick: () => tools.open(n) });
    const node = el("li.mono", {}, mark, el("span", {}, n), shape);
    return {
      node,
      update(r) {
        setAttr(node, "data-tone", r.tone);
        setText(mark, r.mark);
        setText(shape, tools.shaped(n) ? "shaped" : "shape");
        setAttr(shape, "aria-label", `${shape.textContent} ${n}`);
      },
    };
  }
  for (const field of [include, exclude]) field.replaced = preview;

  const write = (more) => async () => {
    const verb = t ? "set" : "add";
    if (!t && !name.input.value.trim()) throw missing("name", "such as review");
    const made = await (await post(to(verb), body({ digest: t ? t.digest : all.digest, ...more }))).json();
    if (made.note) throw new Error(made.note);
    await done(`toolset/${t ? t.name : name.input.value.trim()}`);
  };
  const save = action(t ? "Save and reload" : "Add and reload", attempt(() => f, write({})));
  const anyway = action("Save anyway", attempt(() => f, write({ anyway: true })), { confirm: "Really, with what matches nothing?" });
  anyway.hidden = true;
  const remove = t && action("Remove", attempt(() => f, async () => { await post(to("remove"), { digest: t.digest }); await done(""); }), { tone: "bad", confirm: "Really remove it?" });
  f = form(fields, [save, anyway, remove].filter(Boolean), el("p.hint", {}, `${t ? t.stated : `Written into ${all.file}`}. A reload applies the files of the host as they are now.`), summary, cost, list, more);
  const also = t && [t.risk && `risk ${t.risk.join(", ")}`, t.skills && `skills ${t.skills.join(", ")}`, t.prefix !== undefined && `prefix ${JSON.stringify(t.prefix)}`, t.describe && `${plural(Object.keys(t.describe).length, "description")} of its own`].filter(Boolean).join("; ");
  preview();
  return [also ? el("p.who", {}, `It also states ${also}.`) : null, f.node];
}
