package governance_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// TestLimitOfADecision gives policies that look at their ctx in different ways a second to decide: each sees the end at
// that time, with its cause, and what one has left running sees the end of the decision.
func TestLimitOfADecision(t *testing.T) {
	const limit = time.Second
	for name, await := range map[string]func(ctx context.Context){
		"waits": func(ctx context.Context) { <-ctx.Done() },
		"looks now and then": func(ctx context.Context) {
			for ctx.Err() == nil {
				time.Sleep(limit / 4)
			}
		},
		"looks afterwards": func(context.Context) { time.Sleep(limit) },
		"derives a ctx": func(ctx context.Context) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			<-derived.Done()
		},
		"derives a ctx after it has looked": func(ctx context.Context) {
			_ = ctx.Err()
			type key struct{}
			derived, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
			defer cancel()
			<-derived.Done()
			if !errors.Is(context.Cause(derived), governance.ErrTimeout) {
				panic(context.Cause(derived))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, left := time.Now(), make(chan time.Duration)
				m := member("p", governance.Validation, policyFunc(func(ctx context.Context, _ governance.Flow,
					_ *governance.Exchange) (d governance.Decision, _ error) {
					await(ctx)
					if at, ok := ctx.Deadline(); !ok || !at.Equal(began.Add(limit)) {
						t.Errorf("the deadline is %v, %t", at, ok)
					}
					if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != governance.ErrTimeout {
						t.Errorf("after %v: %v, because of %v", time.Since(began), ctx.Err(), context.Cause(ctx))
					}
					return d, ctx.Err()
				}))
				m.Spec.Timeout = limit
				p := newPipeline(t, governance.Options{}, m)
				err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil))
				if took := time.Since(began); took != limit ||
					protocol.KindOf(err) != protocol.GovernanceUnavailable {
					t.Errorf("after %v: %v", took, err)
				}
				leaves := member("q", governance.Validation, policyFunc(func(ctx context.Context, f governance.Flow,
					_ *governance.Exchange) (d governance.Decision, _ error) {
					if f == governance.Request {
						go func() {
							<-ctx.Done()
							left <- time.Since(began)
						}()
					}
					return d, nil
				}))
				if err := newPipeline(t, governance.Options{}, leaves).Govern(t.Context(), toolCall(),
					answer(`{}`, nil)); err != nil {
					t.Error(err)
				}
				if ended := <-left; ended != limit {
					t.Errorf("what the policy left running ended after %v", ended-limit)
				}
			})
		})
	}
}
