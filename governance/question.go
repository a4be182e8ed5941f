package governance

import (
	"context"
	"errors"
	"fmt"

	"github.com/exthost/exthost/protocol"
)

// question has a person decide. Without an answer that is yes the exchange ends,
// whether or not the policy is required.
func (g *passage) question(ctx context.Context, m *member, s Step, d Decision) error {
	if g.trial {
		s.Ignored = true
		g.note(m, s)
		return nil
	}
	if d.Expiry <= 0 {
		d.Expiry = DefaultExpiry
	}
	waiting, cancel := context.WithTimeout(ctx, d.Expiry)
	defer cancel()
	defer context.AfterFunc(g.p.running, cancel)()
	approved, by, err := g.p.put(waiting, g.x, Question{m.spec.Name, s.Flow, d.Code, d.Reason, d.Data, d.Expiry})
	s.By = by
	switch {
	case approved && err == nil:
		g.x.Verdict = Verdict{Action: Ask, Policy: m.spec.Name, Code: d.Code, By: by}
		g.note(m, s)
		return nil
	case ctx.Err() != nil:
		s.Reason = ctx.Err().Error()
		g.note(m, s)
		return protocol.Errorf(protocol.KindOf(ctx.Err()), "the caller gave up before the question of policy %s was answered: %w", m.spec.Name, ctx.Err())
	case err == nil:
		d.Code, d.Reason = CodeApprovalDenied, because("it was not approved", by, d.Reason)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		d.Code, d.Reason = CodeApprovalExpired, because(fmt.Sprintf("nobody approved it within %s", d.Expiry), "", d.Reason)
	case waiting.Err() != nil:
		d.Code, d.Reason = CodeApprovalUnavailable, because("the policies were stopped before it was approved", "", d.Reason)
	default:
		d.Code, d.Reason = CodeApprovalUnavailable, because(fmt.Sprintf("it needs an approval, and %v", err), "", d.Reason)
	}
	return g.deny(m, s, d)
}

func because(what, by, question string) string {
	if by != "" {
		what += " by " + by
	}
	if question != "" {
		what += ": " + question
	}
	return what
}

// put asks the approver.
func (p *Pipeline) put(ctx context.Context, x *Exchange, q Question) (approved bool, by string, err error) {
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
