// Unit conversion as an MCP server that requires Node.js only.
import { createInterface } from "node:readline";

// Each unit as [dimension, factor, offset], relative to the base unit of the dimension.
const UNITS = {
  m: ["length", 1], km: ["length", 1000], cm: ["length", 0.01], mm: ["length", 0.001],
  in: ["length", 0.0254], ft: ["length", 0.3048], yd: ["length", 0.9144], mi: ["length", 1609.344], nmi: ["length", 1852],
  kg: ["mass", 1], g: ["mass", 0.001], mg: ["mass", 1e-6], t: ["mass", 1000], lb: ["mass", 0.45359237], oz: ["mass", 0.028349523125],
  l: ["volume", 1], ml: ["volume", 0.001], gal: ["volume", 3.785411784], pt: ["volume", 0.473176473], cup: ["volume", 0.2365882365],
  s: ["time", 1], min: ["time", 60], h: ["time", 3600], d: ["time", 86400], wk: ["time", 604800],
  B: ["data", 1], kB: ["data", 1e3], MB: ["data", 1e6], GB: ["data", 1e9], KiB: ["data", 1024], MiB: ["data", 2 ** 20], GiB: ["data", 2 ** 30],
  K: ["temperature", 1, 0], C: ["temperature", 1, 273.15], F: ["temperature", 5 / 9, 459.67 * (5 / 9)],
};

const TOOL = {
  name: "convert",
  description: "Converts a value between units of length, mass, volume, time, data or temperature.",
  inputSchema: {
    type: "object",
    properties: {
      value: { type: "number", description: "How many of the unit in from" },
      from: { type: "string", description: "The unit that value is in", enum: Object.keys(UNITS) },
      to: { type: "string", description: "The unit that is wanted", enum: Object.keys(UNITS) },
    },
    required: ["value", "from", "to"],
  },
  annotations: { readOnlyHint: true },
};

function convert({ value, from, to }) {
  const [dimension, factor, offset = 0] = UNITS[from];
  const [target, toFactor, toOffset = 0] = UNITS[to];
  if (dimension !== target) throw new Error(`${from} is ${dimension}, ${to} is ${target}`);
  const result = (value * factor + offset - toOffset) / toFactor;
  return `${value} ${from} = ${Number(result.toPrecision(12))} ${to}`;
}

function call({ name, arguments: args }) {
  if (name !== TOOL.name) throw { code: -32602, message: `there is no tool ${name}` };
  try {
    return { content: [{ type: "text", text: convert(args ?? {}) }] };
  } catch (error) {
    return { content: [{ type: "text", text: String(error.message ?? error) }], isError: true };
  }
}

const METHODS = {
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "units", version: "0.1.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [TOOL] }),
  "tools/call": call,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue; // a notification or an answer
  const answer = { jsonrpc: "2.0", id };
  try {
    if (!METHODS[method]) throw { code: -32601, message: `method not found: ${method}` };
    answer.result = METHODS[method](params ?? {});
  } catch (error) {
    answer.error = { code: error.code ?? -32603, message: error.message ?? String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
