// Package wire contains the protocols for messages: JSON-RPC over pipes, MCP over HTTP as server and as client, and
// the JSON Schemas that arguments are checked against.
package wire
