// How numbers and times are written.

/** duration writes nanoseconds: 340 µs, 12 ms, 1.4 s, 3 min. */
export function duration(ns) {
  if (ns === undefined || ns === null) return "–";
  const units = [[60e9, 60e9, "min"], [1e9, 1e9, "s"], [1e6, 1e6, "ms"], [0, 1e3, "µs"]];
  const [, size, unit] = units.find(([from]) => ns >= from);
  const n = ns / size;
  return `${n < 10 && unit !== "µs" ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${unit}`;
}

/** span writes how long something lasts, from milliseconds: 12s, 3m 20s, 4h 5m, 2d 3h. */
export function span(ms) {
  let s = Math.max(0, Math.floor(ms / 1000));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    if (s >= size || (unit === "s" && !parts.length)) {
      parts.push(Math.floor(s / size) + unit);
      s %= size;
    }
  }
  return parts.slice(0, 2).join(" ");
}

/** since is the span from an RFC 3339 time until now; "–" when there was none. */
export function since(time, now = Date.now()) {
  const t = Date.parse(time);
  return Number.isNaN(t) || t <= 0 ? "–" : span(now - t);
}

/** bytes writes 21.4 MB. */
export function bytes(n) {
  if (!n) return "–";
  const units = ["B", "kB", "MB", "GB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${n < 100 && i > 0 ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${units[i]}`;
}

/** count writes 12,345. */
export const count = (n) => (n ?? 0).toLocaleString("en-US");

/** percent writes a share: 0 %, 0.2 %, 14 %. */
export function percent(part, whole) {
  if (!whole) return "–";
  const p = (100 * part) / whole;
  return p === 0 ? "0 %" : p < 0.1 ? "<0.1 %" : p < 10 ? `${p.toFixed(1).replace(/\.0$/, "")} %` : `${Math.round(p)} %`;
}

/** clock writes the time of day of an RFC 3339 time, in this browser's zone. */
export function clock(time) {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? "" : d.toLocaleTimeString("en-GB", { hour12: false });
}

/** prospect says when an extension is tried again; one that is due waits for a call. */
export const prospect = (time) => Date.parse(time) > Date.now() ? `next try at ${clock(time)}` : "next try with the next call";

/** plural writes 1 tool, 2 tools. */
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/**
 * json writes JSON on one line, or on lines that are indented, as it was sent: large
 * numbers keep their digits and repeated names are all there. Only what a string has
 * as the number of a character that can be seen is that character. What was cut stays
 * as it is.
 */
export function json(text, { lines = false } = {}) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => (lines ? "\n" + "  ".repeat(depth) : "");
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (token[0] === '"') return JSON.stringify(JSON.parse(token));
    if (token === "{" || token === "[") return depth++, token + line();
    if (token === "}" || token === "]") return depth--, line() + token;
    if (token === ",") return token + line();
    if (token === ":") return lines ? ": " : ":";
    return token.replace(/\s+/g, ""); // space, or nothing in brackets
  });
}
