// The counts of the last hours, in the columns of charts.

import { timeChart } from "./chart.js";
import { count, duration } from "./format.js";

/** The axes of charts: how many columns, and the milliseconds of each. */
export const LAST_HOUR = { count: 60, step: 60_000 }, LAST_HOURS = { count: 72, step: 300_000 };

const counted = ["calls", "good", "denied", "errors", "tool_errors"];

/** columnsOf adds the steps of a history up to the columns of an axis, null for those of which the host knows nothing. */
export function columnsOf(history, axis) {
  const columns = new Array(axis.count).fill(null), now = Date.now();
  for (const p of history?.points ?? []) {
    const i = axis.count - 1 - Math.floor((now - Date.parse(p.time)) / axis.step);
    if (i < 0 || i >= axis.count) continue;
    const m = (columns[i] ??= { calls: 0, good: 0, denied: 0, errors: 0, tool_errors: 0 });
    const good = p.calls - p.denied - p.errors - p.tool_errors;
    for (const key of counted) m[key] += key === "good" ? good : p[key];
    if (p.memory_bytes) m.memory = Math.max(m.memory ?? 0, p.memory_bytes), m.busy = Math.max(m.busy ?? 0, p.in_flight ?? 0);
    if (p.latency) m.p50 = Math.max(m.p50 ?? 0, p.latency.p50_ms), m.p95 = Math.max(m.p95 ?? 0, p.latency.p95_ms);
  }
  return columns;
}

/** total adds columns up. */
export const total = (columns) => Object.fromEntries(counted.map((key) => [key, columns.reduce((n, m) => n + (m?.[key] ?? 0), 0)]));

/** outcomesChart and latencyChart return charts of what became of calls, and how long they took. */
export const outcomesChart = (axis) => timeChart(axis, [["good", "answered", "good"], ["tool_errors", "errors of tools", "busy"], ["errors", "failed", "bad"], ["denied", "denied", "ask"]], { stacked: true, scale: whole });
export const latencyChart = (axis) => timeChart(axis, [["p95", "p95", "warn"], ["p50", "p50", "good"]], { scale: duration });

/** whole formats the marks of a scale that counts: between two numbers it has none. */
export const whole = (n) => (Number.isInteger(n) ? count(n) : "");
