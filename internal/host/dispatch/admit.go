package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Admit acquires an instance for the call, within the bound of calls and if the breaker permits. It starts an
// instance on demand. If the instance ended before it got the call, Admit tries another, once. If a node refused the
// call, Admit tries every other node that may take it.
func Admit(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		c.handed.asked = true
		p := pass{call: c, next: next, params: params}
		began := c.stages.now()
		a := p.attempt(ctx, began)
		if a.outcome == unsent && !a.instance.IsRemoteNode() && ctx.Err() == nil {
			again, cause := c.stages.now(), a.err
			if a = p.attempt(ctx, again); protocol.KindOf(a.err) == protocol.CallTimeout {
				a.err = afterWait(a.err, again.Sub(began), cause)
			}
		}
		if a.outcome == unsent && a.instance.IsRemoteNode() && ctx.Err() == nil {
			return p.tryRemoteNodes(ctx, a)
		}
		return a.result, a.err
	}
}

// pass is one pass of a call through [Admit]. Earlier stages may send the call again, in a new pass with fresh
// state.
type pass struct {
	call    *Call
	next    Deliver
	params  json.RawMessage
	refused []*unit.Instance // instances that did not get the call: they ended, or their node refused it
}

// outcome tells whether another attempt is allowed. The zero value allows none.
type outcome int

const (
	settled    outcome = iota // an instance may have had the call, or every instance would refuse it
	unsent                    // the instance ended before it got the call, or its node refused it: another may take it
	noInstance                // no instance takes the call now
)

// attempt is the result of one try to give the call to an instance.
type attempt struct {
	outcome  outcome
	instance *unit.Instance // nil only with noInstance
	result   json.RawMessage
	err      error
}

// How long a call waits if a node is unreachable for the moment, and how often it tries again.
const (
	awayWait  = 2 * time.Second
	awayPause = 50 * time.Millisecond
)

// tryRemoteNodes tries the nodes that have not refused the call, one after another, and all of them again while an
// unreachable one may come back. If all refuse, it returns the refusal that may end first.
func (p *pass) tryRemoteNodes(ctx context.Context, first attempt) (json.RawMessage, error) {
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

// afterWait adds a note to the error of a timed-out call: how long the call had waited before, for an instance that
// ended.
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

// attempt gives the call to an instance. now is the current time.
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
	a.instance, a.err = i, errPanicked // replaced when the later stages have returned
	defer func() { release(a.err) }()
	if c.isToolCall() {
		c.flight = stats.Flight{Tool: c.Exchange.Tool, Caller: c.Exchange.Caller, Since: began}
		u.Calls.Sent(&c.flight)
		defer u.Calls.Returned(&c.flight)
	}
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
	if c.handed.requests == before && (i.IsUnsent(a.err) || i.IsRemoteNode() && isRefusal(a.err)) {
		a.outcome = unsent
		return a
	}
	c.handed.reached, c.handed.took = true, c.handed.took+took
	u.Calls.Transferred(params, a.result)
	return a
}

// isRefusal reports whether another node may take a call that a node has refused with err.
func isRefusal(err error) bool {
	switch protocol.KindOf(err) {
	case protocol.Overloaded, protocol.BreakerOpen, protocol.NotReady, protocol.Failed, protocol.ShuttingDown,
		protocol.DescriptorChanged,
		protocol.SpawnFailed, protocol.HandshakeTimeout, protocol.HandshakeInvalid, protocol.RequirementMissing:
		return true
	}
	return false
}

// owner returns the session of the call, or the call itself without one.
func (c *Call) owner() any {
	if c.Request.Session != nil {
		return c.Request.Session
	}
	return c
}

// passthrough returns what the extension is told about the caller if its manifest sets context.passthrough; else nil.
func (c *Call) passthrough() json.RawMessage {
	if !c.Target.Base().Candidate.Manifest.Context.Passthrough {
		return nil
	}
	var meta struct {
		AgentID   *string `json:"agent_id"` // null rather than left out: a caller must not supply either
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
	c.Sent.Params, c.Sent.Plain = params, c.IsPlain(params)
	err = c.hand(func() (err error) {
		result, err = c.Instance.Call(ctx, &c.Sent)
		return err
	})
	return result, err
}
