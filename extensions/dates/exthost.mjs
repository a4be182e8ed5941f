// exthost SDK 0.1.0, sha256 98b4c26e1d8ff6ba311cc0143d7d9b3786ff451cb33cc6d25a2db251cb10110b: exthost init --update-sdk replaces it
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
import { format } from "node:util";

const PROTOCOL_VERSION = 1;
const DRAIN_MS = 2500; // in which running calls may still answer after the host has closed stdin
const LATE_MS = 1; // after which an answer is written, even if more are about to be ready
const MUCH = 64 << 10; // characters, at which answers are written
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
const ONE_LINE = /[\r\n]/g;
const REQUEST = /^\{"jsonrpc":"2\.0","id":(0|[1-9]\d{0,14}),"method":"[\w/]+","params":\{/; // as the host writes it

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

/** Reports whether JSON.stringify alone writes a value as encode has to. */
function isPlain(v, depth = 0) {
  if (typeof v === "string" || typeof v === "boolean" || v === null) return true;
  if (typeof v === "number") return Number.isFinite(v);
  if (v === undefined) return depth > 0; // a member that is left out
  if (typeof v !== "object" || depth > 100 || "toJSON" in v) return false;
  if (Array.isArray(v)) return v.every((item) => isPlain(item, depth + 1));
  return Object.getPrototypeOf(v) === Object.prototype && Object.values(v).every((item) => isPlain(item, depth + 1));
}

/** Returns the JSON text of a value, which may contain BigInts and Raws. */
function encode(value) {
  if (isPlain(value)) return JSON.stringify(value);
  const raws = [];
  const text = JSON.stringify(value, function replace(key, v) {
    if (typeof v === "bigint" || v instanceof Raw) return MARK + (raws.push(String(v).replace(ONE_LINE, " ")) - 1);
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
  if (typeof value === "string") return `{"content":[{"type":"text","text":${JSON.stringify(value)}}]}`;
  if (value instanceof Raw) return String(value).replace(ONE_LINE, " ");
  if (value === undefined || value === null) return '{"content":[]}';
  if (value instanceof Image) return encode({ content: [block(value)] });
  if (Array.isArray(value) && value.some((v) => v instanceof Image)) return encode({ content: value.map(block) });
  const json = encode(value);
  if (!json.startsWith("{")) return encode({ content: [text(json)] });
  return encode({ content: [text(json)], structuredContent: new Raw(json) });
}

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
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

/**
 * Returns a function that returns the first fault of the top-level arguments, for the model, or undefined. A host has checked
 * them completely.
 */
function checkerOf(schema) {
  const types = new Map(Object.entries(schema.properties ?? {}).map(([name, property]) => [name, [property?.type ?? []].flat()]));
  const required = schema.required ?? [];
  const closed = schema.additionalProperties === false;
  const isUnknown = (name) => !types.has(name);
  return (values) => {
    const isMissing = (name) => !Object.hasOwn(values, name);
    if (required.some(isMissing)) return `${required.filter(isMissing).join(", ")} is missing`;
    const names = Object.keys(values);
    if (closed && names.some(isUnknown)) return `there is no ${names.filter(isUnknown).join(", ")}; there is ${[...types.keys()].join(", ") || "nothing to state"}`;
    for (const name of names) {
      const wanted = types.get(name) ?? [];
      const v = values[name];
      if (!wanted.length || typeof v === "string" && wanted.includes("string")) continue;
      const is = v === null ? "null" : Array.isArray(v) ? "array" : typeof v === "bigint" || Number.isInteger(v) ? "integer" : typeof v;
      if (!wanted.includes(is) && !(is === "integer" && wanted.includes("number"))) return `${name} has to be ${wanted.join(" or ")}, it is ${is}`;
    }
    return undefined;
  };
}

/** The text of an unexpected error with its causes: "fetch failed" alone does not say why. */
function explain(error) {
  try {
    let message = String(error);
    for (let cause = error?.cause, n = 0; cause && n < 5; cause = cause.cause, n++) {
      const reason = cause.message || cause.code || String(cause); // an AggregateError may have no message
      if (!message.includes(reason)) message += `: ${reason}`;
    }
    return message;
  } catch { // whatever may be thrown, and not all of it is a text
    return "an error without a text";
  }
}

/** The context of a call, and messages to its caller. */
class Context {
  #extension; #envelope; #line; #controller;
  cancelled = false;
  constructor(extension, params, line) {
    this.#extension = extension;
    this.#envelope = params._meta ?? {};
    this.#line = line;
    this.host = extension.host;
    this.meta = params.arguments?._meta ?? {};
  }

  /** Aborts when the caller gives up. It is made for who asks: most calls do not. */
  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.cancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  cancel() {
    this.cancelled = true;
    this.#controller?.abort();
  }

  /** The arguments as they were sent. */
  get arguments() {
    const params = membersOf(this.#line).get("params");
    return new Raw((params && membersOf(params).get("arguments")) ?? "{}");
  }

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
  #policy; #setup; #write; #flush; #version;
  #calls = new Map(); // the contexts of those that have not ended, by the text of the request's id
  #slow = new Set(); // handlers that have kept this thread for more than LATE_MS the last time
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
    this.#tools.set(name, { handler, check: checkerOf(schema), descriptor: { name, title, description, input_schema: schema, output_schema: outputSchema, annotations } });
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
    const lines = collect(write);
    process.once("exit", lines.flush); // also of a process that the author's code ends
    await this.serve(process.stdin, lines.write, version, lines.flush);
    lines.flush();
    await new Promise((resolve) => write("", resolve)); // until all output is written
    process.exit(0); // even with open timers and sockets of the author
  };

  serve = async (source, write, version, flush = () => {}) => {
    this.#write = write;
    this.#flush = flush;
    this.#version = version;
    const receive = (line) => {
      try {
        this.#receive(line);
      } catch (error) {
        console.error("a line of the host could not be handled:", error);
      }
    };
    await eachLine(source, receive);
    await this.#drain();
  };

  #drain() {
    if (!this.#calls.size) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, DRAIN_MS);
      this.#idle = () => { if (!this.#calls.size) { clearTimeout(timer); resolve(); } };
    });
  }

  send(method, params) {
    this.#write(encode({ jsonrpc: "2.0", method, params }) + "\n");
    this.#flush(); // the handler may go on without a pause, and progress keeps its call from timing out
  }

  #answer(id, result) { this.#write(`{"jsonrpc":"2.0","id":${id},"result":${result}}\n`); }

  #refuse(id, code, message, data) {
    this.#write(encode({ jsonrpc: "2.0", id: new Raw(id), error: { code, message, data } }) + "\n");
  }

  #receive(line) {
    const request = REQUEST.exec(line);
    if (request && !LONG_NUMBER.test(line)) {
      let message;
      try {
        message = JSON.parse(line);
      } catch { /* said below */ }
      if (message && String(message.id) === request[1] && isObject(message.params) && typeof message.method === "string") {
        return this.#request(request[1], message.method, message.params, line);
      }
    }
    return this.#receiveAny(line);
  }

  /** Handles a line of which it matters how its members are written, or that is no request. */
  #receiveAny(line) {
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
    const id = members.get("id");
    if (id !== undefined) return this.#request(id, method, isObject(params) ? params : {}, line);
    if (method === "notifications/cancelled" && isObject(params)) this.#calls.get(membersOf(members.get("params")).get("requestId"))?.cancel();
    return undefined;
  }

  #request(id, method, params, line) {
    switch (method) {
      case "tools/call": return this.#callTool(id, params, line);
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
    return this.#start(id, params, new Context(this, params, line), handler, (v) => encode(v ?? otherwise));
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
      return this.#refuse(id, INTERNAL_ERROR, explain(error));
    }
    return this.#answer(id, encode({
      protocol_version: PROTOCOL_VERSION, server_version: this.#version, tools: this.#descriptors(), hooks: [...this.#hooks.keys()],
    }));
  }

  #callTool(id, params, line) {
    const tool = this.#tools.get(params.name);
    if (!tool) return this.#refuse(id, INVALID_PARAMS, typeof params.name === "string" ? `there is no tool ${params.name}` : "tools/call needs a name");
    let values = params.arguments ?? {};
    if (isObject(values) && Object.hasOwn(values, "_meta")) {
      const { _meta, ...rest } = values;
      values = rest;
    }
    const wrong = isObject(values) ? tool.check(values) : "they are not an object";
    if (wrong) return this.#answer(id, failure(`The arguments do not fit: ${wrong}.`));
    return this.#start(id, values, new Context(this, params, line), tool.handler, resultOf, failure);
  }

  /** Calls a handler and answers: at once, or when its promise settles. */
  #start(id, values, context, handler, encodeResult, encodeFailure) {
    let result;
    try {
      result = this.#call(handler, values, context);
      if (typeof result?.then !== "function") return this.#answer(id, encodeResult(result));
    } catch (error) {
      return this.#fail(id, error, false, encodeFailure);
    }
    this.#calls.set(id, context);
    return this.#settle(id, result, context, encodeResult, encodeFailure);
  }

  /** Calls a handler. Answers that are ready do not wait for one that was slow the last time. */
  #call(handler, values, context) {
    const wasSlow = this.#slow.has(handler);
    if (wasSlow) this.#flush();
    const began = performance.now();
    try {
      return handler(values, context);
    } finally {
      const isSlow = performance.now() - began > LATE_MS;
      if (isSlow !== wasSlow) this.#slow[isSlow ? "add" : "delete"](handler);
    }
  }

  async #settle(id, promise, context, encodeResult, encodeFailure) {
    try {
      this.#answer(id, encodeResult(await promise));
    } catch (error) {
      this.#fail(id, error, context.cancelled, encodeFailure);
    } finally {
      this.#calls.delete(id);
      this.#idle();
    }
  }

  #fail(id, error, cancelled, encodeFailure) {
    let expected = error instanceof ToolError;
    if (expected && error.code !== undefined) {
      try {
        return this.#refuse(id, error.code, error.message, error.data);
      } catch (unwritable) { // its data has no JSON form
        [error, expected] = [unwritable, false];
      }
    }
    if (!expected && !cancelled) console.error(error);
    const message = cancelled ? "cancelled" : expected ? error.message : explain(error);
    return encodeFailure ? this.#answer(id, encodeFailure(message)) : this.#refuse(id, INTERNAL_ERROR, message);
  }
}

// --- the process ----------------------------------------------------------------------------------------------------

/** Calls receive with each line of a stream of bytes; the last one need not end with a newline. */
async function eachLine(source, receive) {
  let parts = []; // of a line whose end has not been received
  const take = (chunk) => {
    const end = chunk.lastIndexOf(10);
    if (end < 0) return void parts.push(chunk);
    const whole = Buffer.concat([...parts, chunk.subarray(0, end)]);
    parts = end + 1 < chunk.length ? [chunk.subarray(end + 1)] : [];
    for (const line of whole.toString("utf8").split("\n")) receive(line);
    return undefined;
  };
  if (typeof source.on === "function") { // a stream: events take less time than its iterator
    await new Promise((resolve, reject) => source.on("data", take).on("end", resolve).on("close", resolve).on("error", reject));
  } else {
    for await (const chunk of source) take(chunk);
  }
  if (parts.length) receive(Buffer.concat(parts).toString("utf8"));
}

/** Collects the lines that are written: those that are ready together are written at once, and none is late. */
function collect(write) {
  let held = "", since = 0, scheduled = false;
  const flush = () => {
    const lines = held;
    held = "";
    if (lines) write(lines);
  };
  const flushLater = () => {
    scheduled = false;
    flush();
  };
  const add = (line) => {
    if (!held) since = performance.now();
    held += line;
    if (held.length > MUCH || (scheduled && performance.now() - since > LATE_MS)) flush();
    else if (!scheduled) {
      scheduled = true;
      process.nextTick(flushLater);
    }
  };
  return { write: add, flush };
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
      try {
        writeSync(2, format(...values).split("\n").map((line) => `${level}! ${line}\n`).join(""));
      } catch { /* a full or closed stderr, or a value that cannot be shown, must not end the program */ }
    };
  }
  return wire;
}

if (process.env.EXTHOST_PROTOCOL_VERSION && !isatty(0)) {
  claimStdout(); // started by a host: output of modules imported later must not reach the protocol either
}

const extension = new Extension();
export const { tool, hook, policy, setup, run } = extension;
