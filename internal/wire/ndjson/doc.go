// Package ndjson is the transport of JSON-RPC over byte streams: one JSON object per
// line, as MCP's stdio transport has it. It limits the length of a line, tolerates some
// lines that are not JSON-RPC, and combines frames that are sent at the same time into
// one write.
package ndjson
