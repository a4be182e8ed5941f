package test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// deciding is a policy that decides by a function.
type deciding func() (governance.Decision, error)

// Decide implements [governance.Policy].
func (d deciding) Decide(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
	return d()
}

// TestOpenNamesWhatCannotRun checks that a mistake of the embedding program is an error that names it, and neither a
// panic nor a rule that does nothing.
func TestOpenNamesWhatCannotRun(t *testing.T) {
	allow := deciding(func() (governance.Decision, error) { return governance.Decision{}, nil })
	run := func(context.Context, *hooks.Event) (*hooks.Reply, error) { return nil, nil }
	spec := governance.Spec{Name: "p", Category: governance.Authorization}
	policy := func(s governance.Spec, p governance.Policy) exthost.Options {
		return exthost.Options{Policies: []governance.Member{{Spec: s, Policy: p}}}
	}
	hook := func(h hooks.Handler) exthost.Options { return exthost.Options{Hooks: []hooks.Handler{h}} }
	for name, tt := range map[string]struct {
		o    exthost.Options
		none bool     // without a configuration
		want []string // in the error
	}{
		"no configuration": {none: true, want: []string{"config.Load", "config.Default"}},
		"a policy without its function": {o: policy(spec, nil),
			want: []string{`Options.Policies[0] "p": it has no Policy`}},
		"a policy alone": {o: policy(governance.Spec{}, allow),
			want: []string{"Options.Policies[0]", "needs a name", "needs a category"}},
		"an unknown category": {o: policy(governance.Spec{Name: "p", Category: "authorisation"}, allow),
			want: []string{`"authorisation" is no category`, "authorization"}},
		"an unknown flow": {
			o:    policy(governance.Spec{Name: "p", Category: governance.Audit, Flows: []governance.Flow{"answer"}}, allow),
			want: []string{`"answer" is no flow`}},
		"a policy that states a process": {o: policy(governance.Spec{Name: "p", Category: governance.Audit,
			Kind: governance.KindNative}, allow), want: []string{`Options.Policies[0] "p": kind native`}},
		"two policies of one name": {
			o: exthost.Options{
				Policies: []governance.Member{{Spec: spec, Policy: allow}, {Spec: spec, Policy: allow}},
			},
			want: []string{`two policies have the name "p"`}},
		"a hook without its function": {o: hook(hooks.Handler{Name: "h", Point: hooks.BeforeToolCall}),
			want: []string{`Options.Hooks[0] "h": it has no Run`}},
		"an unknown point": {o: hook(hooks.Handler{Name: "h", Point: "before_tool", Run: run}),
			want: []string{`"before_tool" is not a hook point`}},
		"a matcher that is none": {o: hook(hooks.Handler{Point: hooks.BeforeToolCall, Matcher: "(", Run: run}),
			want: []string{"Options.Hooks[0]", "matcher"}},
		"an unknown way to fail": {o: hook(hooks.Handler{Point: hooks.BeforeToolCall, OnError: "block", Run: run}),
			want: []string{`OnError "block"`}},
		"several mistakes": {o: exthost.Options{
			Policies: []governance.Member{{Spec: spec}},
			Hooks:    []hooks.Handler{{Point: hooks.BeforeToolCall}},
		}, want: []string{"Options.Policies[0]", "Options.Hooks[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			tt.o.StateDir, tt.o.Logger = t.TempDir(), slog.New(slog.DiscardHandler)
			cfg := hosttest.NewFolder(t).Config()
			if tt.none {
				cfg = nil
			}
			h, err := exthost.Open(t.Context(), cfg, tt.o)
			if err == nil {
				h.Close()
			}
			if protocol.KindOf(err) != protocol.ConfigInvalid {
				t.Fatalf("Open: %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

// TestPoliciesOfTheProgramFailClosed checks that a policy whose spec says nothing about failures denies what it cannot
// decide about, and that Required: new(false) lets it pass.
func TestPoliciesOfTheProgramFailClosed(t *testing.T) {
	processtest.Leaks(t)
	broken := deciding(func() (governance.Decision, error) { return governance.Decision{}, errors.New("no database") })
	for _, required := range []*bool{nil, new(true), new(false)} {
		h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
			Policies: []governance.Member{{
				Spec:   governance.Spec{Name: "p", Category: governance.Authorization, Required: required},
				Policy: broken,
			}},
		})
		want := protocol.GovernanceUnavailable
		if required != nil && !*required {
			want = ""
		}
		if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != want {
			t.Errorf("required %v: %v", required, err)
		}
		if p := h.Status().Policies[0]; p.Required != (want != "") {
			t.Errorf("required %v: status %+v", required, p)
		}
	}
}

// TestRereadWithoutConfiguration checks that a Reread that returns nothing is a failed reload, and no panic.
func TestRereadWithoutConfiguration(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Reread: func() (*config.Config, error) { return nil, nil },
	})
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); protocol.KindOf(err) != protocol.ConfigInvalid ||
		!strings.Contains(err.Error(), "Options.Reread") {
		t.Errorf("Reload: %v", err)
	}
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("after the failed reload: %v", err)
	}
}
