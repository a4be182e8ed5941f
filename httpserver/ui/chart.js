// Small curves without axes, and charts of the last hours with them.

import { el, put, svg, setAttr } from "./dom.js";
import { clock } from "./format.js";

const WIDTH = 150, HEIGHT = 32;
const FEWEST = 30; // points that fill the width; with fewer, the curve starts further right

/** curve returns {node, draw(values)}: the newest value is at the right edge, null is a gap. */
export function curve(label, { fill = true } = {}) {
  const area = fill ? svg("path.area") : null;
  const line = svg("path.line");
  const node = svg("svg.curve", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("path.base", { d: `M0 ${HEIGHT - 2}H${WIDTH}` }), area, line);
  return {
    node,
    draw(values, top) {
      const max = top ?? Math.max(...values.filter((v) => v !== null), 0);
      const apart = WIDTH / Math.max(values.length - 1, FEWEST);
      const points = values.map((v, i) => v === null ? null : [WIDTH - (values.length - 1 - i) * apart, HEIGHT - 2 - (max ? v / max : 0) * (HEIGHT - 5)]);
      setAttr(line, "d", path(points, [-apart, 0]));
      if (area) setAttr(area, "d", filled(points));
    },
  };
}

const at = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** runs splits points at gaps. */
function runs(points) {
  const out = [[]];
  for (const p of points) {
    if (p) out.at(-1).push(p);
    else if (out.at(-1).length) out.push([]);
  }
  return out.filter((run) => run.length);
}

/** path draws a line through points; one between gaps is a dash, from and to these distances. */
const path = (points, dash) => runs(points).map((run) => "M" + (run.length === 1 ? dash.map((d) => [run[0][0] + d, run[0][1]]) : run).map(at).join("L")).join("");

const filled = (points) => runs(points).map((run) => `M${run[0][0].toFixed(1)} ${HEIGHT}L${run.map(at).join("L")}L${run.at(-1)[0].toFixed(1)} ${HEIGHT}Z`).join("");

/**
 * timeChart returns {node, draw(columns, summary)}. columns has an object for each step of an axis of
 * time, the newest last, or null. kinds are [key, label, tone]; with stacked their bars stand on
 * each other, else each is a line. scale formats a value for the axis.
 */
export function timeChart(axis, kinds, { stacked = false, scale = String } = {}) {
  const paths = kinds.map(([, , tone]) => svg(stacked ? "path.bars" : "path.line", { "data-tone": tone }));
  const plot = svg("svg", { viewBox: `0 0 ${axis.count} 100`, preserveAspectRatio: "none", role: "img" }, svg("path.grid", { d: `M0 .5H${axis.count}M0 50H${axis.count}M0 99.5H${axis.count}` }), ...paths);
  const high = el("span"), half = el("span"), times = el("div.times");
  const legend = el("div.legend", {}, ...kinds.map(([, label, tone]) => el("span", { "data-tone": tone }, label)));
  return {
    node: el("div.chart", {}, legend, el("div.plot", {}, el("div.scale", {}, high, half, el("span", {}, "0")), plot), times),
    draw(columns, summary) {
      const sum = (m) => kinds.reduce((n, [key]) => n + (m[key] ?? 0), 0);
      const max = nice(Math.max(...columns.filter(Boolean).map((m) => (stacked ? sum(m) : Math.max(...kinds.map(([key]) => m[key] ?? 0)))), 0));
      put(high, max ? scale(max) : "");
      put(half, max ? scale(max / 2) : "");
      setAttr(plot, "aria-label", summary);
      const now = Date.now();
      put(times, ...[1, 0.75, 0.5, 0.25, 0].map((part) => el("span", {}, clock(new Date(now - part * axis.count * axis.step).toISOString()).slice(0, 5))));
      const base = columns.map(() => 0);
      kinds.forEach(([key], n) => setAttr(paths[n], "d", stacked ? bars(columns, key, base, max) : path(columns.map((m, i) => (m?.[key] === undefined ? null : [i + 0.5, 100 - (99 * m[key]) / (max || 1)])), [-0.5, 0.5])));
    },
  };
}

/** bars draws a bar for each column above those of base, which they are added to. */
const bars = (columns, key, base, max) => columns.map((m, i) => {
  const from = base[i], value = m?.[key] ?? 0;
  base[i] += value;
  return value ? `M${i + 0.1} ${(100 - (99 * from) / max).toFixed(2)}V${(100 - (99 * base[i]) / max).toFixed(2)}h.8V${(100 - (99 * from) / max).toFixed(2)}Z` : "";
}).join("");

/** nice rounds up to a multiple of a power of ten whose half is round too. */
function nice(n) {
  if (!n) return 0;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 6, 8, 10].map((f) => f * power).find((v) => v >= n);
}
