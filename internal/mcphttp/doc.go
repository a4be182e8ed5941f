// Package mcphttp moves MCP messages over HTTP: bodies in, JSON or server-sent
// events out, and the headers that mirror a message. It knows frames and streams,
// not what the methods mean; sessions and eras are its callers' business.
package mcphttp
