// The tools of loop.mjs, with the SDK.
import { run, tool } from "../node/exthost.mjs";

tool("echo", "", { text: { type: "string" } }, ({ text }) => text);
tool("write", "", { size: { type: "integer" }, text: { type: "string" } }, ({ size }) => "x".repeat(size));

run();
