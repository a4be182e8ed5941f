// Package protocol defines the types that the host and extension authors share: wire structs, method names and the
// closed set of errors.
//
// The host speaks the native protocol, MCP or lite to its extensions. Agent loops and
// MCP clients reach the host through [Session] and [Call]. Every failure on the way is
// an [Error], whose [Kind] is the same string in JSON, in the CLI and over MCP.
package protocol

// Version is the version of the native protocol. Breaking changes raise it, additive
// changes do not. Either side may refuse the other's version (kind [ProtocolVersion]).
const Version = 1
