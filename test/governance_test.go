package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// sentinel is a policy that records every exchange and denies the configured ones.
type sentinel struct {
	mu   sync.Mutex
	seen []string
	deny func(flow governance.Flow, x *governance.Exchange) bool
	err  error
}

func (s *sentinel) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	arrow := " > "
	if !x.ToChild {
		arrow = " < "
	}
	s.seen = append(s.seen, string(flow)+arrow+x.Method+" "+x.Tool)
	if s.deny != nil && s.deny(flow, x) {
		return governance.Decision{Action: governance.Deny, Code: "no", Reason: "not today"}, s.err
	}
	return governance.Decision{}, s.err
}

func TestEveryExchangePassesGovernance(t *testing.T) {
	policy := &sentinel{}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
	})
	for _, c := range []*protocol.Call{
		{
			Method: protocol.MethodToolsCall,
			Params: json.RawMessage(`{"name":"ext_x_work","_meta":{"progressToken":1}}`),
		},
		{Method: protocol.MethodToolsCall, Extension: "x", Params: json.RawMessage(`{"name":"echo"}`)},
		{Method: protocol.MethodToolsList},
		{Method: "no/such", Extension: "x"},
		{Method: "notifications/anything", Extension: "x", Notify: true},
	} {
		c.Client = hosttest.NewRecorder()
		_, err := h.Do(hosttest.Deadline(t), c)
		if err != nil && c.Method != "no/such" {
			t.Errorf("%s: %v", c.Method, err)
		}
	}
	want := []string{
		"request > tools/call ext_x_work",
		"request < notifications/progress ext_x_work",
		"request < notifications/progress ext_x_work",
		"request < notifications/progress ext_x_work",
		"request < notifications/message ext_x_work",
		"response > tools/call ext_x_work",
		"request > tools/call ext_x_echo", "response > tools/call ext_x_echo",
		"request > tools/list ", "response > tools/list ",
		"request > no/such ", "response > no/such ",
		"request > notifications/anything ",
	}
	if diff := cmp.Diff(want, policy.seen); diff != "" {
		t.Error(diff)
	}
}

// A policy sees request and response of every MCP method, in both directions, at an extension's
// own endpoint and the shared one, from legacy and modern clients.
func TestEveryMethodPassesGovernance(t *testing.T) {
	for _, tt := range []struct{ version, extension string }{
		{protocol.MCP20251125, "x"}, {protocol.MCP20251125, ""}, {protocol.MCP20260728, "x"},
		{protocol.MCP20260728, ""},
	} {
		t.Run(tt.version+" "+tt.extension, func(t *testing.T) {
			policy := &sentinel{}
			h := hosttest.NewFolder(t).Add("x", rich("older", "")).Open(exthost.Options{
				Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
			})
			s, c := stay(t, h, "s", tt.version, tt.extension)
			prefix := "ext_x_"
			if tt.extension != "" {
				prefix = ""
			}
			for _, e := range []struct{ method, params string }{
				{"tools/list", `{}`},
				{"tools/call", `{"name":"` + prefix + `ask","arguments":{"for":"roots"}}`},
				{"tools/call", `{"name":"` + prefix + `ask","arguments":{"for":"sampling"}}`},
				{"tools/call", `{"name":"` + prefix + `ask","arguments":{}}`},
				{"resources/list", `{}`}, {"resources/templates/list", `{}`}, {"prompts/list", `{}`},
				{"resources/read", `{"uri":"test://note"}`}, {"resources/subscribe", `{"uri":"test://note"}`},
				{"tools/call", `{"name":"` + prefix + `touch","arguments":{}}`},
				{"resources/unsubscribe", `{"uri":"test://note"}`},
				{"prompts/get", `{"name":"` + prefix + `p"}`},
				{"completion/complete",
					`{"ref":{"type":"ref/prompt","name":"` + prefix + `p"},"argument":{"name":"x","value":""}}`},
				{"logging/setLevel", `{"level":"error"}`},
				{"tools/call", `{"name":"` + prefix + `log","arguments":{}}`},
				{"tools/call", `{"name":"` + prefix + `grow","arguments":{}}`},
			} {
				if _, err := h.Do(hosttest.Deadline(t),
					&protocol.Call{
						Session:   s,
						Extension: tt.extension,
						Client:    c,
						Method:    e.method,
						Params:    json.RawMessage(e.params),
					}); err != nil {
					t.Errorf("%s: %v", e.method, err)
				}
				switch {
				case strings.Contains(e.params, "touch"):
					wait(t, c.On, "notifications/resources/updated")
				case strings.Contains(e.params, "grow"):
					wait(t, c.On, "notifications/prompts/list_changed")
				}
			}
			for _, want := range []string{
				"tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read",
				"resources/subscribe",
				"resources/unsubscribe", "prompts/get", "completion/complete", "logging/setLevel",
				"tools/call ext_x_ask", "tools/call ext_x_touch", "tools/call ext_x_log", "tools/call ext_x_grow",
			} {
				policy.wantBoth(t, " > ", want)
			}
			for _, want := range []string{
				"roots/list ext_x_ask",
				"sampling/createMessage ext_x_ask",
				"elicitation/create ext_x_ask",
			} {
				policy.wantBoth(t, " < ", want)
			}
			for _, want := range []string{
				"notifications/resources/updated",
				"notifications/message ext_x_log",
				"notifications/prompts/list_changed",
			} {
				policy.wantSeen(t, "request < "+want)
			}
		})
	}
}

func (s *sentinel) wantBoth(t *testing.T, arrow, exchange string) {
	t.Helper()
	s.wantSeen(t, "request"+arrow+exchange)
	s.wantSeen(t, "response"+arrow+exchange)
}

func (s *sentinel) wantSeen(t *testing.T, exchange string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.seen, func(seen string) bool { return strings.TrimSpace(seen) == exchange }) {
		t.Errorf("governance has not seen %s among %q", exchange, s.seen)
	}
}

// Denied requests and notifications of an extension do not reach its client.
func TestDenialsKeepRequestsFromClients(t *testing.T) {
	for _, denied := range []string{
		"sampling/createMessage",
		"notifications/resources/updated",
		"notifications/message",
	} {
		t.Run(denied, func(t *testing.T) {
			policy := &sentinel{
				deny: func(f governance.Flow, x *governance.Exchange) bool { return x.Method == denied },
			}
			h := hosttest.NewFolder(t).Add("x", rich("older", "")).Open(exthost.Options{
				Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
			})
			s, c := stay(t, h, "s", protocol.MCP20251125, "x")
			for method, params := range map[string]string{
				"resources/subscribe": `{"uri":"test://note"}`,
				"logging/setLevel":    `{"level":"debug"}`,
			} {
				if _, err := h.Do(hosttest.Deadline(t),
					&protocol.Call{Session: s, Extension: "x", Method: method, Params: json.RawMessage(params)}); err !=
					nil {
					t.Fatal(err)
				}
			}
			got := callTool(t, h, s, c, "ask", `{"for":"sampling"}`)
			if refused := strings.Contains(got, "not today"); refused != (denied == "sampling/createMessage") {
				t.Errorf("ask: %s", got)
			}
			callTool(t, h, s, c, "log", `{}`)
			callTool(t, h, s, c, "touch", `{}`)
			callTool(t, h, s, c, "grow", `{}`)
			wait(t, c.On, "notifications/prompts/list_changed") // after all that
			if n := count(c.Recorder, denied); n > 0 {
				t.Errorf("the client was told %s %d times", denied, n)
			}
		})
	}
}

func TestDenialsDoNotExecute(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   *sentinel
		kind     protocol.Kind
		calls    int64
		executed bool
	}{
		{"request", &sentinel{
			deny: func(f governance.Flow, _ *governance.Exchange) bool { return f == governance.Request },
		}, protocol.Rejected, 0, false},
		{"response", &sentinel{
			deny: func(f governance.Flow, _ *governance.Exchange) bool { return f == governance.Response },
		}, protocol.Rejected, 1, true},
		{"unavailable", &sentinel{err: errors.New("its database is down")}, protocol.GovernanceUnavailable, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
				Policies: []governance.Member{member("sentinel", governance.Authorization, tt.policy)},
			})
			result, err := h.Call(hosttest.Deadline(t), "ext_x_echo", nil)
			var e *protocol.Error
			if !errors.As(err, &e) || e.Kind != tt.kind || len(result) > 0 {
				t.Fatalf("echo = %s, %v", result, err)
			}
			var data struct{ Executed bool }
			if len(e.Data) > 0 {
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Error(err)
				}
			}
			if got := hosttest.StatusOf(t, h, "x").Calls; got != tt.calls || data.Executed != tt.executed {
				t.Errorf("%d calls reached the extension, executed: %v", got, data.Executed)
			}
		})
	}
}

// rewriter is a policy that replaces texts in payloads.
type rewriter []string

func (r rewriter) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	return governance.Decision{
		Action: governance.Modify,
		JSON:   json.RawMessage(strings.NewReplacer(r...).Replace(string(payloadOf(flow, x)))),
	}, nil
}

// Changed payloads reach the extension and the caller, and changed arguments are validated
// against the tool's schema.
func TestChangesReachTheExtensionAndTheCaller(t *testing.T) {
	mask := rewriter{"AKIA1", "masked", "Hello", "Bye", `"Ada"`, "1815", "closed", "no entry"}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Policies: []governance.Member{member("mask", governance.Content, mask)},
	})
	for _, tt := range []struct{ tool, arguments, want string }{
		{"ext_x_echo", `{"key":"AKIA1","n":1.0}`, `masked`},
		{"ext_x_greet", `{"name":"Grace"}`, `Bye, Grace!`},
		{"ext_x_greet", `{"name":"Ada"}`, `/name: expected string, got number 1815`},
		{"ext_x_refuse", `{}`, `no entry`},
	} {
		result, err := h.Call(hosttest.Deadline(t), tt.tool, json.RawMessage(tt.arguments))
		if got := fmt.Sprint(string(result), err); !strings.Contains(got, tt.want) || strings.Contains(got, "AKIA1") {
			t.Errorf("%s: %s", tt.tool, got)
		}
	}
}

func TestHooksRunAroundToolCalls(t *testing.T) {
	var seen []string
	note := func(p hooks.Point) hooks.Handler {
		return hooks.Handler{
			Name:  "note",
			Point: p,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				seen = append(seen, string(e.Point)+" "+e.Tool+" "+string(e.Payload))
				if string(e.Payload) == `{"stop":true}` {
					return &hooks.Reply{Abort: true, Reason: "stopped"}, nil
				}
				return nil, nil
			},
		}
	}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Hooks: []hooks.Handler{note(hooks.BeforeToolCall), note(hooks.AfterToolCall), note(hooks.ToolCallFailed)}})
	_, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]any{"name": "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_echo",
		json.RawMessage(`{"stop":true}`)); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("an aborted call: %v", err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_refuse", nil); protocol.KindOf(err) != protocol.ExtensionError {
		t.Errorf("refuse: %v", err)
	}
	want := []string{
		`before_tool_call ext_x_greet {"name":"Ada"}`,
		`after_tool_call ext_x_greet {"content":[{"type":"text","text":"Hello, Ada!"}]}`,
		`before_tool_call ext_x_echo {"stop":true}`,
		`before_tool_call ext_x_refuse {}`,
		`tool_call_failed ext_x_refuse `,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// A list of all extensions counts as one request, however many the host sends for it.
func TestListsAreOneRequest(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("a", rich("", "")).Add("b", rich("older", "")).Open(exthost.Options{})
	if _, err := h.Do(hosttest.Deadline(t), &protocol.Call{Method: "resources/list"}); err != nil {
		t.Fatal(err)
	}
	calls := h.Admin().Calls(10)
	if len(calls) != 1 || calls[0].Extension != "" || hosttest.StatusOf(t, h, "a").Requests != 0 {
		t.Errorf("kept calls: %+v", calls)
	}
}

// TestWhatBecameOfRequestsIsCounted checks that the status accounts for requests that no
// instance served well: denied before and after the tool ran, failed by the tool itself,
// and with arguments that the schema refuses.
func TestWhatBecameOfRequestsIsCounted(t *testing.T) {
	policy := &sentinel{deny: func(flow governance.Flow, x *governance.Exchange) bool {
		return x.Tool == "ext_x_echo" && flow == governance.Request ||
			x.Tool == "ext_x_work" && flow == governance.Response
	}}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Policies: []governance.Member{member("sentinel", governance.Authorization, policy)},
	})
	for tool, arguments := range map[string][]string{
		"echo":   {`{}`, `{}`, `{}`},
		"work":   {`{}`},
		"fail":   {`{}`, `{}`},
		"greet":  {`{"name":1}`, `{"name":"Ada"}`},
		"refuse": {`{}`},
	} {
		for _, a := range arguments {
			_, _ = h.Call(hosttest.Deadline(t), "ext_x_"+tool, json.RawMessage(a))
		}
	}
	x := h.Status().Extensions[0]
	got := []int64{x.Requests, x.Denied, x.ToolErrors, x.Invalid, x.Calls, x.Errors, x.Refused}
	if diff := cmp.Diff([]int64{9, 4, 2, 1, 5, 1, 0}, got); diff != "" {
		t.Errorf("requests, denied, tool errors, invalid arguments, calls, errors, refused: %s", diff)
	}
}
