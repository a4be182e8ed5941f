// The host itself: who uses it, reload, watch, and the configuration in force.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { bytes, clock, plural, since } from "./format.js";
import { action, block, empty, panel, table } from "./parts.js";
import { facts } from "./extensions.js";
import { get, post } from "./api.js";

const MODERN = "2026-07-28"; // clients from this revision on have no sessions

export function host() {
  const clients = panel("Clients"), list = table(".clients", ["Client", "Caller", "Front", "Protocol", "Session", "Since", "Extension", "Last call"]);
  const rows = new Rows(list.body, client);
  const nobody = empty("No client is connected.", "exthost serve prints how to connect one.");
  put(clients.body, list.node, nobody);
  const about = panel("Host"), files = panel("Files"), config = panel("Configuration in force");
  const outcome = block("Outcome of the reload");
  outcome.node.hidden = true;
  const watch = el("p.watch"), modes = el("div.actions");
  const reload = (dry) => async () => {
    const change = await (await post("/reload" + (dry ? "?dry_run=true" : ""))).json();
    outcome.node.hidden = false;
    outcome.set(words(change, dry));
    if (!dry) load();
  };
  put(files.body, el("p.hint", {}, "A reload applies the files of the host as they are now. A broken file changes nothing."),
    el("div.actions", {}, action("Show changes", reload(true)), action("Reload", reload(false), { confirm: "Really reload?" })), outcome.node, watch, modes);
  put(modes, ...[["on", "Watch as configured"], ["reload", "Watch and reload"], ["log", "Watch and log"], ["off", "Do not watch"]].map(([mode, label]) =>
    action(label, async () => showWatch(await (await post(`/watch?mode=${mode}`)).json()))));
  const settings = block("Configuration");
  config.body.append(settings.node);

  function showWatch(w) {
    setText(watch, w.mode === "off" ? "The host does not look for changes on disk." : `The host watches ${plural(w.directories ?? 0, "directory").replace("directorys", "directories")} (${w.mode}).${w.last_problem ? ` ${w.last_problem}` : ""}`);
  }
  async function load() {
    try {
      settings.set(yaml(await get("/config")));
      showWatch(await get("/watch"));
    } catch (e) {
      settings.set(e.message);
    }
  }
  return {
    node: el("div.host-view", {}, clients.node, el("div.split", {}, el("div.column", {}, files.node, about.node), config.node)),
    search: null,
    shown: load,
    update(s) {
      if (!s.status) return;
      const all = s.status.clients ?? [];
      rows.update(all, (c) => [c.session, c.name, c.caller, c.protocol].join("\0"));
      list.node.hidden = !all.length;
      nobody.hidden = all.length > 0;
      const h = s.status.host;
      put(about.body, facts([["version", s.status.version], ["process", h ? `${h.pid}, up ${since(h.started_at)}, ${bytes(h.rss_bytes)}` : ""], 
        ["contains by", (s.status.containment.holds ?? []).join(", ")], ["not by", (s.status.containment.lacks ?? []).join("; ")],
        ["audit log", s.status.audit ? `${s.status.audit.path}${s.status.audit.reason ? `: ${s.status.audit.reason}` : ""}` : "none"]]));
    },
  };
}

/** words lists what a reload changes. */
function words(change, dry) {
  const name = (x) => (typeof x === "string" ? x : `${x.id ?? x.extension ?? x.path}: ${x.reason ?? x.message}`);
  const lines = Object.entries(change).filter(([, list]) => list.length).map(([what, list]) => `${what}: ${list.map(name).join(", ")}`);
  return lines.length ? lines.join("\n") : dry ? "A reload would change nothing." : "Nothing has changed.";
}

function client(c) {
  const called = el("td", { "data-name": "Last call" });
  const kind = c.protocol >= MODERN ? "modern" : "legacy";
  return {
    node: el("tr", {}, el("th", { scope: "row" }, c.name || "without a name"), el("td", { "data-name": "Caller" }, c.toolset ? `${c.caller || "anonymous"}, toolset ${c.toolset}` : c.caller || "anonymous"), el("td", { "data-name": "Front" }, c.front || "–"),
      el("td", { "data-name": "Protocol" }, `${c.protocol} (${kind})`), el("td.mono", { "data-name": "Session" }, c.session || "–"), el("td", { "data-name": "Since" }, c.since ? clock(c.since) : "–"), el("td", { "data-name": "Extension" }, c.extension || "all"), called),
    update(c) {
      setText(called, c.last_call ? `${since(c.last_call)} ago` : "–");
      setAttr(called, "title", c.last_call ? clock(c.last_call) : null);
    },
  };
}

/** yaml writes plain data as YAML, for reading. */
function yaml(value, depth = 0) {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) return value.length ? value.map((v) => `${pad}- ${yaml(v, depth + 1).trimStart()}`).join("\n") : `${pad}[]`;
  if (value && typeof value === "object") {
    const keys = Object.entries(value);
    if (!keys.length) return `${pad}{}`;
    return keys.map(([k, v]) => (v && typeof v === "object" && Object.keys(v).length ? `${pad}${k}:\n${yaml(v, depth + 1)}` : `${pad}${k}: ${yaml(v).trim()}`)).join("\n");
  }
  return pad + (typeof value === "string" && !/^[\w./:~*-]+( [\w./:~*-]+)*$/.test(value) ? JSON.stringify(value) : String(value));
}
