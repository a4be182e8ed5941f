// The log of the host, and what extensions write to stderr.

import { el, Rows } from "./dom.js";
import { clock } from "./format.js";
import { empty, filter, levelTone, matches } from "./parts.js";
import { setLevel } from "./store.js";

const levels = ["DEBUG", "INFO", "WARN", "ERROR"];

export function logs() {
  const list = el("ol.log");
  const rows = new Rows(list, row);
  const level = filter("Level", [["", "info and above"], ["WARN", "warnings and errors"], ["ERROR", "errors"], ["DEBUG", "debug, from now on"]], "level");
  const by = filter("Extension", [["", "host and extensions"]], "ext");
  const none = empty("Nothing to show.", "Choose another level or extension, or wait.");
  return {
    node: el("div", {}, el("div.bar", {}, level.node, by.node), list, none),
    search: "Find words in the log",
    update(s, { query, params }) {
      const ids = new Set([...(s.status?.runs ?? []).map((x) => x.id), ...s.logs.map((r) => r.extension).filter(Boolean)]);
      by.fill([["", "host and extensions"], ["-", "the host"], ...[...ids].sort().map((id) => [id, id])]);
      const ext = by.read(params), least = level.read(params) || "INFO";
      setLevel(least === "DEBUG" ? "debug" : "info");
      const shown = s.logs.filter((r) => rank(r.level) >= levels.indexOf(least) && (!ext || (ext === "-" ? !r.extension : r.extension === ext)) && matches(query, r.msg, r.extension ?? "", JSON.stringify(r.attrs ?? {})))
        .slice(0, 400);
      rows.update(shown, (r) => r.key);
      none.hidden = shown.length > 0;
    },
  };
}

const rank = (level) => (level.startsWith("ERROR") ? 3 : level.startsWith("WARN") ? 2 : level.startsWith("INFO") ? 1 : 0);

function row(r) {
  const attrs = Object.entries(r.attrs ?? {}).map(([k, v]) => el("span.attr", {}, el("b", {}, k), "=", typeof v === "string" ? v : JSON.stringify(v)));
  return {
    node: el("li", { "data-tone": levelTone(r.level) }, el("time", { datetime: r.time }, clock(r.time)), el("span.level", {}, r.level.slice(0, 5).toLowerCase()),
      el("span.who", {}, r.extension || "host"), el("span.said", {}, r.msg.slice(0, 4000), ...attrs)),
  };
}
