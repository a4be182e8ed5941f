// Cassettes: one is recorded here or opened from a file, and stepped through.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { bytes, count, duration, json, plural } from "./format.js";
import { action, block, empty, filter, matches, table, toast } from "./parts.js";
import { facts } from "./extensions.js";
import { refresh } from "./store.js";
import { lines, post } from "./api.js";

const PAGE = 500; // rows
const MOST = 256 << 20; // bytes of a cassette that a page can hold

let current = { begun: 0, records: [] }; // the cassette that is open

/**
 * recordedCalls returns the last calls of tools of the open cassette, each as JSON text for the API: the messages are
 * not parsed, which would lose digits.
 */
export function recordedCalls(most) {
  return current.records.filter((r) => r.kind === "sent" && r.what.startsWith("tools/call ")).slice(-most).map((r) => {
    const head = JSON.stringify({ id: r.key, time: new Date(current.begun + r.at).toISOString(), extension: r.extension });
    const answer = r.answer === undefined ? "" : `,"received":${current.records[r.answer].raw}`;
    return `${head.slice(0, -1)},"sent":${r.raw}${answer}}`;
  });
}

export function recordings(nav) {
  const list = table(".calls-table.steps", ["Time", "What", "Extension", "Direction", "After"]);
  const rows = new Rows(list.body, (r) => row(r, nav));
  const file = el("input", { type: "file", accept: ".jsonl,application/jsonl", hidden: true, "aria-label": "Cassette", onchange: async () => open(file.files[0]) });
  const choose = el("button", { type: "button", onclick: () => file.click() }, "Open a file");
  const of = filter("Extension", [["", "all extensions"]], "ext");
  const toggle = el("button", { type: "button", onclick: () => (recording ? stop() : record()) }, "Record");
  const save = action("Save", async () => download());
  const about = el("span.total");
  const none = empty("No cassette is open.", "Record what passes between the host and its extensions, secrets masked, or open a file of exthost calls record.");
  const detail = details(nav);
  let records = [], text = [], only = "", recording = null, opened = 0;

  function load(all) {
    records = parse(all);
    current = { begun: Date.parse(JSON.parse(all.find((line) => line.trim())).begun), records };
    text = all;
    opened++;
    nav("#/recordings");
    refresh();
  }

  async function open(chosen) {
    if (!chosen) return;
    try {
      if (chosen.size > MOST) throw new Error(`${chosen.name} has ${bytes(chosen.size)}, and a page can hold ${bytes(MOST)}: exthost calls replay serves it`);
      load((await chosen.text()).split(/\r?\n/).slice(0, -1)); // a last line without its end was cut off
    } catch (e) {
      toast(`open: ${e.message}`, "bad");
    }
    file.value = "";
  }

  async function record() {
    const mine = (recording = { id: crypto.randomUUID(), lines: [] });
    setText(toggle, "Stop");
    try {
      await lines(`/record?id=${mine.id}&max_bytes=${MOST}` + (only ? `&extension=${encodeURIComponent(only)}` : ""), (line) => {
        mine.lines.push(line);
        setText(about, `recording, ${count(mine.lines.length)} lines`);
      });
    } catch (e) {
      toast(`record: ${e.message}`, "bad");
    }
    recording = null;
    setText(toggle, "Record");
    try {
      if (mine.lines.length) load(mine.lines);
    } catch (e) {
      toast(`record: ${e.message}`, "bad");
    }
  }

  const stop = () => post(`/record/stop?id=${recording.id}`).catch((e) => toast(`stop: ${e.message}`, "bad"));

  function download() {
    const url = URL.createObjectURL(new Blob(text.map((line) => line + "\n"), { type: "application/jsonl" }));
    el("a", { href: url, download: "cassette.jsonl" }).click();
    URL.revokeObjectURL(url);
  }

  return {
    node: el("div.calls-view", {}, el("div.scroll", {}, el("div.bar", {}, toggle, choose, file, of.node, save, about), list.node, none), detail.node),
    search: "Find words in the cassette",
    update(s, { query, rest, params }) {
      const ids = [...new Set([...records.map((r) => r.extension), ...(s.status?.runs ?? []).map((x) => x.id)])].filter(Boolean).sort();
      of.fill([["", "all extensions"], ...ids.map((id) => [id, id])]);
      only = of.read(params);
      const found = records.filter((r) => (!only || r.extension === only) && matches(query, r.what, r.raw));
      const place = found.findIndex((r) => String(r.key) === rest), from = Math.floor(Math.max(place, 0) / PAGE) * PAGE;
      rows.update(found.slice(from, from + PAGE), (r) => `${opened} ${r.key}`);
      if (!recording) setText(about, records.length ? `${count(found.length)} of ${count(records.length)} records` + (found.length > PAGE ? `, from ${count(from + 1)} on ${count(Math.min(PAGE, found.length - from))} are shown` : "") : "");
      none.hidden = records.length > 0;
      save.hidden = !records.length;
      list.node.hidden = !found.length;
      detail.update(found, place);
    },
  };
}

// A line of a cassette: its members before the payload, then the payload, whose bytes are kept as they are.
const shape = /^\{"at":(\d+)(?:,"run":(\d+))?(?:,"of":(?:"(?:[^"\\]|\\.)*"|[^,"]*))?,"(\w+)":(.*)\}$/s;

/** parse returns the records of a cassette, each with what it is about and the record that answers it. */
function parse(all) {
  const first = all.findIndex((line) => line.trim());
  if (first < 0 || JSON.parse(all[first]).cassette !== 1) throw new Error("this is no cassette of exthost calls record that this host can read");
  const runs = new Map(), open = new Map(), records = [];
  all.slice(first + 1).forEach((line, n) => {
    if (!line.trim()) return;
    const [, at, run = "", kind, raw] = shape.exec(line) ?? [];
    if (!kind) throw new Error(`line ${first + n + 2} is no record`);
    const payload = JSON.parse(raw);
    if (kind === "start") runs.set(run, payload.extension);
    const r = { key: records.length, at: Number(at) / 1000, kind, raw, extension: runs.get(run) ?? "", run, what: wordsOf(kind, payload) };
    if (kind === "sent" || kind === "received") pair(r, payload, open);
    records.push(r);
  });
  return records;
}

/** pair joins a response with its request, which went in the other direction. */
function pair(r, message, open) {
  if (message.id === undefined) return;
  const key = (direction) => `${r.run} ${direction} ${JSON.stringify(message.id)}`;
  if (message.method) return void open.set(key(r.kind), r);
  const request = open.get(key(r.kind === "sent" ? "received" : "sent"));
  r.failed = Boolean(message.error);
  r.what = message.error ? `error: ${message.error.message}` : "result";
  if (!request) return;
  open.delete(key(r.kind === "sent" ? "received" : "sent"));
  r.request = request.key;
  request.answer = r.key;
  r.what = `${message.error ? `error: ${message.error.message}` : "result"} of ${request.what}`;
  r.took = r.at - request.at;
}

/** wordsOf says what a record is about. */
function wordsOf(kind, payload) {
  switch (kind) {
    case "sent": case "received": return [payload.method, payload.params?.name ?? payload.params?.uri].filter((w) => typeof w === "string").join(" ") || "response";
    case "start": return "the run begins";
    case "offer": return `offers ${plural(payload.tools?.length ?? 0, "tool")}`;
    case "noise": return "a line that is no message";
    case "end": return ["the run ends", payload.message].filter((w) => typeof w === "string").join(": ");
    case "omitted": return "a message that was too long";
    case "closed": return `the recording ends: ${payload.reason ?? ""}`;
  }
  return kind;
}

const direction = (r) => (r.kind === "sent" ? "to the extension" : r.kind === "received" ? "from the extension" : "–");
const toneOf = (r) => (r.failed ? "bad" : r.kind === "sent" ? "busy" : r.kind === "received" ? "good" : "rest");

function row(r, nav) {
  const href = `#/recordings/${r.key}`;
  return {
    node: el("tr", { "data-tone": toneOf(r), onclick: (e) => { if (!e.target.closest("a")) nav(href); } }, el("td", {}, duration(r.at)), el("th", { scope: "row" }, el("a", { href }, r.what)),
      el("td", { "data-name": "Extension" }, r.extension || "–"), el("td", { "data-name": "Direction" }, direction(r)), el("td", { "data-name": "After" }, r.took === undefined ? "–" : duration(r.took))),
    update() {},
  };
}

/** details returns the side panel about one record, with the steps to those around it. */
function details(nav) {
  const title = el("h2"), body = el("div.body");
  const close = el("button.close", { type: "button", "aria-label": "Close", onclick: () => nav("#/recordings") }, "✕");
  let around = [];
  const step = (label, n) => el("button", { type: "button", onclick: () => nav(`#/recordings/${around[n]}`) }, label);
  const before = step("Previous", 0), after = step("Next", 1);
  const node = el("aside.details", { hidden: true, "aria-label": "Record" }, el("header", {}, title, close), el("div.actions", {}, before, after), body);
  let shown = null;
  return {
    node,
    update(found, place) {
      const r = found[place];
      node.hidden = !r;
      around = [found[place - 1]?.key, found[place + 1]?.key];
      [before.disabled, after.disabled] = around.map((key) => key === undefined);
      if (shown === r) return;
      shown = r;
      if (!r) return;
      setText(title, r.what);
      setAttr(node, "data-tone", toneOf(r));
      const link = (key, label) => key !== undefined && el("a", { href: `#/recordings/${key}` }, label);
      put(body, facts([["time", duration(r.at)], ["extension", r.extension], ["run", r.run], ["direction", direction(r)], ["after", r.took !== undefined && duration(r.took)], ["answers", link(r.request, "the request")], ["answered by", link(r.answer, "the response")]]),
        block("Record", json(r.raw, { lines: true })).node);
    },
  };
}
