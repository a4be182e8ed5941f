package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// hookState is shared by the hooks around one tool call.
type hookState struct {
	id      string            // of the call; "" before the first hook runs
	context []string          // text from before-call hooks for the model
	answer  governance.Answer // of the person whom the hooks of a point had asked
}

// runHooks runs the hooks of a point of this tool call.
func (c *Call) runHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	if c.hooks.id == "" {
		c.hooks.id = "call_" + rand.Text()
	}
	x := c.Exchange
	e.Session, e.Caller, e.Node, e.Extension, e.Tool = x.Session, x.Caller, x.Node, x.Extension, x.Tool
	e.OwnName, e.Call = c.parsed.name, c.hooks.id
	if c.entry != nil {
		e.OwnName = c.entry.Tool
	}
	ctx = context.WithValue(protocol.WithHeaders(ctx, nil), callKey{}, c)
	c.hooks.answer = governance.Answer{}
	return c.Snapshot.Hooks.Run(context.WithValue(ctx, instanceKey{}, unit.SessionKey(c.Request.Session)), &e)
}

// RunHooks runs the before-call hooks of a tool call, which may refuse it or change its arguments. Policies decide
// about changed arguments again.
func RunHooks(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		if !c.isToolCall() || !c.Snapshot.Hooks.Has(hooks.BeforeToolCall) {
			return next(ctx, c, params)
		}
		x, began := c.Exchange, c.stages.now()
		err := c.beforeCall(ctx)
		c.Passed(status.StageHooksBefore, began)
		if err != nil {
			return nil, err
		}
		if x.Verdict.Action == governance.Respond {
			return x.Response, nil
		}
		return next(ctx, c, x.Request)
	}
}

// beforeCall runs the before-call hooks on the arguments.
func (c *Call) beforeCall(ctx context.Context) error {
	x := c.Exchange
	out, err := c.runHooks(ctx, hooks.Event{Point: hooks.BeforeToolCall, Payload: c.arguments()})
	c.hooks.context = out.Context
	if err != nil {
		return c.refused(out.By, err)
	}
	if !out.Changed {
		return nil
	}
	changed := toolCall{arguments: out.Payload}
	changed.normalize() // hooks may not write _meta either
	x.Request = rawjson.Set(x.Request, "arguments", changed.arguments)
	return c.Snapshot.Policies.Pipeline.Again(ctx, governance.Request, x)
}

// hookPolicy names a hook where the name of a policy is expected.
func hookPolicy(hook string) string { return "hook " + hook }

// callKey is the context key of the call whose hooks run.
type callKey struct{}

// answered records who answered the hook by about the call, for the audit log. A denial is recorded with the error.
func (c *Call) answered(by string, a governance.Answer) {
	c.hooks.answer = a
	if v := &c.Exchange.Verdict; a.Approved && v.Action == governance.Allow {
		*v = governance.Verdict{Action: governance.Ask, Policy: hookPolicy(by)}.Answered(a)
	}
}

// refused records that a hook ended the exchange.
func (c *Call) refused(by string, err error) error {
	x := c.Exchange
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || e.Kind != protocol.Rejected {
		return err
	}
	code, _ := rawjson.Text(rawjson.Get(e.Data, "code"))
	x.Verdict = governance.Verdict{
		Action: governance.Deny,
		Policy: hookPolicy(by),
		Code:   code,
	}.Answered(c.hooks.answer)
	if x.ID != "" {
		e.Data = rawjson.Set(e.Data, "decision_id", rawjson.Quote(x.ID))
	}
	return e
}

// afterHooks returns the stage that runs hooks after the policies have decided about the outcome; none without such
// hooks.
func (c *Call) afterHooks() []governance.Stage {
	set := c.Snapshot.Hooks
	if !c.isToolCall() || !set.Has(hooks.BeforeToolCall) && !set.Has(hooks.AfterToolCall) &&
		!set.Has(hooks.ToolCallFailed) {
		return nil
	}
	return []governance.Stage{c.afterCall}
}

// afterCall runs the after-call hooks on an outcome that the policies let pass. The hooks may change or withhold a
// result. The returned error replaces the outcome.
func (c *Call) afterCall(ctx context.Context, x *governance.Exchange) error {
	if !c.handed.asked {
		return nil
	}
	c.leavePolicies()
	began := c.stages.now()
	defer func() { c.stages.since = c.Passed(status.StageHooksAfter, began) }()
	if x.Failure != nil {
		return c.afterFailure(ctx, x)
	}
	texts, changed := c.hooks.context, false
	if c.Snapshot.Hooks.Has(hooks.AfterToolCall) {
		out, err := c.runHooks(ctx,
			hooks.Event{Point: hooks.AfterToolCall, Payload: x.Response, Arguments: c.arguments(), Took: c.handed.took})
		if err != nil {
			return c.refused(out.By, err)
		}
		x.Response, changed = out.Payload, out.Changed
		texts = append(texts, out.Context...)
	}
	if len(texts) > 0 {
		x.Response, changed = withContext(x.Response, texts), true
	}
	if !changed {
		return nil
	}
	return c.Snapshot.Policies.Pipeline.Again(ctx, governance.Response, x)
}

// afterFailure runs the hooks of a failed call. The texts of hooks are added to the error for the caller, after
// policies have judged these texts as a result.
func (c *Call) afterFailure(ctx context.Context, x *governance.Exchange) error {
	texts := c.hooks.context
	if c.Snapshot.Hooks.Has(hooks.ToolCallFailed) {
		out, _ := c.runHooks(ctx,
			hooks.Event{Point: hooks.ToolCallFailed, Arguments: c.arguments(), Error: x.Failure, Took: c.handed.took})
		texts = append(texts, out.Context...) // its error is ignored: the call has failed already
	}
	if len(texts) == 0 {
		return nil
	}
	shown := *x
	shown.Failure, shown.Response = nil, withContext(json.RawMessage(`{}`), texts)
	if err := c.Snapshot.Policies.Pipeline.Again(ctx, governance.Response, &shown); err != nil {
		return nil // governance withholds the texts
	}
	failure := *x.Failure
	failure.Message += "\n" + protocol.ToolResult(shown.Response).Text()
	return &failure
}

// withContext appends texts to the content of a tool result.
func withContext(result json.RawMessage, texts []string) json.RawMessage {
	content := bytes.TrimSpace(rawjson.Get(result, "content"))
	if len(content) < 2 || content[0] != '[' {
		content = []byte("[]")
	}
	out := slices.Clip(bytes.TrimSpace(content[:len(content)-1]))
	for _, text := range texts {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(rawjson.AppendText(append(out, `{"type":"text","text":`...), text), '}')
	}
	return rawjson.Set(result, "content", append(out, ']'))
}

// instanceKey is the context key of the instance that receives the hook calls of a tool call.
type instanceKey struct{}

// ExtensionHooks returns the handlers that call x in its own protocol. Their exchanges pass the policies of s and
// run no hooks.
func ExtensionHooks(s *snapshot.Snapshot, x *unit.Extension) (list []hooks.Handler) {
	for _, name := range x.HookPoints() {
		point := hooks.Point(name)
		list = append(list, hooks.Handler{
			Name:      x.ID(),
			Point:     point,
			Priority:  x.Candidate.Manifest.Plugin.Priority,
			Extension: x.ID(),
			Run: func(ctx context.Context, e *hooks.Event) (*hooks.Reply, error) {
				if point == hooks.ExtensionState && (e.Extension == x.ID() || !x.IsReady()) {
					return nil, nil // the event starts no extension, and is not sent to the one that changed
				}
				return callHook(ctx, s, x, e)
			},
		})
	}
	return list
}

func callHook(ctx context.Context, s *snapshot.Snapshot, x *unit.Extension, e *hooks.Event) (*hooks.Reply, error) {
	exchange := governance.Exchange{
		Method:    protocol.MethodHookPrefix + string(e.Point),
		Caller:    e.Caller,
		Session:   e.Session,
		Node:      e.Node,
		Extension: x.ID(),
		ToChild:   true,
		Request:   hookParams(e),
	}
	err := s.Policies.Pipeline.Govern(ctx, &exchange, func(ctx context.Context, ex *governance.Exchange) error {
		key, ok := ctx.Value(instanceKey{}).(string)
		if !ok && e.Session != "" {
			key = unit.SessionKey(&protocol.Session{ID: e.Session})
		}
		i, release, err := x.AcquireKey(ctx, key)
		if err != nil {
			return err
		}
		ex.Response, err = i.Call(ctx, &runtime.Request{Method: ex.Method, Params: ex.Request})
		release(err)
		return err
	})
	if err != nil {
		return nil, err
	}
	reply, err := hooks.DecodeReply(exchange.Response)
	if reply != nil {
		reply.Reason, reply.Context = x.Env.Redactor.String(reply.Reason), x.Env.Redactor.String(reply.Context)
	}
	return reply, err
}

// hookParams returns the params of a hook call. At tool points the payload is the member arguments or result, at
// others it is the params.
func hookParams(e *hooks.Event) json.RawMessage {
	params := json.RawMessage("{}")
	m := map[string]json.RawMessage{"session_id": rawjson.Quote(e.Session), "agent_id": rawjson.Quote(e.Caller)}
	switch e.Point {
	case hooks.BeforeToolCall, hooks.AfterToolCall, hooks.ToolCallFailed:
		m["extension_id"], m["tool_name"], m["call_id"] = rawjson.Quote(e.Extension), rawjson.Quote(e.Tool),
			rawjson.Quote(e.Call)
		m["arguments"] = e.Arguments
	default:
		params = e.Payload
	}
	switch e.Point {
	case hooks.BeforeToolCall:
		m["arguments"] = e.Payload
	case hooks.AfterToolCall:
		m["result"], m["duration_ms"] = e.Payload, strconv.AppendInt(nil, e.Took.Milliseconds(), 10)
	case hooks.ToolCallFailed:
		m["duration_ms"] = strconv.AppendInt(nil, e.Took.Milliseconds(), 10)
		if e.Error != nil {
			m["error"], m["error_kind"] = rawjson.Quote(strings.ToValidUTF8(e.Error.Message,
				"\uFFFD")), rawjson.Quote(string(e.Error.Kind))
		}
	}
	return rawjson.Edit(params, m)
}
