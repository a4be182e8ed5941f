package governance_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

func TestTraceExplains(t *testing.T) {
	var observed []governance.Observation
	traces := governance.NewTraces(2)
	shadow := member("shadow", governance.Authorization,
		in(governance.Request, governance.Decision{
			Action: governance.Deny,
			Code:   strings.Repeat("ö", 200),
			Reason: strings.Repeat("ä", 400),
		}))
	shadow.Spec.Mode = governance.ModeShadow
	mask := member("mask", governance.Content,
		in(governance.Request, governance.Decision{
			Action: governance.Modify,
			JSON:   json.RawMessage(`{"name":"work"}`),
		}))
	mask.Spec.Flows = []governance.Flow{governance.Request}
	p := newPipeline(t, governance.Options{
		Traces:  traces,
		Observe: func(o governance.Observation) { observed = append(observed, o) },
	},
		shadow, mask, member("last", governance.Content,
			in(governance.Response, governance.Decision{Action: governance.Deny, Reason: "no"})))
	x := toolCall()
	_ = p.Govern(t.Context(), x, answer(`{}`, nil))
	got, ok := traces.Get(x.ID)
	want := governance.Trace{
		ID:        x.ID,
		Method:    "tools/call",
		Caller:    "ada",
		Session:   "s",
		Extension: "x",
		Tool:      "ext_x_work",
		Direction: "to_extension",
		Sent:      true,
		Verdict:   governance.Verdict{Action: governance.Deny, Policy: "last", Code: "rejected"},
		Failure:   "rejected",
		Steps: []governance.Step{
			{
				Policy:   "shadow",
				Category: "authorization",
				Flow:     "request",
				Outcome:  "continue",
				Action:   "deny",
				Ignored:  true,
				Code:     strings.Repeat("ö", 128),
				Reason:   strings.Repeat("ä", 256),
			},
			{Policy: "last", Category: "content", Flow: "request", Outcome: "continue"},
			{Policy: "mask", Category: "content", Flow: "request", Outcome: "continue", Action: "modify"},
			{
				Policy:   "shadow",
				Category: "authorization",
				Flow:     "request",
				Again:    true,
				Outcome:  "continue",
				Action:   "deny",
				Ignored:  true,
				Code:     strings.Repeat("ö", 128),
				Reason:   strings.Repeat("ä", 256),
			},
			{Policy: "shadow", Category: "authorization", Flow: "response", Outcome: "continue"},
			{
				Policy:   "last",
				Category: "content",
				Flow:     "response",
				Outcome:  "rejected",
				Action:   "deny",
				Code:     "rejected",
				Reason:   "no",
			},
		},
	}
	diff := cmp.Diff(want, got, cmpopts.IgnoreFields(governance.Trace{}, "Time", "Took"),
		cmpopts.IgnoreFields(governance.Step{}, "Latency"))
	if diff != "" || !ok {
		t.Error(diff)
	}
	wantObserved := []governance.Observation{
		{
			Policy:   "shadow",
			Category: "authorization",
			Flow:     "request",
			Outcome:  "continue",
			Code:     "other",
			Shadow:   true,
			Action:   "deny",
		},
		{Policy: "last", Category: "content", Flow: "request", Outcome: "continue"},
		{Policy: "mask", Category: "content", Flow: "request", Outcome: "continue", Action: "modify"},
		{
			Policy:   "shadow",
			Category: "authorization",
			Flow:     "request",
			Outcome:  "continue",
			Code:     "other",
			Shadow:   true,
			Action:   "deny",
		},
		{Policy: "shadow", Category: "authorization", Flow: "response", Outcome: "continue", Shadow: true},
		{Policy: "last", Category: "content", Flow: "response", Outcome: "rejected", Code: "rejected", Action: "deny"},
	}
	if diff := cmp.Diff(wantObserved, observed, cmpopts.IgnoreFields(governance.Observation{}, "Latency")); diff != "" {
		t.Error(diff)
	}
}

func TestTracesKeepTheLatest(t *testing.T) {
	traces := governance.NewTraces(3)
	if len(traces.Latest(5)) != 0 {
		t.Error("there are traces of nothing")
	}
	p := newPipeline(t, governance.Options{Traces: traces},
		member("p", governance.Validation, always(governance.Decision{})))
	var ids []string
	for range 5 {
		x := toolCall()
		if err := p.Govern(t.Context(), x, answer(`{}`, nil)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	for n, want := range map[int][]string{0: nil, 2: {ids[4], ids[3]}, 9: {ids[4], ids[3], ids[2]}} {
		var got []string
		for _, trace := range traces.Latest(n) {
			got = append(got, trace.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the latest %d: %s", n, diff)
		}
	}
	if _, ok := traces.Get(ids[1]); ok {
		t.Error("a trace is kept longer than there is room")
	}
	if _, ok := traces.Get(ids[2]); !ok {
		t.Error("a trace is gone")
	}
}

// TestIDs checks that ids are unique and sort by time, for concurrent callers too.
func TestIDs(t *testing.T) {
	p := newPipeline(t, governance.Options{}, member("p", governance.Validation, always(governance.Decision{})))
	var mu sync.Mutex
	all := make(map[string]bool)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := ""
			for range 2000 {
				x := toolCall()
				if err := p.Govern(t.Context(), x, answer(`{}`, nil)); err != nil || x.ID <= last || len(x.ID) != 13 {
					t.Errorf("%v, %q after %q", err, x.ID, last)
				}
				last = x.ID
				mu.Lock()
				all[x.ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(all) != 8000 {
		t.Errorf("%d different ids of 8000", len(all))
	}
}

func TestBoundedCode(t *testing.T) {
	for code, want := range map[string]string{
		"":                "",
		"rate_limited":    "rate_limited",
		"unauthorized":    "unauthorized",
		"approval_denied": "approval_denied",
		"no_rm":           "no_rm",
		"PII_DETECTED":    "PII_DETECTED",
		"user 17":         "other",
		"a\xff":           "other",

		strings.Repeat("x", 64): strings.Repeat("x", 64),
		strings.Repeat("x", 65): "other",
	} {
		if got := governance.BoundedCode(code); got != want {
			t.Errorf("%q is counted as %q", code, got)
		}
	}
}

// TestDryRun checks that policies are asked, and that nothing is sent, counted, audited or
// asked of a person.
func TestDryRun(t *testing.T) {
	var s seen
	traces := governance.NewTraces(0)
	watch := member("watch", governance.Observability, s.policy("watch"))
	watch.Spec.Required = new(false)
	o := governance.Options{Traces: traces, Observe: func(governance.Observation) { t.Error("a dry run is counted") }}
	p := newPipeline(t, o, watch,
		member("ask", governance.Authorization, always(governance.Decision{Action: governance.Ask, Reason: "sure?"})),
		member("next", governance.Validation, s.policy("next")), member("audit", governance.Audit, s.policy("audit")))
	trace, err := p.Test(t.Context(), toolCall())
	if err != nil || trace.Sent || len(trace.Steps) != 3 || trace.Steps[2].Action != governance.Ask ||
		!trace.Steps[2].Ignored {
		t.Errorf("%v, %+v", err, trace)
	}
	if diff := cmp.Diff([]string{"request watch", "request next"}, s.steps); diff != "" || len(traces.Latest(1)) != 0 {
		t.Error(diff)
	}
	s.steps = nil
	ended := toolCall()
	ended.Response = json.RawMessage(`{"content":[]}`)
	if trace, err := p.Test(t.Context(), ended); err != nil || trace.Sent || len(trace.Steps) != 6 {
		t.Errorf("of one that has ended: %v, %+v", err, trace)
	}
	both := []string{"request watch", "request next", "response watch", "response next"}
	if diff := cmp.Diff(both, s.steps); diff != "" {
		t.Error(diff)
	}
	denies := newPipeline(t, governance.Options{},
		member("no", governance.Validation, always(governance.Decision{Action: governance.Deny})))
	if trace, err := denies.Test(t.Context(), toolCall()); protocol.KindOf(err) != protocol.Rejected ||
		trace.Failure != "rejected" || trace.Verdict.Policy != "no" {
		t.Errorf("%v, %+v", err, trace)
	}
}
