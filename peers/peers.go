// Package peers is the seam between a host and its cluster: what each asks of the other. It
// holds data and interfaces; package cluster implements [Cluster], and a host implements [Host].
package peers

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// ErrAway is in the error of a call that its node never got because nobody is there at the moment,
// though the node is not known to be lost: it may be connecting anew.
var ErrAway = errors.New("the node is not there at the moment")

// Cluster carries calls to other hosts, and theirs to this one. Its methods may be called by many
// goroutines at once.
type Cluster interface {
	// Open joins the cluster for h, which is called until Close has returned. The error is a
	// *protocol.Error: another node has the name, or a credential is refused. A cluster that
	// cannot be reached is no error: it is joined once it can be.
	Open(ctx context.Context, h Host) error
	// Offer says what h offers now; the cluster tells others the part that it shares. It does not wait.
	Offer(list []Offer)
	// SharedAs returns as what an extension of h is shared: AsMine, AsReplicas, or another text where it is not.
	SharedAs(extension string) string
	// Places returns what other nodes share and this node uses, by extension and node. It must not be modified.
	Places() []*Place
	// Call carries one call to a place and its outcome back. The error is a *protocol.Error; it
	// has no outcome only if the extension never saw the call and never will.
	Call(ctx context.Context, c *Call) (json.RawMessage, error)
	// Operate has another node carry out an operation, and returns its answer. The error is a
	// *protocol.Error, as that of Call.
	Operate(ctx context.Context, node, method string, params json.RawMessage) (json.RawMessage, error)
	// Waiting says that the approval requests of this node are others than before, and how many
	// wait. It does not wait.
	Waiting(requests int)
	// EndSession tells nodes that had calls of s that it has ended. It does not wait.
	EndSession(s *protocol.Session)
	// Status returns what the node knows of the cluster.
	Status() *status.Cluster
	// Close takes no more calls of others, waits until ctx ends for those in flight, says goodbye and disconnects.
	Close(ctx context.Context) error
}

// Host is what a cluster asks of its host. Its methods may be called by many goroutines at once.
type Host interface {
	// Attach registers the session of another node until ctx ends, see mcpserver.Backend.
	Attach(ctx context.Context, s *protocol.Session) error
	// IfAttached runs f if s is attached, and reports whether it is: what f keeps of any other session
	// would stay, as nobody hears of its end. EndSession does not come before f has returned.
	IfAttached(s *protocol.Session, f func()) (attached bool)
	// Do carries the call of another node to an extension of this host; c.Session is never nil.
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// Incoming takes a request or notification of an extension at p that belongs to no call in
	// flight. s is whom it is for, nil for everybody.
	Incoming(ctx context.Context, p *Place, s *protocol.Session, method string, params json.RawMessage,
		notify bool) (json.RawMessage, error)
	// PlacesChanged says that Places returns others than before. It does not wait.
	PlacesChanged()
	// Operate carries out an operation of another node.
	Operate(ctx context.Context, o *Operation) (json.RawMessage, error)
	// WaitingChanged says that other approval requests wait at other nodes than before. It does not wait.
	WaitingChanged()
}

// Offer is one extension of a host as others see it.
type Offer struct {
	Extension       string `json:"id"`
	Version         string `json:"version,omitempty"`          // of the extension; "" if unknown
	Protocol        string `json:"protocol"`                   // native, mcp, lite or exec
	ProtocolVersion string `json:"protocol_version,omitempty"` // the MCP revision spoken; "" for the others
	// as the status says; calls go to ready, idle and restarting ones
	State        string          `json:"state"`
	PerSession   bool            `json:"per_session,omitempty"`  // each session has a process of its own
	Replay       string          `json:"replay,omitempty"`       // runtime.replay of the manifest
	Capabilities json.RawMessage `json:"capabilities,omitempty"` // of an MCP server, raw
	ServerInfo   json.RawMessage `json:"server_info,omitempty"`  // of an MCP server, raw
	Instructions string          `json:"instructions,omitempty"` // of an MCP server
	// the node keeps long results, for the page tool
	Pages bool            `json:"pages,omitempty"`
	Tools []protocol.Tool `json:"-"` // with their descriptors; travel by digest
}

// The values of Place.As.
const (
	AsMine     = "mine"     // one place, listed as NODE.ID
	AsReplicas = "replicas" // one of several places of the extension ID
)

// Place is an extension at another node. It does not change: when the extension does, there is another Place.
type Place struct {
	Node    string
	Run     string // the run of the node
	As      string
	Leaving bool // the node drains or has gone: calls are refused with not_ready
	Offer
	Digests map[string]string // the digest of each tool's descriptor, by its name
}

// ID returns the id of the extension here.
func (p *Place) ID() string {
	if p.As == AsReplicas {
		return p.Extension
	}
	return p.Node + "." + p.Extension
}

// Call is one call to another node.
type Call struct {
	Place   *Place
	Session *protocol.Session // nil for an anonymous Go caller
	Method  string
	Params  json.RawMessage // with the extension's own tool names
	Notify  bool
	Digest  string        // of the descriptor that the caller saw; "" is not compared
	Client  protocol.Peer // takes the messages of the extension during the call; nil drops and refuses them
	Trace   string        // traceparent; "" for none
	Origin  string        // the id of this host's decision, which the other node records beside its own; "" for none
}
