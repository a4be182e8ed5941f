// Calls that wait for a person's approval, and tools whose descriptors changed.

import { el, setAttr, setText, Rows } from "./dom.js";
import { json, since, span } from "./format.js";
import { action, block, empty, panel } from "./parts.js";
import { serves } from "./store.js";
import { get, post } from "./api.js";

export function approvals() {
  const waiting = el("div.cards");
  const rows = new Rows(waiting, request);
  const none = empty("Nothing waits for approval.", "Calls for which a policy wants approval appear here. They wait until you decide or they expire.");
  const held = panel("Changes that wait to be accepted");
  const pins = new Rows(held.body, pin);
  let list = [], asked = 0;
  async function load() {
    asked = Date.now();
    try {
      list = serves("get", "/pins") ? (await get("/pins")).pins.filter((p) => p.digest) : [];
    } catch {
      list = []; // loaded again later
    }
  }
  return {
    node: el("div.approvals", {}, waiting, none, held.node),
    update(s) {
      if (Date.now() - asked > 10_000) load();
      rows.update(s.approvals, (q) => q.id);
      none.hidden = s.approvals.length > 0;
      pins.update(list, (p) => `${p.extension}/${p.policy}/${p.label}/${p.digest}`);
      held.node.hidden = !list.length;
    },
  };
}

function request(q) {
  const left = el("span.left"), bar = el("i"), state = el("small.state");
  const path = `/approvals/${encodeURIComponent(q.id)}`;
  const buttons = q.desk_only ? [el("small", {}, `Only operators of node ${q.desk} may answer; name this node in cluster.operators there.`)] : serves("post", "/approvals/{id}/approve")
    ? [action("Approve", () => post(path + "/approve"), { tone: "good" }), action("Deny", () => post(path + "/deny", {}), { tone: "bad" })]
    : [el("small", {}, `exthost approve ${q.id}`)];
  return {
    node: el("article.card", { tabindex: "0" }, el("header", {}, el("h3", {}, q.tool || q.method), left), el("div.time", {}, bar),
      el("p.reason", {}, el("b", {}, q.policy), ` asks: ${q.reason}`),
      el("p.who", {}, `${q.caller || "an anonymous caller"}${q.session ? `, session ${q.session}` : ""}${q.node ? ` of node ${q.node}` : ""}, ${since(q.since)} ago${q.desk ? `; waits at node ${q.desk}` : ""}`),
      block("Arguments", json(q.arguments, { lines: true })).node, el("footer", {}, ...buttons, state)),
    update(q) {
      const rest = Date.parse(q.expires) - Date.now();
      setText(left, rest > 0 ? `${span(rest)} left` : "expired");
      bar.style.width = `${Math.max(0, Math.min(100, (100 * rest) / (Date.parse(q.expires) - Date.parse(q.since))))}%`;
      setText(state, q.approved_by ? `approved by ${q.approved_by}, for the next attempt` : q.waiting ? "" : "the caller has disconnected; an approval applies to its next attempt");
      setAttr(left, "data-tone", rest < 30_000 ? "bad" : null);
    },
  };
}

function pin(p) {
  const path = `/pins/${encodeURIComponent(p.extension)}/approve`;
  return { node: el("div.trouble", {}, el("span.badge", { "data-tone": "warn" }, !p.held ? "changed" : p.new ? "new, held back" : "held back"), el("a.title", { href: `#/extensions/${encodeURIComponent(p.extension)}` }, `${p.extension}: ${p.label}`),
    block("Difference", p.diff || "the approved descriptor is unknown").node, action("Approve", () => post(path, { digests: [p.digest] }), { confirm: "Really approve?" })) };
}
