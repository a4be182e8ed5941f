package test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// A server's requests during a call reach its caller without a progress token, in legacy and modern versions on
// either side.
func TestServersAskTheirCallers(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("both", rich("", ""))
	f.Add("older", rich("older", ""))
	f.Add("newer", rich("newer", ""))
	h := f.Open(exthost.Options{})
	for _, version := range []string{"", protocol.MCP20251125, protocol.MCP20250618} {
		s, c := stay(t, h, "s"+version, version, "")
		for _, tt := range []struct{ tool, arguments, want string }{
			{"ext_older_ask", `{"for":"roots"}`, "file:///s" + version},
			{"ext_older_ask", `{"for":"sampling"}`, "s" + version},
			{"ext_older_ask", `{}`, "accept"},
			{"ext_older_input", `{}`, "file:///s" + version},
			{"ext_both_input", `{}`, "file:///s" + version},
			{"ext_newer_input", `{}`, "file:///s" + version},
		} {
			if got := callTool(t, h, s, c, tt.tool, tt.arguments); got != tt.want {
				t.Errorf("%s(%s) of a client of %q = %s", tt.tool, tt.arguments, version, got)
			}
		}
		want := "s" + version
		if version == "" { // a Go caller has no version and gets the existing instance
			continue
		}
		if got := callTool(t, h, s, c, "ext_both_ask", `{"for":"sampling"}`); got != want {
			t.Errorf("both, of %q: %s", version, got)
		}
	}
	newer, c := stay(t, h, "n", protocol.MCP20260728, "")
	if got := callTool(t, h, newer, c, "ext_both_input", `{}`); !strings.Contains(got, `"input_required"`) ||
		!strings.Contains(got, `"kept"`) {
		t.Errorf("a modern client asks itself; it got %s", got)
	}
	if got := callTool(t, h, newer, c, "ext_older_ask", `{"for":"sampling"}`); got != "n" {
		t.Errorf("an older server's request: %s", got)
	}
	_, err := h.Do(hosttest.Deadline(t), &protocol.Call{
		Session: newer,
		Method:  protocol.MethodToolsCall,
		Client:  c,
		Params: json.RawMessage(
			`{"name":"ext_older_ask","arguments":{},"requestState":"exthost-X","inputResponses":{}}`),
	})
	if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Wire().Code != -32602 {
		t.Errorf("answers that nobody waits for: %v", err)
	}
	if s := hosttest.StatusOf(t, h, "both"); len(s.Instances) != 2 {
		t.Errorf("an extension that speaks both runs %d instances for clients of both: %+v", len(s.Instances),
			s.Instances)
	}
	for _, id := range []string{"older", "newer"} {
		hosttest.Eventually(t, id+", which speaks older or newer versions alone, runs once",
			func() bool { return len(hosttest.StatusOf(t, h, id).Instances) == 1 })
	}
}

// hesitant is a client that waits before it answers.
type hesitant struct {
	*client
	asked  chan string
	answer chan struct{}
}

func (s hesitant) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	s.asked <- method
	select {
	case <-s.answer:
	case <-ctx.Done():
	}
	return s.client.Call(ctx, method, params)
}

// The status shows a call that waits for its caller, with the request, until it is answered, in both ways of
// asking.
func TestStatusShowsCallsThatWaitForCallers(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("older", rich("older", "")).Add("newer", rich("newer", "")).Open(exthost.Options{})
	for _, tt := range []struct{ version, extension, tool, method string }{
		{protocol.MCP20251125, "older", "ask", "elicitation/create"},
		{protocol.MCP20260728, "older", "ask", "elicitation/create"},
		{protocol.MCP20251125, "newer", "input", "roots/list"},
	} {
		asks := hesitant{newClient("ada"), make(chan string, 1), make(chan struct{})}
		s := &protocol.Session{
			ID:           tt.extension + tt.version,
			Version:      tt.version,
			Caller:       "ada",
			Client:       asks,
			ClientInfo:   json.RawMessage(`{"name":"code","version":"2"}`),
			Capabilities: json.RawMessage(`{"roots":{},"elicitation":{"form":{}}}`),
		}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		if err := h.Attach(ctx, s); err != nil {
			t.Fatal(err)
		}
		tool := "ext_" + tt.extension + "_" + tt.tool
		done := make(chan string, 1)
		go func() { done <- callTool(t, h, s, asks, tool, `{}`) }()
		wait(t, asks.asked, tt.method)
		want := []status.Question{{
			Method:    tt.method,
			Extension: tt.extension,
			Tool:      tool,
			Caller:    "ada",
			Session:   s.ID,
			Client:    "code 2",
		}}
		if d := cmp.Diff(want, h.Status().Questions, cmpopts.IgnoreFields(status.Question{}, "Since")); d != "" {
			t.Errorf("%s at %s: %s", tt.version, tt.extension, d)
		}
		close(asks.answer)
		if got := <-done; strings.HasPrefix(got, "error") {
			t.Error(got)
		}
		if open := h.Status().Questions; len(open) != 0 {
			t.Errorf("after the answer: %+v", open)
		}
	}
}

// With calls of two sessions in flight on a shared instance, neither is asked, since it could be the wrong one. A
// session's own instance asks that session.
func TestSharedInstancesDoNotGuessCallers(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("shared", rich("older", ""))
	f.Add("own", rich("older", "[runtime]\ninstances = \"per_session\"\n"))
	h := f.Open(exthost.Options{})
	ada, adas := stay(t, h, "ada", protocol.MCP20251125, "")
	eve, eves := stay(t, h, "eve", protocol.MCP20251125, "")
	for extension, want := range map[string]string{"shared": "error", "own": "ada"} {
		held, await := meeting(t)
		waiting := make(chan string, 1)
		go func() {
			waiting <- callTool(t, h, eve, eves, "ext_"+extension+"_ask", `{"for":"sampling","wait":"`+held+`"}`)
		}()
		goOn := await()
		if got := callTool(t, h, ada, adas, "ext_"+extension+"_ask", `{"for":"sampling"}`); !strings.HasPrefix(got,
			want) || strings.Contains(got, "per_session") != (extension == "shared") {
			t.Errorf("%s, with two calls in flight: %s", extension, got)
		}
		goOn()
		if got := <-waiting; got != "eve" {
			t.Errorf("%s, eve alone: %s", extension, got)
		}
	}
	if n := count(eves.Recorder, "sampling/createMessage?"); n != 2 {
		t.Errorf("eve was asked %d times, for two calls of her own: %v", n, eves.Told())
	}
}

// meeting returns an address where a child connects, and a function that waits for it and returns one that lets
// the child continue.
func meeting(t *testing.T) (address string, await func() (goOn func())) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), func() func() {
		t.Helper()
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(hosttest.Patience))
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return func() { c.Close() }
	}
}

// Only subscribers hear of a resource, also after a restart.
func TestSubscribersHearOfTheirResources(t *testing.T) {
	for _, versions := range []string{"older", "newer"} {
		t.Run(versions, func(t *testing.T) {
			processtest.Leaks(t)
			h := hosttest.NewFolder(t).Add("x", rich(versions, "")).Open(exthost.Options{})
			ada, adas := stay(t, h, "ada", protocol.MCP20251125, "x")
			eve, eves := stay(t, h, "eve", protocol.MCP20251125, "")
			_, bobs := stay(t, h, "bob", protocol.MCP20251125, "x")
			subscribe := func(s *protocol.Session, method string) {
				t.Helper()
				_, err := h.Do(hosttest.Deadline(t),
					&protocol.Call{
						Session:   s,
						Extension: s.Extension,
						Method:    method,
						Params:    json.RawMessage(`{"uri":"test://note"}`),
					})
				if err != nil {
					t.Fatal(err)
				}
			}
			touch := func() {
				t.Helper()
				if got := callTool(t, h, nil, nil, "ext_x_touch", `{}`); got != "touched" {
					t.Fatal(got)
				}
			}
			subscribe(ada, "resources/subscribe")
			subscribe(eve, "resources/subscribe")
			touch()
			const updated = "notifications/resources/updated"
			wait(t, adas.On, updated)
			wait(t, eves.On, updated)
			subscribe(ada, "resources/unsubscribe")
			touch()
			wait(t, eves.On, updated)
			_, _ = h.Call(hosttest.Deadline(t), "ext_x_die", nil)
			hosttest.Eventually(t, "the subscription is renewed", func() bool {
				if _, err := h.Call(hosttest.Deadline(t), "ext_x_touch", nil); err != nil {
					return false
				}
				select {
				case m := <-eves.On:
					return m == updated
				default:
					return false
				}
			})
			if n := count(adas.Recorder, updated); n != 1 {
				t.Errorf("ada heard %d updates", n)
			}
			if n := count(bobs.Recorder, updated); n != 0 {
				t.Errorf("bob, who follows nothing, heard %d", n)
			}
			if !slices.Contains(eves.Told(), updated+` {"uri":"test://note"}`) {
				t.Errorf("eve heard %v", eves.Told())
			}
		})
	}
}

func wait(t *testing.T, on <-chan string, method string) {
	t.Helper()
	for ctx := hosttest.Deadline(t); ; {
		select {
		case got := <-on:
			if got == method {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no %s", method)
		}
	}
}

func count(r *hosttest.Recorder, method string) (n int) {
	for _, heard := range r.Told() {
		if strings.HasPrefix(heard, method) {
			n++
		}
	}
	return n
}

// Sessions are notified of changes to lists that they see.
func TestSessionsHearOfChangedLists(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", rich("", "")).Add("y", rich("", "")).Open(exthost.Options{})
	_, all := stay(t, h, "all", protocol.MCP20260728, "")
	_, x := stay(t, h, "x", protocol.MCP20260728, "x")
	_, y := stay(t, h, "y", protocol.MCP20260728, "y")
	callTool(t, h, nil, nil, "ext_x_grow", `{}`)
	wait(t, all.On, "notifications/prompts/list_changed")
	wait(t, x.On, "notifications/prompts/list_changed")
	if count(y.Recorder, "notifications/prompts") != 0 {
		t.Error("a client of y was told that x has changed")
	}
}

// Sessions get log messages at the level that each requested.
func TestSessionsHearTheLogAtTheirLevel(t *testing.T) {
	for _, versions := range []string{"older", "newer", ""} {
		t.Run(versions, func(t *testing.T) {
			processtest.Leaks(t)
			h := hosttest.NewFolder(t).Add("x", rich(versions, "")).Open(exthost.Options{})
			want := map[string][]string{"debug": {"debug", "error"}, "error": {"error"}}
			for _, extension := range []string{"", "x"} {
				s, _ := stay(t, h, "odd"+extension, protocol.MCP20251125, extension)
				_, err := h.Do(hosttest.Deadline(t),
					&protocol.Call{
						Session:   s,
						Extension: extension,
						Method:    "logging/setLevel",
						Params:    json.RawMessage(`{"level":"loud"}`),
					})
				if protocol.KindOf(err) != protocol.InvalidArguments {
					t.Errorf("an unknown level at %q: %v", extension, err)
				}
			}
			for _, level := range []string{"error", "debug", "error"} {
				s, c := stay(t, h, level, protocol.MCP20251125, "")
				_, err := h.Do(hosttest.Deadline(t),
					&protocol.Call{
						Session: s,
						Method:  "logging/setLevel",
						Params:  json.RawMessage(`{"level":"` + level + `"}`),
					})
				if err != nil {
					t.Fatal(err)
				}
				callTool(t, h, s, c, "ext_x_log", `{}`)
				var got []string
				for _, heard := range c.Told() {
					if _, level, ok := strings.Cut(heard, `"level":"`); ok { // a list may change too
						got = append(got, level[:5])
					}
				}
				if diff := cmp.Diff(want[level], got); diff != "" {
					t.Errorf("%s: %v", level, c.Told())
				}
			}
		})
	}
}

// An instance logs at the lowest level that its sessions want now, which may rise when a session changes its level
// or ends. A session without a level gets everything.
func TestLogLevelRisesAgain(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", rich("older", "")).Open(exthost.Options{})
	all, heard := stay(t, h, "all", protocol.MCP20251125, "")
	says := func() (levels string) {
		before := len(heard.Told())
		callTool(t, h, all, heard, "ext_x_log", `{}`)
		for _, message := range heard.Told()[before:] {
			if _, level, ok := strings.Cut(message, `"level":"`); ok {
				levels += level[:5] + " "
			}
		}
		return levels
	}
	asks := func(s *protocol.Session, level string) {
		t.Helper()
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Session: s,
				Method:  "logging/setLevel",
				Params:  json.RawMessage(`{"level":"` + level + `"}`),
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	ada, _ := stay(t, h, "ada", protocol.MCP20251125, "")
	asks(ada, "debug")
	if got := says(); got != "debug error " {
		t.Errorf("asked for debug it says %q", got)
	}
	asks(ada, "warning")
	if got := says(); got != "error " {
		t.Errorf("asked for warning it says %q", got)
	}
	bob := &protocol.Session{ID: "bob", Version: protocol.MCP20251125, Client: newClient("bob")}
	ctx, ends := context.WithCancel(t.Context())
	if err := h.Attach(ctx, bob); err != nil {
		t.Fatal(err)
	}
	asks(bob, "debug")
	asks(ada, "error")
	if got := says(); got != "debug error " {
		t.Errorf("while one session wants debug it says %q", got)
	}
	ends()
	hosttest.Eventually(t, "it says less without that session", func() bool { return says() == "error " })
}

// With several extensions resources keep their URIs, prompts are named like tools, and each request finds its
// owner.
func TestRequestsFindTheirOwner(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("a", rich("", "")).Add("b", rich("older", "")).Add("plain",
		hosttest.Child("sdk", ""))
	f.Add("sick", rich("", "[runtime]\ncall_timeout = \"100ms\"\n"))
	h := f.Open(exthost.Options{})
	for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
		s, _ := stay(t, h, version, version, "")
		do := func(method, params string) string {
			t.Helper()
			result, err := h.Do(hosttest.Deadline(t),
				&protocol.Call{Session: s, Method: method, Params: json.RawMessage(params)})
			if err != nil {
				return err.Error()
			}
			return string(result)
		}
		for _, tt := range []struct{ method, params, want string }{
			{"resources/list", `{}`, `"uri":"test://note"`},
			{"resources/list", `{}`, `"uri":"own://b"`},
			{"resources/templates/list", `{}`, `"uriTemplate":"b://{id}/data"`},
			{"prompts/list", `{}`, `"name":"ext_b_p"`},
			{"resources/read", `{"uri":"test://note"}`, `"text":"a"`},
			{"resources/read", `{"uri":"own://b"}`, `"text":"b"`},
			{"resources/read", `{"uri":"b://7/data"}`, `"text":"b"`},
			{"resources/read", `{"uri":"no://such"}`, "no extension lists"},
			{"prompts/get", `{"name":"ext_b_p"}`, "p of b"},
			{"prompts/get", `{"name":"p"}`, "no extension lists"},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"ext_b_p"},"argument":{"name":"x","value":""}}`,
				`["p"]`},
			{"completion/complete",
				`{"ref":{"type":"ref/resource","uri":"b://{id}/data"},"argument":{"name":"id","value":""}}`,
				`["b://{id}/data"]`},
			{"logging/setLevel", `{"level":"error"}`, `{}`},
			{"no/such", `{}`, "not served"},
		} {
			if got := do(tt.method, tt.params); !strings.Contains(got, tt.want) {
				t.Errorf("%s %s = %s, want %s", tt.method, tt.params, got, tt.want)
			}
		}
		if got := do("resources/list", `{}`); strings.Count(got, "test://note") != 1 {
			t.Errorf("a URI of several is listed %d times", strings.Count(got, "test://note"))
		}
	}
	d, err := h.Describe(hosttest.Deadline(t), &protocol.Session{Version: protocol.MCP20251125})
	want := `{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`
	if string(d.Capabilities) != want || err != nil {
		t.Errorf("together they offer %s, %v", d.Capabilities, err)
	}
	for extension, want := range map[string]string{"plain": `{"tools":{"listChanged":true}}`, "b": `"prompts"`} {
		d, err := h.Describe(hosttest.Deadline(t),
			&protocol.Session{Version: protocol.MCP20251125, Extension: extension})
		if !strings.Contains(string(d.Capabilities), want) || err != nil {
			t.Errorf("%s offers %s, %v", extension, d.Capabilities, err)
		}
	}
	if _, err := h.Describe(hosttest.Deadline(t),
		&protocol.Session{Extension: "none"}); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("an extension that is not there: %v", err)
	}
}
