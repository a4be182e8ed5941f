package nativepolicy_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/nativepolicy"
	"github.com/exthost/exthost/protocol"
)

// script is a process that gives scripted answers and records its requests.
type script struct {
	answer string
	err    error
	method string
	params json.RawMessage
}

func (s *script) Call(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	s.method, s.params = method, params
	return json.RawMessage(s.answer), s.err
}

func TestDecisions(t *testing.T) {
	const request, response = governance.Request, governance.Response
	deny := governance.Decision{Action: governance.Deny}
	for _, tt := range []struct {
		flow   governance.Flow
		answer string
		want   governance.Decision
		fault  string
	}{
		{request, `{"decision":"allow"}`, governance.Decision{}, ""},
		{response, `{"decision":"allow","reason":"fine","request":null,"data":null}`,
			governance.Decision{Reason: "fine", Data: json.RawMessage("null")}, ""},
		{request, `{"decision":"deny","code":"c","reason":"r","data":{"n":12345678901234567890},"retry_after":1.5}`,
			governance.Decision{
				Action:     governance.Deny,
				Code:       "c",
				Reason:     "r",
				Data:       json.RawMessage(`{"n":12345678901234567890}`),
				RetryAfter: 1500 * time.Millisecond,
			}, ""},
		{request, `{"decision":"modify","request":{"name":"a","n":1.50}}`,
			governance.Decision{Action: governance.Modify, JSON: json.RawMessage(`{"name":"a","n":1.50}`)}, ""},
		{response, `{"decision":"modify","response":{"content":[]}}`,
			governance.Decision{Action: governance.Modify, JSON: json.RawMessage(`{"content":[]}`)}, ""},
		{request, `{"decision":"respond","response":{"content":[]}}`,
			governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{"content":[]}`)}, ""},
		{request, `{"decision":"ask","reason":"sure?","expiry":60}`,
			governance.Decision{Action: governance.Ask, Reason: "sure?", Expiry: time.Minute}, ""},
		{request, `{"decision":"ask","where":"client","remember":"session"}`, governance.Decision{
			Action: governance.Ask,
			Asking: protocol.Asking{Where: protocol.InClient, Remember: protocol.RememberSession},
		}, ""},

		{request, ``, governance.Decision{}, "unexpected end of JSON"},
		{request, `null`, governance.Decision{}, "not a JSON object"},
		{request, `"allow"`, governance.Decision{}, "not a JSON object"},
		{request, `{}`, governance.Decision{}, "it says no decision; say one of allow, deny"},
		{request, `{"decision":null}`, governance.Decision{}, "it says no decision"},
		{request, `{"decision":""}`, governance.Decision{}, `"" is no decision; say one of allow`},
		{request, `{"decision":"alow"}`, governance.Decision{}, `"alow" is no decision (allow?)`},
		{request, `{"decision":"Allow"}`, governance.Decision{}, `"Allow" is no decision (allow?)`},
		{request, `{"decision":true}`, governance.Decision{}, "cannot unmarshal bool"},
		{request, `{"decision":"deny","decision":"allow"}`, deny, ""},
		{request, `{"decision":"allow","Decision":" DENY "}`, deny, ""},
		{request, `{"decision":"ask","decision":"allow"}`, governance.Decision{}, "it says decision twice"},
		{request, `{"Decision":"allow"}`, governance.Decision{}, `"Decision" has no meaning in it (decision?)`},
		{request, `{"decision":"deny","reson":"r","request":{},"code":7,"reason":["r"]}`, deny, ""},
		{request, `{"decision":"ask","reson":"r"}`, governance.Decision{}, `"reson" has no meaning in it (reason?)`},
		{request, `{"decision":"modify"}`, governance.Decision{}, "modify in the request flow needs a request"},
		{request, `{"decision":"modify","request":null}`, governance.Decision{},
			"modify in the request flow needs a request"},
		{request, `{"decision":"modify","response":{}}`, governance.Decision{},
			"modify in the request flow needs a request"},
		{request, `{"decision":"modify","request":{},"response":{}}`, governance.Decision{}, "goes without a response"},
		{response, `{"decision":"modify","request":{}}`, governance.Decision{},
			"modify in the response flow goes without a request"},
		{request, `{"decision":"allow","request":{}}`, governance.Decision{},
			"allow in the request flow goes without a request"},
		{request, `{"decision":"respond"}`, governance.Decision{}, "respond in the request flow needs a response"},
		{response, `{"decision":"respond","response":{}}`, governance.Decision{}, "respond is for the request flow"},
		{response, `{"decision":"ask","response":{}}`, governance.Decision{},
			"ask in the response flow goes without a response"},
		{request, `{"decision":"deny","retry_after":-1}`, deny, ""},
		{request, `{"decision":"deny","retry_after":"1m"}`,
			governance.Decision{Action: governance.Deny, RetryAfter: time.Minute}, ""},
		{request, `{"decision":"deny","retry_after":"2"}`,
			governance.Decision{Action: governance.Deny, RetryAfter: 2 * time.Second}, ""},
		{request, `{"decision":"deny","retry_after":"-2h"}`, deny, ""},
		{request, `{"decision":"ask","where":"here"}`, governance.Decision{}, `"here" is none of operator, client`},
		{request, `{"decision":"ask","remember":true}`, governance.Decision{}, "true is none of call, session"},
		{request, `{"decision":"ask","expiry":-1}`, governance.Decision{}, "expiry is a number of seconds"},
	} {
		p := nativepolicy.New(governance.Spec{Category: governance.Content}, &script{answer: tt.answer})
		got, err := p.Decide(t.Context(), tt.flow, &governance.Exchange{Method: "tools/call"})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tt.flow, tt.answer, diff)
		}
		if (err != nil) != (tt.fault != "") ||
			err != nil && (!strings.Contains(err.Error(), tt.fault) ||
				protocol.KindOf(err) != protocol.InvalidResponse) {
			t.Errorf("%s, %s: error %v, want … %s", tt.flow, tt.answer, err, tt.fault)
		}
		stated := strings.Contains(tt.answer, `"decision":`) && !strings.Contains(tt.answer, `"decision":null`) &&
			!strings.HasPrefix(tt.answer, `{"decision":"allow"`)
		if err != nil && errors.Is(err, governance.ErrDecided) != stated {
			t.Errorf("%s, %s: %v; it states a decision: %t", tt.flow, tt.answer, err, stated)
		}
	}
}

// An error of the process is not a decision and keeps its kind.
func TestProcessFails(t *testing.T) {
	gone := protocol.Errorf(protocol.ChildExited, "gone")
	p := nativepolicy.New(governance.Spec{}, &script{answer: `{"decision":"allow"}`, err: gone})
	if d, err := p.Decide(t.Context(), governance.Request, &governance.Exchange{}); !errors.Is(err, gone) {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestParams checks that the JSON of the exchange is copied byte for byte.
func TestParams(t *testing.T) {
	x := governance.Exchange{
		ID:        "d1",
		Method:    "tools/call",
		Caller:    "a\"b",
		Session:   "s",
		Node:      "web",
		Extension: "files",
		Tool:      "ext_files_read",
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"read", "arguments":{"n":12345678901234567890,"h":"<&>"}}`),
		Response:  json.RawMessage(`{"content":[]}`),
	}
	failed := governance.Exchange{
		Method:  "sampling/createMessage",
		Failure: &protocol.Error{Kind: protocol.Rejected, Message: "no"},
		Verdict: governance.Verdict{Action: governance.Deny, Policy: "gate", Code: "c"},
	}
	const all = `"method":"tools/call","id":"d1","caller":"a\"b","session":"s","node":"web","extension":"files","tool":"ext_files_read","request":{"name":"read", "arguments":{"n":12345678901234567890,"h":"<&>"}}`
	for _, tt := range []struct {
		category governance.Category
		flow     governance.Flow
		x        *governance.Exchange
		want     string
	}{
		{governance.Content, governance.Request, &x, `{"flow":"request","direction":"to_extension",` + all + `}`},
		{governance.Content, governance.Response, &x,
			`{"flow":"response","direction":"to_extension",` + all + `,"response":{"content":[]}}`},
		{governance.Audit, governance.Response, &x,
			`{"flow":"response","direction":"to_extension",` + all +
				`,"response":{"content":[]},"verdict":{"decision":"allow"}}`},
		{governance.Audit, governance.Response, &failed,
			`{"flow":"response","direction":"to_caller","method":"sampling/createMessage",` +
				`"error":{"code":-32031,"message":"no (rejected)","data":{"kind":"rejected"}},"verdict":{"decision":"deny","policy":"gate","code":"c"}}`},
	} {
		s := &script{answer: `{"decision":"allow"}`}
		_, err := nativepolicy.New(governance.Spec{Category: tt.category}, s).Decide(t.Context(), tt.flow, tt.x)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.want, string(s.params)); diff != "" || s.method != "governance/decide" {
			t.Errorf("%s (-want +got):\n%s", s.method, diff)
		}
		if err := json.Unmarshal(s.params, new(protocol.DecideParams)); err != nil {
			t.Errorf("%s: %v", s.params, err)
		}
	}
}

// The headers of an HTTP request come before the payload. Without an HTTP request the member is
// absent, not empty.
func TestHeaders(t *testing.T) {
	for want, headers := range map[string]map[string]string{
		`{"flow":"request","direction":"to_extension","method":"tools/list","request":{}}`:              nil,
		`{"flow":"request","direction":"to_extension","method":"tools/list","headers":{},"request":{}}`: {},
		`{"flow":"request","direction":"to_extension","method":"tools/list","headers":{"authorization":"Bearer \"x\""},"request":{}}`: {
			"authorization": `Bearer "x"`,
		},
	} {
		s := &script{answer: `{"decision":"allow"}`}
		x := &governance.Exchange{Method: "tools/list", ToChild: true, Request: json.RawMessage(`{}`)}
		p := nativepolicy.New(governance.Spec{Category: governance.Authentication}, s)
		if _, err := p.Decide(protocol.WithHeaders(t.Context(), headers), governance.Request, x); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, string(s.params)); diff != "" {
			t.Error(diff)
		}
	}
}

// FuzzDecide checks that only an explicit allow allows.
func FuzzDecide(f *testing.F) {
	for _, s := range []string{
		`{"decision":"allow"}`,
		`{"decision":"deny"}`,
		`{"decision":"modify","request":{}}`,
		`{"decision":"allow","decision":"deny"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		d, err := nativepolicy.New(governance.Spec{}, &script{answer: answer}).Decide(t.Context(), governance.Request,
			&governance.Exchange{})
		var plain struct{ Decision string }
		if err == nil && d.Action == governance.Allow &&
			(json.Unmarshal([]byte(answer), &plain) != nil || plain.Decision != "allow") {
			t.Errorf("%q is taken for an approval", answer)
		}
	})
}
