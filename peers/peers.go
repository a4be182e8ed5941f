// Package peers defines what a host and its cluster require of each other. It has only data and interfaces: package
// cluster implements [Cluster], and a host implements [Host].
package peers

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// ErrAway is wrapped by the error of a call that was not delivered because the node is unreachable at the moment. The
// node is not known to be lost: it may be reconnecting.
var ErrAway = errors.New("the node is not there at the moment")

// Cluster carries calls to and from other hosts. It is safe for concurrent use.
type Cluster interface {
	// Open joins the cluster for h, whose methods may be called until Close has returned. The error is a
	// *protocol.Error: another node has the name, or a credential is refused. An unreachable cluster is no error:
	// the node joins once it can.
	Open(ctx context.Context, h Host) error
	// Offer publishes the current descriptors of h; the cluster shares the permitted part with other nodes. It does
	// not block.
	Offer(list []Offer)
	// SharedAs returns how an extension of h is shared: AsMine, AsReplicas, or another text if it is not shared.
	SharedAs(extension string) string
	// Places returns the extensions of other nodes that this node uses: one Place for each extension at each node.
	// The slice must not be modified.
	Places() []*Place
	// Call carries one call to a place and returns its outcome. The error is a *protocol.Error; its Outcome is ""
	// only if the extension never saw the call and never will.
	Call(ctx context.Context, c *Call) (json.RawMessage, error)
	// Operate carries out an operation on another node and returns its answer. The error is a *protocol.Error, as
	// for Call.
	Operate(ctx context.Context, node, method string, params json.RawMessage) (json.RawMessage, error)
	// Waiting announces a change of this node's approval requests and how many wait. It does not block.
	Waiting(requests int)
	// EndSession tells nodes that had calls of s that it has ended. It does not block.
	EndSession(s *protocol.Session)
	// Status returns the node's view of the cluster.
	Status() *status.Cluster
	// Close refuses further calls of other nodes, waits for calls in flight until ctx ends, tells the cluster that
	// the node leaves, and disconnects.
	Close(ctx context.Context) error
}

// Host is what a cluster needs of its host. It is safe for concurrent use.
type Host interface {
	// Attach registers the session of another node until ctx ends, see mcpserver.Backend.
	Attach(ctx context.Context, s *protocol.Session) error
	// IfAttached runs f if s is attached, and reports whether it is. f may record state for s: EndSession, which
	// removes that state, is called only after f has returned.
	IfAttached(s *protocol.Session, f func()) (attached bool)
	// Do carries the call of another node to an extension of this host; c.Session is never nil.
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// Incoming handles a request or notification of an extension at p that belongs to no call in flight. s is the
	// recipient, nil for all sessions.
	Incoming(ctx context.Context, p *Place, s *protocol.Session, method string, params json.RawMessage,
		notify bool) (json.RawMessage, error)
	// PlacesChanged reports that Places has changed. It does not block.
	PlacesChanged()
	// Operate carries out an operation for another node.
	Operate(ctx context.Context, o *Operation) (json.RawMessage, error)
	// WaitingChanged reports that the approval requests of other nodes changed. It does not block.
	WaitingChanged()
}

// Offer is one extension of a host as other nodes see it.
type Offer struct {
	Extension       string `json:"id"`
	Version         string `json:"version,omitempty"`          // of the extension; "" if unknown
	Protocol        string `json:"protocol"`                   // native, mcp, lite or exec
	ProtocolVersion string `json:"protocol_version,omitempty"` // the MCP revision spoken; "" for other protocols
	// as in the status; extensions that are ready, idle or restarting get calls
	State        string          `json:"state"`
	PerSession   bool            `json:"per_session,omitempty"`  // each session has its own process
	Replay       string          `json:"replay,omitempty"`       // runtime.replay of the manifest
	Capabilities json.RawMessage `json:"capabilities,omitempty"` // of an MCP server, raw
	ServerInfo   json.RawMessage `json:"server_info,omitempty"`  // of an MCP server, raw
	Instructions string          `json:"instructions,omitempty"` // of an MCP server
	// the node stores long results of the extension for the page tool
	Pages bool            `json:"pages,omitempty"`
	Tools []protocol.Tool `json:"-"` // with their descriptors, which are sent by digest
	// the risks of tools at the node, by name, where annotations do not state it
	Risks map[string]protocol.Risk `json:"risks,omitempty"`
}

// The values of Place.As.
const (
	AsMine     = "mine"     // one place, listed as NODE.ID
	AsReplicas = "replicas" // one of several places of the extension ID
)

// Place is an extension at another node. It is immutable: when the extension changes, another Place replaces it.
type Place struct {
	Node    string
	Run     string // the run of the node
	As      string
	Leaving bool // the node drains or has left: calls are refused with not_ready
	Offer
	Digests map[string]string // of each tool's descriptor, by tool name
}

// ID returns the id of the extension on this node.
func (p *Place) ID() string {
	if p.As == AsReplicas {
		return p.Extension
	}
	return p.Node + "." + p.Extension
}

// Call is one call to another node.
type Call struct {
	Place   *Place
	Session *protocol.Session // nil: anonymous Go caller
	Method  string
	Params  json.RawMessage // uses the extension's own tool names
	Notify  bool
	Digest  string        // of the descriptor that the caller saw; "": not compared
	Client  protocol.Peer // gets the extension's messages during the call; nil: none are delivered
	Trace   string        // traceparent; "": none
	Origin  string        // id of this host's decision, which the other node records beside its own; "": none
}
