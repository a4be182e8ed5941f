// What waits for a person: calls for an approval, programs to be trusted, and tools whose descriptors changed.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { json, plural, since, span } from "./format.js";
import { action, block, empty, panel, toast } from "./parts.js";
import { refresh, serves } from "./store.js";
import { get, post } from "./api.js";

export function approvals() {
  const waiting = el("div.cards");
  const rows = new Rows(waiting, request);
  const missing = el("div.cards");
  const silent = new Rows(missing, unlisted);
  const none = empty("Nothing waits for approval.", "Calls for which a policy wants approval appear here. They wait until you decide or they expire.");
  const held = panel("Changes that wait to be accepted");
  const pins = new Rows(held.body, pin);
  const programs = panel("Programs and settings that wait to be trusted");
  const untrusted = new Rows(put(programs.body, el("p.hint", {}, "They would run as the user of the host, with that user's files and network. A yes holds until a file of code changes.")).appendChild(el("div.cards")), (u) => program(u, look));
  let list = [], waits = [], asked = 0, looked = 0;
  async function load() {
    asked = Date.now();
    try {
      list = (await get("/pins")).pins.filter((p) => p.digest);
    } catch {
      list = []; // loaded again later
    }
  }
  async function look() { // reads every file of code
    looked = Date.now();
    try {
      waits = (await get("/trust")).items;
    } catch (e) {
      waits = [];
      toast(`trust: ${e.message}`, "bad");
    }
    refresh();
  }
  return {
    node: el("div.approvals", {}, el("h2.unseen", {}, "Calls that wait for approval"), missing, waiting, none, programs.node, held.node),
    shown: look,
    update(s) {
      if (Date.now() - asked > 10_000) load();
      if (Date.now() - looked > 10_000 && s.status?.runs.some((x) => x.state === "untrusted")) look();
      silent.update(s.silent, (n) => `${n.node} ${n.reason}`);
      rows.update(s.approvals, (q) => q.id);
      none.hidden = s.approvals.length + s.silent.length > 0;
      pins.update(list, (p) => `${p.extension}/${p.policy}/${p.label}/${p.digest}`);
      held.node.hidden = !list.length;
      untrusted.update(waits, (u) => u.digest);
      programs.node.hidden = !waits.length;
    },
  };
}

function unlisted(n) {
  return { node: el("div.trouble", {}, el("span.badge", { "data-tone": "warn" }, "missing"), el("b.title", {}, `Requests of node ${n.node}`), el("span.text", {}, n.reason)) };
}

function request(q) {
  const left = el("span.left"), bar = el("i"), state = el("small.state");
  const path = `/approvals/${encodeURIComponent(q.id)}`;
  const buttons = q.desk_only ? [el("small", {}, `Only operators of node ${q.desk} may answer; name this node in cluster.operators there.`)] : serves("post", "/approvals/{id}/approve")
    ? [action("Approve", () => post(path + "/approve"), { tone: "good" }), action("Deny", () => post(path + "/deny", {}), { tone: "bad" })]
    : [el("small", {}, `exthost calls approve ${q.id}`)];
  return {
    node: el("article.card", { tabindex: "0" }, el("header", {}, el("h3", {}, q.tool || q.method), left), el("div.time", {}, bar),
      el("p.reason", {}, el("b", {}, q.policy), ` asks: ${q.reason}`),
      el("p.who", {}, `${q.caller || "an anonymous caller"}${q.session ? `, session ${q.session}` : ""}${q.node ? ` of node ${q.node}` : ""}, ${since(q.since)} ago${q.desk ? `; waits at node ${q.desk}` : ""}`),
      block("Arguments", json(q.arguments, { lines: true })).node, el("footer", {}, ...buttons, state)),
    update(q) {
      const rest = Date.parse(q.expires) - Date.now();
      setText(left, rest > 0 ? `${span(rest)} left` : "expired");
      bar.style.width = `${Math.max(0, Math.min(100, (100 * rest) / (Date.parse(q.expires) - Date.parse(q.since))))}%`;
      setText(state, q.approved_by ? `approved by ${q.approved_by}, for the next attempt` : q.waiting ? (q.asked_in ? `asked in ${q.asked_in} too; the first answer counts` : "") : "the caller has disconnected; an approval applies to its next attempt");
      setAttr(left, "data-tone", rest < 30_000 ? "bad" : null);
    },
  };
}

/** program is the card of what must be trusted before it runs. */
function program(u, answered) {
  const lines = (title, list) => (list?.length ? [el("dt", {}, title), ...list.map((text) => el("dd", {}, text))] : []);
  const answer = u.reason ? el("p.reason", { "data-tone": "bad" }, u.reason)
    : action("Trust", () => post("/trust", { digest: u.digest }).finally(answered), { tone: "good", confirm: "Really run it?" });
  return { node: el("article.card", { tabindex: "0" }, el("header", {}, el("h3", {}, u.names.map((n) => (n === "." ? "configuration" : n)).join(", "))), el("p.who", {}, u.place),
    el("dl", {}, ...lines("changed", u.changes), ...lines("runs", u.runs), ...lines("asks", u.asks), ...lines("rules", u.rules), ...lines("warnings", u.warnings), ...lines("code", [plural(u.files, "file")])),
    el("footer", {}, answer, el("small", {}, "exthost trust shows the files"))) };
}

function pin(p) {
  const path = `/pins/${encodeURIComponent(p.extension)}/approve`;
  return { node: el("div.trouble", {}, el("span.badge", { "data-tone": "warn" }, !p.held ? "changed" : p.new ? "new, held back" : "held back"), el("a.title", { href: `#/extensions/${encodeURIComponent(p.extension)}` }, `${p.extension}: ${p.label}`),
    block("Difference", p.diff || "the approved descriptor is unknown").node, action("Approve", () => post(path, { digests: [p.digest] }), { confirm: "Really approve?" })) };
}
