// The TypeScript client of the first generation: connects as argv[2] says, lists
// the tools, makes the calls and prints what it saw.
import { createRequire } from "node:module";

const require = createRequire(process.env.EXTHOST_PEERS + "/");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");

const { place, calls } = JSON.parse(process.argv[2]);

const transports = {
  stdio: () => new StdioClientTransport({ command: place.command[0], args: place.command.slice(1), env: place.env }),
  http: () => new StreamableHTTPClientTransport(new URL(place.url)),
  sse: () => new SSEClientTransport(new URL(place.url)),
};

const client = new Client({ name: "typescript-v1", version: "1.0.0" });
const transport = transports[place.transport]();
let version; // the client tells only its transport
const settle = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (v) => { version = v; settle?.(v); };
await client.connect(transport);

const seen = { version, tools: (await client.listTools()).tools.map((tool) => tool.name), calls: [] };
for (const call of calls) {
  try {
    seen.calls.push({ result: await client.callTool(call) });
  } catch (error) {
    seen.calls.push({ code: error.code, message: error.message });
  }
}
await client.close();
console.log(JSON.stringify(seen));
