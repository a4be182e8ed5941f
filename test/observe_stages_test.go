package test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// stageNames returns the stages of the newest call, and checks that they are in order and within the call.
func stageNames(t *testing.T, h *exthost.Host) (names []status.StageName) {
	t.Helper()
	call := h.Admin().Calls(1)[0]
	var end protocol.Duration
	for _, s := range call.Stages {
		if s.At < end || s.Took < 0 {
			t.Errorf("%s begins at %v, before the end of the stage before it at %v", s.Name, s.At, end)
		}
		end = s.At + s.Took
		names = append(names, s.Name)
	}
	if end > call.Took {
		t.Errorf("the stages end at %v, and the call took %v", end, call.Took)
	}
	if full, err := h.Admin().PastCall(call.ID); err != nil || !cmp.Equal(full.Stages, call.Stages) {
		t.Errorf("%v: %v and %v", err, full.Stages, call.Stages)
	}
	return names
}

// A finished call reports how long each stage took.
func TestCallsReportTheirStages(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x",
		"[transport]\nscript = \"x.sh\"\nprotocol = \"lite\"\n[[tools]]\nname = \"echo\"\n")
	f.Write("x/x.sh", "#!/bin/sh\nwhile read -r line; do\n\tid=${line##*\\\"id\\\":}\n\techo "+
		"\"{\\\"id\\\":${id%%[!0-9]*},\\\"result\\\":\\\"hello\\\"}\"\ndone\n")
	h := f.Open(exthost.Options{})
	call := func(h *exthost.Host, want ...status.StageName) {
		t.Helper()
		_, _ = h.Call(t.Context(), "ext_x_echo", nil)
		if diff := cmp.Diff(want, stageNames(t, h)); diff != "" {
			t.Error(diff)
		}
	}
	call(h, status.StageStart, status.StageInstance)
	call(h, status.StageQueue, status.StageInstance)

	decision := governance.Decision{}
	allow := governance.Member{
		Spec:   governance.Spec{Name: "all", Category: governance.Authorization},
		Policy: policyFunc(func() governance.Decision { return decision }),
	}
	note := func(p hooks.Point) hooks.Handler {
		return hooks.Handler{
			Name:  "note",
			Point: p,
			Run:   func(context.Context, *hooks.Event) (*hooks.Reply, error) { return nil, nil },
		}
	}
	h = hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Policies: []governance.Member{allow},
		Hooks:    []hooks.Handler{note(hooks.BeforeToolCall), note(hooks.AfterToolCall)},
	})
	call(h, status.StageRequestPolicies, status.StageHooksBefore, status.StageQueue, status.StageInstance,
		status.StageResponsePolicies, status.StageHooksAfter, status.StageResponsePolicies)
	decision.Action = governance.Deny
	call(h, status.StageRequestPolicies)
}
