// exthost SDK 0.1.0, sha256 4129758e6fa6b3c38e6c864b9e049d8c4e8d95aa1ccfd114f60acd44ad03a5c5: exthost init --update-sdk replaces it
/** What the host says when it opens the conversation. */
export interface Host {
  readonly version: string;
  readonly extensionId: string;
  readonly capabilities: Record<string, unknown>;
  /** [config] of the manifest with the operator's values over it. */
  readonly config: Record<string, any>;
  /** Private to the extension, survives restarts. */
  readonly stateDir: string;
}

/** What a handler knows of its call, and can tell its caller. */
export interface Context {
  /** Aborts when the caller has given up; nobody waits for the result then. */
  readonly signal: AbortSignal;
  readonly host: Host;
  /** agent_id and session_id, where the manifest has [context] passthrough = true. */
  readonly meta: Record<string, unknown>;
  /** The arguments as they were sent, every byte of them. */
  readonly arguments: Raw;
  /** Says how far the call is, in any unit. It also keeps a long call from timing out. */
  progress(done: number, total?: number, message?: string): void;
  /** Sends a message to the caller. What only the operator should read belongs on the console. */
  log(level: "debug" | "info" | "warning" | "error", message: string): void;
}

/** A failure that the model should read; with a code a JSON-RPC error, which says that the call could not be made. */
export class ToolError extends Error {
  constructor(message: string, error?: { code?: number; data?: unknown });
  readonly code?: number;
  readonly data?: unknown;
}

/** JSON as text. A tool that returns one answers with every byte of it. */
export class Raw {
  constructor(text: string);
  readonly text: string;
  toString(): string;
}

/** A picture to return from a tool, alone or in a list with texts. */
export class Image {
  constructor(data: Uint8Array | ArrayBuffer, mimeType?: string);
  readonly data: Uint8Array | ArrayBuffer;
  readonly mimeType: string;
}

/** A JSON Schema. */
export type Schema = { [keyword: string]: any };

/** The properties of the arguments. All are required but those with a default and those that are optional. */
export type Properties = { [name: string]: Schema & { optional?: boolean } };

export interface ToolOptions {
  title?: string;
  outputSchema?: Schema;
  /** Hints for hosts and people; by default nothing is claimed. */
  readOnly?: boolean;
  idempotent?: boolean;
  destructive?: boolean;
  openWorld?: boolean;
}

/** The hook points of the agent loop. */
export type Point =
  | "session_start" | "session_end" | "before_message" | "after_message" | "before_model_request" | "after_model_response"
  | "tools_select" | "before_tool_call" | "after_tool_call" | "tool_call_failed" | "extension_state";

export interface Verdict {
  decision?: "allow" | "deny" | "ask" | "none";
  reason?: string;
  /** Merged over the event for the next handler and the call; null deletes. */
  override?: Record<string, unknown>;
  context?: string;
  abort?: boolean;
}

/** What a policy is asked about. */
export interface Exchange {
  flow: "request" | "response";
  direction: string;
  method: string;
  caller?: unknown;
  extension?: string;
  tool?: string;
  request?: any;
  response?: any;
}

export interface Decision {
  decision: "allow" | "deny" | "modify" | "respond" | "ask";
  code?: string;
  reason?: string;
  data?: unknown;
  retry_after?: number;
  request?: unknown;
  response?: unknown;
}

type Awaitable<T> = T | Promise<T>;

/**
 * Tools, hooks and the conversation that serves them. A whole number that a number cannot hold arrives as a bigint.
 */
export class Extension {
  readonly host: Host;
  /**
   * Adds a tool. input are the properties of its arguments, or a whole JSON Schema of type object. The result is a string,
   * an Image, a list with one, a Raw result, or anything that has a JSON form: an object is structured content as well.
   */
  tool<Arguments = Record<string, any>>(
    name: string, description: string, input: Properties | Schema | undefined,
    handler: (args: Arguments, ctx: Context) => Awaitable<unknown>, options?: ToolOptions,
  ): void;
  /** Answers a hook point; nothing returned is go on. List it in [capabilities] of the manifest. */
  hook(point: Point, handler: (event: Record<string, any>, ctx: Context) => Awaitable<Verdict | null | void>): void;
  /** Decides about exchanges; nothing returned allows. */
  policy(handler: (exchange: Exchange, ctx: Context) => Awaitable<Decision | null | void>): void;
  /** Runs before the first call. What it throws refuses to start, and the operator reads why. */
  setup(handler: (host: Host) => Awaitable<void>): void;
  /** Serves the host on stdin and stdout until it closes the conversation, then ends the process. */
  run(version?: string): Promise<void>;
  /** Serves a host that writes to source; write takes what goes back to it, line by line. */
  serve(source: AsyncIterable<Uint8Array>, write: (line: string) => unknown, version?: string): Promise<void>;
}

export const tool: Extension["tool"];
export const hook: Extension["hook"];
export const policy: Extension["policy"];
export const setup: Extension["setup"];
export const run: Extension["run"];
