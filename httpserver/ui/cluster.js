// The cluster that the host is in: whether it is heard, and the other nodes.

import { el, put, setText, Rows } from "./dom.js";
import { clock, count, duration, plural, since } from "./format.js";
import { badge, empty, panel, table } from "./parts.js";

const nodeTone = { ready: "good", away: "bad", leaving: "warn" };

/** cluster returns the panel about the cluster; hidden for a host in none. */
export function cluster() {
  const body = panel("Cluster"), about = el("p.hint"), list = table(".clients.nodes", ["Node", "State", "Version", "Shares", "Tools", "Approvals", "Out", "In", "Failed", "Round trip", "Note"]);
  const rows = new Rows(list.body, row);
  const nobody = empty("No other node is in the cluster.", "exthost cluster invite NODE makes the file that another host joins with.");
  put(body.body, about, list.node, nobody);
  body.node.hidden = true;
  return {
    node: body.node,
    update(c) {
      body.node.hidden = !c;
      if (!c) return;
      setText(about, summary(c));
      rows.update(c.nodes, (n) => n.name);
      list.node.hidden = !c.nodes.length;
      nobody.hidden = c.nodes.length > 0;
    },
  };
}

/** summary says whether the host is heard in its cluster. */
function summary(c) {
  const me = `${c.name}: this is ${c.node}`;
  if (!c.server) return `${me}, not connected: ${c.reason}. Calls of other nodes' tools fail; its own go on.`;
  if (c.reason) return `${me}, not heard: ${c.reason}`;
  const way = [c.rtt ? duration(c.rtt / 1e6) : "", c.tls ? "TLS" : "no TLS"].filter(Boolean).join(", ");
  return `${me}, ${plural(c.nodes.length + 1, "node")}, over ${c.server} (${way})`;
}

function row() {
  const state = badge((word) => nodeTone[word] ?? "rest"), name = el("th", { scope: "row" });
  const cell = (title) => el("td", { "data-name": title });
  const cells = { State: el("td", { "data-name": "State" }, state.node) };
  for (const title of ["Version", "Shares", "Tools", "Approvals", "Out", "In", "Failed", "Round trip", "Note"]) cells[title] = cell(title);
  return {
    node: el("tr", {}, name, ...Object.values(cells)),
    update(n) {
      setText(name, n.name);
      state.update(n.state);
      state.node.title = `since ${clock(n.since)}`;
      setText(cells.Version, n.version || "–");
      setText(cells.Shares, n.shares.map((s) => (s.as === "mine" ? s.extension : `${s.extension} (${s.as})`)).join(", ") || "–");
      setText(cells.Tools, String(n.tools));
      const waits = n.approvals ? `${count(n.approvals)} waiting` : "–";
      if (cells.Approvals.textContent !== waits) put(cells.Approvals, n.approvals ? el("a", { href: "#/approvals" }, waits) : waits);
      setText(cells.Out, String(n.calls_out));
      setText(cells.In, String(n.calls_in));
      setText(cells.Failed, String(n.failed));
      setText(cells["Round trip"], n.rtt ? duration(n.rtt / 1e6) : "–");
      setText(cells.Note, [n.state === "ready" ? "" : `${n.state} for ${since(n.since)}`, n.note].filter(Boolean).join("; ") || "–");
    },
  };
}
