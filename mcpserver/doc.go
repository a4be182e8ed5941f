// Package mcpserver serves a [Backend] to MCP clients: over stdio
// ([Server.ServeStdio]), streamable HTTP ([Server.Handler]) and the older HTTP with
// server-sent events ([Server.SSE]).
//
// Each transport serves legacy and modern versions of MCP, except that SSE is legacy only. A legacy
// client opens a session with initialize. A session tracks, by id, the requests in
// flight and the requests to the client that have no answer yet. A modern request
// brings version and capabilities in _meta and needs no session over HTTP.
//
//	stdio line ─┐                                 ┌─ initialize, ping, server/discover,
//	HTTP POST ──┼─> legacy session, or stateless ─┤  cancelled, subscriptions/listen: here
//	SSE POST ───┘   modern request                └─ everything else: Backend.Do, raw
//
// Payloads are never decoded and encoded again: params reach the backend, and results
// the client, as the bytes that arrived. Members that a protocol version requires are inserted
// in front of a result's first member.
//
// Messages that belong to a request are sent ahead of its answer on the same stream.
// All others go to the session's standalone stream. Over HTTP they are dropped while
// 64 messages wait there.
package mcpserver
