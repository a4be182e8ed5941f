package protocol

import (
	"context"
	"encoding/json"
	"time"
)

// Peer is the other end of a connection: a child or a client. It does not decode
// payloads.
type Peer interface {
	// Call sends a request and waits for its answer or the end of ctx.
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify sends a notification. It may block until ctx ends if the peer reads slowly.
	Notify(ctx context.Context, method string, params json.RawMessage) error
}

// Session is one client's session with the host, or the context of one request of a
// modern MCP client.
type Session struct {
	ID     string // unique among live sessions; "" for a modern request
	Caller string // the authenticated caller; "" when anonymous
	// Instance tells clients apart that have no session: their connection, or where they
	// come from and what they call themselves. "" for sessions, and where nothing is known.
	Instance string
	Version  string    // MCP revision of the client; "" for Go callers
	Front    string    // FrontHTTP, FrontSSE or FrontStdio; "" for Go callers
	Node     string    // the node of the cluster whose client it is; "" for a client of this host
	Remote   bool      // the client is on another machine, as far as its request says
	Since    time.Time // when the session began, or the request without one
	// Env are environment variables for the session's own instance, from the headers
	// of the client's request, see env_from_headers. Usually nil.
	Env map[string]string

	// Toolset is the toolset of the configuration that says what the session sees and may
	// call, under which names; "" for everything. All else of a host has the registered names.
	Toolset string
	// ToolMode is how the tools of all extensions are listed to the session: all, search or
	// auto, as tools.mode of the configuration says; "": as the configuration says.
	ToolMode string

	// the extension that the session is limited to, whose tools keep their own names; "" for all
	Extension    string
	Capabilities json.RawMessage // the client's MCP capabilities, as sent
	ClientInfo   json.RawMessage // as the client sent it; nil if it sent none
	Client       Peer            // reaches the client outside of any request; nil if that is impossible
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
	ServerInfo   json.RawMessage // of the session's one extension, as that sent it; nil for the host's own
}

// Call is one request or notification to an extension or the host.
type Call struct {
	Session   *Session        // nil for an anonymous Go caller
	Extension string          // the target, whose tools have their own names; "" for all, with prefixed names
	Method    string          // an MCP method name
	Params    json.RawMessage // raw; nil means {}
	Notify    bool            // a notification: no answer is expected
	Client    Peer            // takes the messages of the extension during this request; nil drops them
	Node      string          // of the cluster, that is to take the call; "" for any that has the extension
	Begun     bool            // a request about a task that the caller has not begun here is refused with ErrNoTask
	Origin    string          // of a call of another node: the id of that node's decision about it; "" for none
}
