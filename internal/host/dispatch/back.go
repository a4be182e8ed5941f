package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/status"
)

// AskCaller sends a request to the caller while the call is in flight. The request passes the policies of the
// call, with the ends swapped.
func (c *Call) AskCaller(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	x := back(c, method, params)
	var end func(time.Time, status.Outcome)
	if c.span != nil {
		end = c.span.Ask(time.Now(), method)
	}
	err := c.Snapshot.Policies.Pipeline.Govern(ctx, x, func(ctx context.Context, x *governance.Exchange) (err error) {
		defer c.asked(x.Method)()
		x.Response, err = c.Request.Client.Call(ctx, x.Method, x.Request)
		return err
	})
	if end != nil {
		end(time.Now(), stats.OutcomeOf(x.Response, err))
	}
	return x.Response, err
}

// asked records the question to the caller until answered is called.
func (c *Call) asked(method string) (answered func()) {
	q := status.Question{
		Method:    method,
		Extension: c.Exchange.Extension,
		Tool:      c.Exchange.Tool,
		Caller:    c.Exchange.Caller,
		Node:      c.Exchange.Node,
		Session:   c.Exchange.Session,
	}
	if s := c.Request.Session; s != nil {
		q.Client = stats.ClientName(s.ClientInfo)
	}
	return c.history.Asked(q)
}

// TellCaller notifies the caller, through the same policies as AskCaller.
func (c *Call) TellCaller(ctx context.Context, method string, params json.RawMessage) error {
	x := back(c, method, params)
	x.Notify = true
	return c.Snapshot.Policies.Pipeline.Govern(ctx, x, func(ctx context.Context, x *governance.Exchange) error {
		return c.Request.Client.Notify(ctx, x.Method, x.Request)
	})
}

func back(c *Call, method string, params json.RawMessage) *governance.Exchange {
	x := c.Exchange
	x.Method, x.Request, x.Response, x.ToChild, x.Notify = method, params, nil, false, false
	return &x
}
