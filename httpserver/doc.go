// Package httpserver serves a host over HTTP. MCP clients get streamable HTTP on /mcp, and the older transport with
// server-sent events on /sse and /message. /healthz and /readyz are for process supervisors. Operators get /metrics,
// an API below /api/v1, and a dashboard on /ui that uses the API.
//
// A guard checks every request, including those without a route. The Host header must name this server, which
// prevents DNS rebinding. A browser's request must come from this server's own pages or an allowed origin. If a token
// is configured, every request needs it, except for /healthz and the dashboard's static pages. The API always needs
// the operator's token.
package httpserver
