package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/exthost/exthost/internal/starts"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Admit takes an instance for the call: within the bound of calls, behind the breaker,
// started on demand. An instance that ended before it got the call is followed by another,
// once.
func Admit(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		c.hooks.asked = true
		result, unsent, err := c.attempt(ctx, next, params)
		if unsent && ctx.Err() == nil {
			result, _, err = c.attempt(ctx, next, params)
		}
		return result, err
	}
}

// attempt is one try of [Admit]. unsent says that the instance ended before it got the
// request.
func (c *Call) attempt(ctx context.Context, next Deliver, params json.RawMessage) (result json.RawMessage, unsent bool, err error) {
	u := c.Target.Base()
	told := starts.TellWhile(ctx, c.Request, u.Phase.Waiting)
	i, release, err := c.Target.Acquire(ctx, c.Request.Session, unit.SessionKey(c.Request.Session))
	told()
	if err != nil {
		u.Calls.Refused()
		return nil, false, err
	}
	c.Instance = i
	began := time.Now()
	if c.Request.Notify {
		err = i.Notify(ctx, c.Request.Method, params)
	} else {
		c.Sent = runtime.Request{Method: c.Request.Method, Meta: c.passthrough(), Owner: c.owner()}
		result, err = next(ctx, c, params)
	}
	took := time.Since(began)
	c.hooks.took += took
	u.Calls.Record(took, params, result, err)
	if err != nil {
		c.countFailure(took, err)
	}
	release(err)
	e, ok := errors.AsType[*protocol.Error](err)
	return result, ok && e.Outcome == "" && protocol.ProcessEnded(err), err
}

// countFailure keeps the failure for the status. A timeout is logged: the extension goes
// on, and nothing else shows that it may hang.
func (c *Call) countFailure(took time.Duration, err error) {
	u, kind, reason := c.Target.Base(), protocol.KindOf(err), ""
	if kind == protocol.CallTimeout || protocol.ProcessEnded(err) {
		reason = protocol.Reason(err) // in the host's words
	}
	u.Calls.Failed(c.Exchange.Tool, kind, reason)
	if kind == protocol.CallTimeout && u.Calls.LogsTimeout(time.Now()) {
		u.Log.Warn("a call timed out", "tool", c.Exchange.Tool, "after", took.Round(time.Millisecond).String(),
			"next", "exthost restart "+u.ID()+" if it hangs; raise call_timeout under [runtime] if it is only slow")
	}
}

// owner is on whose behalf the call is made: a session, or the call alone.
func (c *Call) owner() any {
	if c.Request.Session != nil {
		return c.Request.Session
	}
	return c
}

// passthrough returns what an extension with [context] passthrough learns about the
// caller.
func (c *Call) passthrough() json.RawMessage {
	if !c.Target.Base().Candidate.Manifest.Context.Passthrough {
		return nil
	}
	var meta struct {
		AgentID   *string `json:"agent_id"` // null, and never left out: a caller must not supply either
		SessionID *string `json:"session_id"`
	}
	if s := c.Request.Session; s != nil && s.Caller != "" {
		meta.AgentID = &s.Caller
	}
	if s := c.Request.Session; s != nil && s.ID != "" {
		meta.SessionID = &s.ID
	}
	out, _ := json.Marshal(meta) // strings always encode
	return out
}

// send gives the call to its instance.
func send(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
	c.Sent.Params = params
	return c.Instance.Call(ctx, &c.Sent)
}
