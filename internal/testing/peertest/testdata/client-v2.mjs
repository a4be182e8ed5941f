// The TypeScript client of the second generation, which supports legacy and modern versions: connects to
// the endpoint in argv[2], lists the tools, makes the calls and prints a report.
import { createRequire } from "node:module";

const require = createRequire(process.env.EXTHOST_PEERS + "/");
const { Client, StreamableHTTPClientTransport, SSEClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const { endpoint, calls } = JSON.parse(process.argv[2]);

const transports = {
  stdio: () => new StdioClientTransport({ command: endpoint.command[0], args: endpoint.command.slice(1), env: endpoint.env }),
  http: () => new StreamableHTTPClientTransport(new URL(endpoint.url)),
  sse: () => new SSEClientTransport(new URL(endpoint.url)),
};
const modes = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

const client = new Client({ name: "typescript-v2", version: "1.0.0" }, { versionNegotiation: { mode: modes[endpoint.versions] }, capabilities: endpoint.answer ? { elicitation: {} } : {} });
if (endpoint.answer) client.setRequestHandler("elicitation/create", async () => ({ action: endpoint.answer }));
await client.connect(transports[endpoint.transport]());

const seen = { version: client.getNegotiatedProtocolVersion(), tools: (await client.listTools()).tools.map((tool) => tool.name), calls: [] };
for (const call of calls) {
  try {
    seen.calls.push({ result: await client.callTool(call) });
  } catch (error) {
    seen.calls.push({ code: error.code, message: error.message });
  }
}
await client.close();
console.log(JSON.stringify(seen));
