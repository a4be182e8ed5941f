package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/protocol"
)

// decider is a policy made of a function.
type decider func(flow governance.Flow, x *governance.Exchange) governance.Decision

func (d decider) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	return d(flow, x), nil
}

// member returns a required policy.
func member(name string, c governance.Category, p governance.Policy) governance.Member {
	return governance.Member{Spec: governance.Spec{Name: name, Category: c}, Policy: p}
}

// payloadOf returns the payload of the flow.
func payloadOf(flow governance.Flow, x *governance.Exchange) json.RawMessage {
	if flow == governance.Response {
		return x.Response
	}
	return x.Request
}

// noSecrets masks hunter2 in every payload.
var noSecrets = decider(func(flow governance.Flow, x *governance.Exchange) governance.Decision {
	if p := payloadOf(flow, x); bytes.Contains(p, []byte("hunter2")) {
		return governance.Decision{
			Action: governance.Modify,
			JSON:   bytes.ReplaceAll(p, []byte("hunter2"), []byte("*******")),
		}
	}
	return governance.Decision{}
})

// notMallory denies payloads with mallory, in both flows.
var notMallory = decider(func(flow governance.Flow, x *governance.Exchange) governance.Decision {
	if bytes.Contains(payloadOf(flow, x), []byte("mallory")) {
		return governance.Decision{Action: governance.Deny, Code: "no_mallory", Reason: "mallory is not served"}
	}
	return governance.Decision{}
})

// forBob answers requests with bob itself.
var forBob = decider(func(flow governance.Flow, x *governance.Exchange) governance.Decision {
	if flow == governance.Request && bytes.Contains(x.Request, []byte("bob")) {
		return governance.Decision{
			Action: governance.Respond,
			JSON:   json.RawMessage(`{"content":[{"type":"text","text":"Bob is out."}]}`),
		}
	}
	return governance.Decision{}
})

// A call or result changed by a hook is authorized, validated and masked like one from outside,
// so a hook cannot smuggle anything past the operator.
func TestHooksCannotSmuggle(t *testing.T) {
	change := func(p hooks.Point, override string) hooks.Handler {
		return hooks.Handler{
			Name:  "smuggler",
			Point: p,
			Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
				return &hooks.Reply{Override: json.RawMessage(override)}, nil
			},
		}
	}
	say := func(p hooks.Point, text string) hooks.Handler {
		return hooks.Handler{
			Name:  "smuggler",
			Point: p,
			Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
				return &hooks.Reply{Context: text}, nil
			},
		}
	}
	for _, tt := range []struct {
		name    string
		tool    string
		hook    hooks.Handler
		want    string // the result
		kind    protocol.Kind
		code    string
		reached int64 // the child
	}{
		{"arguments past authorization", "ext_x_greet", change(hooks.BeforeToolCall, `{"name":"mallory"}`), "",
			protocol.Rejected, "no_mallory", 0},
		{"arguments past content", "ext_x_greet", change(hooks.BeforeToolCall, `{"name":"hunter2"}`),
			`{"content":[{"type":"text","text":"Hello, *******!"}]}`, "", "", 1},
		{"arguments past a policy that answers", "ext_x_greet", change(hooks.BeforeToolCall, `{"name":"bob"}`),
			`{"content":[{"type":"text","text":"Bob is out."}]}`, "", "", 0},
		{"arguments past validation", "ext_x_greet", change(hooks.BeforeToolCall, `{"name":5}`), "",
			protocol.InvalidArguments, "", 0},
		{"a caller past the front", "ext_x_echo", change(hooks.BeforeToolCall, `{"_meta":{"agent_id":"root"},"a":1}`),
			`{"content":[],"structuredContent":{"name":"ada","a":1}}`, "", "", 1},
		{"a result past authorization", "ext_x_greet",
			change(hooks.AfterToolCall, `{"content":[{"type":"text","text":"mallory"}]}`), "", protocol.Rejected,
			"no_mallory", 1},
		{"a result past content", "ext_x_greet",
			change(hooks.AfterToolCall, `{"content":[{"type":"text","text":"hunter2"}]}`),
			`{"content":[{"type":"text","text":"*******"}]}`, "", "", 1},
		{"context past content", "ext_x_greet", say(hooks.BeforeToolCall, "hunter2"),
			`{"content":[{"type":"text","text":"Hello, ada!"},{"type":"text","text":"*******"}]}`, "", "", 1},
		{"context of a failure past content", "ext_x_refuse", say(hooks.ToolCallFailed, "hunter2"), "closed\n*******",
			protocol.ExtensionError, "", 1},
		{"context of a failure past authorization", "ext_x_refuse", say(hooks.ToolCallFailed, "mallory"), "closed",
			protocol.ExtensionError, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hosttest.NewFolder(t).Add("x",
				hosttest.Child("sdk", "")).Open(exthost.Options{Hooks: []hooks.Handler{tt.hook},
				Policies: []governance.Member{
					member("mallory", governance.Authorization, notMallory),
					member("secrets", governance.Content, noSecrets),
					member("bob", governance.Content, forBob),
				}})
			arguments := json.RawMessage(`{"name":"ada"}`)
			if tt.tool == "ext_x_refuse" {
				arguments = nil
			}
			got, err := h.Call(hosttest.Deadline(t), tt.tool, arguments)
			if err != nil {
				e, _ := errors.AsType[*protocol.Error](err)
				if got = nil; tt.want != "" {
					got = protocol.ToolResult(e.Message)
				}
				if !strings.Contains(string(e.Data), tt.code) {
					t.Errorf("data %s", e.Data)
				}
			}
			if string(got) != tt.want || protocol.KindOf(err) != tt.kind {
				t.Errorf("%s, %v\nwant %s %s", got, err, tt.want, tt.kind)
			}
			if n := hosttest.StatusOf(t, h, "x").Calls; n != tt.reached {
				t.Errorf("%d calls reached the extension", n)
			}
		})
	}
}

// Hooks of extensions and of the operator see only governed payloads, in both flows, so no secret
// reaches them.
func TestHooksSeeMaskedPayloads(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(p hooks.Point) hooks.Handler {
		return hooks.Handler{
			Name:  "note",
			Point: p,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, string(e.Point)+" "+string(e.Payload)+string(e.Arguments))
				return nil, nil
			},
		}
	}
	state := t.TempDir()
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).AddHooks("h", hooksManifest())
	h := openWithHooks(t, f, exthost.Options{
		StateDir: state,
		Hooks:    []hooks.Handler{note(hooks.BeforeToolCall), note(hooks.AfterToolCall)},
		Policies: []governance.Member{member("secrets", governance.Content, noSecrets)},
	},
		shell("PreToolUse", "cat >> "+f.Dir+"/seen"), shell("PostToolUse", "cat >> "+f.Dir+"/seen"))
	// The extension returns the secret without having received it.
	got, err := h.Call(hosttest.Deadline(t), "ext_x_echo",
		json.RawMessage(`{"a":"hunter2","b":"hun","c":"\u0068unter2"}`))
	if err != nil || !strings.Contains(string(got), `"a":"*******"`) {
		t.Fatalf("%s, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{
		`before_tool_call {"a":"*******","b":"hun","c":"\u0068unter2"}`,
		`after_tool_call {"content":[],"structuredContent":{"a":"*******","b":"hun","c":"\u0068unter2"}}{"a":"*******","b":"hun","c":"\u0068unter2"}`,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	for who, heard := range map[string]string{
		"the extension": strings.Join(told(t, state), "\n"),
		"a command":     hosttest.ReadFile(t, filepath.Join(f.Dir, "seen")),
	} {
		if strings.Contains(heard, "hunter2") || strings.Count(heard, `"a":"*******"`) < 2 {
			t.Errorf("%s was told %s", who, heard)
		}
	}
}

// A denial by a hook is recorded in the audit log, with its decision id.
func TestHookDenialsAreRecorded(t *testing.T) {
	var mu sync.Mutex
	var verdicts []governance.Verdict
	audit := decider(func(flow governance.Flow, x *governance.Exchange) governance.Decision {
		if mu.Lock(); flow == governance.Response && x.Method == protocol.MethodToolsCall {
			verdicts = append(verdicts, x.Verdict)
		}
		mu.Unlock()
		return governance.Decision{}
	})
	for _, p := range []hooks.Point{hooks.BeforeToolCall, hooks.AfterToolCall} {
		h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
			Hooks: []hooks.Handler{{Name: "guard", Point: p,
				Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
					return &hooks.Reply{Decision: hooks.Deny, Reason: "no"}, nil
				}}},
			Policies: []governance.Member{member("audit", governance.Audit, audit)}})
		_, err := h.Call(hosttest.Deadline(t), "ext_x_echo", nil)
		e, ok := errors.AsType[*protocol.Error](err)
		if !ok || e.Kind != protocol.Rejected ||
			!strings.Contains(string(e.Data), `"policy":"hook guard","code":"rejected"`) ||
			!strings.Contains(string(e.Data), `"decision_id":"`) {
			t.Errorf("%s: %v %s", p, err, e.Data)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	one := governance.Verdict{Action: governance.Deny, Policy: "hook guard", Code: "rejected"}
	if diff := cmp.Diff([]governance.Verdict{one, one}, verdicts); diff != "" {
		t.Error(diff)
	}
}
