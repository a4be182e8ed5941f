package sdk

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// HookEvent is the event that a hook is called with. The fields about tools are set only at points that concern a
// tool. Params has all members of every point.
type HookEvent struct {
	Point     string          `json:"-"`            // before_tool_call, session_start …
	Session   string          `json:"session_id"`   // "" outside sessions
	Agent     string          `json:"agent_id"`     // the authenticated caller; "" when anonymous
	Extension string          `json:"extension_id"` // the extension that has the tool
	Tool      string          `json:"tool_name"`    // its registered name
	Call      string          `json:"call_id"`      // the same before and after the call
	Arguments json.RawMessage `json:"arguments"`    // of the call
	Result    json.RawMessage `json:"result"`       // after_tool_call
	Error     string          `json:"error"`        // tool_call_failed
	ErrorKind string          `json:"error_kind"`   // tool_call_failed
	Params    json.RawMessage `json:"-"`            // all members, as sent
}

// HookReply is a hook's answer; nil continues.
type HookReply struct {
	// later hooks do not run; at a before_ point the action does not happen either
	Abort  bool   `json:"abort,omitempty"`
	Reason string `json:"reason,omitempty"` // for people and models
	// an object merged over the arguments, result or params; null deletes a member
	Override json.RawMessage `json:"override,omitempty"`
	Decision string          `json:"decision,omitempty"` // allow, deny or ask; "" decides nothing
	Context  string          `json:"context,omitempty"`  // text for the model
}

// OnHook sets the function for a point of the agent loop, such as before_tool_call, which the manifest's
// [capabilities] must also name. f runs concurrently and has 15 s. By default an error of f has no effect; the
// operator may configure otherwise. OnHook panics if the point has a function already.
func (x *Extension) OnHook(point string, f func(ctx context.Context, e HookEvent) (*HookReply, error)) {
	if _, taken := x.hooks[point]; taken || point == "" {
		panic("sdk: hook " + point + " is set twice or has no name")
	}
	if x.hooks == nil {
		x.hooks = make(map[string]hook)
	}
	x.hooks[point] = f
}

type hook func(ctx context.Context, e HookEvent) (*HookReply, error)

// runHook answers hooks/{point}.
func (x *Extension) runHook(ctx context.Context, req *jsonrpc.Message) (json.RawMessage, error) {
	e := HookEvent{Point: strings.TrimPrefix(req.Method, protocol.MethodHookPrefix), Params: req.Params}
	h, ok := x.hooks[e.Point]
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there is no hook " + e.Point}
	}
	if err := json.Unmarshal(req.Params, &e); err != nil {
		return nil, invalidParams(req.Method + ": " + err.Error())
	}
	c := x.begin(ctx, req)
	defer x.end(c)
	reply, err := recovered(c, "hook", h, e)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply) // null continues
}
