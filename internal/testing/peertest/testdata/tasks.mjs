// Runs a tool as a task with the client of either generation: connects to the endpoint
// in argv[2], calls the tool and prints the task's messages.
import { createRequire } from "node:module";

const require = createRequire(process.env.EXTHOST_PEERS + "/");
const { client: generation, endpoint, tool, args } = JSON.parse(process.argv[2]);

// v1 is the TypeScript client of the first generation with its own support of tasks.
async function v1() {
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const client = new Client({ name: "tasks-v1", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint.url)));
  await client.listTools(); // the client reads which tools are tasks
  const seen = [];
  for await (const message of client.experimental.tasks.callToolStream({ name: tool, arguments: args })) {
    if (message.type === "result") seen.push("result " + message.result.content[0].text.split("\n")[0]);
    else if (message.type === "error") seen.push("error " + message.error.message);
    else if (!seen.includes(message.type)) seen.push(message.type);
  }
  await client.close();
  return seen;
}

// v2 is the client of the second generation with the package for tasks. Its codecs
// reject results that are tasks, so rawDispatch sends such requests.
async function v2() {
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const { createTaskSessionFromClient, resultFromTaskOutcome } = await import(
    process.env.EXTHOST_PEERS + "/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js"); // an ES module
  const mode = { legacy: "legacy", modern: { pin: "2026-07-28" } }[endpoint.versions];
  const me = { name: "tasks-v2", version: "1.0.0" };
  const clientCapabilities = { extensions: { "io.modelcontextprotocol/tasks": {} } };
  const client = new Client(me, { capabilities: clientCapabilities, versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint.url)));
  let sent = 0;
  const rawDispatch = async (request) => {
    const response = await fetch(endpoint.url, {
      method: "POST",
      headers: {
        "content-type": "application/json", accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28", "mcp-method": request.method, "mcp-name": request.params.taskId ?? request.params.name,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: ++sent, ...request }),
    });
    const text = await response.text();
    const { result, error } = JSON.parse(text.startsWith("{") ? text : text.split("\n").findLast((line) => line.startsWith("data: {")).slice(6));
    return error ? { kind: "error", error } : { kind: "result", result };
  };
  const modern = { rawDispatch, v2RequestFraming: { protocolVersion: "2026-07-28", clientInfo: me, clientCapabilities } };
  const session = createTaskSessionFromClient(client, { endpointId: "exthost", ...(endpoint.versions === "modern" ? modern : {}) });
  const { tools } = await client.listTools();
  const found = tools.find((t) => t.name === tool);  // ext_write is not in a list of all tools
  const execution = await session.callTool(tool, args, { declaration: { name: tool, ...found, taskSupport: found?.execution?.taskSupport } });
  const { outcome } = await execution.settle();
  await session.close();
  await client.close();
  return [execution.kind ?? typeof execution, "result " + resultFromTaskOutcome(outcome).content[0].text.split("\n")[0]];
}

console.log(JSON.stringify(await { v1, v2 }[generation]()));
process.exit(0);
