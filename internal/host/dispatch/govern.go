package dispatch

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/status"
)

// Govern has the policies decide about the request and about the result. After-call hooks see what the policies
// let pass.
func Govern(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, _ json.RawMessage) (json.RawMessage, error) {
		c.stages.policies = status.StageRequestPolicies
		if c.Request.Client != nil {
			c.Exchange.Client = asker{c}
		}
		err := c.Snapshot.Policies.Pipeline.Govern(ctx, c.Exchange,
			func(ctx context.Context, x *governance.Exchange) (err error) {
				c.leavePolicies()
				x.Response, err = next(ctx, c, x.Request)
				c.enterPolicies()
				return err
			}, c.afterHooks()...)
		c.leavePolicies()
		return c.Exchange.Response, err
	}
}

// Validate checks the arguments of catalog tools against their schemas. Destinations validate arguments
// themselves.
func Validate(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		if c.entry != nil {
			if err := c.entry.Validate(c.arguments()); err != nil {
				return nil, err
			}
		}
		return next(ctx, c, params)
	}
}
