// Package httpserver serves a host over HTTP. MCP clients get streamable HTTP on /mcp,
// and the older transport with server-sent events on /sse and /message. /healthz and
// /readyz are for the process's supervisor. Operators get /metrics, an API below
// /api/v1, and a dashboard on /ui that uses the API.
//
// One guard checks every request, also for paths without a route. The Host header must
// name this server, against DNS rebinding. A browser's request must come from this
// server's own pages or an allowed origin. If a token is set, every request needs it,
// except for /healthz and the dashboard's pages, which hold no data. The API needs the
// operator's token in any case.
package httpserver
