package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
)

// A host is ready when everything required can run and nothing that starts with the host is still starting.
func TestObstaclesToReadiness(t *testing.T) {
	policy := func(mode governance.Mode, required bool, state string) Status {
		return Status{Policies: []Policy{{Name: "p", Mode: mode, Required: required, State: state}}}
	}
	extension := func(state string, s Status) Status {
		s.Extensions = []Extension{{ID: "x", State: state, Reason: "why"}}
		return s
	}
	required := Status{Required: []string{"x"}}
	blocked := func(id, text, next string) Obstacle { return Obstacle{ID: id, Blocked: true, Text: text, Next: next} }
	for name, tt := range map[string]struct {
		status Status
		want   []Obstacle
	}{
		"nothing":   {Status{}, nil},
		"it starts": {Status{Starting: true}, []Obstacle{{Text: "the host is starting"}}},
		"an extension starts": {extension("spawning", Status{Starting: true}),
			[]Obstacle{{ID: "x", Text: "extension x is starting: why"}}},
		"a call starts one": {extension("spawning", Status{}), nil},
		"one failed":        {extension("failed", Status{}), nil},
		"a required one failed": {extension("failed", required),
			[]Obstacle{blocked("x", "extension x is failed: why", "exthost logs x")}},
		"a required one restarts": {extension("restarting", required),
			[]Obstacle{{ID: "x", Text: "extension x is restarting: why"}}},
		"a required one is skipped": {extension("skipped", required),
			[]Obstacle{blocked("x", "extension x is skipped: why", "exthost check")}},
		"a required one is off": {extension("disabled", required),
			[]Obstacle{blocked("x", "extension x is disabled: why", "exthost enable x")}},
		"a required one is lazy": {extension("idle", required), nil},
		"a required one is missing": {required,
			[]Obstacle{blocked("x", "extension x is required, and there is none", "exthost status")}},
		"a policy failed": {policy(governance.ModeEnforce, true, "failed"),
			[]Obstacle{
				blocked("policy:p", "policy p is failed", "exthost logs policy:p"),
			}},
		"an optional policy failed": {policy(governance.ModeEnforce, false, "failed"), nil},
		"a shadowed policy failed":  {policy(governance.ModeShadow, true, "failed"), nil},
		"a full disk": {Status{
			Policies: []Policy{{Name: "p", Category: governance.Audit, State: "restarting", Required: true}},
			Audit:    &Audit{Path: "/a", Reason: "no space left; no request passes until"},
		}, []Obstacle{blocked("policy:p", "the audit log cannot be written: no space left; make room or access for /a",
			"exthost check")}},
		"a policy is disabled": {policy(governance.ModeEnforce, true, StateDisabled), nil},
	} {
		if diff := cmp.Diff(tt.want, tt.status.Obstacles()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
