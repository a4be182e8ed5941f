// Package mcphttp maps MCP messages to HTTP for a server: it reads request bodies, checks the headers that repeat
// parts of a message, and writes answers as JSON or as an event stream. Methods, sessions and protocol versions are
// left to its callers.
//
// [SetHeaders], [SetTrace] and the header names serve clients too.
package mcphttp
