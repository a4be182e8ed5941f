// Package mcphttp moves MCP messages over HTTP: bodies in, JSON or server-sent
// events out, and the headers that mirror a message.
//
// The server's end ([Reply], [Outbox], [Decode]) knows frames and streams, not
// what the methods mean; sessions and eras are its callers' business. The client's
// end is a pair of [jsonrpc.Transport]s ([Streamable], [Events]), which keep the
// session they were given and take up streams that break off.
package mcphttp
