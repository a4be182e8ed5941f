package exthost

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// send carries the exchange out once governance has let it through.
func (r *routed) send(ctx context.Context, x *governance.Exchange) (err error) {
	switch {
	case r.entry != nil && r.target == nil:
		x.Response, err = r.callOwn(x)
	case r.isToolCall():
		err = r.callTool(ctx, x)
	case r.target != nil:
		if x.Response, err = r.forward(ctx, x.Request); err == nil && x.Method == protocol.MethodToolsList {
			x.Response = r.visible(x.Response)
		}
	case x.Method == protocol.MethodToolsList:
		x.Response, err = r.gen.listTools(x.Caller, x.Extension, x.Request)
	default:
		c := *r.call
		c.Params = x.Request
		x.Response, err = r.host.forAll(ctx, &c)
	}
	return err
}

func (r *routed) callTool(ctx context.Context, x *governance.Exchange) (err error) {
	if err := r.beforeCall(ctx, x); err != nil {
		return err
	}
	if r.entry != nil { // what a destination's arguments may be is its own to say
		if err := r.entry.Validate(r.arguments(x)); err != nil {
			return err
		}
	}
	r.hooked.called = true
	x.Response, err = r.forward(ctx, x.Request)
	return err
}

// forward gives the request to an instance of the target and waits for its answer.
// One that died over it is followed by another, once, if the operator and the tool
// allow that. When the second never got it, the first is the outcome: it may have
// been carried out.
func (r *routed) forward(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	result, err := r.deliver(ctx, params)
	if !r.replays(err) || ctx.Err() != nil {
		return result, err
	}
	r.target.log.Info("sent again, since its process ended before the answer", "tool", r.entry.Name, "reason", message(err))
	r.exchange.Replayed = true
	again, second := r.deliver(ctx, params)
	if second != nil && !reached(second) {
		return nil, err
	}
	return again, second
}

// deliver sends the request once. One that an ending instance never got goes to the
// next, once.
func (r *routed) deliver(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	result, unsent, err := r.try(ctx, params)
	if unsent && ctx.Err() == nil {
		result, _, err = r.try(ctx, params)
	}
	return result, err
}

// try is one attempt. unsent says that the instance ended before it got the
// request.
func (r *routed) try(ctx context.Context, params json.RawMessage) (result json.RawMessage, unsent bool, err error) {
	i, release, err := r.target.acquire(ctx, r.call.Session, instanceKey(r.call))
	if err != nil {
		r.target.calls.refused.Add(1)
		return nil, false, err
	}
	began := time.Now()
	if r.call.Notify {
		err = i.Notify(ctx, r.call.Method, params)
	} else {
		result, err = r.converse(ctx, i, params)
	}
	took := time.Since(began)
	r.hooked.took += took
	r.target.calls.record(took, params, result, err)
	if err != nil {
		r.failed(took, err)
	}
	release(err)
	e, ok := errors.AsType[*protocol.Error](err)
	return result, ok && e.Outcome == "" && processEnded(err), err
}

// failed keeps how the call failed for the status. One that timed out is told to the
// log: the extension goes on, and nothing else shows that it may hang.
func (r *routed) failed(took time.Duration, err error) {
	x := r.target
	if x.calls.failed(r.exchange.Tool, err) == protocol.CallTimeout && x.calls.saysTimeout(time.Now()) {
		x.log.Warn("a call timed out", "tool", r.exchange.Tool, "after", took.Round(time.Millisecond).String(),
			"next", "exthost restart "+x.candidate.ID+" if it hangs; raise call_timeout under [runtime] if it is only slow")
	}
}

// instanceKey says which instance of a per_session extension c belongs to.
func instanceKey(c *protocol.Call) string {
	if c.Session == nil {
		return ""
	}
	return sessionKey(c.Session)
}

// What keys of instances begin and end with.
const (
	sessionPrefix   = "session "
	statelessSuffix = " stateless"
)

func sessionKey(s *protocol.Session) string {
	key := sessionPrefix + s.ID
	if s.ID == "" {
		if key = "caller " + s.Caller; len(s.Env) > 0 {
			key += " with " + digest(s.Env)
		}
	}
	if s.ID == "" && s.Caller == "" && len(s.Env) == 0 {
		return "" // one instance for everybody without a name
	}
	if s.Version >= protocol.MCP20260728 {
		key += statelessSuffix // a child session serves one era
	}
	return key
}
