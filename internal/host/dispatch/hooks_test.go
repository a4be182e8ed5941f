package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
)

// desk answers approval requests at once.
type desk struct {
	yes   bool
	by    string
	err   error
	asked []string
}

func (d *desk) Ask(_ context.Context, x *governance.Exchange, q governance.ApprovalRequest) (governance.Answer, error) {
	d.asked = append(d.asked, strings.Join([]string{
		string(q.Flow),
		x.Method,
		x.Tool,
		string(x.Request),
		string(x.Response),
		q.Reason,
	}, " "))
	return governance.Answer{Approved: d.yes, By: d.by}, d.err
}

// An approval request of a hook reaches the same approver as those of policies, with the same exchange.
func TestHookApprovalsReachTheApprover(t *testing.T) {
	call := hooks.Event{
		Point:     hooks.BeforeToolCall,
		Extension: "x",
		Tool:      "ext_x_greet",
		OwnName:   "greet",
		Payload:   json.RawMessage(`{"name":"ada"}`),
	}
	after, message := call, hooks.Event{Point: hooks.BeforeMessage, Payload: json.RawMessage(`{"prompt":"hi"}`)}
	after.Point, after.Arguments, after.Payload = hooks.AfterToolCall, call.Payload, json.RawMessage(`{"content":[]}`)
	for _, tt := range []struct {
		event hooks.Event
		desk  desk
		asked string
		want  string // in the error
	}{
		{call, desk{yes: true, by: "ana"},
			`request tools/call ext_x_greet {"name":"greet","arguments":{"name":"ada"}}  sure?`, ""},
		{call, desk{by: "ana"}, `request tools/call ext_x_greet {"name":"greet","arguments":{"name":"ada"}}  sure?`,
			"not approved: ana said no"},
		{call, desk{err: errors.New("too many requests")},
			`request tools/call ext_x_greet {"name":"greet","arguments":{"name":"ada"}}  sure?`,
			"not approved: too many requests"},
		{after, desk{}, `response tools/call ext_x_greet {"name":"greet","arguments":{"name":"ada"}} {"content":[]} sure?`, "not approved: the answer was no"},
		{message, desk{yes: true}, `request before_message  {"prompt":"hi"}  sure?`, ""},
	} {
		s := hooks.NewSet(hooks.Options{Approver: Approver{&tt.desk}}, hooks.Handler{
			Name:  "h",
			Point: tt.event.Point,
			Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
				return &hooks.Reply{Decision: hooks.Ask, Reason: "sure?"}, nil
			},
		})
		_, err := s.Run(t.Context(), &tt.event)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.event.Point, err, tt.want)
		}
		if diff := cmp.Diff([]string{tt.asked}, tt.desk.asked); diff != "" {
			t.Error(diff)
		}
		if _, err := s.Test(t.Context(), &tt.event); err == nil || len(tt.desk.asked) != 1 {
			t.Errorf("a test asked: %v", err)
		}
	}
}
