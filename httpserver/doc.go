// Package httpserver puts MCP on HTTP: streamable HTTP on /mcp, the older
// transport with server-sent events on /sse and /message, and /healthz and
// /readyz for whoever runs the process. Operators have /metrics, an API below
// /api/v1, and on /ui a dashboard that is made with it.
//
// Every route, those that do not exist included, is behind the same guard. The
// Host header must name this server, so that no web page reaches it by a name of
// its own (DNS rebinding); a browser's request must come from this server's own
// pages or an allowed origin; and a token that is set is needed everywhere but on /healthz and for
// the dashboard's pages, which hold nothing; the API always needs the operator's own.
package httpserver
