// Package wire has the protocols that messages travel by: JSON-RPC over pipes, MCP over HTTP as server and as client,
// and the schemas that arguments are checked against.
package wire
