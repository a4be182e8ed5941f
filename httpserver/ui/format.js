// Formats of numbers and times.

/** duration formats milliseconds: 340 µs, 12 ms, 1.4 s, 3 min. */
export function duration(ms) {
  if (ms === undefined || ms === null) return "–";
  const units = [[60e3, 60e3, "min"], [1e3, 1e3, "s"], [1, 1, "ms"], [0, 1e-3, "µs"]];
  const [, size, unit] = units.find(([from]) => ms >= from);
  const n = ms / size;
  return `${n < 10 && unit !== "µs" ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${unit}`;
}

/** span formats milliseconds: 12s, 3m 20s, 4h 5m, 2d 3h. */
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

/** since formats the span from an RFC 3339 time until now; "–" without a time. */
export function since(time, now = Date.now()) {
  const t = Date.parse(time);
  return Number.isNaN(t) || t <= 0 ? "–" : span(now - t);
}

/** bytes formats bytes: 21.4 MiB. */
export function bytes(n) {
  if (!n) return "–";
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n < 100 && i > 0 ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${units[i]}`;
}

/** count formats a number: 12,345. */
export const count = (n) => (n ?? 0).toLocaleString("en-US");

/** percent formats a share: 0 %, 0.2 %, 14 %. */
export function percent(part, whole) {
  if (!whole) return "–";
  const p = (100 * part) / whole;
  return p === 0 ? "0 %" : p < 0.1 ? "<0.1 %" : p < 10 ? `${p.toFixed(1).replace(/\.0$/, "")} %` : `${Math.round(p)} %`;
}

/** clock formats the time of day of an RFC 3339 time, in the browser's time zone. */
export function clock(time) {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? "" : d.toLocaleTimeString("en-GB", { hour12: false });
}

/** retryText says when an extension is started again; one that is due waits for a call. */
export const retryText = (time) => Date.parse(time) > Date.now() ? `next try at ${clock(time)}` : "next try with the next call";

/** plural formats a number of things: 1 tool, 2 tools. */
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/**
 * json formats JSON text on one line or, with lines, indented. It does not parse
 * numbers and objects, which would lose digits and repeated names. Strings lose escapes
 * of characters that need none. Text that is not JSON, because it was cut, is returned.
 */
export function json(text, { lines = false } = {}) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => (lines ? "\n" + "  ".repeat(Math.min(depth, 40)) : ""); // deep ones would be far longer than what they hold
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (token[0] === '"') return JSON.stringify(JSON.parse(token));
    if (token === "{" || token === "[") return depth++, token + line();
    if (token === "}" || token === "]") return depth--, line() + token;
    if (token === ",") return token + line();
    if (token === ":") return lines ? ": " : ":";
    return token.replace(/\s+/g, ""); // white space, or an empty object or array
  });
}
