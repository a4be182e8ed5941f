// The policies by category, their denials, and the steps of one decision.

import { el, setAttr, put, setText, Rows } from "./dom.js";
import { clock, count, duration, json } from "./format.js";
import { action, badge, block, empty, filter, matches, panel, stateBadge, table } from "./parts.js";
import { facts } from "./extensions.js";
import { rehearsal } from "./rehearsal.js";
import { serves } from "./store.js";
import { get, postText } from "./api.js";

const stages = ["observability", "authentication", "authorization", "rate_limiting", "validation", "content", "audit"];

export function governance() {
  const columns = stages.map(stage);
  const denials = panel("Denials");
  const list = table(".denials", ["Time", "Call", "Policy", "Code", "Reason", "Decision"]);
  const rows = new Rows(list.body, denial);
  const none = empty("Nothing was denied.", "Calls that policies deny appear here, with the reason.");
  put(denials.body, list.node, none);
  const trial = tester(), log = auditLog(), dry = rehearsal();
  const explained = el("div.explained", { hidden: true });
  let past = null, asked = 0;
  async function load() { // denials from before the page was opened
    asked = Date.now();
    try {
      past = serves("get", "/decisions") ? (await get("/decisions?last=200")).decisions.filter((d) => d.verdict?.action === "deny").map(fromTrace) : [];
    } catch {
      past = null; // loaded again later
    }
  }
  return {
    node: el("div.governance", {}, el("h2.unseen", {}, "Policies"), el("div.stages", {}, ...columns.map((c) => c.node)), denials.node, explained, el("div.split", {}, log.node, trial.node), dry.node),
    search: "Find denials by tool, policy, code or reason",
    update(s, { query, rest, params }) {
      if (!s.status) return;
      log.update(s, params);
      trial.update(s);
      dry.update(s);
      if (past === null && Date.now() - asked > 10_000) load();
      for (const c of columns) c.update((s.status.policies ?? []).filter((p) => p.category === c.name));
      const known = new Set(s.denials.map((d) => d.decision_id));
      const all = [...s.denials, ...(past ?? []).filter((d) => !known.has(d.decision_id))].filter((d) => matches(query, d.tool ?? "", d.method, d.policy ?? "", d.code ?? "", d.message ?? "", d.caller ?? "", d.decision_id ?? ""));
      rows.update(all.slice(0, 100), (d) => d.decision_id || d.key);
      none.hidden = all.length > 0;
      explain(explained, rest);
    },
  };
}

/** fromTrace returns a denial in the form that events have. */
const fromTrace = (d) => ({
  time: d.time, tool: d.tool, method: d.method, caller: d.caller, policy: d.verdict.policy, code: d.verdict.code, decision_id: d.id,
  message: d.steps.findLast((step) => step.policy === d.verdict.policy && step.reason)?.reason ?? "",
});

function stage(name) {
  const list = el("div.policies");
  const rows = new Rows(list, policy);
  const none = el("small.none", {}, "–");
  return {
    name,
    node: el("section.stage", {}, el("h3", {}, name.replace("_", " ")), list, none),
    update(policies) {
      rows.update(policies, (p) => p.name);
      none.hidden = policies.length > 0;
    },
  };
}

function policy(p) {
  const state = stateBadge(), mode = badge((m) => (m === "shadow" ? "busy" : "rest")), numbers = el("span.numbers"), time = el("small"), reason = el("small.reason");
  return {
    node: el("article.policy", {}, el("header", {}, el("strong", {}, p.name), state.node), el("div.kind", {}, p.builtin || p.kind, p.required ? null : " · optional"), mode.node, numbers, time, reason),
    update(p) {
      state.update(p.state);
      mode.update(p.mode);
      setAttr(mode.node, "hidden", p.mode === "shadow" ? null : "");
      const sum = (key) => (p.calls ?? []).reduce((n, c) => n + c[key], 0);
      const rejected = sum("rejected") + sum("shadow"), failed = sum("plugin_error"), asked = sum("continue") + sum("rejected") + failed;
      setText(numbers, asked ? `${count(asked)} decisions, ${p.mode === "shadow" ? `would deny ${count(rejected)}` : `${count(rejected)} denied`}${failed ? `, ${count(failed)} errors` : ""}` : "no decisions yet");
      setAttr(numbers, "data-tone", failed ? "bad" : rejected ? "warn" : null);
      const slowest = (p.calls ?? []).map((c) => c.latency).filter(Boolean).toSorted((a, b) => b.p95_ms - a.p95_ms)[0];
      setText(time, slowest ? `${duration(slowest.p50_ms)} / ${duration(slowest.p95_ms)}` : "");
      setText(reason, [p.state === "ready" ? "" : p.reason, ...(p.diagnostics ?? []).map((d) => d.message + (d.hint ? ` → ${d.hint}` : ""))].filter(Boolean).join("; "));
    },
  };
}

function denial(d) {
  const id = d.decision_id ?? "";
  return {
    node: el("tr", {}, el("td", {}, el("time", { datetime: d.time }, clock(d.time))), el("th", { scope: "row" }, d.tool || d.method, d.caller ? el("small", {}, ` by ${d.caller}`) : null),
      el("td", { "data-name": "Policy" }, d.policy || "–"), el("td", { "data-name": "Code" }, d.code || d.outcome), el("td.note", {}, d.message),
      el("td", { "data-name": "Decision" }, id && serves("get", "/decisions/{id}") ? el("a", { href: `#/governance/${id}` }, id) : id)),
  };
}

let explaining = null;

/** explain shows each step of one decision. */
function explain(box, id) {
  if (!id) {
    box.hidden = true;
    explaining = null;
    return;
  }
  if (explaining === id) return;
  explaining = id;
  get(`/decisions/${encodeURIComponent(id)}`).then((t) => {
    if (explaining !== id) return;
    const p = panel(`Decision ${t.id}`, ...steps(t));
    reveal(p);
  }, (e) => explaining === id && reveal(panel(`Decision ${id}`, el("p", {}, e.message))));
  function reveal(p) {
    box.hidden = false;
    put(p.extra, el("a", { href: "#/governance" }, "close"));
    put(box, p.node);
    box.scrollIntoView({ block: "nearest" });
  }
}

/** answered says who answered an approval request, where and after how long. */
const answered = (a) => `${a.by}${a.where === "client" ? " in the client" : ""}${a.answered_after_ms ? `, after ${duration(a.answered_after_ms)}` : ""}`;

/** steps returns the facts of a decision, and what each policy said. */
const steps = (t) => [
  facts([["call", t.tool || t.method], ["caller", t.caller], ["session", t.session], ["node", t.node], ["decision there", t.origin], ["took", duration(t.took_ms)], ["forwarded", t.sent ? "yes" : "no"],
    ["verdict", [t.verdict?.action, t.verdict?.policy && `by ${t.verdict.policy}`, t.verdict?.code, t.verdict?.by && `answered by ${answered(t.verdict)}`].filter(Boolean).join(" ")]]),
  el("ol.steps", {}, ...(t.steps ?? []).map((s) => el("li", { "data-tone": { rejected: "warn", plugin_error: "bad" }[s.outcome] ?? "good" },
    el("b", {}, s.policy), ` ${s.flow}, ${s.category.replace("_", " ")}: ${s.action || s.outcome}${s.ignored ? " (without effect)" : ""}${s.reason ? `, ${s.reason}` : ""}${s.by ? `, answered by ${answered(s)}` : ""} `, el("small", {}, duration(s.latency_ms))))),
];

/** tester returns a panel in which policies decide about a call that is not made. */
function tester() {
  const names = el("datalist", { id: "tool-names" }), tool = el("input", { list: "tool-names", "aria-label": "Tool", placeholder: "tool", autocomplete: "off", spellcheck: "false" });
  const caller = el("input", { "aria-label": "Caller", placeholder: "caller, empty: anonymous", autocomplete: "off", spellcheck: "false" });
  const args = el("textarea", { "aria-label": "Arguments", rows: "3", spellcheck: "false" }, "{}"), result = el("div.result");
  const test = action("Test", async () => {
    JSON.parse(args.value); // reports the place of a syntax error
    const call = JSON.stringify({ tool: tool.value, caller: caller.value });
    const r = JSON.parse(await postText("/policies/test", `${call.slice(0, -1)},"arguments":${args.value}}`));
    put(result, el("p.reason", { "data-tone": r.error ? "bad" : "good" }, r.error ? r.error.message : "The call would be made."), ...steps(r.trace));
  });
  const p = panel("Test the policies", el("p.hint", {}, "The policies decide about this call. It is not made."), el("div.fields", {}, tool, caller, names), args, el("div.actions", {}, test), result);
  let known = null;
  return { node: p.node, update(s) {
    if (known === s.tools) return;
    known = s.tools;
    put(names, ...s.tools.map((t) => el("option", { value: t.name })));
  } };
}

/** auditLog returns a panel with the latest records of the audit log. */
function auditLog() {
  const p = panel("Audit log"), list = table(".audit", ["Time", "Call", "Caller", "Outcome", "Policy", "Note"]);
  const rows = new Rows(list.body, record), none = empty("No record.", "");
  const what = filter("Records", [["", "every record"], ["true", "denied only"]], "denied");
  const within = filter("Time", [["", "any time"], ["15", "the last 15 minutes"], ["60", "the last hour"], ["1440", "the last day"], ["10080", "the last week"]], "minutes");
  put(p.body, el("div.bar", {}, what.node, within.node), list.node, none);
  let asked = 0, wanted = "", configured = null;
  async function load(params) {
    const asks = new URLSearchParams({ last: 60, denied: what.read(params) || false });
    const minutes = Number(within.read(params));
    if (minutes) asks.set("since", new Date(Date.now() - 60_000 * minutes).toISOString());
    try {
      const { records } = await get(`/audit?${asks}`);
      if (params.toString() !== wanted) return; // asked again meanwhile
      rows.update(records.toReversed(), (r) => r.seq);
      list.node.hidden = !records.length;
      none.hidden = records.length > 0;
      setText(none, configured ? "No record." : "No audit log is kept: audit.path of the configuration is not set.");
    } catch (e) {
      none.hidden = false;
      setText(none, e.message);
    }
  }
  return { node: p.node, update(s, params) {
    configured = s.status.audit;
    if (Date.now() - asked < 10_000 && params.toString() === wanted) return;
    asked = Date.now();
    wanted = params.toString();
    load(params);
  } };
}

function record(r) {
  const note = [r.error, r.approved_by && `answered by ${answered({ ...r, by: r.approved_by, where: r.answered_in })}`, r.code].filter(Boolean).join(" · ");
  const carried = [["Request", r.request], ["Response", r.response]].filter(([, p]) => p?.json || p?.cut)
    .map(([name, p]) => el("details", {}, el("summary", {}, `${name}, ${count(p.bytes)} bytes`), block(name, p.cut || json(JSON.stringify(p.json), { lines: true })).node));
  return { node: el("tr", {}, el("td", {}, el("time", { datetime: r.time }, clock(r.time))), el("th", { scope: "row" }, r.tool || r.method), el("td", { "data-name": "Caller" }, r.caller || "–"),
    el("td", { "data-name": "Outcome" }, r.outcome), el("td", { "data-name": "Policy" }, r.policy || "–"), el("td.note", {}, note, ...carried)) };
}
