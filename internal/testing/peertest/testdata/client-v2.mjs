// The TypeScript client of the second generation, which supports legacy and modern versions: connects to
// the endpoint in argv[2], lists the tools, makes the calls and prints a report.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.env.EXTHOST_PEERS + "/");
const { Client, StreamableHTTPClientTransport, SSEClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const { endpoint, calls } = JSON.parse(process.argv[2]);

const headers = endpoint.token ? { Authorization: `Bearer ${endpoint.token}` } : {};
const transports = {
  stdio: () => new StdioClientTransport({ command: endpoint.command[0], args: endpoint.command.slice(1), env: endpoint.env }),
  http: () => new StreamableHTTPClientTransport(new URL(endpoint.url), { requestInit: { headers } }),
  sse: () => new SSEClientTransport(new URL(endpoint.url)),
};
const modes = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

const client = new Client({ name: "typescript-v2", version: "1.0.0" }, { versionNegotiation: { mode: modes[endpoint.versions] }, capabilities: endpoint.asks ? { elicitation: {} } : {} });
const seen = { calls: [] };
if (endpoint.asks) { // the person is at stdin
  const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  client.setRequestHandler("elicitation/create", async (request) => {
    console.log(JSON.stringify({ asked: request.params.message }));
    const action = (await answers.next()).value;
    if (action === "gone") {
      console.log(JSON.stringify(seen));
      process.exit();
    }
    return { action };
  });
}
await client.connect(transports[endpoint.transport]());

seen.version = client.getNegotiatedProtocolVersion();
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
