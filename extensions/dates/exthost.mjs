// exthost SDK 0.1.0, sha256 360bc67a84b6a22975652b0b463c9a0c5f1db88ab13bb0c9eab3eb20b930a89d: exthost init --update-sdk replaces it
/**
 * The author's side of exthost's native protocol in one file: Node.js 18 or newer, nothing else.
 *
 *     import { run, tool } from "./exthost.mjs";
 *
 *     tool("hello", "Greet someone by name.", { name: { type: "string", default: "world" } },
 *       ({ name = "world" }) => `Hello, ${name}!`);
 *
 *     run();
 *
 * Calls run concurrently and may be async; ctx.signal aborts when the caller gives up. Output of the program goes to
 * stderr, where the host logs it: stdin and stdout carry the protocol. exthost.d.mts documents all functions and types.
 */
import { randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import { dirname } from "node:path";
import { isatty } from "node:tty";
import { inspect } from "node:util";

const PROTOCOL_VERSION = 1;
const DRAIN_MS = 2500; // in which running calls may still answer after the host has closed stdin
const PARSE_ERROR = -32700, METHOD_NOT_FOUND = -32601, INVALID_PARAMS = -32602, INTERNAL_ERROR = -32603;

/**
 * A failure for the model to read: the message becomes the tool's result, marked as an error. With a code, the failure
 * becomes a JSON-RPC error with code, message and data: the call could not be made.
 */
export class ToolError extends Error {
  constructor(message, { code, data } = {}) {
    super(message);
    this.name = "ToolError";
    this.code = code;
    this.data = data;
  }
}

/** JSON text. A tool that returns one sends it as its result as it is; ctx.arguments is one. */
export class Raw {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

/** A picture to return from a tool, alone or in a list with texts. */
export class Image {
  constructor(data, mimeType = "image/png") {
    this.data = data;
    this.mimeType = mimeType;
  }
}

// --- JSON, without loss of numbers or text --------------------------------------------------------------------------

const MARK = randomUUID(); // prefix of strings that stand for a BigInt or a Raw; no other string begins with it
const LONG_NUMBER = /\d{16}/;

/** Returns the index after the string that begins at start. A regular expression would overflow the stack on a long one. */
function endOfString(text, start) {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return end + 1;
  }
  throw new SyntaxError("a string has no end");
}

/** Parses JSON; integers beyond the safe range become BigInts. */
function parse(text) {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  const tokens = /"|[-+.\deE]{16,}/g;
  let marked = "", copied = 0;
  for (let m; (m = tokens.exec(text));) {
    if (m[0] === '"') {
      tokens.lastIndex = endOfString(text, m.index);
    } else if (/^-?\d+$/.test(m[0]) && !Number.isSafeInteger(Number(m[0]))) {
      marked += `${text.slice(copied, m.index)}"${MARK}${m[0]}"`;
      copied = tokens.lastIndex;
    }
  }
  if (!copied) return JSON.parse(text);
  return JSON.parse(marked + text.slice(copied), (_, v) => (typeof v === "string" && v.startsWith(MARK) ? BigInt(v.slice(MARK.length)) : v));
}

/** Returns the members of an object by key, each as its text, which parse has yet to check. */
function membersOf(text) {
  let at = 0;
  const blank = () => { while (" \t\r\n".includes(text[at]) && at < text.length) at++; };
  const expect = (c) => {
    blank();
    if (text[at] !== c) throw new SyntaxError(`no ${c} where one belongs`);
    at++;
    blank();
  };
  const find = (pattern) => {
    pattern.lastIndex = at;
    const m = pattern.exec(text);
    if (!m) throw new SyntaxError("it ends in the middle");
    at = m.index;
    return m[0];
  };
  const skip = () => {
    if (text[at] === '"') return (at = endOfString(text, at));
    if (text[at] !== "{" && text[at] !== "[") return find(/[ \t\r\n,}\]]/g);
    for (let depth = 0; ;) {
      const token = find(/["{}[\]]/g);
      at = token === '"' ? endOfString(text, at) : at + 1;
      if (token !== '"') depth += token === "{" || token === "[" ? 1 : -1;
      if (depth === 0) return at;
    }
  };
  const members = new Map();
  for (expect("{"); text[at] !== "}"; blank()) {
    if (members.size) expect(",");
    const start = at;
    if (text[at] !== '"') throw new SyntaxError("no key where one belongs");
    at = endOfString(text, at);
    const key = JSON.parse(text.slice(start, at));
    expect(":");
    const begin = at;
    skip();
    members.set(key, text.slice(begin, at));
  }
  expect("}");
  if (at !== text.length) throw new SyntaxError("more than one value");
  return members;
}

/** Returns the JSON text of a value, which may contain BigInts and Raws. */
function encode(value) {
  const raws = [];
  const text = JSON.stringify(value, function replace(key, v) {
    if (typeof v === "bigint" || v instanceof Raw) return MARK + (raws.push(String(v)) - 1);
    if (typeof v === "number" && !Number.isFinite(v)) throw new TypeError(`JSON has no ${v}`);
    if (v instanceof Map) return Object.fromEntries(v);
    if (v instanceof Set) return [...v];
    return v;
  });
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return raws.length ? text.replace(new RegExp(`"${MARK}(\\d+)"`, "g"), (_, i) => raws[i]) : text;
}

// --- the connection -------------------------------------------------------------------------------------------------

const text = (value) => ({ type: "text", text: typeof value === "string" ? value : encode(value) });
const block = (v) => v instanceof Image ? { type: "image", data: Buffer.from(v.data).toString("base64"), mimeType: v.mimeType } : text(v);

/** Returns the CallToolResult of a tool's return value, as JSON text. */
function resultOf(value) {
  if (value instanceof Raw) return value.text;
  if (value === undefined || value === null) return '{"content":[]}';
  if (value instanceof Image || typeof value === "string") return encode({ content: [block(value)] });
  if (Array.isArray(value) && value.some((v) => v instanceof Image)) return encode({ content: value.map(block) });
  const json = encode(value);
  if (!json.startsWith("{")) return encode({ content: [text(json)] });
  return encode({ content: [text(json)], structuredContent: new Raw(json) });
}

const failure = (message) => encode({ content: [text(message)], isError: true });

/** Reports whether s is a schema, not the properties of one. */
const isSchema = (s) => s.type === "object" || "$ref" in s || ["anyOf", "oneOf", "allOf"].some((k) => Array.isArray(s[k]));

/** Returns the given schema, or that of the given properties. A property is required unless it has a default or optional. */
function schemaOf(given) {
  if (isSchema(given)) return given;
  const properties = {}, required = [];
  for (const [name, { optional, ...property }] of Object.entries(given)) {
    properties[name] = property;
    if (!optional && !("default" in property)) required.push(name);
  }
  return { type: "object", properties, ...(required.length && { required }), additionalProperties: false };
}

/** Returns the first fault of the top-level arguments, for the model, or undefined. A host has checked them completely. */
function mismatch(schema, values) {
  if (typeof values !== "object" || values === null || Array.isArray(values)) return "they are not an object";
  const known = Object.keys(schema.properties ?? {});
  const missing = (schema.required ?? []).filter((name) => !(name in values));
  if (missing.length) return `${missing.join(", ")} is missing`;
  const unknown = Object.keys(values).filter((name) => !known.includes(name));
  if (unknown.length && schema.additionalProperties === false) return `there is no ${unknown.join(", ")}; there is ${known.join(", ") || "nothing to state"}`;
  for (const [name, v] of Object.entries(values)) {
    const wanted = [schema.properties?.[name]?.type ?? []].flat();
    const is = v === null ? "null" : Array.isArray(v) ? "array" : typeof v === "bigint" || Number.isInteger(v) ? "integer" : typeof v;
    if (wanted.length && !wanted.includes(is) && !(is === "integer" && wanted.includes("number"))) return `${name} has to be ${wanted.join(" or ")}, it is ${is}`;
  }
  return undefined;
}

/** The text of an unexpected error with its causes: "fetch failed" alone does not say why. */
function explain(error) {
  let message = String(error);
  for (let cause = error?.cause, n = 0; cause && n < 5; cause = cause.cause, n++) {
    const reason = cause.message || cause.code || String(cause); // an AggregateError may have no message
    if (!message.includes(reason)) message += `: ${reason}`;
  }
  return message;
}

/** The context of a call, and messages to its caller. */
class Context {
  #extension; #envelope; #params;
  constructor(extension, params, text, signal) {
    this.#extension = extension;
    this.#envelope = params._meta ?? {};
    this.#params = text;
    this.signal = signal;
    this.host = extension.host;
    this.meta = params.arguments?._meta ?? {};
  }

  /** The arguments as they were sent. */
  get arguments() { return new Raw(membersOf(this.#params).get("arguments") ?? "{}"); }

  progress(done, total, message) {
    const token = this.#envelope.progressToken;
    if (token !== undefined) this.#extension.send("notifications/progress", { progressToken: token, progress: done, total, message });
  }

  log(level, message) {
    this.#extension.send("notifications/message", { level, data: message, _meta: this.#envelope });
  }
}

/** Tools and hooks, served over a connection to the host. The functions of this module share one Extension. */
export class Extension {
  #tools = new Map();
  #hooks = new Map();
  #policy; #setup; #write; #version;
  #calls = new Map(); // AbortControllers by the text of the request's id
  #idle = () => {};
  host = { version: "", extensionId: "", capabilities: {}, config: {}, stateDir: "" };

  tool = (name, description, input, handler, options = {}) => {
    if (typeof name !== "string" || !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) throw new TypeError(`tool ${name}: a name is 1 to 128 of A-Z a-z 0-9 _ . -`);
    if (this.#tools.has(name)) throw new TypeError(`there are two tools named ${name}`);
    if (typeof handler !== "function") throw new TypeError(`tool ${name}: tool(name, description, input, handler) has no handler`);
    const { title, outputSchema, readOnly, idempotent, destructive, openWorld } = options;
    const hints = { readOnlyHint: readOnly, idempotentHint: idempotent, destructiveHint: destructive, openWorldHint: openWorld };
    const annotations = Object.values(hints).some((v) => v !== undefined) ? hints : undefined;
    const schema = schemaOf(input ?? {});
    this.#tools.set(name, { handler, schema, descriptor: { name, title, description, input_schema: schema, output_schema: outputSchema, annotations } });
  };

  hook = (point, handler) => {
    if (this.#hooks.has(point)) throw new TypeError(`there are two hooks for ${point}`);
    this.#hooks.set(point, handler);
  };

  policy = (handler) => {
    if (this.#policy) throw new TypeError("there are two policies");
    this.#policy = handler;
  };

  setup = (handler) => {
    if (this.#setup) throw new TypeError("there are two setups");
    this.#setup = handler;
  };

  run = async (version) => {
    if (isatty(0)) console.warn(`This is an extension of exthost, which starts it and speaks to it over stdin. Try: exthost check ${dirname(process.argv[1])}`);
    const write = claimStdout();
    await this.serve(process.stdin, write, version);
    await new Promise((resolve) => write("", resolve)); // until all output is written
    process.exit(0); // even with open timers and sockets of the author
  };

  serve = async (source, write, version) => {
    this.#write = write;
    this.#version = version;
    for await (const line of linesOf(source)) {
      try {
        this.#receive(line);
      } catch (error) {
        console.error("a line of the host could not be handled:", error);
      }
    }
    await this.#drain();
  };

  #drain() {
    if (!this.#calls.size) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, DRAIN_MS);
      this.#idle = () => { if (!this.#calls.size) { clearTimeout(timer); resolve(); } };
    });
  }

  send(method, params) { this.#write(encode({ jsonrpc: "2.0", method, params }) + "\n"); }

  #answer(id, result) { this.#write(`{"jsonrpc":"2.0","id":${id},"result":${result.replace(/[\r\n]/g, " ")}}\n`); }

  #refuse(id, code, message, data) {
    this.#write(encode({ jsonrpc: "2.0", id: new Raw(id), error: { code, message, data } }) + "\n");
  }

  #receive(line) {
    if (!line.trim()) return undefined;
    let members, method, params;
    try {
      members = membersOf(line);
      method = parse(members.get("method") ?? "null");
      params = parse(members.get("params") ?? "{}");
    } catch (error) {
      return this.#refuse(members?.get("id") ?? "null", PARSE_ERROR, `not a JSON object: ${error.message}`);
    }
    if (typeof method !== "string") return undefined; // an answer, though nothing was requested
    const isObject = typeof params === "object" && params !== null && !Array.isArray(params);
    const text = isObject ? members.get("params") ?? "{}" : "{}";
    const id = members.get("id");
    if (id !== undefined) return this.#request(id, method, isObject ? params : {}, text);
    if (method === "notifications/cancelled") this.#calls.get(membersOf(text).get("requestId"))?.abort();
    return undefined;
  }

  #request(id, method, params, text) {
    switch (method) {
      case "tools/call": return this.#callTool(id, params, text);
      case "ping":
      case "shutdown": return this.#answer(id, "{}"); // after shutdown the host closes stdin
      case "initialize": return this.#initialize(id, params);
      case "tools/list": return this.#answer(id, encode({ tools: this.#descriptors() }));
      default:
    }
    const hook = method.startsWith("hooks/") ? this.#hooks.get(method.slice(6)) : undefined;
    const handler = hook ?? (method === "governance/decide" ? this.#policy : undefined);
    if (!handler) return this.#refuse(id, METHOD_NOT_FOUND, `method not found: ${method}`);
    const otherwise = hook ? null : { decision: "allow" };
    return this.#start(id, params, text, (ctx) => handler(params, ctx), (v) => encode(v ?? otherwise));
  }

  #descriptors() { return [...this.#tools.values()].map((t) => t.descriptor); }

  async #initialize(id, p) {
    if (p.protocol_version > PROTOCOL_VERSION) {
      return this.#refuse(id, INVALID_PARAMS, `this extension speaks version ${PROTOCOL_VERSION} of the protocol, the host ${p.protocol_version}`);
    }
    this.host = Object.freeze({
      version: p.agent_version ?? "", extensionId: p.extension_id ?? "", capabilities: p.capabilities ?? {},
      config: p.config ?? {}, stateDir: p.state_dir ?? "",
    });
    try {
      await this.#setup?.(this.host);
    } catch (error) {
      console.error(error);
      return this.#refuse(id, INTERNAL_ERROR, String(error));
    }
    return this.#answer(id, encode({
      protocol_version: PROTOCOL_VERSION, server_version: this.#version, tools: this.#descriptors(), hooks: [...this.#hooks.keys()],
    }));
  }

  #callTool(id, params, text) {
    const tool = this.#tools.get(params.name);
    if (!tool) return this.#refuse(id, INVALID_PARAMS, typeof params.name === "string" ? `there is no tool ${params.name}` : "tools/call needs a name");
    const given = params.arguments ?? {};
    const { _meta, ...values } = given;
    const wrong = mismatch(tool.schema, typeof given === "object" && !Array.isArray(given) ? values : null);
    if (wrong) return this.#answer(id, failure(`The arguments do not fit: ${wrong}.`));
    return this.#start(id, params, text, (ctx) => tool.handler(values, ctx), resultOf, failure);
  }

  async #start(id, params, text, call, encodeResult, encodeFailure) {
    const controller = new AbortController();
    this.#calls.set(id, controller);
    try {
      this.#answer(id, encodeResult(await call(new Context(this, params, text, controller.signal))));
    } catch (error) {
      this.#fail(id, error, controller.signal.aborted, encodeFailure);
    } finally {
      this.#calls.delete(id);
      this.#idle();
    }
  }

  #fail(id, error, cancelled, encodeFailure) {
    const expected = error instanceof ToolError;
    if (expected && error.code !== undefined) return this.#refuse(id, error.code, error.message, error.data);
    if (!expected && !cancelled) console.error(error);
    const message = cancelled ? "cancelled" : expected ? error.message : explain(error);
    return encodeFailure ? this.#answer(id, encodeFailure(message)) : this.#refuse(id, INTERNAL_ERROR, message);
  }
}

// --- the process ----------------------------------------------------------------------------------------------------

/** Yields the lines of a stream of bytes; the last one need not end with a newline. */
async function* linesOf(source) {
  let parts = [];
  for await (const chunk of source) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      parts.push(chunk.subarray(start, end));
      yield Buffer.concat(parts).toString("utf8");
      parts = [];
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length) yield Buffer.concat(parts).toString("utf8");
}

let wire;

/** Takes stdout for the protocol. From here on process.stdout and console write to stderr, console with levels for the host. */
function claimStdout() {
  if (wire) return wire;
  const { stdout } = process;
  wire = stdout.write.bind(stdout);
  stdout.write = process.stderr.write.bind(process.stderr);
  stdout.on("error", () => {}); // a host that has ended closes stdin too
  const levels = { trace: "D", debug: "D", log: "I", info: "I", warn: "W", error: "E" };
  for (const [method, level] of Object.entries(levels)) {
    console[method] = (...values) => {
      const said = values.map((v) => (typeof v === "string" ? v : inspect(v))).join(" ");
      try {
        writeSync(2, said.split("\n").map((line) => `${level}! ${line}\n`).join(""));
      } catch { /* a full or closed stderr must not end the program */ }
    };
  }
  return wire;
}

if (process.env.EXTHOST_PROTOCOL_VERSION && !isatty(0)) {
  claimStdout(); // started by a host: output of modules imported later must not reach the protocol either
}

const extension = new Extension();
export const { tool, hook, policy, setup, run } = extension;
