package exthost

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// upstream is the caller of one exchange as its extension sees it: what the
// extension asks and tells meanwhile is the same exchange with the ends swapped,
// and passes the same pipeline.
type upstream struct {
	of *routed
	by *instance
}

var _ protocol.Peer = upstream{}

// upstream returns nil when the caller cannot be reached.
func (r *routed) upstream(by *instance) protocol.Peer {
	if r.call.Client == nil {
		return nil
	}
	return upstream{r, by}
}

// Call implements [protocol.Peer].
func (u upstream) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if u.isForAnother(params) {
		return u.by.incoming(ctx, method, params, false)
	}
	x := u.exchange(method, params)
	err := u.of.gen.policy.Govern(ctx, x, func(ctx context.Context, x *governance.Exchange) (err error) {
		x.Response, err = u.of.call.Client.Call(ctx, x.Method, x.Request)
		return err
	})
	return x.Response, err
}

// Notify implements [protocol.Peer].
func (u upstream) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if method == protocol.MethodMessage && !u.of.hears(params) || u.strange(params) {
		return nil
	}
	x := u.exchange(method, params)
	x.Notify = true
	return u.of.gen.policy.Govern(ctx, x, func(ctx context.Context, x *governance.Exchange) error {
		return u.of.call.Client.Notify(ctx, x.Method, x.Request)
	})
}

// strange reports whether a message is about a task of another caller's: with one
// call in flight, that is whom the extension is taken to speak to.
func (u upstream) strange(params json.RawMessage) bool {
	_, about, known := u.by.taskOf(params)
	return known && about.caller != callerOf(u.of.call)
}

// isForAnother reports whether a question is about a task that another session began,
// and can be asked of: one of the same caller too, unless this call is about that task.
func (u upstream) isForAnother(params json.RawMessage) bool {
	id, about, known := u.by.taskOf(params)
	switch {
	case !known || about.caller != callerOf(u.of.call):
		return known
	case about.session == nil || about.session == u.of.call.Session:
		return false
	}
	asked, _ := aboutTask(u.of.call.Method, u.of.asked.Params)
	return asked != id
}

func (u upstream) exchange(method string, params json.RawMessage) *governance.Exchange {
	x := u.of.exchange
	x.Method, x.Request, x.Response, x.ToChild, x.Notify = method, params, nil, false, false
	return &x
}
