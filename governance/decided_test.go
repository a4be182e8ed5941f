package governance_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/exthost/exthost/governance"
)

// An optional policy of category audit cannot change what passes, so a change that it states
// in a form that cannot be read ends nothing either.
func TestAuditDecidesNothingUnread(t *testing.T) {
	odd := policyFunc(func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
		return governance.Decision{}, fmt.Errorf("%w: junk", governance.ErrDecided)
	})
	m := member("audit", governance.Audit, odd)
	m.Spec.Required = false
	p := newPipeline(t, governance.Options{}, m)
	sent := false
	if err := p.Govern(t.Context(), toolCall(), func(_ context.Context, x *governance.Exchange) error {
		sent = true
		return answer(`{}`, nil)(t.Context(), x)
	}); err != nil || !sent {
		t.Errorf("sent %t, %v", sent, err)
	}
}
