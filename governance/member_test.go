package governance_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/governance"
)

// counter is a policy with state.
type counter struct {
	policyFunc
	built int
}

func TestMembersKeepTheirState(t *testing.T) {
	built := 0
	build := func(s governance.Spec) (governance.Policy, error) {
		if s.Builtin == "no such" {
			return nil, errors.New("there is no such policy")
		}
		built++
		return &counter{built: built}, nil
	}
	spec := func(change func(*governance.Spec)) governance.Spec {
		s := governance.Spec{
			Name:     "a",
			Category: governance.RateLimiting,
			Config:   map[string]any{"limits": []any{1, "2"}},
		}
		change(&s)
		return s
	}
	before, err := governance.Members([]governance.Spec{spec(func(*governance.Spec) {})}, nil, build)
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	for _, tt := range []struct {
		name   string
		change func(*governance.Spec)
		kept   bool
	}{
		{"nothing", func(*governance.Spec) {}, true},
		{"its place", func(s *governance.Spec) {
			s.Priority, s.Required, s.Mode, s.Description = 3, new(false), governance.ModeShadow, "b"
		}, true},
		{"what Normalize fills in", func(s *governance.Spec) {
			s.Kind, s.HandshakeTimeout = governance.KindBuiltin, governance.DefaultHandshakeTimeout
		}, true},
		{"its config", func(s *governance.Spec) { s.Config = map[string]any{"limits": []any{1, "3"}} }, false},
		{"what it is asked about", func(s *governance.Spec) { s.Match.Tools = []string{"a"} }, false},
		{"how long it may take", func(s *governance.Spec) { s.Timeout = time.Second }, false},
		{"its name", func(s *governance.Spec) { s.Name = "b" }, false},
		{"its category", func(s *governance.Spec) { s.Category = governance.Content }, false},
	} {
		now, err := governance.Members([]governance.Spec{spec(tt.change)}, before, build)
		if err != nil || len(now) != 1 || (now[0].Policy == before[0].Policy) != tt.kept {
			t.Errorf("%s: kept %t, %v", tt.name, !tt.kept, err)
		}
	}
	now, err := governance.Members([]governance.Spec{spec(func(s *governance.Spec) { s.Disabled = true }),
		{Name: "x", Builtin: "no such"}, {Name: "y", Builtin: "no such"}, {Name: "z"}}, before, build)
	if len(now) != 1 || err == nil || !strings.Contains(err.Error(), "policy x: there") ||
		!strings.Contains(err.Error(), "policy y: there") {
		t.Errorf("%d members, %v", len(now), err)
	}
}
