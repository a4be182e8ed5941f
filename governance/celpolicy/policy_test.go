package celpolicy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/protocol"
)

// spec is a policy as files state it, with this config.
func spec(t testing.TB, config string) governance.Spec {
	t.Helper()
	s := governance.Spec{Name: "p", Builtin: "cel", Category: governance.Authorization}
	if err := json.Unmarshal([]byte(config), &s.Config); err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return s
}

func newPolicy(t testing.TB, config string) governance.Policy {
	t.Helper()
	p, err := celpolicy.New(spec(t, config))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func call(tool, arguments string) governance.Exchange {
	return governance.Exchange{
		Method:    protocol.MethodToolsCall,
		Caller:    "ada",
		Session:   "s1",
		Node:      "web",
		Extension: "files",
		Tool:      tool,
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"x","arguments":` + arguments + `,"_meta":{"progressToken":1}}`),
	}
}

// ask returns what p decides, as text.
func ask(t testing.TB, p governance.Policy, flow governance.Flow, x governance.Exchange) string {
	t.Helper()
	d, err := p.Decide(context.Background(), flow, &x)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case d.Action == governance.Allow:
		return "allow"
	}
	return string(d.Action) + " " + d.Code + ": " + d.Reason
}

// Errors name the key and an example of a valid value.
func TestConfigs(t *testing.T) {
	for config, want := range map[string][]governance.Problem{
		`{"when": "true", "expiry": "1m"}`: nil,
		`{}`: {{
			Field:   "config.when",
			Message: `is missing; such as tool == "ext_shell_run"`,
		}},
		`{"when": 1}`:     {{Field: "config.when", Message: "a number where a text belongs"}},
		`{"when": "'a'"}`: {{Field: "config.when", Message: "is a string, not a bool"}},
		`{"wen": "true"}`: {{Field: "config.wen", Message: "unknown key, did you mean when?"}},
		`{"when": "risk == 'destory' || flow in ['request']"}`: {{
			Field:   "config.when",
			Message: `risk is never "destory", did you mean "destroy"?`,
		}},
		`{"when": "true", "message": "'in' == direction ? 'a' : 'b'"}`: {{
			Field:   "config.message",
			Message: `direction is never "in", but to_extension, to_caller`,
		}},
		`{"when": "tool.name == 'x'"}`: {{
			Field:   "config.when",
			Message: "1:5: type 'string' does not support field selection",
		}},
		`{"when": "true", "expiry": "soon"}`: {{
			Field:   "config.expiry",
			Message: `"soon" is not a duration such as "90s" or "1h"`,
		}},
		`{"when": "tol == 'a'", "message": "1", "action": "permit"}`: {{
			Field:   "config.action",
			Message: `"permit" is none of deny, ask`,
		},
			{Field: "config.when", Message: "1:1: undeclared reference to 'tol' (did you mean 'tool'?)"},
			{Field: "config.message", Message: "is a int, not a string"}},
	} {
		if diff := cmp.Diff(want, celpolicy.Check(spec(t, config))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
}

// The names that expressions compare with are told, so that the host can say which there are not.
func TestComparedNames(t *testing.T) {
	p := newPolicy(t, `{"when": "tool == 'ext_a' || 'ext_b' != tool || tool in ['ext_c', 'ext_d'] || '' == tool `+
		`|| extension.startsWith('a') || caller == 'bot' && has(arguments.path) && arguments.?mode.orValue('') == 'w' `+
		`|| result.isError", "message": "'no ' + arguments.name"}`)
	var got []string
	for _, n := range p.(builtin.Selector).Patterns() {
		got = append(got, n.Field+" "+n.Of+" "+n.Glob)
	}
	slices.Sort(got)
	want := []string{
		"config.message arguments name",
		"config.when arguments mode",
		"config.when arguments path",
		"config.when callers bot",
		"config.when extensions a*",
		"config.when tools ext_a",
		"config.when tools ext_b",
		"config.when tools ext_c",
		"config.when tools ext_d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecisions(t *testing.T) {
	x := call("ext_shell_run", `{"command":"rm -rf","n":3,"big":9007199254740993,"f":1.5,"list":[1,2]}`)
	response := x
	response.Response = json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"oh"}]}`)
	tests := []struct {
		name, config string
		flow         governance.Flow
		want         string
	}{
		{"true", `{"when": "tool == 'ext_shell_run' && arguments.command.startsWith('rm')"}`, governance.Request,
			"deny : it is not allowed when tool == 'ext_shell_run' && arguments.command.startsWith('rm')"},
		{"false", `{"when": "caller != 'ada' || session != 's1' || node != 'web' || extension != 'files' || method != 'tools/call' || direction != 'to_extension'"}`, governance.Request, "allow"},
		{"ask, with a message",
			`{"when": "true", "action": "ask", "code": "rm", "message": "'really ' + arguments.command + '?'"}`,
			governance.Request, "ask rm: really rm -rf?"},
		{"ask in the client", `{"when": "true", "action": "ask", "message": "'sure?'", "where": "client"}`,
			governance.Request, "ask : sure?"},
		{"a message that fails", `{"when": "true", "message": "arguments.nothing"}`, governance.Request,
			"deny : it is not allowed when true"},
		{"numbers", `{"when": "arguments.n > 2 && arguments.n < 3.5 && arguments.f > 1 && arguments.big == 9007199254740993 && arguments.list.exists(i, i == 2)"}`, governance.Request,
			"deny : it is not allowed when arguments.n > 2 && arguments.n < 3.5 && arguments.f > 1 && arguments.big " +
				"== 9007199254740993 && arguments.list.exists(i, i == 2)"},
		{"a missing member", `{"when": "arguments.path == '/'"}`, governance.Request, "error: no such key: path"},
		{"an optional member", `{"when": "arguments.?path.orValue('/') == '/etc'"}`, governance.Request, "allow"},
		{"has", `{"when": "has(arguments.path)"}`, governance.Request, "allow"},
		{"not the result", `{"when": "true"}`, governance.Response, "allow"},
		{"the result", `{"when": "result.isError && result.content[0].text == 'oh'"}`, governance.Response,
			"deny : it is not allowed when result.isError && result.content[0].text == 'oh'"},
		{"the result, before there is one", `{"when": "result.isError"}`, governance.Request, "allow"},
		{"both flows", `{"when": "flow == 'response' && result != null"}`, governance.Request, "allow"},
		{"both flows, later", `{"when": "flow == 'response' && result != null"}`, governance.Response,
			"deny : it is not allowed when flow == 'response' && result != null"},
		{"costly", `{"when": "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f+arguments.n >= 0))))))"}`,
			governance.Request, "error: operation cancelled: actual cost limit exceeded"},
		{"dyn that is no bool", `{"when": "arguments.n"}`, governance.Request, "error: when is a int, not a bool"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := x
			if tt.flow == governance.Response {
				seen = response
			}
			if got := ask(t, newPolicy(t, tt.config), tt.flow, seen); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
	for risk, want := range map[protocol.Risk]string{"read": "allow", "write": "allow", "destroy": "ask", "": "ask"} {
		risky := call("ext_files_x", `{}`)
		risky.Risk = risk
		got := ask(t, newPolicy(t, `{"when": "risk == 'destroy'", "action": "ask"}`), governance.Request, risky)
		if !strings.HasPrefix(got, want) {
			t.Errorf("risk %q: %s, want %s", risk, got, want)
		}
	}
	p := newPolicy(t, `{"when": "arguments.a == 1 || arguments.uri == 'file:///'"}`)
	for text, want := range map[string]string{
		`{"a":1}`: "deny",
		`{"a":`:   "error: what it decides about is not JSON",
		``:        "error: no such key: ",
	} {
		got := ask(t, p, governance.Request,
			governance.Exchange{
				Method:  "resources/read",
				ToChild: true,
				Request: json.RawMessage(text),
			})
		if !strings.HasPrefix(got, want) {
			t.Errorf("params %s: %s", text, got)
		}
	}
	response.Failure, response.Response = &protocol.Error{
		Kind: protocol.ExtensionError,
	}, json.RawMessage(`{"code":-7,"message":"no","data":{"n":1}}`)
	for when, want := range map[string]string{
		"result.isError && result.content[0].text == 'no' && result.structuredContent.n == 1": "deny",
		"error != null && error.code == -7":                                                   "deny",
		"error == null":                                                                       "allow",
		"flow == 'response'":                                                                  "deny",
		"tool != ''":                                                                          "allow",
	} {
		got := ask(t, newPolicy(t, `{"when": "`+when+`"}`), governance.Response, response)
		if !strings.HasPrefix(got, want) {
			t.Errorf("a call that failed, %s: %s", when, got)
		}
	}
	response.Failure, response.Response = &protocol.Error{Kind: protocol.CallTimeout}, nil
	if got := ask(t, newPolicy(t, `{"when": "result.isError"}`), governance.Response, response); got != "allow" {
		t.Errorf("a call that timed out: %s", got)
	}
}

// Only policies of category authentication know headers, which are null outside of HTTP.
func TestHeaders(t *testing.T) {
	s := spec(t, `{"when": "headers == null || headers.?authorization.orValue('') != 'Bearer x'"}`)
	if problems := celpolicy.Check(s); len(problems) != 1 ||
		!strings.Contains(problems[0].Message, "undeclared reference to 'headers'") {
		t.Errorf("category authorization: %v", problems)
	}
	s.Category = governance.Authentication
	p, err := celpolicy.New(s)
	if err != nil {
		t.Fatal(err)
	}
	x := call("ext_a_b", "{}")
	for want, headers := range map[governance.Action]map[string]string{
		governance.Allow: {"authorization": "Bearer x"},
		governance.Deny:  nil,
	} {
		if d, err := p.Decide(protocol.WithHeaders(t.Context(), headers), governance.Request, &x); err != nil ||
			d.Action != want {
			t.Errorf("%v: %+v, %v", headers, d, err)
		}
	}
	if d, err := p.Decide(protocol.WithHeaders(t.Context(), map[string]string{}), governance.Request, &x); err != nil ||
		d.Action != governance.Deny {
		t.Errorf("without the header: %+v, %v", d, err)
	}
}

// FuzzConfigs creates policies of arbitrary configs and lets the valid ones decide.
func FuzzConfigs(f *testing.F) {
	f.Add(`{"when":"has(arguments.a)","message":"tool","action":"ask","expiry":"1m"}`, `{"a":[1,{"b":null}]}`)
	f.Fuzz(func(t *testing.T, text, arguments string) {
		s := governance.Spec{Name: "p", Builtin: "cel", Category: governance.Authorization}
		if json.Unmarshal([]byte(text), &s.Config) != nil || !json.Valid([]byte(arguments)) || len(text) > 2000 {
			return
		}
		p, err := celpolicy.New(s)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a word")
			}
			return
		}
		x := call("ext_a_b", arguments)
		x.Response = x.Request
		for _, flow := range []governance.Flow{governance.Request, governance.Response} {
			if d, err := p.Decide(t.Context(), flow, &x); err == nil && d.Action != governance.Allow &&
				d.Action != governance.Deny && d.Action != governance.Ask {
				t.Errorf("it decides %+v", d)
			}
		}
	})
}

// BenchmarkDecision measures a decision that allows a call.
func BenchmarkDecision(b *testing.B) {
	p := newPolicy(b, `{"when": "tool.startsWith('ext_files_') && arguments.path.startsWith('/etc/')"}`)
	x := call("ext_files_read", `{"path":"/home/ada/notes.txt","limit":1000}`)
	b.ReportAllocs()
	for b.Loop() {
		if d, err := p.Decide(context.Background(), governance.Request, &x); err != nil ||
			d.Action != governance.Allow {
			b.Fatal(d, err)
		}
	}
}

// Regular expressions are not run on texts that would take seconds.
func TestLongTextsAreNotMatched(t *testing.T) {
	x := governance.Exchange{
		Method:  "tools/call",
		ToChild: true,
		Request: json.RawMessage(`{"name":"a","arguments":{"text":"` + strings.Repeat("a", 15<<20) + `"}}`),
	}
	for when, want := range map[string]string{
		`arguments.text.matches('(a*)*b')`: "error: a text of 15728640 bytes is too long for an expression with " +
			"matches",
		`size(arguments.text) > 1000 * 1000`: "deny",
	} {
		if got := ask(t, newPolicy(t, `{"when": "`+when+`"}`), governance.Request, x); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", when, got)
		}
	}
}
