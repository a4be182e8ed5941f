// Package mcpserver serves a [Backend] to MCP clients, raw: over stdio
// ([Server.ServeStdio]), streamable HTTP ([Server.Handler]) and the older HTTP
// with server-sent events ([Server.SSE]).
//
// Two eras of the protocol meet on each of them. Up to 2025-11-25 a client
// initializes a session; from 2026-07-28 on every request carries its own
// context in _meta. A conversation holds what a client of the first kind has in
// common with a stdio stream: requests in flight by id, questions to the client
// that wait for an answer. Requests of the second kind need none over HTTP.
//
//	stdio line ─┐                                      ┌─ initialize, ping, server/discover,
//	HTTP POST ──┼─> conversation or stateless request ─┤  cancelled, subscriptions/listen: here
//	SSE POST ───┘                                      └─ everything else: Backend.Do, raw
//
// Payloads are never decoded and rebuilt: params reach the backend and results
// the client with the bytes they came with. What an era adds to a result is
// spliced in front of its first member.
//
// A client is told things in two ways. What belongs to a request goes the way of
// its answer and ahead of it; the rest goes to the session's own stream and,
// over HTTP, is dropped when 64 messages already wait there.
package mcpserver
