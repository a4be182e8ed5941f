package exthost

import (
	"context"
	"errors"

	"github.com/exthost/exthost/governance"
)

// PIPELINE-AGAIN: the two functions below are all that depends on how the pipeline
// lets hooks take part.

// govern takes the exchange through the pipeline, with the hooks after a call
// behind the response flow.
func (r *routed) govern(ctx context.Context) error {
	err := r.gen.policy.Govern(ctx, &r.exchange, r.send)
	if !r.hooked.called || err != nil && !r.hooked.failed {
		return err
	}
	errors.As(err, &r.exchange.Failure)
	if hookErr := r.afterCall(ctx, &r.exchange); hookErr != nil {
		return hookErr
	}
	return err
}

// again takes what hooks changed in x once more through governance.
func (r *routed) again(context.Context, governance.Flow, *governance.Exchange) error { return nil }
