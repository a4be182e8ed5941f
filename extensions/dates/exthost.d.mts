// exthost SDK 0.1.0, sha256 d440f0b165275bae37bbdfadd3bb21ed0b313a7cb1d8698e0cdb6f442baa6079: exthost init --update-sdk replaces it
/** The parameters that the host sends when it opens the connection. */
export interface Host {
  readonly version: string;
  readonly extensionId: string;
  readonly capabilities: Record<string, unknown>;
  /** [config] of the manifest, overridden by the operator's values. */
  readonly config: Record<string, any>;
  /** Private to the extension, survives restarts. */
  readonly stateDir: string;
}

/** The context of a call, and messages to its caller. */
export interface Context {
  /** Aborts when the caller has given up and no longer waits for the result. */
  readonly signal: AbortSignal;
  readonly host: Host;
  /** agent_id and session_id, where the manifest has [context] passthrough = true. */
  readonly meta: Record<string, unknown>;
  /** The arguments as they were sent, byte for byte. */
  readonly arguments: Raw;
  /** Sends the progress of the call, in any unit. Progress also keeps a long call from timing out. */
  progress(done: number, total?: number, message?: string): void;
  /** Sends a message to the caller. Messages for the operator alone belong on the console. */
  log(level: "debug" | "info" | "warning" | "error", message: string): void;
}

/** A failure for the model to read; with a code, a JSON-RPC error: the call could not be made. */
export class ToolError extends Error {
  constructor(message: string, error?: { code?: number; data?: unknown });
  readonly code?: number;
  readonly data?: unknown;
}

/** JSON text. A tool that returns one sends it as its result as it is. */
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

/** The properties of the arguments. A property is required unless it has a default or is optional. */
export type Properties = { [name: string]: Schema & { optional?: boolean } };

export interface ToolOptions {
  title?: string;
  outputSchema?: Schema;
  /** Hints for hosts and people; undefined is no hint. */
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

/** An exchange between a caller and an extension that a policy decides about. */
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
 * Tools and hooks, served over a connection to the host. An integer beyond the safe range arrives as a bigint.
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
  /** Sets the handler of a hook point; undefined continues. List the point in [capabilities] of the manifest. */
  hook(point: Point, handler: (event: Record<string, any>, ctx: Context) => Awaitable<Verdict | null | void>): void;
  /** Sets the handler that decides about exchanges; undefined allows. */
  policy(handler: (exchange: Exchange, ctx: Context) => Awaitable<Decision | null | void>): void;
  /** Sets a handler that runs before the first call. An exception makes the start fail and is shown to the operator. */
  setup(handler: (host: Host) => Awaitable<void>): void;
  /**
   * Serves the host on stdin and stdout until it closes the connection, then ends the process. Programs that the extension
   * starts must not inherit these two.
   */
  run(version?: string): Promise<void>;
  /**
   * Serves a host that writes to source; write gets each line for the host. A write that keeps lines sends them when flush
   * is called.
   */
  serve(source: AsyncIterable<Uint8Array>, write: (line: string) => unknown, version?: string, flush?: () => void): Promise<void>;
}

export const tool: Extension["tool"];
export const hook: Extension["hook"];
export const policy: Extension["policy"];
export const setup: Extension["setup"];
export const run: Extension["run"];
