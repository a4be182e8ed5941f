// What needs attention: faults of extensions, policies and files, and calls that wait for an answer.

import { el, setText } from "./dom.js";
import { clock, json, plural, retryText } from "./format.js";
import { action, badge, stateBadge, stateTone } from "./parts.js";
import { evidence } from "./extensions.js";
import { busy, refresh, serves } from "./store.js";
import { post } from "./api.js";

const urgency = { ask: 0, bad: 1, busy: 2, warn: 3 };
const RECENT = 5 * 60_000; // for which a crash is shown after the extension runs again
const LATE = 60_000;       // for which a call that timed out is shown
const FAILING = 3;         // calls in a row that fail until one succeeds

const dismissed = new Set(); // keys of past faults

/** ended names the way in which the run of an extension ended; the host's own replacement of a stuck process needs no attention. */
const ended = (x) => (x.last_crash.kind === "overloaded" ? "" : ["http", "sse"].includes(x.transport) ? "disconnected" : x.last_crash.pid ? "crashed" : "did not start");

const within = (time, span) => Date.now() - Date.parse(time) < span;

/** troublesOf returns all problems and pending approvals, the most urgent first. */
export function troublesOf(s) {
  const list = s.approvals.map((q) => ({
    key: "q" + q.id, tone: "ask", word: "waits", title: q.tool || q.method, text: `${q.policy} asks: ${q.reason}`, said: [json(q.arguments)], href: "#/approvals", next: q.desk_only ? `at node ${q.desk}: exthost calls approve ${q.id.split("/")[1]}` : `exthost calls approve ${q.id}`, asks: q.desk_only ? undefined : q.id,
  }));
  const workers = [...s.status.runs, ...(s.status.policies ?? []).flatMap((p) => p.process ?? [])];
  for (const x of workers) list.push(...troublesWith(x, s));
  list.push(...troublesInFiles(s, new Map(workers.map((x) => [x.id, x]))));
  for (const p of s.status.policies ?? []) if (!p.process && !["ready", "disabled"].includes(p.state)) {
    list.push({ key: "y" + p.name, state: p.state, tone: p.required ? "bad" : "warn", title: p.name, href: "#/governance", text: p.reason || "the reason is not known yet", next: "exthost policy list" });
  }
  for (const p of s.status.policies ?? []) for (const d of p.diagnostics ?? []) {
    list.push({ key: "p" + p.name + d.message, tone: "warn", word: "without effect", title: p.name, href: "#/governance", text: advice(d), next: "exthost policy list" });
  }
  for (const d of s.status.diagnostics) if (d.level === "warn" && !d.extension && !d.path) {
    list.push({ key: "w" + d.message, tone: "warn", word: d.code.replaceAll("_", " "), title: "configuration", href: "#/host", text: advice(d), next: "exthost check" });
  }
  return list.filter((t) => !dismissed.has(t.key)).sort((a, b) => urgency[a.tone] - urgency[b.tone]);
}

const advice = (d) => d.message + (d.hint ? ` → ${d.hint}` : "");

/** troublesInFiles returns one problem for each broken file: its errors are mended together. */
function troublesInFiles(s, workers) {
  const errors = s.status.diagnostics.filter((d) => {
    const x = workers.get(d.extension);
    return d.level === "error" && (!x || d.code === "manifest_invalid" && !["skipped", "untrusted"].includes(x.state));
  });
  return [...Map.groupBy(errors, (d) => `${d.code} ${d.path ?? d.message}`)].map(([key, of]) => {
    const [{ code, extension, path = "" }] = of;
    const config = code === "config_invalid" && !extension, parts = path.split(/[\\/]/);
    const place = (d) => parts.slice(-3).join("/") + (d.line ? `:${d.line}${d.column ? `:${d.column}` : ""}: ` : path && ": ");
    const stays = config ? "The configuration before it stays in force." : workers.get(extension)?.state === "ready" ? "The build before it runs." : "";
    return { key: "d" + key, tone: "bad", word: config ? "not in force" : code.replaceAll("_", " "), hover: path,
      title: config ? "configuration" : extension || parts.at(-2) || code, href: workers.has(extension) ? `#/extensions/${encodeURIComponent(extension)}` : null,
      text: [...of.map((d) => place(d) + advice(d)), stays].filter(Boolean).join("\n"), next: config ? "exthost reload" : "exthost validate" };
  });
}

/** troublesWith returns the problems of an extension, each with reason, last output and next step. */
function troublesWith(x, s) {
  const about = { title: x.id, href: `#/extensions/${encodeURIComponent(x.id)}` };
  const list = [];
  const runs = ["ready", "idle"].includes(x.state);
  if (x.login) { // the command is the last words; the text before says why
    const [, why, command] = x.login.match(/^needs login(?:, because )?(.*): (exthost .*)$/s) ?? [, x.login, `exthost secret login ${x.id}`];
    list.push({ ...about, key: "l" + x.id, tone: "warn", word: "needs login", text: why || "its server wants one", next: command });
  } else if (!runs && x.state !== "disabled") {
    const hint = s.status.diagnostics.find((d) => d.extension === x.id && d.hint && d.level !== "info")?.hint;
    const command = /^exthost [\w. -]+$/.test(hint ?? "") ? hint : null;
    const retry = (x.instances ?? []).find((i) => i.next_retry)?.next_retry;
    list.push({ ...about, key: "x" + x.id, state: x.state, tone: stateTone[x.state] in urgency ? stateTone[x.state] : "warn", said: evidence(x)?.stderr,
      text: (x.reason || "the reason is not known yet") + (retry ? `; ${retryText(retry)}` : "") + (hint && !command ? ` → ${hint}` : ""),
      next: command ?? (x.state === "untrusted" ? `exthost trust ${x.id}` : x.state === "skipped" ? (hint ? "exthost reload" : `exthost status ${x.id}`) : `exthost logs ${x.id}`), restart: x.state === "failed" ? x.id : null });
  } else if (x.last_crash && ended(x) && within(x.last_crash.time, RECENT)) {
    list.push({ ...about, key: "c" + x.id + x.last_crash.time, tone: "warn", word: ended(x), said: evidence(x)?.stderr, next: `exthost logs ${x.id}`, past: true,
      text: `${x.last_crash.reason}; at ${clock(x.last_crash.time)}, and ${x.state} again` });
  }
  const f = x.last_failure, late = f?.kind === "call_timeout" && within(f.time, LATE);
  if (runs && f && (late || x.failed_in_row >= FAILING)) {
    const hangs = f.kind === "call_timeout" && x.transport !== "exec"; // the process of an exec tool has ended
    list.push({ ...about, key: "f" + x.id + f.time, tone: x.failed_in_row >= FAILING ? "bad" : "warn", word: f.kind === "call_timeout" ? "timed out" : "calls fail", past: true,
      text: [`${f.tool ? `${f.tool}: ` : ""}${f.reason}`, `at ${clock(f.time)}`, x.failed_in_row > 1 && `${plural(x.failed_in_row, "call")} in a row`, busy(x) && `${plural(busy(x), "call")} in flight or queued`].filter(Boolean).join("; "),
      next: hangs ? `exthost restart ${x.id}` : `exthost logs ${x.id}`, restart: hangs ? x.id : null });
  }
  const changed = s.status.diagnostics.find((d) => d.extension === x.id && d.code === "descriptor_changed" && d.level === "warn");
  if (changed) list.push({ ...about, key: "t" + x.id, tone: "warn", word: "tools changed", text: changed.message.replace(/^tools changed: /, ""), next: `exthost tools accept ${x.id}` });
  const open = (x.instances ?? []).find((i) => i.breaker && i.breaker !== "closed");
  if (open) list.push({ ...about, key: "b" + x.id, tone: "bad", word: `breaker ${open.breaker.replace("_", " ")}`, next: `exthost logs ${x.id}`, restart: x.id,
    text: (open.reason || x.reason || "calls fail one after another") + (open.next_probe ? `; next probe at ${clock(open.next_probe)}` : "") });
  return list;
}

/** trouble makes the row of a problem. */
export function trouble(t) {
  const mark = t.state ? stateBadge() : badge(() => t.tone);
  const text = el("span", { title: t.hover }), said = el("code.said", { hidden: true }), next = el("code.next", { title: "the command to run next" });
  const title = t.href ? el("a.title", { href: t.href }, t.title) : el("span.title", {}, t.title);
  const restart = t.restart && serves("post", "/extensions/{id}/restart")
    ? action("Restart", () => post(`/extensions/${encodeURIComponent(t.restart)}/restart`)) : null;
  const path = `/approvals/${encodeURIComponent(t.asks)}`;
  const answers = t.asks && serves("post", "/approvals/{id}/approve")
    ? [action("Approve", () => post(path + "/approve"), { tone: "good", confirm: "Really approve?" }), action("Deny", () => post(path + "/deny", {}), { tone: "bad" })] : null;
  const dismiss = t.past ? el("button", { type: "button", "aria-label": `Dismiss ${t.title}: ${t.word}`, onclick: () => { dismissed.add(t.key); refresh(); } }, "Dismiss") : null;
  return {
    node: el("div.trouble", {}, mark.node, title, el("span.text", {}, text, said), el("span.do", {}, next, restart, answers, dismiss)),
    update(now) {
      mark.update(now.state ?? now.word);
      setText(text, now.text);
      const last = (now.said ?? []).filter((line) => line && !/^npm (notice|warn)|A complete log of this run can be found in/.test(line)).slice(-2).join("\n").slice(0, 400);
      setText(said, last);
      said.hidden = !last;
      setText(next, now.next ?? "");
      next.hidden = !now.next;
    },
  };
}
