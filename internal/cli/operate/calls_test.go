package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func pastCall(id uint64, took time.Duration, outcome status.Outcome) status.PastCall {
	return status.PastCall{
		Time: time.Now(),
		CallEvent: status.CallEvent{
			ID:        id,
			Tool:      "ext_x_t",
			Extension: "x",
			Method:    protocol.MethodToolsCall,
			Outcome:   outcome,
			Took:      protocol.Duration(took),
		},
	}
}

func TestChosenCalls(t *testing.T) {
	all := func() []status.PastCall {
		return []status.PastCall{
			pastCall(4, 2, "ok"),
			pastCall(3, 9, "rejected"),
			pastCall(2, 5, "ok"),
			pastCall(1, 1, "tool_error"),
		}
	}
	for name, tt := range map[string]struct {
		last         int
		failed, slow bool
		want         []uint64
	}{
		"the newest":   {2, false, false, []uint64{4, 3}},
		"the slowest":  {3, false, true, []uint64{3, 2, 4}},
		"failed":       {20, true, false, []uint64{3, 1}},
		"slow failure": {1, true, true, []uint64{3}},
	} {
		var got []uint64
		for _, call := range chosenCalls(all(), tt.last, tt.failed, tt.slow) {
			got = append(got, call.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCallText(t *testing.T) {
	call := pastCall(17, 120*time.Millisecond, "rejected")
	call.Caller, call.Session, call.Client, call.Protocol, call.Trace, call.Decision, call.Message = "ada", "s1",
		"agent 2", "2025-11-25", "0af7", "dec1", "policy p: no\x1b[2J"
	ms := func(n int) protocol.Duration { return protocol.Duration(time.Duration(n) * time.Millisecond) }
	call.Stages = []status.Stage{
		{Name: status.StageRequestPolicies, At: 0, Took: ms(10)},
		{Name: status.StageInstance, At: ms(20), Took: ms(60)},
		{Name: status.StageResponsePolicies, At: ms(100), Took: ms(20)},
	}
	got := callText(&call, console.Layout{})
	for _, want := range []string{
		"call      17, ended ", ", took 120ms", "what      ext_x_t, of x",
		"caller    ada, session s1, client agent 2, MCP 2025-11-25",
		`outcome   rejected: policy p: no\u001b[2J`, "decision  dec1", "trace     0af7",
		"next      exthost calls dec1",
		"request policies   0s     10ms  ██······················",
		"instance           20ms   60ms  ····████████████········",
		"response policies  100ms  20ms  ····················████", "host itself               30ms",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// The next command depends on how a call ended, and where it was slow.
func TestNextCommandAfterACall(t *testing.T) {
	for outcome, want := range map[status.Outcome]string{
		"ok":                "",
		"tool_error":        "exthost logs x",
		"extension_error":   "exthost logs x",
		"failed":            "fix it, then exthost restart x",
		"invalid_arguments": "exthost tools schema ext_x_t",
	} {
		call := pastCall(1, 1, outcome)
		if got := afterCall(&call); got != want {
			t.Errorf("%s: %q, want %q", outcome, got, want)
		}
	}
	call := pastCall(1, 9, "ok")
	call.Decision, call.Stages = "dec1", []status.Stage{
		{Name: status.StageRequestPolicies, Took: 8},
		{Name: status.StageInstance, Took: 1},
	}
	if got := afterCall(&call); got != "exthost calls dec1" {
		t.Errorf("a call that policies held up: %q", got)
	}
}
