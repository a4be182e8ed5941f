package protocol

import (
	"context"
	"encoding/json"
	"time"
)

// Peer is the other end of a connection: a child or a client. Payloads stay encoded.
type Peer interface {
	// Call sends a request and waits for its response or the end of ctx.
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify sends a notification. It may block until ctx ends if the peer reads slowly.
	Notify(ctx context.Context, method string, params json.RawMessage) error
}

// Session is a client's session with the host, or the context of one modern MCP request.
type Session struct {
	ID     string // unique among live sessions; "" for a modern request
	Caller string // the authenticated caller; "" when anonymous
	// Instance distinguishes clients without a session: by their connection, or by address and the name that they
	// state. It is "" for clients with a session, and if nothing is known.
	Instance string
	Version  string    // MCP revision of the client; "" for Go callers
	Front    string    // FrontHTTP, FrontSSE or FrontStdio; "" for Go callers
	Node     string    // the cluster node of the client; "" for a client of this host
	Remote   bool      // the client is on another machine, according to its request
	Since    time.Time // start of the session, or of the request without one
	// Env are variables for the session's own instance, taken from headers of the client's request
	// (env_from_headers). Usually nil.
	Env map[string]string

	// Toolset is the configured toolset that filters and renames what the session sees; "" for everything.
	// Elsewhere the host uses registered names.
	Toolset string
	// ToolMode is how the tools of all extensions are listed: all, search or auto; "": tools.mode of the
	// configuration.
	ToolMode string

	// the only extension of the session, whose tools then keep their own names; "" for all
	Extension    string
	Capabilities json.RawMessage // the client's MCP capabilities, as sent
	ClientInfo   json.RawMessage // as sent; nil if the client sent none
	Client       Peer            // for messages outside of any request; nil if impossible
}

// The values of Session.Front: how a client is connected.
const (
	FrontHTTP  = "http"
	FrontSSE   = "sse"
	FrontStdio = "stdio"
)

// Description describes the server in the handshake of a session.
type Description struct {
	Capabilities json.RawMessage // MCP server capabilities, an object
	Instructions string          // advice for the client's model; "" is none
	ServerInfo   json.RawMessage // serverInfo of the session's one extension, as sent; nil: the host's own
}

// Call is one request or notification to an extension or the host.
type Call struct {
	Session   *Session        // nil for an anonymous Go caller
	Extension string          // the target, with its own tool names; "" for all, with registered names
	Method    string          // an MCP method name
	Params    json.RawMessage // raw; nil means {}
	Notify    bool            // a notification: no response is expected
	Client    Peer            // gets the extension's messages during the request; nil drops them
	Node      string          // the cluster node to use; "" for any node that has the extension
	Begun     bool            // refuse requests about tasks that the caller did not start here, with ErrNoTask
	Origin    string          // the decision id of the node that forwarded the call; "" for none
}
