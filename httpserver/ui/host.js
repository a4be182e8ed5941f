// The host itself: its cluster, its clients, reload, watch, and the configuration in force.

import { clients } from "./clients.js";
import { cluster } from "./cluster.js";
import { el, put, setText } from "./dom.js";
import { bytes, plural, since } from "./format.js";
import { action, block, panel } from "./parts.js";
import { facts } from "./extensions.js";
import { get, post } from "./api.js";

export function host(nav) {
  const connected = clients(nav), nodes = cluster();
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
    node: el("div.host-view", {}, el("div.column", {}, nodes.node, connected.node, el("div.split", {}, el("div.column", {}, files.node, about.node), config.node)), connected.detail),
    search: null,
    shown: load,
    update(s, { rest, params }) {
      if (!s.status) return;
      connected.update(s, rest, params);
      nodes.update(s.status.cluster);
      const h = s.status.host;
      put(about.body, facts([["version", s.status.version], ["process", h ? `${h.pid}, up ${since(h.started_at)}, ${bytes(h.rss_bytes)}` : ""], 
        ["contains by", (s.status.containment.holds ?? []).join(", ")], ["not by", (s.status.containment.lacks ?? []).join("; ")],
        ["recordings", (s.status.recordings ?? []).map(recording).join("; ")],
        ["audit log", s.status.audit ? `${s.status.audit.path}${s.status.audit.reason ? `: ${s.status.audit.reason}` : ""}` : "none"]]));
    },
  };
}

/** recording says what is recorded, and since when. */
function recording(r) {
  const to = r.file ? `to ${r.file}` : "by exthost calls record or the dashboard", of = (r.extensions ?? []).length ? ` of ${r.extensions.join(", ")}` : "";
  return `${to}${of} for ${since(r.since)}, ${plural(r.records, "line")}${r.omitted ? `, ${plural(r.omitted, "frame")} left out` : ""}`;
}

/** words lists what a reload changes. */
function words(change, dry) {
  const name = (x) => (typeof x === "string" ? x : `${x.id ?? x.extension ?? x.path}: ${x.reason ?? x.message}`);
  const lines = Object.entries(change).filter(([, list]) => list.length).map(([what, list]) => `${what}: ${list.map(name).join(", ")}`);
  return lines.length ? lines.join("\n") : dry ? "A reload would change nothing." : "Nothing has changed.";
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
