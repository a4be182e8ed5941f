package governance

import (
	"context"
	"errors"
	"fmt"

	"github.com/exthost/exthost/protocol"
)

// ask puts the policy's question to a person. Without an approval the exchange is denied,
// even when the policy is not required.
func (r *exchangeRun) ask(ctx context.Context, m *member, s Step, d Decision) error {
	if r.dryRun {
		s.Ignored = true
		r.recordStep(m, s)
		return nil
	}
	if d.Expiry <= 0 {
		d.Expiry = DefaultExpiry
	}
	waiting, cancel := context.WithTimeout(ctx, d.Expiry)
	defer cancel()
	defer context.AfterFunc(r.p.running, cancel)()
	approved, by, err := r.p.askApprover(waiting, r.x, Question{m.spec.Name, s.Flow, d.Code, d.Reason, d.Data, d.Expiry})
	s.By = by
	switch {
	case approved && err == nil:
		r.x.Verdict = Verdict{Action: Ask, Policy: m.spec.Name, Code: d.Code, By: by}
		r.recordStep(m, s)
		return nil
	case ctx.Err() != nil:
		s.Reason = ctx.Err().Error()
		r.recordStep(m, s)
		return protocol.Errorf(protocol.KindOf(ctx.Err()), "the caller gave up before the question of policy %s was answered: %w", m.spec.Name, ctx.Err())
	case err == nil:
		d.Code, d.Reason = CodeApprovalDenied, denialReason("it was not approved", by, d.Reason)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		d.Code, d.Reason = CodeApprovalExpired, denialReason(fmt.Sprintf("nobody approved it within %s", d.Expiry), "", d.Reason)
	case waiting.Err() != nil:
		d.Code, d.Reason = CodeApprovalUnavailable, denialReason("the policies were stopped before it was approved", "", d.Reason)
	default:
		d.Code, d.Reason = CodeApprovalUnavailable, denialReason(fmt.Sprintf("it needs an approval, and %v", err), "", d.Reason)
	}
	return r.deny(m, s, d)
}

func denialReason(what, by, question string) string {
	if by != "" {
		what += " by " + by
	}
	if question != "" {
		what += ": " + question
	}
	return what
}

// askApprover calls the approver and turns a panic into an error.
func (p *Pipeline) askApprover(ctx context.Context, x *Exchange, q Question) (approved bool, by string, err error) {
	if p.o.Approver == nil {
		return false, "", errors.New("there is nobody to ask")
	}
	defer func() {
		if v := recover(); v != nil {
			approved, err = false, fmt.Errorf("asking failed: %w", &panicked{value: v})
		}
	}()
	return p.o.Approver.Ask(ctx, x, q)
}
