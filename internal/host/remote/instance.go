package remote

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// instance stands for an extension at one node, and sends its calls there.
type instance struct {
	set  *set
	node string

	inFlight atomic.Int64
	calls    atomic.Uint64
	ended    chan struct{}
	end      sync.Once
	started  time.Time
}

var _ runtime.Instance = (*instance)(nil)

func newInstance(s *set, node string) *instance {
	return &instance{set: s, node: node, ended: make(chan struct{}), started: time.Now()}
}

// Serve implements [runtime.Instance]. There is nothing to start: each call reports the state of the extension at
// its node.
func (i *instance) Serve(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-ctx.Done():
	case <-i.ended:
	}
	return nil
}

// Kill implements [runtime.Instance].
func (i *instance) Kill() { i.end.Do(func() { close(i.ended) }) }

// Call implements [runtime.Instance].
func (i *instance) Call(ctx context.Context, r *runtime.Request) (json.RawMessage, error) {
	i.calls.Add(1)
	i.inFlight.Add(1)
	defer i.inFlight.Add(-1)
	return i.call(ctx, r, false)
}

// Notify implements [runtime.Instance].
func (i *instance) Notify(ctx context.Context, method string, params json.RawMessage) error {
	_, err := i.call(ctx, &runtime.Request{Method: method, Params: params}, true)
	return err
}

func (i *instance) call(ctx context.Context, r *runtime.Request, notify bool) (json.RawMessage, error) {
	p := i.set.place(i.node)
	if p == nil {
		return nil, &protocol.Error{
			Kind:      protocol.NotReady,
			Extension: i.set.id,
			Message:   "node " + i.node + " has gone; exthost status shows the nodes",
		}
	}
	c := &peers.Call{Place: p, Method: r.Method, Params: r.Params, Notify: notify, Client: r.Client, Origin: r.Origin}
	c.Session, _ = r.Owner.(*protocol.Session)
	if r.Method == protocol.MethodToolsCall {
		name, _ := rawjson.Text(rawjson.Get(r.Params, "name"))
		c.Digest = p.Digests[name]
	}
	result, err := i.set.cluster.Call(ctx, c)
	if c.Session != nil {
		i.set.ended(c.Session, i.node, err)
		if e, _ := errors.AsType[*protocol.Error](err); e != nil && e.Kind == protocol.NodeLost && p.PerSession {
			told := *e
			told.Message += "; the process that the session had there is lost with it, and the next call begins another"
			err = &told
		}
	}
	return result, i.named(err)
}

// named returns the error of a call as one of this host: with the name of the node, the extension's id at this host,
// and no tool, because the tool's name is valid at that node only.
func (i *instance) named(err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err
	}
	told := *e
	told.Extension, told.Tool = i.set.id, ""
	if e.Kind != protocol.ExtensionError { // an extension's own text stays as it is
		told.Message = "node " + i.node + ": " + e.Message
	}
	if (e.Kind == protocol.Rejected || e.Kind == protocol.GovernanceUnavailable) && rawjson.IsObject(e.Data) {
		told.Data = rawjson.Set(e.Data, "node", rawjson.Quote(i.node)) // the node that knows the decision in the data
	}
	return &told
}

// Handshake implements [runtime.Instance].
func (i *instance) Handshake() *runtime.Handshake { return i.set.extension.Handshake() }

// Info implements [runtime.Instance].
func (i *instance) Info() runtime.Info {
	return runtime.Info{
		StartedAt: i.started,
		Protocol:  i.set.extension.Candidate.Manifest.Transport.Protocol,
		Calls:     i.calls.Load(),
		InFlight:  int(i.inFlight.Load()),
	}
}
