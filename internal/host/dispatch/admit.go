package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/unit"
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
		p := pass{call: c, next: next, params: params}
		began := c.stages.now()
		a := p.attempt(ctx, began)
		if a.outcome == unsent && !a.instance.IsElsewhere() && ctx.Err() == nil {
			again, cause := c.stages.now(), a.err
			if a = p.attempt(ctx, again); protocol.KindOf(a.err) == protocol.CallTimeout {
				a.err = afterWait(a.err, again.Sub(began), cause)
			}
		}
		if a.outcome == unsent && a.instance.IsElsewhere() && ctx.Err() == nil {
			return p.otherNodes(ctx, a)
		}
		return a.result, a.err
	}
}

// pass is one way of a call through [Admit]. A stage before may send the call again, which is another
// pass: what a pass collects ends with it.
type pass struct {
	call    *Call
	next    Deliver
	params  json.RawMessage
	refused []*unit.Instance // that got no call, because they ended or their node refused it
}

// outcome is what one attempt tells about the next. Its zero value allows none.
type outcome int

const (
	settled    outcome = iota // the instance had the call or may have had it, or the call is refused wherever it goes
	unsent                    // the instance ended before it got the call, or its node refused it: another may take it
	noInstance                // there is none that takes the call now
)

// attempt is one try to give the call to an instance.
type attempt struct {
	outcome  outcome
	instance *unit.Instance // nil with noInstance alone
	result   json.RawMessage
	err      error
}

// How long a call waits for nodes of which one is away for a moment, and how often it tries them.
const (
	awayWait  = 2 * time.Second
	awayPause = 50 * time.Millisecond
)

// otherNodes gives the call, which the node of first has refused, to the nodes that have not refused it,
// one after another, and to all once more while one that is away may be back in a moment. Of the refusals
// of all, the caller gets the one that may be over first.
func (p *pass) otherNodes(ctx context.Context, first attempt) (json.RawMessage, error) {
	began, refusal, away := time.Now(), first.err, errors.Is(first.err, peers.ErrAway)
	p.refused = append(p.refused, first.instance)
	for ctx.Err() == nil {
		a := p.attempt(ctx, p.call.stages.now())
		if a.outcome == settled {
			return a.result, a.err
		}
		if retryAfter(a.err) > 0 && (retryAfter(refusal) == 0 || retryAfter(a.err) < retryAfter(refusal)) {
			refusal = a.err
		}
		away = away || errors.Is(a.err, peers.ErrAway)
		if a.outcome == unsent {
			p.refused = append(p.refused, a.instance)
			continue
		}
		if !away || time.Since(began) > awayWait {
			break
		}
		select {
		case <-time.After(awayPause):
		case <-ctx.Done():
		}
		p.refused, away = nil, false
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
	told.Message += fmt.Sprintf("; before that, the call waited %s for a process that was replaced: %s",
		waited.Round(time.Millisecond), protocol.Reason(cause))
	return &told
}

// attempt gives the call to an instance, at the time now.
func (p *pass) attempt(ctx context.Context, now time.Time) (a attempt) {
	c := p.call
	u := c.Target.Base()
	told := starts.TellWhile(ctx, c.Request, u.Phase)
	w := unit.Want{Session: c.Request.Session, Not: p.refused, Node: c.Request.Node}
	if c.entry != nil {
		w.Tool, w.Raw = c.entry.Tool, c.entry.Raw
	}
	i, release, err := c.Target.Acquire(ctx, w)
	told()
	began := c.stages.now()
	c.stages.add(waited(i, now, err), now, began)
	if err != nil {
		return attempt{outcome: noInstance, err: err}
	}
	a.instance, a.err = i, errPanicked // until the stages behind have returned
	defer func() { release(a.err) }()
	c.Instance = i
	params := p.params
	if c.span != nil {
		params = withTrace(params, c.span.Send(began))
	}
	before := c.handed.requests
	if c.Request.Notify {
		a.err = c.hand(func() error { return i.Notify(ctx, c.Request.Method, params) })
	} else {
		c.Sent = runtime.Request{
			Method: c.Request.Method,
			Meta:   c.passthrough(),
			Owner:  c.owner(),
			Origin: c.Exchange.ID,
		}
		if s := c.Request.Session; s != nil {
			c.Sent.Capabilities = s.Capabilities
		}
		a.result, a.err = p.next(ctx, c, params)
	}
	took := time.Since(began)
	c.stages.add(status.StageInstance, began, began.Add(took))
	if c.handed.requests == before && (i.IsUnsent(a.err) || i.IsElsewhere() && isRefusal(a.err)) {
		a.outcome = unsent
		return a
	}
	c.hooks.reached, c.hooks.took = true, c.hooks.took+took
	u.Calls.Transferred(params, a.result)
	return a
}

// isRefusal reports whether a node that did not get a call refused it with err so that another may take it.
func isRefusal(err error) bool {
	switch protocol.KindOf(err) {
	case protocol.Overloaded, protocol.BreakerOpen, protocol.NotReady, protocol.Failed, protocol.ShuttingDown,
		protocol.DescriptorChanged,
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

func send(ctx context.Context, c *Call, params json.RawMessage) (result json.RawMessage, err error) {
	c.Sent.Params = params
	err = c.hand(func() (err error) {
		result, err = c.Instance.Call(ctx, &c.Sent)
		return err
	})
	return result, err
}
