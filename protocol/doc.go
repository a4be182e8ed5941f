// Package protocol holds what the host and extension authors share: the wire
// structs, the method names and the closed set of errors. It has no behaviour
// beyond reading and writing those values.
//
// Three conversations meet here. The host speaks the native protocol (or MCP,
// or lite) to its extensions; agent loops and MCP clients speak to the host
// through [Session] and [Call]; and every failure anywhere in between is one
// [Error] whose [Kind] is the same string in JSON, in the CLI and over MCP.
package protocol

// Version is the version of the native protocol. Additive changes keep it,
// breaking ones raise it, and either side may refuse the other's
// (kind [ProtocolVersion]).
const Version = 1
