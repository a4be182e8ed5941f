package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// mute is a cluster in which nodes whose names begin with mute do not answer.
type mute struct{ peers.Cluster }

func (mute) Operate(ctx context.Context, node, _ string, _ json.RawMessage) (json.RawMessage, error) {
	if strings.HasPrefix(node, "mute") {
		<-ctx.Done()
		return nil, &protocol.Error{
			Kind:    protocol.KindOf(ctx.Err()),
			Outcome: "unknown",
			Message: "the caller waits no more",
		}
	}
	return json.RawMessage("null"), ctx.Err()
}

// All nodes are queried, however many of them do not answer.
func TestSilentNodesHideNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []string
		for i := range 1000 {
			nodes = append(nodes, fmt.Sprint("mute", i))
		}
		var answered []string
		o := remoteNodes{"web", mute{}}
		silent := o.each(t.Context(), listWait, append(nodes, "gpu1"), methodApprovals, struct{}{},
			func(node string, _ json.RawMessage) error {
				answered = append(answered, node)
				return nil
			})
		if len(answered) != 1 || answered[0] != "gpu1" {
			t.Errorf("%q answered", answered)
		}
		mute := status.Silent{Node: "mute0", Reason: "it did not answer within 2s"}
		if len(silent) != len(nodes) || silent[0] != mute {
			t.Errorf("%d are named: %v", len(silent), silent[:min(3, len(silent))])
		}
	})
}

// The error of an order without an answer says that it may have had an effect, and what to do next.
func TestOrderWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := remoteNodes{"web", mute{}}
		err := o.order(t.Context(), answerWait, "mute1", methodApprove, order{}, nil)
		want := "node mute1 did not answer within 10s; it may have carried out the command, which may be given again"
		if protocol.KindOf(err) != protocol.CallTimeout || protocol.Reason(err) != want {
			t.Error(err)
		}
	})
}

// While the audit log is read for one node, a query of an operator is not delayed, and that of another node fails
// soon.
func TestReadingTheAuditLogDelaysNoOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.Local.State = new(policies.State)
		n.reading <- struct{}{}
		for operator, want := range map[bool]protocol.Kind{true: "", false: protocol.Overloaded} {
			_, err := (*inward)(n).records(t.Context(),
				&peers.Operation{Node: "web", Operator: operator, Params: json.RawMessage(`{"ids":["d1"]}`)})
			if protocol.KindOf(err) != want {
				t.Errorf("an operator's is %v: %v", operator, err)
			}
		}
	})
}

// TestOutcomeReplacesItsIntent reads a log before and after the outcome of a call was written, in both orders.
func TestOutcomeReplacesItsIntent(t *testing.T) {
	before := []audit.Record{{Seq: 1, ID: "a"}, {Seq: 2, ID: "b", Kind: audit.KindIntent, Outcome: audit.Pending}}
	after := []audit.Record{{Seq: 1, ID: "a"}, {Seq: 3, ID: "b", Outcome: audit.OK}}
	for name, list := range map[string][]audit.Record{
		"before, after": addRecords(addRecords(nil, before), after),
		"after, before": addRecords(addRecords(nil, after), before),
	} {
		if diff := cmp.Diff(after, list); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if list := addRecords(addRecords(nil, before), before); len(list) != 2 {
		t.Errorf("a call without an outcome: %+v", list)
	}
	refused := []audit.Record{{Seq: 4, ID: "b", Method: audit.MethodAnswer, Outcome: audit.Denied}}
	for name, list := range map[string][]audit.Record{
		"before": addRecords(addRecords(nil, refused), before),
		"after":  addRecords(addRecords(nil, before), refused),
	} {
		if len(list) != 3 {
			t.Errorf("a refused answer %s the intent: %+v", name, list)
		}
	}
}
