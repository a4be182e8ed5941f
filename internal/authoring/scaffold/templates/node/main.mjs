import { setTimeout as wait } from "node:timers/promises";

import { run, tool } from "./exthost.mjs";

tool("hello", "Greet someone by name.",
  { name: { type: "string", description: "Whom to greet", default: "world" } },
  ({ name = "world" }) => `Hello, ${name}!`,
  { readOnly: true });

tool("count", "Count seconds: shows how a long call tells its progress and is cancelled.",
  { seconds: { type: "integer", description: "How far to count", minimum: 1, maximum: 600 } },
  async ({ seconds }, ctx) => {
    for (let done = 0; done < seconds; done++) {
      ctx.progress(done, seconds);
      await wait(1000, undefined, { signal: ctx.signal });
    }
    return `${seconds} seconds have passed.`;
  },
  { readOnly: true });

run("0.1.0");
