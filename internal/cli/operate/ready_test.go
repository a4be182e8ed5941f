package operate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/status"
)

// A host is ready even if something optional does not run; the verdict names that.
func TestReadyNamesWhatDoesNotRun(t *testing.T) {
	now := time.Now()
	soon, later := now.Add(3*time.Second), now.Add(4*time.Minute)
	s := status.Status{
		Extensions: []status.Extension{
			{ID: "up", State: "ready"},
			{
				ID:        "far",
				State:     "restarting",
				Reason:    "no connection",
				Instances: []status.Instance{{State: "restarting", NextRetry: &soon}},
			},
			{
				ID:        "broken",
				State:     "failed",
				Reason:    "exit status 3",
				Instances: []status.Instance{{State: "failed", NextRetry: &later}},
			},
			{ID: "final", State: "failed", Reason: "exit status 4", Instances: []status.Instance{{State: "failed"}}},
		},
		Policies: []status.Policy{
			{Name: "p", Mode: governance.ModeEnforce, State: "restarting", Reason: "no connection"},
		},
	}
	if err := verdict(s, nil); err != nil {
		t.Errorf("not ready: %v", err)
	}
	var got []string
	for _, o := range s.Judge(now).Causes {
		got = append(got, o.Text)
	}
	want := []string{
		"policy p is restarting: no connection",
		"extension far is restarting: no connection",
		"extension broken is failed: exit status 3",
		"extension final is failed: exit status 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
