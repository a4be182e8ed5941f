package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/exthost/exthost/sdk"
)

func TestHooks(t *testing.T) {
	x := sdk.New("1")
	var got sdk.HookEvent
	x.OnHook("before_tool_call", func(_ context.Context, e sdk.HookEvent) (*sdk.HookReply, error) {
		switch got = e; e.Tool {
		case "deny":
			return &sdk.HookReply{Decision: "deny", Reason: "not on Mondays"}, nil
		case "change":
			return &sdk.HookReply{
				Override: json.RawMessage(`{"n":12345678901234567890,"x":null}`),
				Context:  "changed",
			}, nil
		case "fail":
			return nil, errors.New("disk full")
		case "panic":
			panic("oh")
		case "nil":
			return nil, (*fault)(nil)
		}
		return nil, nil
	})
	x.OnHook("session_start", func(_ context.Context, e sdk.HookEvent) (*sdk.HookReply, error) {
		return &sdk.HookReply{Context: string(e.Params)}, nil
	})
	h := serve(t, x)
	if answer := h.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocol_version":1}}`); !strings.Contains(answer, `"hooks":["before_tool_call","session_start"]`) {
		t.Errorf("handshake %s", answer)
	}
	for params, want := range map[string]string{
		`{"tool_name":"other","arguments":{"a":1.0e2},"session_id":"s"}`: `"result":null`,
		`{"tool_name":"deny"}`:   `"result":{"reason":"not on Mondays","decision":"deny"}`,
		`{"tool_name":"change"}`: `"result":{"override":{"n":12345678901234567890,"x":null},"context":"changed"}`,
		`{"tool_name":"fail"}`:   `"message":"disk full"`,
		`{"tool_name":"panic"}`:  `the hook panicked: oh`,
		`{"tool_name":"nil"}`:    `the hook panicked: runtime error: `,
		`{"tool_name":5}`:        `"code":-32602`,
	} {
		answer := h.ask(`{"jsonrpc":"2.0","id":1,"method":"hooks/before_tool_call","params":` + params + `}`)
		if !strings.Contains(answer, want) {
			t.Errorf("%s: %s, want %s", params, answer, want)
		}
		if strings.Contains(params, "other") &&
			(string(got.Arguments) != `{"a":1.0e2}` || got.Session != "s" || got.Point != "before_tool_call") {
			t.Errorf("the hook was told %+v", got)
		}
	}
	if answer := h.ask(`{"jsonrpc":"2.0","id":2,"method":"hooks/session_start","params":{"source":"startup"}}`); !strings.Contains(answer, `{\"source\":\"startup\"}`) {
		t.Errorf("session_start: %s", answer)
	}
	if answer := h.ask(`{"jsonrpc":"2.0","id":3,"method":"hooks/after_message","params":{}}`); !strings.Contains(answer,
		`-32601`) {
		t.Errorf("a hook that is not there: %s", answer)
	}
}

func TestSecondHookPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a point is taken twice")
		}
	}()
	x := sdk.New("1")
	for range 2 {
		x.OnHook("before_tool_call", func(context.Context, sdk.HookEvent) (*sdk.HookReply, error) { return nil, nil })
	}
}
