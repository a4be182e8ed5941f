package governance_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// approverFunc is an approver made of one function.
type approverFunc func(ctx context.Context, x *governance.Exchange, q governance.ApprovalRequest) (bool, string, error)

func (f approverFunc) Ask(ctx context.Context, x *governance.Exchange, q governance.ApprovalRequest,
) (governance.Answer, error) {
	approved, by, err := f(ctx, x, q)
	return governance.Answer{Approved: approved, By: by}, err
}

// after answers when d has passed.
func after(d time.Duration, yes bool) approverFunc {
	return func(ctx context.Context, _ *governance.Exchange, _ governance.ApprovalRequest) (bool, string, error) {
		select {
		case <-time.After(d):
			return yes, "grace", nil
		case <-ctx.Done():
			return false, "", ctx.Err()
		}
	}
}

func TestApprovalRequests(t *testing.T) {
	ask := governance.Decision{Action: governance.Ask, Code: "spends_money", Reason: "it costs 5 €", Expiry: time.Hour}
	short := governance.Decision{Action: governance.Ask}
	approved := governance.Verdict{Action: governance.Ask, Policy: "money", Code: "spends_money", By: "grace"}
	denied := func(code, by string) governance.Verdict {
		return governance.Verdict{Action: governance.Deny, Policy: "money", Code: code, By: by}
	}
	tests := []struct {
		name     string
		d        governance.Decision
		approver governance.Approver
		took     time.Duration
		want     governance.Verdict
		text     string
	}{
		{"yes", ask, after(59*time.Minute, true), 59 * time.Minute, approved, ""},
		{"no", ask, after(59*time.Minute, false), 59 * time.Minute, denied(governance.CodeApprovalDenied, "grace"),
			"policy money: it costs 5 €; it was not approved by grace"},
		{"too late", ask, after(61*time.Minute, true), time.Hour, denied(governance.CodeApprovalExpired, ""),
			"policy money: it costs 5 €; nobody approved it within 1h0m0s"},
		{"the default expiry", short, after(6*time.Minute, true), 5 * time.Minute,
			denied(governance.CodeApprovalExpired, ""), "within 5m0s"},
		{"nobody", ask, nil, 0, denied(governance.CodeApprovalUnavailable, ""), "there is nobody to ask"},
		{"no answer", ask, approverFunc(func(context.Context, *governance.Exchange,
			governance.ApprovalRequest) (bool, string, error) {
			return true, "grace", errors.New("the queue is full")
		}), 0, denied(governance.CodeApprovalUnavailable, "grace"), "the queue is full"},
		{"panic", ask, approverFunc(func(context.Context, *governance.Exchange,
			governance.ApprovalRequest) (bool, string, error) {
			panic("oh")
		}),
			0, denied(governance.CodeApprovalUnavailable, ""), "panicked: oh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := member("money", governance.Authorization, in(governance.Request, tt.d))
				m.Spec.Required = new(false) // without an approval the exchange is denied even so
				p := newPipeline(t, governance.Options{Approver: tt.approver, ChainTimeout: time.Second}, m,
					member("next", governance.Validation, always(governance.Decision{})))
				x, began := toolCall(), time.Now()
				err := p.Govern(t.Context(), x, answer(`{}`, nil))
				if took := time.Since(began); x.Verdict != tt.want || took != tt.took {
					t.Errorf("%+v after %s, want %+v after %s", x.Verdict, took, tt.want, tt.took)
				}
				if yes := tt.want.Action == governance.Ask; (err == nil) != yes ||
					!yes && (!strings.Contains(err.Error(), tt.text) || protocol.KindOf(err) != protocol.Rejected) {
					t.Errorf("err = %v", err)
				}
			})
		})
	}
}

func TestApprovalRequestFields(t *testing.T) {
	var got governance.ApprovalRequest
	var tool string
	o := governance.Options{Approver: approverFunc(func(ctx context.Context, x *governance.Exchange,
		q governance.ApprovalRequest) (bool, string, error) {
		got, tool = q, x.Tool
		return true, "", nil
	})}
	p := newPipeline(t, o, member("p", governance.Content,
		in(governance.Response, governance.Decision{Action: governance.Ask, Reason: "sure?"})))
	if err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil)); err != nil {
		t.Fatal(err)
	}
	if got.Policy != "p" || got.Flow != governance.Response || got.Reason != "sure?" ||
		got.Expiry != governance.DefaultExpiry || tool != "ext_x_work" {
		t.Errorf("%+v about %s", got, tool)
	}
}

// TestApprovalRequestsEnd cancels approval requests when the caller gives up and when the pipeline closes.
func TestApprovalRequestsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(p *governance.Pipeline, cancel context.CancelFunc)
		kind protocol.Kind
	}{
		{"the caller gives up", func(_ *governance.Pipeline, cancel context.CancelFunc) { cancel() },
			protocol.Canceled},
		{"the pipeline closes", func(p *governance.Pipeline, _ context.CancelFunc) {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			if err := p.Close(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("Close = %v", err)
			}
		}, protocol.Rejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := make(chan struct{})
			o := governance.Options{Approver: approverFunc(func(ctx context.Context, _ *governance.Exchange,
				_ governance.ApprovalRequest) (bool, string, error) {
				close(asked)
				<-ctx.Done()
				return false, "", ctx.Err()
			})}
			p := newPipeline(t, o,
				member("p", governance.Authorization, always(governance.Decision{Action: governance.Ask})))
			ended := make(chan error)
			go func() { ended <- p.Govern(ctx, toolCall(), answer(`{}`, nil)) }()
			<-asked
			tt.end(p, cancel)
			if err := <-ended; protocol.KindOf(err) != tt.kind {
				t.Errorf("err = %v", err)
			}
		})
	}
}
