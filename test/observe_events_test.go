package test

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// eavesdrop listens to a host until the test ends.
func eavesdrop(t *testing.T, h *exthost.Host, kinds ...status.EventKind) func() status.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hosttest.Patience)
	if len(kinds) > 0 {
		kinds = append(kinds, status.EventApprovals) // sent at once
	}
	next, stop := iter.Pull(h.Admin().Events(ctx, kinds...))
	t.Cleanup(func() { cancel(); stop() })
	pull := func() status.Event {
		t.Helper()
		e, ok := next()
		if !ok {
			t.Fatal("there are no more events")
		}
		return e
	}
	if e := pull(); e.Kind != status.EventApprovals || len(*e.Approvals) != 0 {
		t.Fatalf("the first event is %+v", e)
	}
	return pull
}

func TestEventsOfCalls(t *testing.T) {
	processtest.Leaks(t)
	refuse := governance.Member{Spec: governance.Spec{
		Name:     "mondays",
		Category: governance.Authorization,
		Match:    governance.Match{Tools: []string{"*greet"}},
	},
		Policy: policyFunc(func() governance.Decision {
			return governance.Decision{Action: governance.Deny, Code: "user 17", Reason: "not on Mondays"}
		})}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Policies: []governance.Member{refuse},
	})
	next := eavesdrop(t, h, status.EventCall)
	trace := `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	session := &protocol.Session{
		ID:         "s1",
		Caller:     "ada",
		Version:    protocol.MCP20260728,
		ClientInfo: json.RawMessage(`{"name":"agent","version":"2"}`),
	}
	for n, tt := range []struct {
		params string
		want   status.CallEvent
	}{
		{`{"name":"ext_x_echo","arguments":{},` + trace + `}`,
			status.CallEvent{Tool: "ext_x_echo", Outcome: status.OutcomeOK, Trace: "0af7651916cd43dd8448eb211c80319c"}},
		{`{"name":"ext_x_fail"}`, status.CallEvent{Tool: "ext_x_fail", Outcome: status.OutcomeToolError}},
		{`{"name":"ext_x_refuse"}`,
			status.CallEvent{Tool: "ext_x_refuse", Outcome: "extension_error", Message: "closed"}},
		{`{"name":"ext_x_greet","arguments":{"name":1}}`,
			status.CallEvent{
				Tool:    "ext_x_greet",
				Outcome: "rejected",
				Message: "policy mondays: not on Mondays",
				Policy:  "mondays",
				Code:    "user 17",
			}},
	} {
		_, _ = h.Do(t.Context(),
			&protocol.Call{Session: session, Method: protocol.MethodToolsCall, Params: json.RawMessage(tt.params)})
		e := next()
		if e.Kind != status.EventCall || e.Call.Took <= 0 || e.Call.Decision == "" || time.Since(e.Time) > time.Hour {
			t.Errorf("%+v %+v", e, e.Call)
		}
		tt.want.ID, tt.want.Client, tt.want.Protocol = uint64(n+1), "agent 2", protocol.MCP20260728
		tt.want.Extension, tt.want.Method, tt.want.Caller, tt.want.Session = "x", protocol.MethodToolsCall, "ada", "s1"
		got := *e.Call
		if len(got.Stages) == 0 || got.Stages[0].Name != status.StageRequestPolicies {
			t.Errorf("the stages are %+v", got.Stages)
		}
		got.Took, got.Decision, got.Stages = 0, "", nil
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.params, diff)
		}
	}
}

// Events mask known secrets in errors from any source.
func TestEventsOfCallsAreMasked(t *testing.T) {
	processtest.Leaks(t)
	const canary = "SUPERSECRETCANARY"
	leak := governance.Member{Spec: governance.Spec{Name: "leak", Category: governance.Authorization},
		Policy: policyFunc(func() governance.Decision {
			return governance.Decision{Action: governance.Deny, Reason: "not with " + canary}
		})}
	h := hosttest.NewFolder(t).Add("x", "[requires]\nenv = [\"MY_TOKEN\"]\n"+hosttest.Child("sdk", "")).
		Open(exthost.Options{Policies: []governance.Member{leak}, Environ: append(os.Environ(), "MY_TOKEN="+canary)})
	next := eavesdrop(t, h, status.EventCall)
	if _, err := h.Call(t.Context(), "ext_x_echo", nil); protocol.KindOf(err) != protocol.Rejected {
		t.Fatal(err)
	}
	live, kept := next().Call, h.Admin().Calls(1)
	if live.Message != "policy leak: not with ***" || kept[0].Message != live.Message {
		t.Errorf("live %q, kept %q", live.Message, kept[0].Message)
	}
}

// policyFunc decides the same about each request.
type policyFunc func() governance.Decision

func (f policyFunc) Decide(_ context.Context, flow governance.Flow, _ *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Response {
		return governance.Decision{}, nil
	}
	return f(), nil
}

func TestEventsOfStates(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{})
	next := eavesdrop(t, h, status.EventState, status.EventReload, status.EventTools)
	if _, err := h.Call(t.Context(), "ext_x_die", nil); protocol.KindOf(err) != protocol.ChildExited {
		t.Fatal(err)
	}
	var states []supervisor.State
	for len(states) == 0 || states[len(states)-1] != supervisor.Ready {
		e := next()
		if e.Kind == status.EventTools || len(states) == 0 && e.State.State == supervisor.Ready {
			continue // from the first start, sent while we began to listen
		}
		states = append(states, e.State.State)
		if e.State.Extension != "x" ||
			e.State.State == supervisor.Restarting &&
				(e.State.Reason == "" || e.State.Attempt != 1 || e.State.Due == nil) {
			t.Errorf("%+v", e.State)
		}
	}
	diff := cmp.Diff([]supervisor.State{supervisor.Restarting, supervisor.Spawning, supervisor.Ready}, states)
	if diff != "" {
		t.Error(diff)
	}
	f.Add("y", hosttest.Child("sdk", ""))
	if _, err := h.Admin().Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	tools := 0
	for e := next(); e.Kind != status.EventReload || !cmp.Equal(e.Reload.Added, []string{"y"}); e = next() {
		if e.Kind == status.EventTools {
			tools = e.Tools.Count
		}
	}
	if tools != len(h.Tools().Entries()) {
		t.Errorf("the last catalog was told to have %d tools", tools)
	}
}

// A listener that does not read takes bounded memory, and is told how many events it lost.
func TestSlowListenerIsToldItsLoss(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	next := eavesdrop(t, h, status.EventCall)
	const calls = 1100
	for range calls {
		if _, err := h.Call(t.Context(), "ext_x_echo", nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 1024 {
		if e := next(); e.Lost != 0 {
			t.Fatalf("%d events are lost that had room", e.Lost)
		}
	}
	if _, err := h.Call(t.Context(), "ext_x_echo", nil); err != nil {
		t.Fatal(err)
	}
	if e := next(); e.Lost != calls-1024 {
		t.Errorf("%d events were lost, it is told of %d", calls-1024, e.Lost)
	}
}

// Closing the host ends listeners after the queued events.
func TestEventsEndWithTheHost(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	listening, ended := make(chan struct{}), make(chan []status.Event, 1)
	go func() {
		var all []status.Event
		for e := range h.Admin().Events(context.Background()) {
			if e.Kind == status.EventApprovals {
				close(listening)
			}
			all = append(all, e)
		}
		ended <- all
	}()
	<-listening
	if _, err := h.Call(t.Context(), "ext_x_echo", nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	all := within(t, ended, "the end of the events")
	isCall := func(e status.Event) bool { return e.Kind == status.EventCall }
	var last supervisor.State
	for _, e := range all { // of the catalog and of the start too, in any order
		if e.Kind == status.EventState {
			last = e.State.State
		}
	}
	if !slices.ContainsFunc(all, isCall) || last != supervisor.Shutdown {
		t.Errorf("%+v", all)
	}
	for range h.Admin().Events(t.Context(), status.EventCall) {
		t.Error("a closed host has events")
	}
}

func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(hosttest.Patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
