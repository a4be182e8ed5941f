// Package runtime runs one instance of an extension: it starts the process or connects to the server, performs the
// handshake, carries calls and notifications, and stops the instance.
//
//	caller ── Call ──> StdioRuntime ── dialect ──> jsonrpc.Conn ── pipes ──> process
//	caller ── Call ──> RemoteRuntime ─ the same over HTTP ─────────> server
//	caller ── Call ──> ExecRuntime ── one process per call
//
// Callers use MCP. A small dialect per wire protocol (native, mcp, lite) translates by editing raw JSON, so that all
// other bytes pass unchanged. This package restarts nothing: when a run ends, Serve returns the reason.
package runtime
