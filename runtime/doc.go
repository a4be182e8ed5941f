// Package runtime runs one instance of an extension: it spawns the process, or
// connects to the server,
// conducts the handshake, carries calls and notifications, and stops it again.
//
//	caller ── Call ──> StdioRuntime ── dialect ──> jsonrpc.Conn ── pipes ──> process
//	caller ── Call ──> RemoteRuntime ─ the same over HTTP ─────────> server
//	caller ── Call ──> ExecRuntime ── one process per call
//
// Callers always speak MCP's terms. A small dialect per wire protocol (native,
// mcp, lite) translates them by editing raw JSON in place, so that whatever it
// does not have to change arrives as it was sent. Nothing here restarts
// anything: a run that ends is over, and its Serve says why.
package runtime
