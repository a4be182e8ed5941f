package exthost

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// hooked is what the hooks around one tool call have in common.
type hooked struct {
	id      string        // of the call; "" until a hook is told
	context []string      // what the hooks before it want the model to be told
	called  bool          // the extension was asked
	took    time.Duration // for how long
}

// arguments are those that x has now: a policy or a hook may have changed them.
func (r *routed) arguments(x *governance.Exchange) json.RawMessage {
	if len(x.Request) == len(r.request) && &x.Request[0] == &r.request[0] {
		return r.sent.arguments
	}
	return tools.Arguments(rawjson.Get(x.Request, "arguments"))
}

// tellHooks runs the hooks of a point of this tool call.
func (r *routed) tellHooks(ctx context.Context, x *governance.Exchange, e hooks.Event) (hooks.Outcome, error) {
	if r.hooked.id == "" {
		r.hooked.id = "call_" + rand.Text()
	}
	e.Session, e.Caller, e.Extension, e.Tool = x.Session, x.Caller, x.Extension, x.Tool
	e.OwnName, e.Call = r.entry.Tool, r.hooked.id
	return r.gen.hooks.Run(context.WithValue(ctx, sessionKeyOf{}, instanceKey(r.call)), &e)
}

// stages are what comes behind the response flow: nothing where nobody listens.
func (r *routed) stages() []governance.Stage {
	set := r.gen.hooks
	if r.entry == nil || !set.Has(hooks.BeforeToolCall) && !set.Has(hooks.AfterToolCall) && !set.Has(hooks.ToolCallFailed) {
		return nil
	}
	return []governance.Stage{r.afterCall}
}

// refused notes that hooks ended the exchange, for those who record it.
func (r *routed) refused(x *governance.Exchange, by string, err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || e.Kind != protocol.Rejected {
		return err
	}
	code, _ := rawjson.Text(rawjson.Get(e.Data, "code"))
	x.Verdict = governance.Verdict{Action: governance.Deny, Policy: "hook " + by, Code: code}
	if x.ID != "" {
		e.Data = rawjson.Set(e.Data, "decision_id", quote(x.ID))
	}
	return e
}

// beforeCall lets the hooks decide about the arguments and change them. What they
// change governance sees once more.
func (r *routed) beforeCall(ctx context.Context, x *governance.Exchange) error {
	if !r.gen.hooks.Has(hooks.BeforeToolCall) {
		return nil
	}
	out, err := r.tellHooks(ctx, x, hooks.Event{Point: hooks.BeforeToolCall, Payload: r.arguments(x)})
	r.hooked.context = out.Context
	if err != nil {
		return r.refused(x, out.By, err)
	}
	if !out.Changed {
		return nil
	}
	changed := toolCall{arguments: out.Payload}
	changed.normalize() // who calls is not for hooks to say either
	x.Request = rawjson.Set(x.Request, "arguments", changed.arguments)
	return r.gen.policy.Again(ctx, governance.Request, x)
}

// afterCall tells the hooks what governance let pass of the outcome, and lets them
// change or hold back a result. Its error takes the place of the outcome.
func (r *routed) afterCall(ctx context.Context, x *governance.Exchange) error {
	if !r.hooked.called {
		return nil
	}
	if x.Failure != nil {
		return r.callFailed(ctx, x)
	}
	told, changed := r.hooked.context, false
	if r.gen.hooks.Has(hooks.AfterToolCall) {
		out, err := r.tellHooks(ctx, x, hooks.Event{Point: hooks.AfterToolCall, Payload: x.Response, Arguments: r.arguments(x), Took: r.hooked.took})
		if err != nil {
			return r.refused(x, out.By, err)
		}
		x.Response, changed = out.Payload, out.Changed
		told = append(told, out.Context...)
	}
	if len(told) > 0 {
		x.Response, changed = withContext(x.Response, told), true
	}
	if !changed {
		return nil
	}
	return r.gen.policy.Again(ctx, governance.Response, x)
}

// callFailed tells the hooks why there is no result. What they have to say about
// it is text for the caller, which governance sees as it sees a result.
func (r *routed) callFailed(ctx context.Context, x *governance.Exchange) error {
	told := r.hooked.context
	if r.gen.hooks.Has(hooks.ToolCallFailed) {
		out, _ := r.tellHooks(ctx, x, hooks.Event{Point: hooks.ToolCallFailed, Arguments: r.arguments(x), Error: x.Failure, Took: r.hooked.took})
		told = append(told, out.Context...) // what has failed cannot be refused
	}
	if len(told) == 0 {
		return nil
	}
	said := *x
	said.Failure, said.Response = nil, withContext(json.RawMessage(`{}`), told)
	if err := r.gen.policy.Again(ctx, governance.Response, &said); err != nil {
		return nil // and is not said
	}
	failure := *x.Failure
	failure.Message += "\n" + protocol.ToolResult(said.Response).Text()
	return &failure
}

// withContext is a tool's result with texts at the end of its content.
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

// sessionKeyOf is the context's key of the instance key that the calls of an
// extension's hooks go by.
type sessionKeyOf struct{}

// extensionHook is a handler that calls a native extension.
func (g *generation) extensionHook(x *extension, point hooks.Point) hooks.Handler {
	return hooks.Handler{
		Name: x.candidate.ID, Point: point, Priority: x.candidate.Manifest.Plugin.Priority,
		Extension: x.candidate.ID,
		Run: func(ctx context.Context, e *hooks.Event) (*hooks.Reply, error) {
			if point == hooks.ExtensionState && (e.Extension == x.candidate.ID || !x.isReady()) {
				return nil, nil // nobody is started, or told of itself, over a change of state
			}
			return g.callHook(ctx, x, e)
		},
	}
}

// callHook asks x about e. The exchange passes governance and fires no hooks.
func (g *generation) callHook(ctx context.Context, x *extension, e *hooks.Event) (*hooks.Reply, error) {
	exchange := governance.Exchange{Method: protocol.MethodHookPrefix + string(e.Point), Caller: e.Caller, Session: e.Session,
		Extension: x.candidate.ID, ToChild: true, Request: hookParams(e)}
	err := g.policy.Govern(ctx, &exchange, func(ctx context.Context, ex *governance.Exchange) error {
		key, ok := ctx.Value(sessionKeyOf{}).(string)
		if !ok && e.Session != "" {
			key = sessionKey(&protocol.Session{ID: e.Session})
		}
		i, release, err := x.group.Acquire(ctx, key)
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
		reply.Reason, reply.Context = x.redactor.String(reply.Reason), x.redactor.String(reply.Context)
	}
	return reply, err
}

// hookParams is what an extension is told about e: the payload as arguments or
// result at the points of tools, else its members.
func hookParams(e *hooks.Event) json.RawMessage {
	params := json.RawMessage("{}")
	m := map[string]json.RawMessage{"session_id": quote(e.Session), "agent_id": quote(e.Caller)}
	switch e.Point {
	case hooks.BeforeToolCall, hooks.AfterToolCall, hooks.ToolCallFailed:
		m["extension_id"], m["tool_name"], m["call_id"] = quote(e.Extension), quote(e.Tool), quote(e.Call)
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
			m["error"], m["error_kind"] = quote(strings.ToValidUTF8(e.Error.Message, "\uFFFD")), quote(string(e.Error.Kind))
		}
	}
	return rawjson.Edit(params, m)
}
