// Package mcpserver serves a [Backend] to MCP clients over stdio ([Server.ServeStdio]), streamable HTTP
// ([Server.Handler]) and the older HTTP with server-sent events ([Server.SSE]).
//
// Stdio and streamable HTTP serve legacy and modern (2026-07-28) versions of MCP, SSE only legacy ones. A legacy client
// opens a session with initialize. The session tracks, by id, the client's requests in flight and the server's requests
// to the client. A modern request carries its version and capabilities in _meta and needs no session over HTTP.
//
//	stdio line ─┐                                 ┌─ initialize, ping, server/discover,
//	HTTP POST ──┼─> legacy session, or stateless ─┤  cancelled, subscriptions/listen: here
//	SSE POST ───┘   modern request                └─ everything else: Backend.Do, raw
//
// Payloads are never decoded and encoded again: the backend gets the bytes of the params and the client the bytes of
// the result. Members that a protocol version requires are inserted in front of a result's first member.
//
// Messages that belong to a request are sent before its answer on the same stream. All others go to the session's
// standalone stream; over HTTP they are dropped while 64 messages wait there.
package mcpserver
