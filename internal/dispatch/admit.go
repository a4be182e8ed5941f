package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/starts"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Admit takes an instance for the call: within the bound of calls, behind the breaker,
// started on demand. An instance that ended before it got the call is followed by another,
// once. A node that refused the call is followed by every other node that may take it.
func Admit(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		c.hooks.asked = true
		began := c.stages.now()
		result, unsent, err := c.attempt(ctx, next, params, began)
		if !unsent || ctx.Err() != nil {
			return result, err
		}
		if c.Instance.IsElsewhere() {
			return c.otherNodes(ctx, next, params, err)
		}
		again, cause := c.stages.now(), err
		if result, _, err = c.attempt(ctx, next, params, again); protocol.KindOf(err) == protocol.CallTimeout {
			err = afterWait(err, again.Sub(began), cause)
		}
		return result, err
	}
}

// How long a call waits for nodes of which one is away for a moment, and how often it tries them.
const (
	awayWait  = 2 * time.Second
	awayPause = 50 * time.Millisecond
)

// otherNodes gives the call to the nodes that have not refused it, one after another, and to all once
// more while one that is away may be back in a moment. Of the refusals of all, the caller gets the one
// that may be over first.
func (c *Call) otherNodes(ctx context.Context, next Deliver, params json.RawMessage, refusal error) (json.RawMessage, error) {
	began, away := time.Now(), errors.Is(refusal, peers.ErrAway)
	c.refused = append(c.refused, c.Instance)
	for ctx.Err() == nil {
		before := c.Instance
		result, unsent, err := c.attempt(ctx, next, params, c.stages.now())
		switch {
		case !unsent:
			return result, err
		case retryAfter(err) > 0 && (retryAfter(refusal) == 0 || retryAfter(err) < retryAfter(refusal)):
			refusal = err
		}
		away = away || errors.Is(err, peers.ErrAway)
		if c.Instance != nil {
			c.refused = append(c.refused, c.Instance)
			continue
		}
		c.Instance = before // no other node may take the call
		if !away || time.Since(began) > awayWait {
			break
		}
		select {
		case <-time.After(awayPause):
		case <-ctx.Done():
		}
		c.refused, away = nil, false
	}
	return nil, refusal
}

func retryAfter(err error) time.Duration {
	e, _ := errors.AsType[*protocol.Error](err)
	if e == nil {
		return 0
	}
	return e.RetryAfter
}

// afterWait completes the error of a call that timed out with the time that it had waited
// before for an instance that ended: its caller waited for both.
func afterWait(err error, waited time.Duration, cause error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err
	}
	told := *e
	told.Message += fmt.Sprintf("; before that, the call waited %s for a process that was replaced: %s", waited.Round(time.Millisecond), protocol.Reason(cause))
	return &told
}

// attempt is one try of [Admit], at the time now. unsent says that the instance ended before it
// got the request, or that its node refused the call.
func (c *Call) attempt(ctx context.Context, next Deliver, params json.RawMessage, now time.Time) (result json.RawMessage, unsent bool, err error) {
	u := c.Target.Base()
	told := starts.TellWhile(ctx, c.Request, u.Phase)
	w := unit.Want{Session: c.Request.Session, Not: c.refused, Node: c.Request.Node}
	if c.entry != nil {
		w.Tool, w.Raw = c.entry.Tool, c.entry.Raw
	}
	i, release, err := c.Target.Acquire(ctx, w)
	told()
	c.Instance = i
	began := c.stages.now()
	c.stages.add(waited(i, now, err), now, began)
	if err != nil {
		return nil, len(c.refused) > 0, err
	}
	if c.span != nil {
		params = withTrace(params, c.span.Send(began))
	}
	if c.Request.Notify {
		err = i.Notify(ctx, c.Request.Method, params)
	} else {
		c.Sent = runtime.Request{Method: c.Request.Method, Meta: c.passthrough(), Owner: c.owner(), Origin: c.Exchange.ID}
		if s := c.Request.Session; s != nil {
			c.Sent.Capabilities = s.Capabilities
		}
		result, err = next(ctx, c, params)
	}
	took := time.Since(began)
	c.stages.add(status.StageInstance, began, began.Add(took))
	release(err)
	if i.IsUnsent(err) || i.IsElsewhere() && isRefusal(err) {
		return result, true, err
	}
	c.hooks.reached, c.hooks.took = true, c.hooks.took+took
	u.Calls.Transferred(params, result)
	return result, false, err
}

// isRefusal reports whether a node refused a call that failed with err, so that another may take it.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || e.Outcome != "" {
		return false
	}
	switch e.Kind {
	case protocol.Overloaded, protocol.BreakerOpen, protocol.NotReady, protocol.Failed, protocol.ShuttingDown, protocol.DescriptorChanged,
		protocol.SpawnFailed, protocol.HandshakeTimeout, protocol.HandshakeInvalid, protocol.RequirementMissing:
		return true
	}
	return false
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

func send(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
	c.Sent.Params = params
	return c.Instance.Call(ctx, &c.Sent)
}
