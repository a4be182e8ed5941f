package dispatch

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Replay sends a call once more if the process ended during the call, and the operator and the tool allow that. If
// the second instance never got the call, the first error stands: the call may have been carried out.
func Replay(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		result, err := next(ctx, c, params)
		if !c.replays(err) || ctx.Err() != nil {
			return result, err
		}
		before := c.handed.requests
		c.Target.Base().Log.Info("sent again, since its process ended before the answer", "tool", c.entry.Registered(),
			"reason", protocol.Reason(err))
		again, second := next(ctx, c, params)
		if c.handed.requests == before {
			return nil, err
		}
		c.Exchange.Replayed = true
		return again, second
	}
}

// replays reports whether to send a call that ended with err once more. All must hold: the operator allows it for the
// extension, the process received the request and ended before it answered, and the tool is repeatable. A call whose
// answer was too long is not sent again. A call to another node is replayed by that node, or here if the node is lost.
func (c *Call) replays(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	switch {
	case !ok || e.Outcome == "" || !c.MayHaveRun() || !protocol.ProcessEnded(err) || e.Kind == protocol.LineTooLong:
		return false
	case c.Instance.IsRemoteNode() && e.Kind != protocol.NodeLost:
		return false
	}
	return c.entry != nil && c.Target.Base().Spec.Options.Replay == manifest.ReplayIdempotent && repeatable(c.entry)
}

// repeatable reports whether the tool changes nothing, or is annotated as idempotent.
func repeatable(e *tools.Entry) bool {
	return e.Risk == protocol.RiskRead || string(rawjson.Get(e.Annotations, "idempotentHint")) == "true"
}
