// The smallest loop that answers calls: what the SDK is compared with.
const tools = {
  echo: ({ text }) => text,
  write: ({ size }) => "x".repeat(size),
};

let rest = "";
process.stdin.setEncoding("utf8").on("data", (chunk) => {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    const { id, params } = JSON.parse(line);
    const text = tools[params.name](params.arguments);
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } }) + "\n");
  }
});
