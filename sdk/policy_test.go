package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/sdk"
)

func TestPolicy(t *testing.T) {
	x := sdk.New("1")
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) {
		switch e.Tool {
		case "allow":
			return sdk.Allow(), nil
		case "deny":
			d := sdk.Deny("later", "not <now>")
			d.RetryAfter, d.Data = 90*time.Second, json.RawMessage(`{"a":"<b>"}`)
			return d, nil
		case "modify":
			if e.InResponse() {
				return sdk.Modify(json.RawMessage(`{"content":[]}`)), nil
			}
			return sdk.Modify(e.WithArguments(json.RawMessage(`{"was":` + string(e.Arguments()) + `}`))), nil
		case "respond":
			return sdk.Respond(json.RawMessage(`{"content":[]}`)), nil
		case "ask":
			return sdk.Ask("sure?"), nil
		case "fail":
			return sdk.Allow(), errors.New("no database")
		case "panic":
			panic("at the disco")
		case "broken":
			return sdk.Modify(json.RawMessage(`{"a":`)), nil
		}
		return sdk.Decision{}, nil
	})
	h := serve(t, x)
	for _, tt := range []struct{ flow, tool, want string }{
		{"request", "allow", `"result":{"decision":"allow"}`},
		{"request", "deny", `"result":{"decision":"deny","code":"later","reason":"not <now>","data":{"a":"<b>"},"retry_after":90}`},
		{"request", "modify", `"result":{"decision":"modify","request":{"name":"t","arguments":{"was":{"n":12345678901234567890}}}}`},
		{"response", "modify", `"result":{"decision":"modify","response":{"content":[]}}`},
		{"request", "respond", `"result":{"decision":"respond","response":{"content":[]}}`},
		{"request", "ask", `"result":{"decision":"ask","reason":"sure?"}`},
		{"request", "fail", `"message":"no database"`},
		{"request", "panic", `"message":"the policy panicked: at the disco"`},
		{"request", "broken", `"message":"the decision does not encode: `},
		{"request", "silent", `"message":"the policy returned no decision; return sdk.Allow() to let it pass"`},
	} {
		got := h.ask(`{"jsonrpc":"2.0","id":7,"method":"governance/decide","params":{"flow":"` + tt.flow +
			`","direction":"to_extension","method":"tools/call","tool":"` +
			tt.tool + `","request":{"name":"t","arguments":{"n":12345678901234567890}}}}`)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s, %s:\n got %s\nwant %s", tt.tool, tt.flow, got, tt.want)
		}
	}
	if got := h.ask(`{"jsonrpc":"2.0","id":8,"method":"governance/decide","params":{"flow":1}}`); !strings.Contains(got,
		`"code":-32602`) {
		t.Errorf("params that do not fit: %s", got)
	}
}

// The policy gets every member that the host sends.
func TestPolicySeesTheExchange(t *testing.T) {
	x := sdk.New("1")
	var got sdk.Exchange
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) { got = *e; return sdk.Allow(), nil })
	h := serve(t, x)
	h.ask(`{"jsonrpc":"2.0","id":1,"method":"governance/decide","params":{"id":"d","flow":"response","direction":"to_caller","method":"m","caller":"c","session":"s","extension":"e","tool":"t",` +
		`"request":{"a":1},"response":{"b":2},"error":{"code":-1,"message":"x"},"verdict":{"decision":"deny","policy":"p","code":"k"}}}`)
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"d","flow":"response","direction":"to_caller","method":"m","caller":"c","session":"s","extension":"e","tool":"t",` +
		`"request":{"a":1},"response":{"b":2},"error":{"code":-1,"message":"x"},"verdict":{"decision":"deny","policy":"p","code":"k"}}`
	if diff := cmp.Diff(want, string(data)); diff != "" || !got.InResponse() {
		t.Error(diff)
	}
}

// ctx ends when the host stops waiting for the decision.
func TestPolicyIsCancelled(t *testing.T) {
	x := sdk.New("1")
	started := make(chan struct{})
	x.OnDecide(func(ctx context.Context, _ *sdk.Exchange) (sdk.Decision, error) {
		close(started)
		<-ctx.Done()
		return sdk.Deny("late", "too late"), nil
	})
	h := serve(t, x)
	h.say(`{"jsonrpc":"2.0","id":"w","method":"governance/decide","params":{"flow":"request","direction":"to_extension","method":"tools/call"}}`)
	<-started
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`)
	if got := h.hear(); !strings.Contains(got, "too late") {
		t.Errorf("the cancelled decision: %s", got)
	}
}

func TestDecideWithoutPolicyFails(t *testing.T) {
	h := serve(t, sdk.New("1"))
	if got := h.ask(`{"jsonrpc":"2.0","id":1,"method":"governance/decide","params":{}}`); !strings.Contains(got,
		`"code":-32601`) {
		t.Errorf("an extension without a policy: %s", got)
	}
	x := sdk.New("1")
	x.OnDecide(func(context.Context, *sdk.Exchange) (sdk.Decision, error) { return sdk.Allow(), nil })
	defer func() {
		if recover() == nil {
			t.Error("a second policy was accepted")
		}
	}()
	x.OnDecide(func(context.Context, *sdk.Exchange) (sdk.Decision, error) { return sdk.Allow(), nil })
}
