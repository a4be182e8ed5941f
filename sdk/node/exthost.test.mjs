// node --test, in this directory.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Extension, Image, Raw, ToolError } from "./exthost.mjs";

/** A host at the other end of an extension. */
function serve(extension) {
  const source = new PassThrough();
  const lines = [], waiting = [];
  const done = extension.serve(source, (line) => {
    assert.ok(line.endsWith("\n") && line.indexOf("\n") === line.length - 1, line);
    const next = waiting.shift();
    if (next) next(line.slice(0, -1));
    else lines.push(line.slice(0, -1));
  }, "1.2.3");
  const host = {
    say: (line) => source.write(`${line}\n`),
    hear: () => lines.length ? Promise.resolve(lines.shift()) : new Promise((resolve) => waiting.push(resolve)),
    ask(method, params = {}, id = "7") {
      host.say(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${typeof params === "string" ? params : JSON.stringify(params)}}`);
      return host.hear();
    },
    call: (name, args) => host.ask("tools/call", { name, arguments: args }),
    end: () => { source.end(); return done; },
  };
  after(() => host.end());
  return host;
}

const result = (text) => `{"jsonrpc":"2.0","id":7,"result":${text}}`;
const quiet = (t) => t.mock.method(console, "error", () => {});

describe("tools", () => {
  test("descriptors", async () => {
    const x = new Extension();
    x.tool("short", "Short.", { a: { type: "string" }, b: { type: "integer", default: 1 }, c: { type: "boolean", optional: true } }, () => "", { readOnly: true });
    x.tool("whole", "Whole.", { type: "object", properties: {} }, () => "", { title: "T", outputSchema: { type: "object" } });
    x.tool("none", "", undefined, () => "");
    const host = serve(x);
    assert.equal(await host.ask("tools/list"), result('{"tools":[' +
      '{"name":"short","description":"Short.","input_schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","default":1},"c":{"type":"boolean"}},"required":["a"],"additionalProperties":false},"annotations":{"readOnlyHint":true}},' +
      '{"name":"whole","title":"T","description":"Whole.","input_schema":{"type":"object","properties":{}},"output_schema":{"type":"object"}},' +
      '{"name":"none","description":"","input_schema":{"type":"object","properties":{},"additionalProperties":false}}]}'));
  });

  test("a property named type is no schema", async () => {
    const x = new Extension();
    x.tool("f", "", { type: { type: "string" }, properties: { type: "string", optional: true } }, ({ type }) => type);
    assert.match(await serve(x).call("f", { type: "T" }), /"text":"T"/);
  });

  test("mistakes of the author", () => {
    const x = new Extension();
    x.tool("a", "", {}, () => "");
    assert.throws(() => x.tool("a", "", {}, () => ""), /two tools/);
    assert.throws(() => x.tool("a b", "", {}, () => ""), /a name is/);
    assert.throws(() => x.tool("b", "", () => ""), /no handler/);
  });

  test("arguments that do not fit", async () => {
    const x = new Extension();
    x.tool("f", "", { n: { type: "integer" }, s: { type: ["string", "null"], optional: true } }, () => assert.fail("it was called"));
    const host = serve(x);
    for (const [args, said] of [
      [{}, "n is missing"], [{ n: "1" }, "n has to be integer, it is string"], [{ n: 1.5 }, "n has to be integer, it is number"], [{ n: 1, N: 1 }, "there is no N; there is n, s"],
      [{ n: 1, s: [] }, "s has to be string or null, it is array"], [[1], "they are not an object"], ["x", "they are not an object"],
    ]) {
      const answer = JSON.parse(await host.call("f", args));
      assert.ok(answer.result.isError);
      assert.equal(answer.result.content[0].text, `The arguments do not fit: ${said}.`);
    }
  });

  test("results", async () => {
    const x = new Extension();
    const values = {
      text: "a\nb", none: undefined, object: { n: 12345678901234567890n, at: new Date(0) }, list: [1, new Raw("1.10")], set: new Set([1]),
      raw: new Raw('{"content":[],\n"later": 1.10}'), image: [new Image(Buffer.from([0])), "seen"],
    };
    for (const [name, value] of Object.entries(values)) x.tool(name, "", {}, async () => value);
    const host = serve(x);
    for (const [name, want] of Object.entries({
      text: '{"content":[{"type":"text","text":"a\\nb"}]}', none: '{"content":[]}',
      object: '{"content":[{"type":"text","text":"{\\"n\\":12345678901234567890,\\"at\\":\\"1970-01-01T00:00:00.000Z\\"}"}],"structuredContent":{"n":12345678901234567890,"at":"1970-01-01T00:00:00.000Z"}}',
      list: '{"content":[{"type":"text","text":"[1,1.10]"}]}', set: '{"content":[{"type":"text","text":"[1]"}]}', raw: '{"content":[], "later": 1.10}',
      image: '{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"seen"}]}',
    })) assert.equal(await host.call(name), result(want));
  });

  test("failures", async (t) => {
    quiet(t);
    const x = new Extension();
    const failing = { rains: new ToolError("it rains"), refuses: new ToolError("no", { code: -32001, data: [1] }), crashes: new TypeError("oh"),
      fetches: new TypeError("fetch failed", { cause: new AggregateError([], "", { cause: new Error("connect ECONNREFUSED 127.0.0.1:1") }) }), text: "thrown" };
    for (const [name, error] of Object.entries(failing)) x.tool(name, "", {}, () => { throw error; });
    x.tool("nan", "", {}, () => ({ n: NaN }));
    x.tool("function", "", {}, () => () => 1);
    const host = serve(x);
    assert.equal(await host.call("rains"), result('{"content":[{"type":"text","text":"it rains"}],"isError":true}'));
    assert.match(await host.call("refuses"), /"error":\{"code":-32001,"message":"no","data":\[1\]\}/);
    assert.match(await host.call("crashes"), /"text":"TypeError: oh"\}\],"isError":true/);
    assert.match(await host.call("fetches"), /"text":"TypeError: fetch failed: .*connect ECONNREFUSED 127.0.0.1:1"/);
    for (const name of ["text", "nan", "function"]) assert.match(await host.call(name), /"isError":true/);
    assert.match(await host.call("missing"), /"code":-32602/);
    assert.match(await host.ask("tools/call"), /"code":-32602/);
  });

  test("failures that have no form to write", async (t) => {
    quiet(t);
    const circular = {};
    circular.itself = circular;
    const hostile = { get stack() { throw new Error("no"); }, get cause() { throw new Error("no"); } };
    const failures = { data: new ToolError("no", { code: 1, data: circular }), bare: Object.create(null), symbol: Symbol("s"), hostile, cause: new Error("e", { cause: { message: Symbol("s") } }) };
    const x = new Extension();
    for (const [name, error] of Object.entries(failures)) {
      x.tool(`${name}_now`, "", {}, () => { throw error; });
      x.tool(`${name}_later`, "", {}, async () => { throw error; });
    }
    const host = serve(x);
    for (const name of Object.keys(failures)) {
      for (const when of ["now", "later"]) assert.match(await host.call(`${name}_${when}`), /"isError":true/);
    }
  });

  test("a slow call holds nobody up and is cancelled", async () => {
    const x = new Extension();
    x.tool("wait", "", {}, (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))));
    const host = serve(x);
    host.say('{"jsonrpc":"2.0","id":1e2,"method":"tools/call","params":{"name":"wait"}}');
    assert.equal(await host.ask("ping"), result("{}"));
    host.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1e2}}');
    assert.equal(await host.hear(), '{"jsonrpc":"2.0","id":1e2,"result":{"content":[{"type":"text","text":"cancelled"}],"isError":true}}');
  });

  test("a call that was cancelled before it asked", async () => {
    const x = new Extension();
    let go;
    x.tool("late", "", {}, async (_, ctx) => {
      await new Promise((resolve) => { go = resolve; });
      return `${ctx.signal.aborted}`;
    });
    const host = serve(x);
    host.say('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"late","arguments":{}}}');
    host.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
    assert.equal(await host.ask("ping"), result("{}"));
    go();
    assert.match(await host.hear(), /"text":"true"/);
  });

  test("progress, log and meta", async () => {
    const x = new Extension();
    x.tool("work", "", {}, (args, ctx) => {
      assert.deepEqual(args, {});
      ctx.progress(1, 2, "half");
      ctx.log("warning", "careful");
      return ctx.meta.session_id ?? "nobody";
    });
    const host = serve(x);
    const first = await host.ask("tools/call", '{"name":"work","arguments":{"_meta":{"session_id":"s"}},"_meta":{"progressToken":"p"}}');
    assert.deepEqual([first, await host.hear(), await host.hear()], [
      '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2,"message":"half"}}',
      '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"careful","_meta":{"progressToken":"p"}}}',
      result('{"content":[{"type":"text","text":"s"}]}')]);
  });
});

describe("the rest of the protocol", () => {
  test("hooks and policies", async (t) => {
    quiet(t);
    const x = new Extension();
    x.hook("before_tool_call", ({ tool_name: tool }) => (tool === "rm" ? { decision: "deny", reason: "no" } : undefined));
    x.hook("after_tool_call", async () => { throw new ToolError("no"); });
    x.policy(({ tool }) => (tool === "rm" ? { decision: "deny", code: "quota" } : undefined));
    const host = serve(x);
    assert.match(await host.ask("initialize", { protocol_version: 1 }), /"hooks":\["before_tool_call","after_tool_call"\]/);
    for (const [method, params, want] of [
      ["hooks/before_tool_call", { tool_name: "rm" }, '"result":{"decision":"deny","reason":"no"}'], ["hooks/before_tool_call", {}, '"result":null'],
      ["hooks/after_tool_call", {}, '"error":{"code":-32603,"message":"no"}'], ["hooks/session_start", {}, '"code":-32601'],
      ["governance/decide", { tool: "rm" }, '"result":{"decision":"deny","code":"quota"}'], ["governance/decide", {}, '"result":{"decision":"allow"}'],
    ]) assert.ok((await host.ask(method, params)).includes(want), method);
  });

  test("setup", async (t) => {
    quiet(t);
    const x = new Extension();
    x.setup(async (host) => { if (!host.config.k) throw new Error("no config", { cause: new Error("no file") }); });
    const host = serve(x);
    assert.match(await host.ask("initialize", '{"agent_version":"0.9.0","extension_id":"me","protocol_version":1,"config":{"k":12345678901234567890},"state_dir":"/s"}'), /"server_version":"1.2.3"/);
    assert.deepEqual(x.host, { version: "0.9.0", extensionId: "me", capabilities: {}, config: { k: 12345678901234567890n }, stateDir: "/s" });
    assert.match(await host.ask("initialize"), /"message":"Error: no config: no file"/);
    assert.match(await host.ask("initialize", { protocol_version: 2 }), /"error"/);
  });
});

describe("the wire", () => {
  const x = new Extension();
  x.tool("echo", "", { value: {} }, ({ value }) => ({ value }));
  x.tool("raw", "", { value: {} }, (_, ctx) => ({ value: ctx.arguments }));

  test("values come back as they went", async () => {
    const host = serve(x);
    for (const text of ["12345678901234567890", "9".repeat(5000), `[-${"8".repeat(20)},1000,1.5]`, '"\\ud800 é \\u0000 12345678901234567890 \\" {"', JSON.stringify("x".repeat(1 << 20)), `"${"\\n".repeat(7e6)} 1234567890123456"`, '{"__proto__":1}']) {
      const answer = await host.ask("tools/call", `{"name":"echo","arguments":{"value":${text}}}`);
      assert.ok(answer.includes(`"structuredContent":{"value":${text}}`), text.slice(0, 50));
    }
    assert.ok((await host.ask("tools/call", '{"name":"raw","arguments":{"value":1.10, "value2" : [ ]}}')).includes("there is no value2"));
    assert.ok((await host.ask("tools/call", '{"name":"raw","arguments":{"value" :  [1.10,"}"] }}')).includes('"structuredContent":{"value":{"value" :  [1.10,"}"] }}'));
  });

  test("ids come back as they went", async () => {
    const host = serve(x);
    for (const id of ["0", "12345678901234567890", "1e2", "-1.50", '"\\u00e9"', '"é"', "null"]) {
      assert.equal(await host.ask("ping", {}, id), `{"jsonrpc":"2.0","id":${id},"result":{}}`);
    }
  });

  test("lines that are no requests", async () => {
    const host = serve(x);
    for (const line of ["[1]", "nothing", '{"id" 1}', '{"a":1,,}', '{"id":1}{}', '{"method":"ping","params":[}', `{"method":"ping","params":${"[".repeat(1e5)}`]) {
      host.say(line);
      assert.match(await host.hear(), /"id":null,"error":\{"code":-32700/);
    }
    for (const line of ["", '{"jsonrpc":"2.0","id":1,"result":{}}', '{"jsonrpc":"2.0","method":"unheard_of"}', '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}']) host.say(line);
    assert.match(await host.ask("no/such"), /"code":-32601/);
    assert.equal(await host.ask("shutdown", "[]"), result("{}"));
  });

  test("lines in pieces", async () => {
    const source = new PassThrough(), got = [];
    const done = x.serve(source, (line) => got.push(line));
    const line = Buffer.from('{"jsonrpc":"2.0","id":"é","method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}');
    for (const byte of line) source.write(Buffer.from([byte]));
    source.end();
    await done;
    assert.deepEqual(got, ['{"jsonrpc":"2.0","id":"é","result":{}}\n', '{"jsonrpc":"2.0","id":2,"result":{}}\n']);
  });
});

describe("the process", () => {
  const sdk = fileURLToPath(new URL("exthost.mjs", import.meta.url));
  const CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f"}}';

  /** Starts a program as a host does. said grows; once hears the output when it has a text. */
  function start(program) {
    const dir = mkdtempSync(join(tmpdir(), "exthost-"));
    const path = join(dir, "main.mjs");
    writeFileSync(path, program.replace("SDK", JSON.stringify(sdk)));
    const child = spawn(process.execPath, [path], { env: { ...process.env, EXTHOST_PROTOCOL_VERSION: "1" } });
    const said = { out: "", err: "" };
    child.stderr.on("data", (data) => { said.err += data; });
    const closed = new Promise((resolve) => child.on("close", (code) => {
      rmSync(dir, { recursive: true });
      resolve({ code, ...said });
    }));
    let heard = () => {};
    child.stdout.on("data", (data) => {
      said.out += data;
      heard();
    });
    return {
      closed,
      say: (...lines) => child.stdin.write(lines.map((line) => `${line}\n`).join("")),
      end: () => child.stdin.end(),
      hear: (text) => new Promise((resolve) => {
        heard = () => { if (said.out.includes(text)) resolve(); };
        closed.then(resolve);
        heard();
      }),
      release: () => writeFileSync(join(dir, "go"), ""),
    };
  }

  /** Runs a program, tells it lines and closes its stdin. */
  function talk(program, ...lines) {
    const child = start(program);
    child.say(...lines);
    child.end();
    return child.closed;
  }

  /** A function that lets nothing else in its process run until the test releases it, and says whether it has. */
  const HOLD = `
      import { existsSync } from "node:fs";
      function hold() {
        let left = 2000;
        while (!existsSync(new URL("go", import.meta.url)) && left--) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
        return left >= 0 ? "released" : "left alone";
      }`;

  test("progress is not held back by the function that sends it", async () => {
    const child = start(`${HOLD}
      import { run, tool } from SDK;
      tool("f", "", {}, (_, ctx) => {
        ctx.progress(1);
        return hold();
      });
      run();`);
    child.say(CALL.replace('"f"', '"f","_meta":{"progressToken":"p"}'));
    await child.hear("notifications/progress");
    child.release();
    child.end();
    assert.match((await child.closed).out, /"text":"released"/);
  });

  test("an answer is not held back by a function that is known as slow", async () => {
    const call = (id, how) => CALL.replace("1", id).replace('"f"', `"f","arguments":{"how":"${how}"}`);
    const child = start(`${HOLD}
      import { run, tool } from SDK;
      tool("g", "", {}, () => "quick");
      tool("f", "", { how: {} }, ({ how }) => {
        if (how === "hold") return hold();
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
        return how;
      });
      run();`);
    child.say(call(1, "slowly"));
    await child.hear("slowly");
    child.say(CALL.replace("1", 2).replace('"f"', '"g"'), call(3, "hold"));
    await child.hear("quick");
    child.release();
    child.end();
    assert.match((await child.closed).out, /"text":"released"/);
  });

  test("an answer that is ready outlives its process", async () => {
    const { out } = await talk(`
      import { run, tool } from SDK;
      tool("f", "", {}, () => "told");
      tool("g", "", {}, () => process.exit(1));
      run();`, CALL, CALL.replace("1", 2).replace('"f"', '"g"'));
    assert.match(out, /"text":"told"/);
  });

  test("nothing but the protocol is on stdout", async () => {
    const { code, out, err } = await talk(`
      import { run, tool } from SDK;
      console.log("at import");
      tool("f", "", {}, () => {
        console.log("żółw", { a: 1 });
        console.error("two\\nlines");
        console.warn("%d of %s:", 1, "two", new Map());
        process.stdout.write("plain\\n");
        setInterval(() => {}, 1000);
        return "told";
      });
      run();`, CALL);
    assert.deepEqual([code, out], [0, '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"told"}]}}\n']);
    for (const said of ["I! at import\n", "I! żółw { a: 1 }\n", "E! two\nE! lines\n", "W! 1 of two: Map(0) {}\n", "plain\n"]) assert.ok(err.includes(said), err);
  });

  test("calls in flight are answered after the end, and one that hangs keeps nothing", async () => {
    const { code, out } = await talk(`
      import { run, tool } from SDK;
      tool("f", "", { hang: { default: false } }, ({ hang }) => new Promise((resolve) => hang || setTimeout(resolve, 300, "late")));
      run();`, CALL, CALL.replace('"f"', '"f","arguments":{"hang":true}').replace('"id":1', '"id":2'));
    assert.equal(code, 0);
    assert.match(out, /^.*"text":"late".*\n$/);
  });

  test("many calls at once are all answered", async () => {
    const calls = Array.from({ length: 500 }, (_, i) => `{"jsonrpc":"2.0","id":${i},"method":"tools/call","params":{"name":"${i % 3 ? "now" : "later"}","arguments":{"n":${i}}}}`);
    const { out } = await talk(`
      import { run, tool } from SDK;
      tool("now", "", { n: {} }, ({ n }) => n);
      tool("later", "", { n: {} }, async ({ n }) => n);
      run();`, ...calls);
    const answers = out.trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(answers.map((a) => a.id).sort((a, b) => a - b), calls.map((_, i) => i));
    for (const a of answers) assert.equal(a.result.content[0].text, String(a.id));
  });

  test("a large answer leaves whole", async () => {
    const { out } = await talk(`
      import { run, tool } from SDK;
      tool("f", "", {}, () => "x".repeat(4 << 20));
      run();`, CALL);
    assert.equal(JSON.parse(out).result.content[0].text.length, 4 << 20);
  });
});
