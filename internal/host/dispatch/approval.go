package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// asker is the client of a call, as approvers reach it. Its question is the host's own and passes no policies, since a
// policy could ask for an approval of the question.
type asker struct{ *Call }

var _ governance.Client = asker{}

// MayApprove implements [governance.Client]. The rights are those of server.clients of this host. A node that names a
// client of its own is believed only if its operators may answer here anyway.
func (a asker) MayApprove(risk protocol.Risk) bool {
	x := a.Exchange
	if x.Caller == "" || x.Node != "" && !slices.Contains(a.Snapshot.Config.Cluster.Operators, x.Node) {
		return false
	}
	may := a.d.o.Approves
	return may != nil && slices.Contains(may(x.Caller), risk.Known())
}

// Confirm implements [governance.Client]. The form has no fields: accept and decline are the answers.
func (a asker) Confirm(ctx context.Context, message string) (json.RawMessage, error) {
	defer a.asked(protocol.MethodElicit)()
	return a.Request.Client.Call(ctx, protocol.MethodElicit, json.RawMessage(
		`{"message":`+string(rawjson.Quote(message))+`,"requestedSchema":{"type":"object","properties":{}}}`))
}

// Program implements [governance.Client].
func (a asker) Program() string {
	s := a.Request.Session
	if s == nil {
		return ""
	}
	return cmp.Or(stats.ClientName(s.ClientInfo), s.Front)
}

// Waits implements [governance.Client].
func (a asker) Waits(ctx context.Context, what string) (stop func()) {
	return starts.TellWhile(ctx, a.Request, waitsFor(what))
}

// waitsFor is a text for [starts.TellWhile].
type waitsFor string

func (w waitsFor) Waiting() string { return string(w) }

// Approver sends the approval requests of hooks to the approver of policies.
type Approver struct{ To governance.Approver }

// Approve implements [hooks.Approver].
func (a Approver) Approve(ctx context.Context, e *hooks.Event, o hooks.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, governance.DefaultExpiry)
	defer cancel()
	x := governance.Exchange{
		Method:    string(e.Point),
		Caller:    e.Caller,
		Session:   e.Session,
		Node:      e.Node,
		Extension: e.Extension,
		Tool:      e.Tool,
		ToChild:   true,
		Request:   e.Payload,
	}
	if e.Tool != "" {
		x.Method, x.Request = protocol.MethodToolsCall, (&toolCall{arguments: e.Payload}).params(e.OwnName)
	}
	flow := governance.Request
	if e.Point == hooks.AfterToolCall {
		flow, x.Request, x.Response = governance.Response, (&toolCall{
			arguments: e.Arguments,
		}).params(e.OwnName), e.Payload
	}
	c, _ := ctx.Value(callKey{}).(*Call)
	if c != nil {
		x.ID, x.Risk, x.Client = c.Exchange.ID, c.Exchange.Risk, c.Exchange.Client
	}
	answer, err := a.To.Ask(ctx, &x, governance.ApprovalRequest{
		Policy: hookPolicy(o.By),
		Flow:   flow,
		Reason: o.Reason,
		Expiry: governance.DefaultExpiry,
		Asking: o.Asking,
	})
	if c != nil {
		c.answered(o.By, answer)
	}
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && answer.Next != "":
		return errors.New("nobody answered in time; make the call again, and have it answered: " + answer.Next)
	case err != nil:
		return err
	case !answer.Approved && answer.By != "":
		return errors.New(answer.By + " said no")
	case !answer.Approved:
		return errors.New("the answer was no")
	}
	return nil
}
