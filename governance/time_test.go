package governance_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// slow decides after d unless ctx ends first.
func slow(d time.Duration) policyFunc {
	return func(ctx context.Context, _ governance.Flow, _ *governance.Exchange) (governance.Decision, error) {
		select {
		case <-time.After(d):
			return governance.Decision{}, nil
		case <-ctx.Done():
			return governance.Decision{}, ctx.Err()
		}
	}
}

func TestTimeouts(t *testing.T) {
	named := func(n int, c governance.Category, d, timeout time.Duration, required bool) governance.Member {
		return governance.Member{
			Spec: governance.Spec{
				Name:     fmt.Sprint("p", n),
				Category: c,
				Timeout:  timeout,
				Required: new(required),
				Flows:    []governance.Flow{governance.Request},
			},
			Policy: slow(d),
		}
	}
	const s = time.Second
	changing := governance.Member{Spec: governance.Spec{
		Name:     "changing",
		Category: governance.Content,
		Flows:    []governance.Flow{governance.Request},
	},
		Policy: always(governance.Decision{
			Action: governance.Modify,
			JSON:   []byte(`{"name":"work","arguments":{"a":2}}`),
		})}
	tests := []struct {
		name    string
		o       governance.Options
		members []governance.Member
		took    time.Duration
		blames  string // the policy that the error names, "" when the exchange succeeds
	}{
		{"in time", governance.Options{}, []governance.Member{named(1, governance.Validation, 2*s, 0, true)}, 2 * s,
			""},
		{"the default is 3 s", governance.Options{}, []governance.Member{named(1, governance.Validation, 4*s, 0, true)},
			3 * s, "p1"},
		{"its own", governance.Options{}, []governance.Member{named(1, governance.Validation, 4*s, 5*s, true)}, 4 * s,
			""},
		{"optional", governance.Options{}, []governance.Member{named(1, governance.Validation, 4*s, s, false)}, s, ""},
		{"the chain's default is 10 s", governance.Options{},
			[]governance.Member{
				named(1, governance.Validation, 3*s, 0, false),
				named(2, governance.Validation, 3*s, 0, false),
				named(3, governance.Validation, 3*s, 0, false),
				named(4, governance.Validation, 2*s, 0, true),
			}, 10 * s, "p4"},
		{"a stated timeout is honoured", governance.Options{},
			[]governance.Member{
				named(1, governance.Validation, 2*s, 0, true),
				named(2, governance.Validation, 25*s, 30*s, true),
			}, 27 * s, ""},
		{"also behind one that is used up", governance.Options{},
			[]governance.Member{
				named(1, governance.Validation, 30*s, 20*s, false),
				named(2, governance.Validation, 14*s, 15*s, true),
			}, 34 * s, ""},
		{"and in the flow of the policy alone", governance.Options{},
			[]governance.Member{
				{Spec: governance.Spec{
					Name:     "slow",
					Category: governance.Validation,
					Timeout:  time.Minute,
					Flows:    []governance.Flow{governance.Response},
				}, Policy: always(governance.Decision{})},
				named(1, governance.Validation, 3*s, 0, false),
				named(2, governance.Validation, 3*s, 0, false),
				named(3, governance.Validation, 3*s, 0, false),
				named(4, governance.Validation, 2*s, 0, true),
			}, 10 * s, "p4"},
		{"the chain's own", governance.Options{ChainTimeout: 2 * s},
			[]governance.Member{
				named(1, governance.Validation, 3*s, 0, false),
				named(2, governance.Validation, 0, 0, true),
			}, 2 * s, "p2"},
		{"what content policies change has a chain of its own", governance.Options{ChainTimeout: 3 * s},
			[]governance.Member{named(1, governance.Validation, 2*s, 0, true), changing}, 4 * s, ""},
		{"observers at once", governance.Options{},
			[]governance.Member{
				named(1, governance.Observability, 2*s, 0, true),
				named(2, governance.Observability, 2*s, 0, true),
			}, 2 * s, ""},
		{"observers use up the chain", governance.Options{ChainTimeout: s},
			[]governance.Member{
				named(1, governance.Observability, s, 0, true),
				named(2, governance.Validation, 0, 0, true),
			}, s, "p2"},
		{"the first observer that fails", governance.Options{},
			[]governance.Member{
				named(1, governance.Observability, 5*s, s, true),
				named(2, governance.Observability, 2*s, 0, true),
			}, 2 * s, "p1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipeline(t, tt.o, tt.members...)
				began := time.Now()
				err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil))
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
				switch {
				case tt.blames == "" && err != nil:
					t.Error(err)
				case tt.blames != "":
					if r := refusalOf(t, err); r.Policy != tt.blames ||
						protocol.KindOf(err) != protocol.GovernanceUnavailable {
						t.Errorf("err = %v, %+v", err, r)
					}
				}
			})
		})
	}
}

// TestCanceledCallersReturnAtOnce covers required and optional policies.
func TestCanceledCallersReturnAtOnce(t *testing.T) {
	for _, required := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := member("p", governance.Validation, slow(time.Hour))
			m.Spec.Required, m.Spec.Timeout = new(required), time.Hour
			p := newPipeline(t, governance.Options{ChainTimeout: time.Hour}, m)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			sent := "nothing"
			err := p.Govern(ctx, toolCall(), answer(`{}`, &sent))
			if protocol.KindOf(err) != protocol.CallTimeout || sent != "nothing" {
				t.Errorf("required %t: %v, %s was sent", required, err, sent)
			}
		})
	}
}

// TestObserversDelayNothing lets an optional observer, and a required one in shadow mode,
// hang: exchanges are not delayed, and observations beyond the queue are dropped.
func TestObserversDelayNothing(t *testing.T) {
	for _, mode := range []governance.Mode{governance.ModeEnforce, governance.ModeShadow} {
		synctest.Test(t, func(t *testing.T) {
			var dropped, failed atomic.Int32
			traces := governance.NewTraces(0)
			o := governance.Options{
				Traces: traces,
				Observe: func(o governance.Observation) {
					switch o.Outcome {
					case governance.Dropped:
						dropped.Add(1)
					case governance.PluginError:
						failed.Add(1)
					}
				},
			}
			spec := governance.Spec{
				Name:     "watch",
				Category: governance.Observability,
				Mode:     mode,
				Required: new(mode == governance.ModeShadow),
				Timeout:  10 * time.Second,
				Flows:    []governance.Flow{governance.Request},
			}
			p := governance.NewPipeline(o, governance.Member{Spec: spec, Policy: slow(time.Minute)})
			began := time.Now()
			x := toolCall()
			for range 300 {
				if err := p.Govern(t.Context(), x, answer(`{}`, nil)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("300 exchanges were delayed by %s", took)
			}
			if n := dropped.Load(); n != 300-4-256 {
				t.Errorf("%d were dropped", n)
			}
			if trace, _ := traces.Get(x.ID); len(trace.Steps) != 1 || trace.Steps[0].Outcome != governance.Dropped {
				t.Errorf("the trace of one that was dropped: %+v", trace.Steps)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := failed.Load(); n != 260 {
				t.Errorf("%d timed out", n)
			}
			if oldest := traces.Latest(300)[299]; len(oldest.Steps) != 1 ||
				oldest.Steps[0].Outcome != governance.PluginError {
				t.Errorf("a trace that was completed later: %+v", oldest)
			}
		})
	}
}

// The process of a policy has the limit of the policy, and may notice first that it has passed. Its error names keys of
// an extension, and says that the request may have been carried out.
func TestTimeoutOfTheProcess(t *testing.T) {
	m := member("guard", governance.Validation, policyFunc(
		func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
			return governance.Decision{}, protocol.Errorf(protocol.CallTimeout,
				"it did not answer in time: call_timeout is 2s; the call may have been carried out")
		}))
	m.Spec.Timeout = 2 * time.Second
	p := newPipeline(t, governance.Options{}, m)
	err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil))
	const want = "policy guard could not decide, so the request was not carried out: no decision within 2s, " +
		"its timeoutMs"
	if err == nil || protocol.Reason(err) != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
