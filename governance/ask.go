package governance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// pendingAsk is an approval request that waits until all policies of the round have decided,
// because it is sent only if none of them denies.
type pendingAsk struct {
	m *member
	s Step
	d Decision
}

// pendingAsks are the approval requests of a round, at most one per policy.
type pendingAsks []pendingAsk

// put adds the request a, or replaces an earlier request of the same policy with it.
func (l *pendingAsks) put(a pendingAsk) {
	if i := slices.IndexFunc(*l, func(other pendingAsk) bool { return other.m == a.m }); i >= 0 {
		(*l)[i] = a
		return
	}
	*l = append(*l, a)
}

// askAll sends the pending requests to the approver.
func (r *exchangeRun) askAll(ctx context.Context) error {
	for len(r.asks) > 0 {
		a := r.asks[0]
		r.asks = r.asks[1:]
		if err := r.ask(ctx, a.m, a.s, a.d); err != nil {
			return err
		}
	}
	return nil
}

// dropAsks records in the trace the requests that are not sent because the exchange was denied.
func (r *exchangeRun) dropAsks() {
	for _, a := range r.asks {
		a.s.Ignored = true
		r.recordStep(a.m, a.s)
	}
	r.asks = nil
}

// ask sends the policy's approval request to a person. Unless the person approves, the exchange is
// denied, even when the policy is not required.
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
	a, err := r.p.askApprover(waiting, r.x,
		ApprovalRequest{m.spec.Name, s.Flow, d.Code, d.Reason, d.Data, d.Expiry, d.Asking})
	s.By, s.Where, s.After = a.By, a.Where, protocol.Duration(a.After)
	switch {
	case a.Approved && err == nil:
		if r.x.Verdict.Action != Respond {
			r.x.Verdict = Verdict{Action: Ask, Policy: m.spec.Name, Code: d.Code}.Answered(a)
		}
		r.recordStep(m, s)
		return nil
	case ctx.Err() != nil:
		s.Reason = ctx.Err().Error()
		r.recordStep(m, s)
		return protocol.Errorf(protocol.KindOf(ctx.Err()),
			"the caller gave up before the approval request of policy %s was answered: %w", m.spec.Name, ctx.Err())
	case err == nil:
		d.Code, d.Reason = CodeApprovalDenied, denialReason("it was not approved", a.By, d.Reason)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		d.Code, d.Reason = CodeApprovalExpired, denialReason(unanswered(d.Expiry, a.Next), "", d.Reason)
	case waiting.Err() != nil:
		d.Code, d.Reason = CodeApprovalUnavailable, denialReason("the policies were stopped before it was approved", "",
			d.Reason)
	default:
		d.Code, d.Reason = CodeApprovalUnavailable, denialReason(fmt.Sprintf("it needs an approval, and %v", err), "",
			d.Reason)
	}
	return r.deny(m, s, d)
}

func unanswered(expiry time.Duration, next string) string {
	text := fmt.Sprintf("nobody approved it within %s", expiry)
	if next != "" {
		text += "; make the call again, and have it answered: " + next
	}
	return text
}

func denialReason(what, by, reason string) string {
	if by != "" {
		what += " by " + by
	}
	if reason != "" {
		return reason + "; " + what
	}
	return what
}

// askApprover calls the approver and turns a panic into an error.
func (p *Pipeline) askApprover(ctx context.Context, x *Exchange, q ApprovalRequest,
) (a Answer, err error) {
	if p.o.Approver == nil {
		return Answer{}, errors.New("there is nobody to ask")
	}
	defer func() {
		if v := recover(); v != nil {
			a, err = Answer{}, fmt.Errorf("asking failed: %w", &panicked{value: v})
		}
	}()
	return p.o.Approver.Ask(ctx, x, q)
}
