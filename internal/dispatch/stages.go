package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/bridge"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// Govern has the policies decide about the request and about its outcome. Hooks after the
// call see what the policies let pass.
func Govern(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, _ json.RawMessage) (json.RawMessage, error) {
		err := c.Snapshot.Policies.Pipeline.Govern(ctx, &c.Exchange, func(ctx context.Context, x *governance.Exchange) (err error) {
			x.Response, err = next(ctx, c, x.Request)
			return err
		}, c.afterHooks()...)
		return c.Exchange.Response, err
	}
}

// Answer answers the calls that have no target: the host's own tools, the list of the
// catalog, and what aggregate serves for all extensions.
func Answer(stored func() *results.Store, aggregate Aggregator) Stage {
	return func(next Deliver) Deliver {
		return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
			switch {
			case c.Target != nil:
				return next(ctx, c, params)
			case c.entry != nil:
				return stored().Call(results.Owner{Caller: c.Exchange.Caller, Session: c.Exchange.Session}, rawjson.Get(params, "arguments"))
			case c.Request.Method == protocol.MethodToolsList:
				return c.listTools(params)
			}
			one := *c.Request
			one.Params = params
			return aggregate.Aggregate(ctx, &one)
		}
	}
}

// Visible takes the tools that the caller may not see out of a destination's list.
func Visible(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		result, err := next(ctx, c, params)
		if d, ok := c.Target.(*bridge.Destination); ok && err == nil && c.Request.Method == protocol.MethodToolsList {
			result = c.visibleTools(d, result)
		}
		return result, err
	}
}

// Validate checks the arguments of a tool of the catalog. A destination validates the
// arguments of its tools itself.
func Validate(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		if c.entry != nil {
			if err := c.entry.Validate(c.arguments()); err != nil {
				return nil, err
			}
		}
		return next(ctx, c, params)
	}
}

// Replay sends a call once more whose process ended over it, if the operator and the tool
// allow that. When the second instance never got the call, the first outcome stands: the
// call may have been carried out.
func Replay(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		result, err := next(ctx, c, params)
		if !c.replays(err) || ctx.Err() != nil {
			return result, err
		}
		c.Target.Base().Log.Info("sent again, since its process ended before the answer", "tool", c.entry.Name, "reason", protocol.Reason(err))
		c.Exchange.Replayed = true
		again, second := next(ctx, c, params)
		if second != nil && !reached(second) {
			return nil, err
		}
		return again, second
	}
}

// replays reports whether a call that ended with err is to be sent once more: the
// operator allows it for the extension, the process had the request and ended before its
// answer, and the tool says that a second call does no more than the first. An answer that
// was too long would be too long again.
func (c *Call) replays(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Outcome != "" && protocol.ProcessEnded(err) && e.Kind != protocol.LineTooLong &&
		c.entry != nil && c.Target.Base().Spec.Options.Replay == manifest.ReplayIdempotent && repeatable(c.entry)
}

// repeatable reports whether the tool is annotated as one that only reads, or whose second
// call with the same arguments does no more than the first.
func repeatable(e *tools.Entry) bool {
	says := func(hint string) bool { return string(rawjson.Get(e.Annotations, hint)) == "true" }
	return says("readOnlyHint") || says("idempotentHint")
}

// reached reports whether an extension had the request of a call that failed.
func reached(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && (e.Outcome != "" || e.Kind == protocol.ExtensionError || e.Kind == protocol.InvalidResponse)
}

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
	i, release, err := c.Target.Acquire(ctx, c.Request.Session, unit.SessionKey(c.Request.Session))
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

// listPage is how many tools one answer to tools/list holds.
const listPage = 500

// listTools answers tools/list from the catalog, for all extensions or for one, with the
// tools that the caller may see.
func (c *Call) listTools(params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "tools/list: %w", err)
		}
	}
	x := &c.Exchange
	list, next, err := c.Snapshot.Catalog.Page(x.Extension, p.Cursor, listPage, func(e *tools.Entry) bool {
		return c.Snapshot.Policies.Pipeline.Visible(x.Caller, e.Extension, e.Name)
	})
	if err != nil {
		return nil, err
	}
	out := rawjson.AppendList(append(make([]byte, 0, 4096), `{"tools":`...), list)
	if next != "" {
		out = append(append(out, `,"nextCursor":`...), rawjson.Quote(next)...)
	}
	return append(out, '}'), nil
}

// visibleTools takes the tools that the caller may not see out of the list of d.
func (c *Call) visibleTools(d *bridge.Destination, result json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if err := json.Unmarshal(rawjson.Get(result, "tools"), &list); err != nil {
		return result
	}
	p := c.Snapshot.Policies
	seen := slices.DeleteFunc(slices.Clone(list), func(tool json.RawMessage) bool {
		name, _ := rawjson.Text(rawjson.Get(tool, "name"))
		return !p.Pipeline.Visible(c.Exchange.Caller, c.Exchange.Extension, d.ToolName(name)) || p.Withholds(d.ID(), tool)
	})
	if len(seen) == len(list) {
		return result
	}
	return rawjson.Set(result, "tools", rawjson.AppendList(nil, seen))
}
