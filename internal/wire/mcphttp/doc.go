// Package mcphttp maps MCP messages to HTTP for a server: it reads request bodies,
// checks the headers that repeat a message, and writes answers as JSON or as an
// event stream. It knows no methods, sessions and protocol versions: those are for its callers.
//
// The headers themselves, with [SetHeaders] and [SetTrace], serve clients too.
package mcphttp
