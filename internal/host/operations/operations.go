// Package operations carries out operations of operators across a cluster: approvals, restarts, audit records and
// long results. A node sends operations for its operator and callers, and carries out those of other nodes.
package operations

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// Options of [Nodes].
type Options struct {
	Local    Local
	Self     string        // this node's name; "" without a cluster
	Cluster  peers.Cluster // nil: no cluster
	Calls    Calls
	Sessions Sessions // of this host's clients
}

// Sessions are the attached sessions.
type Sessions interface {
	IfAttached(s *protocol.Session, f func()) (attached bool)
}

// Calls is the host's path of calls.
type Calls interface {
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
}

// Nodes are the operations on a host and on the other nodes of its cluster. It is safe for concurrent use.
type Nodes struct {
	Local Local
	remoteNodes
	calls    Calls
	sessions Sessions
	desks    desks
	reading  chan struct{} // holds a token while the audit log is read for another node

	readingForOperators chan struct{} // the same for nodes in cluster.operators
}

// New returns Nodes that may be used after Begin.
func New() *Nodes {
	n := &Nodes{reading: make(chan struct{}, 1), readingForOperators: make(chan struct{}, 1)}
	n.desks.changed, n.desks.poked = make(chan struct{}), make(chan struct{}, 1)
	return n
}

// Begin sets the host and cluster to operate on.
func (n *Nodes) Begin(o Options) {
	n.Local, n.remoteNodes, n.calls, n.sessions = o.Local, remoteNodes{o.Self, o.Cluster}, o.Calls, o.Sessions
}

// inward carries out operations of other nodes.
type inward Nodes

// Operations of other nodes.
const (
	methodApprovals = "approvals/list"
	methodApprove   = "approvals/approve"
	methodDeny      = "approvals/deny"
	methodRestart   = "extensions/restart"
	methodEnable    = "extensions/enable"
	methodDisable   = "extensions/disable"
	methodReload    = "extensions/reload"
	methodAudit     = "audit/read"
	methodPage      = "results/page"
)

// Operate carries out an operation of another node.
func (n *Nodes) Operate(ctx context.Context, o *peers.Operation) (json.RawMessage, error) {
	in := (*inward)(n)
	switch o.Method {
	case methodApprovals:
		return answer(in.waiting(o))
	case methodAudit:
		return answer(in.records(ctx, o))
	case methodPage:
		return in.page(ctx, o)
	case methodApprove, methodDeny, methodRestart, methodEnable, methodDisable, methodReload:
		return in.obey(ctx, o)
	}
	return nil, protocol.Errorf(protocol.ToolNotFound,
		"node %s does not know the operation %.60q: update exthost there", n.self, o.Method)
}

func answer(v any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// obey carries out and records an operation that requires operator rights.
func (n *inward) obey(ctx context.Context, o *peers.Operation) (_ json.RawMessage, err error) {
	var p order
	if err := read(o, &p); err != nil {
		return nil, err
	}
	began := time.Now()
	p.By = display.Escape(display.Cut(p.By, maxBy)) + " at node " + o.Node
	defer func() { n.record(ctx, o, &p, began, err) }()
	if !o.Operator {
		return nil, protocol.Errorf(protocol.Rejected,
			"node %s takes no orders of node %s: name it in cluster.operators there, or give the command there: %s",
			n.self, o.Node, p.command(o.Method))
	}
	switch o.Method {
	case methodApprove, methodDeny:
		err = n.decide(o.Method, &p)
	case methodRestart:
		err = n.Local.Restart(ctx, p.ID)
	case methodEnable:
		err = n.Local.Enable(ctx, p.ID)
	case methodDisable:
		err = n.Local.Disable(ctx, p.ID)
	case methodReload:
		return answer(n.reload(ctx, p.ID))
	}
	return json.RawMessage("null"), err
}

// maxBy bounds the name of a person at another node, in bytes.
const maxBy = 256

// order are the params of an operation that requires operator rights.
type order struct {
	ID     string `json:"id,omitempty"`   // a request or an extension
	Hash   string `json:"hash,omitempty"` // of the request as the person was shown it
	By     string `json:"by,omitempty"`   // the person
	Reason string `json:"reason,omitempty"`
}

// command returns the command that does the same when run at the node itself.
func (p *order) command(method string) string {
	_, verb, _ := strings.Cut(method, "/")
	switch method {
	case methodReload:
		return "exthost reload"
	case methodApprove, methodDeny:
		verb = "calls " + verb
	}
	return "exthost " + verb + " " + display.Escape(display.Cut(p.ID, 160))
}

// record writes an operation of another node into the log and the audit log.
func (n *inward) record(ctx context.Context, o *peers.Operation, p *order, began time.Time, err error) {
	r := audit.Record{
		Time:     began.UTC(),
		Node:     o.Node,
		Method:   "exthost/" + o.Method,
		Outcome:  audit.OK,
		Duration: float64(time.Since(began).Microseconds()) / 1e3,
	}
	id := display.Escape(display.Cut(p.ID, 160))
	if o.Method == methodApprove || o.Method == methodDeny {
		r.ID = id
	} else {
		r.Extension = id
	}
	switch {
	case !o.Operator:
		r.Outcome, r.Code = audit.Denied, "not_an_operator"
	case err != nil:
		r.Outcome = audit.Failed
	default:
		r.ApprovedBy = p.By
	}
	if err != nil {
		r.Failure, r.Error = string(protocol.KindOf(err)), display.Escape(display.Cut(protocol.Reason(err), maxText))
		n.Local.Log.Warn("an operation of another node was not carried out",
			"node", o.Node, "operation", o.Method, "id", id, "by", p.By, "reason", r.Error)
	} else {
		n.Local.Log.Info("an operation of another node was carried out",
			"node", o.Node, "operation", o.Method, "id", id, "by", p.By)
	}
	n.Local.State.Record(context.WithoutCancel(ctx), r)
}

// read decodes the params of an operation.
func read(o *peers.Operation, p any) error {
	if err := json.Unmarshal(o.Params, p); err != nil {
		return protocol.Errorf(protocol.InvalidArguments, "the params of %s: %w", o.Method, err)
	}
	return nil
}
