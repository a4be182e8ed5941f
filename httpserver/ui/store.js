// The state of the host, updated by its events.

import { get, listen, Unauthorized } from "./api.js";

const POINTS = 150; // of each curve: five minutes
const KEPT = { calls: 500, logs: 1000, denials: 100, news: 50 };

export const store = {
  phase: "connecting", // connecting, live, lost, locked
  status: null,        // the last one; its runs are extensions and destinations
  heard: 0,            // when it came, in ms; another is due every two seconds
  tools: [],
  approvals: [],
  silent: [],          // nodes whose approval requests are missing
  paths: {},           // of the API, from its OpenAPI document
  calls: [], logs: [], denials: [], news: [], // the newest first
  history: null,       // counts of the last hour, from the host
  missed: 0,           // events that arrived too fast to be sent
  curves: { rate: [], p95: [] }, // since the page was opened
  activity: new Map(), // calls per second of each extension
};

const subscribers = new Set();
let due = 0;

/** subscribe adds a callback for changes of the store, at most four times a second. */
export const subscribe = (callback) => subscribers.add(callback);

export function changed() {
  if (due) return;
  due = setTimeout(() => requestAnimationFrame(() => {
    due = 0;
    for (const callback of subscribers) callback(store);
  }), 250);
}

/** refresh calls all subscribers at once, after an action of the user. */
export function refresh() {
  for (const callback of subscribers) callback(store);
}

function keep(list, item, limit) {
  list.unshift(item);
  if (list.length > limit) list.length = limit;
}

let sequence = 0;

const handlers = {
  status(s) {
    s.runs = [...s.extensions, ...(s.destinations ?? []).map((d) => ({ ...d, version: "destination", bridged: true, reason: d.refuses || d.reason }))];
    sample(store.status, s);
    store.status = s;
    store.heard = Date.now();
  },
  call(e) {
    store.missed += e.lost ?? 0;
    const call = { ...e.call, time: e.time, key: e.call.id };
    recent.push(call.took_ms);
    keep(store.calls, call, KEPT.calls);
    if (isDenial(call)) keep(store.denials, call, KEPT.denials);
  },
  log(r) {
    store.missed += r.lost ?? 0;
    keep(store.logs, { ...r, key: ++sequence }, KEPT.logs);
  },
  state: (e) => keep(store.news, { ...e, key: ++sequence }, KEPT.news),
  breaker: (e) => keep(store.news, { ...e, key: ++sequence }, KEPT.news),
  reload: (e) => keep(store.news, { ...e, key: ++sequence }, KEPT.news),
  approvals(e) { [store.approvals, store.silent] = [e.approvals, e.silent ?? []]; },
  tools: () => loadTools(),
};

const isDenial = (call) => ["rejected", "governance_unavailable", "descriptor_changed", "untrusted"].includes(call.outcome);

let recent = []; // latencies since the last sample
let last = null; // {time, calls, each} of the last sample

/** sample adds a point to the curves, at most one every 1.5 s. */
function sample(before, s) {
  const time = performance.now();
  const each = new Map(s.runs.map((x) => [x.id, x.requests]));
  const sum = (of) => s.runs.reduce((n, x) => n + of(x), 0);
  const point = { time, calls: sum((x) => x.requests), each };
  if (last && time - last.time < 1500) return;
  if (last && before) {
    const seconds = (time - last.time) / 1000;
    const calls = Math.max(0, point.calls - last.calls);
    push(store.curves.rate, calls / seconds);
    push(store.curves.p95, quantile(recent, 0.95));
    for (const [id, n] of each) {
      if (!store.activity.has(id)) store.activity.set(id, []);
      push(store.activity.get(id), Math.max(0, n - (last.each.get(id) ?? n)) / seconds);
    }
    recent = [];
  }
  last = point;
}

function push(curve, value) {
  curve.push(value);
  if (curve.length > POINTS) curve.shift();
}

function quantile(values, q) {
  if (!values.length) return null;
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

const DUE = 7000; // ms without a status after which the host is taken for frozen: three were due

/** verdict returns that of the host, or that the host does not answer; null before its first status. */
export function verdict() {
  const s = store.status, since = new Date(store.heard).toLocaleTimeString("en-GB", { hour12: false });
  const silent = (why) => ({ word: "NO CALL PASSES", text: `NO CALL PASSES: ${why}; next: exthost status in the directory of the host` });
  if (!s) return null;
  if (store.phase === "lost") return silent(`the connection to the host is lost, the last status is of ${since}`);
  if (store.phase === "live" && Date.now() - store.heard > DUE) return { ...silent(`the host is frozen: its status is due every 2 s, and none came since ${since}`), frozen: true };
  return s.verdict;
}

/** failed returns the requests to an extension that failed, were refused or had invalid arguments. */
export const failed = (x) => x.errors + x.refused + x.invalid_arguments;

/** busy returns the calls of an extension in flight and queued. */
export const busy = (x) => (x.instances ?? []).reduce((n, i) => n + i.in_flight + i.queued, 0);

/** memory returns the bytes of all processes of an extension. */
export const memory = (x) => (x.instances ?? []).reduce((n, i) => n + (i.rss_bytes ?? 0), 0);

async function loadTools() {
  store.tools = (await get("/tools")).tools;
  changed();
}

/** loadPast reads what the host has kept from before the page was opened. */
async function loadPast() {
  const kept = (await get("/calls")).calls.map((c) => ({ ...c, key: c.id }));
  store.calls = kept.slice(0, KEPT.calls);
  store.denials = kept.filter(isDenial).slice(0, KEPT.denials);
  await loadHistory();
}

/** loadHistory reads the counts of the last hour, and of the tools, again. */
export async function loadHistory() {
  [store.history, { tools: store.tools }] = await Promise.all([get("/history"), get("/tools")]);
  changed();
}

let level = "info";
let stream = null; // aborted to restart it

/** setLevel sets the lowest level of the log. */
export function setLevel(wanted) {
  if (wanted === level) return;
  level = wanted;
  stream?.abort();
}

/**
 * run updates the store and reconnects after failures. When the host rejects the token,
 * unlock() is awaited, which has the user enter another one.
 */
export async function run(unlock) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    stream = new AbortController();
    try {
      store.paths = (await get("/openapi.json")).paths;
      await loadPast();
      store.logs = [];
      store.phase = "live";
      wait = 500;
      await listen(`/events?last=300&level=${level}`, (kind, data) => {
        handlers[kind]?.(data);
        changed();
      }, stream.signal);
    } catch (error) {
      if (stream.signal.aborted) continue; // setLevel restarts the stream
      if (error instanceof Unauthorized) {
        store.phase = "locked";
        refresh();
        await unlock();
        store.phase = "connecting";
        refresh();
        wait = 500;
        continue;
      }
    }
    store.phase = "lost";
    last = null;
    refresh();
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** serves reports whether the host's API has an operation. */
export const serves = (method, path) => Boolean(store.paths["/api/v1" + path]?.[method]);
