// Package ndjson implements JSON-RPC over byte streams: one JSON object per line, as in MCP's stdio transport. It
// limits the length of a line, tolerates some lines that are not JSON-RPC, and combines concurrent frames into one
// write.
package ndjson
