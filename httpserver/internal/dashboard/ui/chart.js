// Small curves without axes.

import { svg, setAttr } from "./dom.js";

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
      setAttr(line, "d", path(points));
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

const path = (points) => runs(points).map((run) => "M" + (run.length === 1 ? [run[0], [run[0][0] + 0.5, run[0][1]]] : run).map(at).join("L")).join("");

const filled = (points) => runs(points).map((run) => `M${run[0][0].toFixed(1)} ${HEIGHT}L${run.map(at).join("L")}L${run.at(-1)[0].toFixed(1)} ${HEIGHT}Z`).join("");
