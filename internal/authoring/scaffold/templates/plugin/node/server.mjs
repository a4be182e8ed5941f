// An MCP server on stdin and stdout that requires Node.js only.
import { createInterface } from "node:readline";

const tools = [{
  name: "hello",
  description: "Greet someone by name.",
  inputSchema: {
    type: "object",
    properties: { name: { type: "string", description: "Whom to greet", default: "world" } },
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true },
}];

// A JSON-RPC error with a code and a message.
class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

function hello({ name = "world" }) {
  return `Hello, ${name}!`;
}

const methods = {
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "{{ID}}", version: "0.1.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools }),
  "tools/call": ({ name, arguments: given = {} }) => {
    if (name !== "hello") throw new Refused(-32602, `there is no tool ${name}`);
    try {
      return { content: [{ type: "text", text: hello(given) }], isError: false };
    } catch (error) { // the model reads it and can correct its call
      return { content: [{ type: "text", text: String(error) }], isError: true };
    }
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined || method === undefined) continue; // a notification or an answer
  const answer = { jsonrpc: "2.0", id };
  try {
    if (!Object.hasOwn(methods, method)) throw new Refused(-32601, "method not found: " + method);
    answer.result = methods[method](params);
  } catch (error) {
    answer.error = { code: error.code ?? -32603, message: error.message };
  }
  console.log(JSON.stringify(answer));
}
