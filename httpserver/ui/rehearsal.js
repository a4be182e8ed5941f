// A dry run of one policy on the calls that the host has kept.

import { el, put, setText } from "./dom.js";
import { clock, count, duration, json, plural } from "./format.js";
import { action, block, choose, fill, labelled, panel, table } from "./parts.js";
import { recordedCalls } from "./recordings.js";
import { postText } from "./api.js";

const ENTRY = ""; // the choice of an entry; no policy has this name
const RECORDING = "recording"; // the choice of the open cassette
const MOST = 1000; // calls of a cassette

const example = `name: no_rm\ncategory: authorization\nbuiltin: access\nconfig:\n  rules:\n    - { effect: deny, tools: ["*_rm"] }\n`;
const effects = { deny: "denied", modify: "changed", respond: "answered by the policy", ask: "asked about" };

/** rehearsal returns the panel in which a policy decides about the calls of the past. */
export function rehearsal() {
  const policy = labelled("Policy", el("select"), "Of the configuration, or an entry that is not in it yet.");
  const entry = labelled("Entry of plugins", el("textarea", { rows: "7", spellcheck: "false" }, example), "One entry in YAML, of a built-in policy.");
  const choices = [["", "all that the host has kept, at most 256"], ["100", "the last 100"], ["20", "the last 20"], [RECORDING, `those of the open recording, at most ${count(MOST)}`]];
  const last = labelled("Calls", choose(choices), "Those that clients have made, or those of the cassette that is open under Recordings.");
  const wrong = el("p.reason", { "data-tone": "bad", role: "alert", hidden: true }), result = el("div.result", { "aria-live": "polite" });
  const run = action("Dry run", async () => {
    const name = policy.input.value;
    wrong.hidden = true;
    put(result);
    try {
      const recorded = last.input.value === RECORDING;
      const asked = JSON.stringify({ ...(name === ENTRY ? { entry: entry.input.value } : { policy: name }), ...(recorded ? {} : { last: Number(last.input.value) || 0 }) });
      const body = recorded ? `${asked.slice(0, -1)},"calls":[${recordedCalls(MOST).join(",")}]}` : asked;
      put(result, ...shown(JSON.parse(await postText("/policies/rehearse", body)), recorded));
    } catch (e) {
      wrong.hidden = false;
      setText(wrong, e.message);
      throw e;
    }
  });
  const p = panel("Dry run on recorded calls", el("p.hint", {}, "One policy decides about the latest calls, as in mode enforce. Nothing is called, and nothing is recorded."),
    el("div.fields", {}, policy.node, last.node), entry.node, el("div.actions", {}, run), wrong, result);
  const chosen = () => { entry.node.hidden = policy.input.value !== ENTRY; };
  policy.input.addEventListener("change", chosen);
  return { node: p.node, update(s) {
    const names = (s.status.policies ?? []).filter((x) => x.builtin !== "audit_log").map((x) => x.name);
    fill(policy.input, [...names.map((n) => [n, n]), [ENTRY, "an entry to paste"]]);
    chosen();
  } };
}

/** shown returns what a rehearsal has found. */
function shown(r, recorded) {
  if (!r.calls && !r.skipped && !r.left) {
    return [recorded ? el("p.empty", {}, "No call of a tool is in an open recording.", el("span", {}, "Record under Recordings, or open there a file of exthost calls record FILE."))
      : el("p.empty", {}, "No call has ended since the host was started.", el("span", {}, "The host keeps calls as clients make them. exthost calls record FILE writes them into a file, which Recordings opens."))];
  }
  const parts = [["denied", r.denied], ["changed or answered", r.changed], ["asked about", r.asked], ["not decided", r.failed]].filter(([, n]) => n).map(([what, n]) => `${count(n)} ${what}`);
  const notes = [r.skipped && `${plural(r.skipped, "call")} had arguments too long to be kept whole, and were left out`,
    r.skipped_results && `${plural(r.skipped_results, "result")} were too long to be kept whole: only the request was looked at`,
    r.left && `${plural(r.left, "call")} were left when the time of 10 s was over`, r.note].filter(Boolean);
  const list = table(".rehearsed", ["Time", "Call", "Would be", "Reason", "Was"]);
  put(list.body, ...r.otherwise.map((d) => row(d, recorded ? "recordings" : "calls")));
  return [el("p.reason", { "data-tone": parts.length ? "warn" : "good" }, `${plural(r.calls, "call")}: ${parts.join(", ") || "all pass unchanged"} (${duration(r.took_ms)})`),
    ...notes.map((n) => el("p.hint", {}, n)), r.otherwise.length ? list.node : null];
}

function row(d, view) {
  const what = `${effects[d.action] ?? "not decided"}${d.flow === "response" ? ", at its result" : ""}`;
  const after = d.changed && el("details", {}, el("summary", {}, d.flow === "response" || d.action === "respond" ? "the result then" : "the params then"), block("After the change", json(d.changed.text, { lines: true })).node);
  return el("tr", {}, el("td", {}, el("time", { datetime: d.time }, clock(d.time))), el("th", { scope: "row" }, el("a", { href: `#/${view}/${d.id}` }, d.tool || d.method), d.caller && el("small", {}, ` by ${d.caller}`)),
    el("td", { "data-name": "Would be" }, what), el("td.note", {}, [d.code, d.reason].filter(Boolean).join(": "), after), el("td", { "data-name": "Was" }, d.outcome.replaceAll("_", " ")));
}
