package grpcpolicy_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

func TestDecisions(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	p := started(t, spec(t, "plugin"))
	changedRequest := `{"name":"change","arguments":{"n":12345678901234567890},"later":1}`
	for _, tt := range []struct {
		tool string
		flow governance.Flow
		want governance.Decision
		kind protocol.Kind
		text string
	}{
		{tool: "allow", flow: governance.Request},
		{tool: "allow", flow: governance.Response},
		{
			tool: "deny",
			flow: governance.Request,
			want: governance.Decision{Action: governance.Deny, Code: "C1", Reason: "because"},
		},
		{
			tool: "deny",
			flow: governance.Response,
			want: governance.Decision{Action: governance.Deny, Code: "C1", Reason: "because"},
		},
		{tool: "empty", flow: governance.Request, want: governance.Decision{Action: governance.Deny}},
		{tool: "echo", flow: governance.Request},
		{tool: "echo", flow: governance.Response},
		{
			tool: "change",
			flow: governance.Request,
			want: governance.Decision{Action: governance.Modify, JSON: json.RawMessage(changedRequest)},
		},
		{
			tool: "change",
			flow: governance.Response,
			want: governance.Decision{Action: governance.Modify, JSON: json.RawMessage(`{"n":12345678901234567890}`)},
		},
		{
			tool: "array",
			flow: governance.Request,
			want: governance.Decision{Action: governance.Modify, JSON: json.RawMessage(`[]`)},
		},
		{
			tool: "garbage",
			flow: governance.Request,
			want: governance.Decision{Action: governance.Modify, JSON: json.RawMessage(`{"a":`)},
		},
		{tool: "big", flow: governance.Request, kind: protocol.InvalidResponse, text: "a message was too large"},
		{
			tool: "fail",
			flow: governance.Request,
			kind: protocol.ExtensionError,
			text: "HandleRequest failed: the database is away (Internal)",
		},
		{
			tool: "unavailable",
			flow: governance.Response,
			kind: protocol.ExtensionError,
			text: "HandleResponse failed: come back later (Unavailable)",
		},
	} {
		x := call(tt.tool)
		if tt.flow == governance.Response {
			x.Response = json.RawMessage(`{"content":[]}`)
		}
		before := *x
		d, err := p.ask(tt.flow, x)
		if diff := cmp.Diff(tt.want, d); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tt.tool, tt.flow, diff)
		}
		if protocol.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s, %s: %v, want %s: … %s", tt.tool, tt.flow, err, tt.kind, tt.text)
		}
		if diff := cmp.Diff(&before, x); diff != "" {
			t.Errorf("%s, %s changed the exchange (-before +after):\n%s", tt.tool, tt.flow, diff)
		}
	}
}

// TestMessage compares the message to the plugin with the exchange, method by method.
func TestMessage(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	content, audit := spec(t, "plugin"), spec(t, "plugin")
	audit.Category = governance.Audit
	policies := map[governance.Category]*policy{
		governance.Content: started(t, content),
		governance.Audit:   started(t, audit),
	}
	type message = pluginv1.PluginHandleRequest
	request := map[string]string{"request_id": "d1", "direction": "to_extension"}
	for name, tt := range map[string]struct {
		category governance.Category
		flow     governance.Flow
		x        governance.Exchange
		want     *message
		headers  map[string]string
	}{
		"over HTTP": {governance.Content, governance.Request,
			governance.Exchange{
				ID:      "d1",
				Method:  "tools/list",
				Node:    "web",
				ToChild: true,
				Request: json.RawMessage(`{}`),
			},
			&message{
				Flow:        "request",
				Method:      "tools/list",
				RequestJson: []byte(`{}`),
				Metadata: map[string]string{
					"request_id":           "d1",
					"direction":            "to_extension",
					"node":                 "web",
					"header.authorization": "Bearer x",
				},
			},
			map[string]string{"authorization": "Bearer x"}},
		"tools/call": {governance.Content, governance.Request,
			governance.Exchange{
				ID:        "d1",
				Method:    "tools/call",
				Caller:    "ann",
				Session:   "s1",
				Extension: "files",
				ToChild:   true,
				Request:   json.RawMessage(`{"name":"read","arguments":{"n":12345678901234567890}}`),
			},
			&message{
				Flow:        "request",
				Method:      "tools/call",
				Caller:      "ann",
				Server:      "files",
				RoutingKey:  "s1",
				RequestJson: []byte(`{"n":12345678901234567890}`),
				Metadata:    request,
			}, nil},
		"its result": {governance.Content, governance.Response,
			governance.Exchange{
				ID:       "d1",
				Method:   "tools/call",
				ToChild:  true,
				Request:  json.RawMessage(`{"name":"read"}`),
				Response: json.RawMessage(`{"content":[]}`),
			},
			&message{Flow: "response", Method: "tools/call", ResponseJson: []byte(`{"content":[]}`), Metadata: request},
			nil},
		"prompts/get": {governance.Content, governance.Request,
			governance.Exchange{
				ID:      "d1",
				Method:  "prompts/get",
				ToChild: true,
				Request: json.RawMessage(`{"name":"greet","arguments":{"who":"x"}}`),
			},
			&message{
				Flow:        "request",
				Method:      "prompts/get",
				PromptName:  "greet",
				RequestJson: []byte(`{"who":"x"}`),
				Metadata:    request,
			}, nil},
		"resources/read": {governance.Content, governance.Request,
			governance.Exchange{
				ID:      "d1",
				Method:  "resources/read",
				ToChild: true,
				Request: json.RawMessage(`{"uri":"file:///a"}`),
			},
			&message{
				Flow:        "request",
				Method:      "resources/read",
				ResourceUri: "file:///a",
				RequestJson: []byte(`{"uri":"file:///a"}`),
				Metadata:    request,
			}, nil},
		"any other": {governance.Content, governance.Request,
			governance.Exchange{
				ID:      "d1",
				Method:  "sampling/createMessage",
				Request: json.RawMessage(`{"messages":[]}`),
			},
			&message{
				Flow:        "request",
				Method:      "sampling/createMessage",
				RequestJson: []byte(`{"messages":[]}`),
				Metadata:    map[string]string{"request_id": "d1", "direction": "to_caller"},
			}, nil},
		"an extension's own error": {governance.Content, governance.Response,
			governance.Exchange{
				ID:       "d1",
				Method:   "tools/call",
				ToChild:  true,
				Request:  json.RawMessage(`{"name":"read"}`),
				Response: json.RawMessage(`{"code":-1,"message":"no such file"}`),
				Failure:  &protocol.Error{Kind: protocol.ExtensionError, Message: "no such file"},
			},
			&message{
				Flow:         "response",
				Method:       "tools/call",
				ResponseJson: []byte(`{"code":-1,"message":"no such file"}`),
				Metadata: map[string]string{
					"request_id": "d1",
					"direction":  "to_extension",
					"error_kind": "extension_error",
				},
			}, nil},
		"audit of a denial": {governance.Audit, governance.Response,
			governance.Exchange{
				ID:      "d1",
				Method:  "tools/call",
				ToChild: true,
				Request: json.RawMessage(`{"name":"read","arguments":{}}`),
				Failure: &protocol.Error{Kind: protocol.Rejected, Message: "no"},
				Verdict: governance.Verdict{Action: governance.Deny, Policy: "gate", Code: "c"},
			},
			&message{
				Flow:         "response",
				Method:       "tools/call",
				RequestJson:  []byte(`{}`),
				ResponseJson: []byte(`{"code":-32031,"message":"no (rejected)","data":{"kind":"rejected"}}`),
				Metadata: map[string]string{
					"request_id":  "d1",
					"direction":   "to_extension",
					"error_kind":  "rejected",
					"decision":    "deny",
					"code":        "c",
					"policy":      "gate",
					"decision_id": "d1",
				},
			}, nil},
		"audit of a success": {governance.Audit, governance.Response,
			governance.Exchange{
				ID:       "d1",
				Method:   "tools/list",
				ToChild:  true,
				Response: json.RawMessage(`{"tools":[]}`),
			},
			&message{
				Flow:         "response",
				Method:       "tools/list",
				ResponseJson: []byte(`{"tools":[]}`),
				Metadata: map[string]string{
					"request_id":  "d1",
					"direction":   "to_extension",
					"decision":    "allow",
					"code":        "",
					"policy":      "",
					"decision_id": "d1",
				},
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.x.Tool, tt.want.ToolName = "tell", "tell" // answers with the message it got
			ctx := t.Context()
			if tt.headers != nil {
				ctx = protocol.WithHeaders(ctx, tt.headers)
			}
			d, err := policies[tt.category].Decide(ctx, tt.flow, &tt.x)
			if err != nil || d.Action != governance.Deny {
				t.Fatalf("decision: %+v, %v", d, err)
			}
			var got message
			if err := protojson.Unmarshal([]byte(d.Reason), &got); err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(protojson.Format(tt.want), protojson.Format(&got),
				cmp.Transformer("object",
					func(s string) (v any) { _ = json.Unmarshal([]byte(s), &v); return v }))
			if diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The deadline of the caller bounds the wait.
func TestDecideEndsWithItsContext(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	p := started(t, spec(t, "plugin"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if d, err := p.Decide(ctx, governance.Request, call("hang")); protocol.KindOf(err) != protocol.CallTimeout ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %+v, %v", d, err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if d, err := p.Decide(ctx, governance.Request, call("hang")); protocol.KindOf(err) != protocol.Canceled ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("given up: %+v, %v", d, err)
	}
	if _, err := p.ask(governance.Request, call("allow")); err != nil {
		t.Errorf("and then: %v", err)
	}
}

// A request and a result of the largest size are accepted in both directions.
func TestLargeMessages(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	p := started(t, spec(t, "plugin"))
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", 16<<20-8) + `"}`)
	x := call("echo")
	x.Request, x.Response = json.RawMessage(`{"name":"echo","arguments":`+string(large)+`}`), large
	for _, flow := range []governance.Flow{governance.Request, governance.Response} {
		if d, err := p.ask(flow, x); err != nil || d.Action != governance.Allow {
			t.Errorf("%s: %s, %v", flow, d.Action, err)
		}
	}
}
