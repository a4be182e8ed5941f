package protocol

import (
	"context"
	"encoding/json"
)

// Peer is the other end of a conversation: a child or a client. Payloads stay raw.
type Peer interface {
	// Call sends a request and waits for its answer or the end of ctx.
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify sends a notification; it may block until ctx ends when the other end is slow.
	Notify(ctx context.Context, method string, params json.RawMessage) error
}

// Session is one client's stay with the host.
type Session struct {
	ID      string // unique among live sessions; "" for a stateless request
	Caller  string // the authenticated caller; "" when anonymous
	Version string // MCP revision the client speaks; "" for Go callers
	// Env are variables that the client's connection brings for an instance of its
	// own, see env_from_headers; nil for most.
	Env map[string]string

	Extension    string          // the one extension that its front serves, under its own names; "" for all of them
	Capabilities json.RawMessage // the client's MCP capabilities, as sent
	ClientInfo   json.RawMessage // who the client says that it is, as sent; nil when it did not
	Client       Peer            // reaches the client outside any request; nil when that is impossible
}

// Description is what a session is told in its handshake.
type Description struct {
	Capabilities json.RawMessage // MCP server capabilities, an object
	Instructions string          // advice for the client's model; "" is none
	ServerInfo   json.RawMessage // of the one MCP server that the session is about, as sent; nil: the host speaks for itself
}

// Call is one exchange on its way to an extension.
type Call struct {
	Session   *Session        // nil for an anonymous Go caller
	Extension string          // "" means all of them, tool names prefixed
	Method    string          // an MCP method name
	Params    json.RawMessage // raw; nil means {}
	Notify    bool            // a notification: no answer is expected
	Client    Peer            // bound to this request: what the child says meanwhile; nil drops it
}
