// The TypeScript client of the first generation: connects to the endpoint in argv[2],
// lists the tools, makes the calls and prints a report.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.env.EXTHOST_PEERS + "/");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");
const { ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");

const { endpoint, calls } = JSON.parse(process.argv[2]);

const headers = endpoint.token ? { Authorization: `Bearer ${endpoint.token}` } : {};
const transports = {
  stdio: () => new StdioClientTransport({ command: endpoint.command[0], args: endpoint.command.slice(1), env: endpoint.env }),
  http: () => new StreamableHTTPClientTransport(new URL(endpoint.url), { requestInit: { headers } }),
  sse: () => new SSEClientTransport(new URL(endpoint.url)),
};

const client = new Client({ name: "typescript-v1", version: "1.0.0" }, { capabilities: endpoint.asks ? { elicitation: {} } : {} });
const seen = { calls: [] };
if (endpoint.asks) { // the person is at stdin
  const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  client.setRequestHandler(ElicitRequestSchema, async (request) => {
    console.log(JSON.stringify({ asked: request.params.message }));
    const action = (await answers.next()).value;
    if (action === "gone") {
      console.log(JSON.stringify(seen));
      process.exit();
    }
    return { action };
  });
}
const transport = transports[endpoint.transport]();
let version; // only the transport gets it
const inherited = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (v) => { version = v; inherited?.(v); };
await client.connect(transport);

seen.version = version;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
for (const call of calls) {
  try {
    seen.calls.push({ result: await client.callTool(call) });
  } catch (error) {
    seen.calls.push({ code: error.code, message: error.message });
  }
}
await client.close();
console.log(JSON.stringify(seen));
