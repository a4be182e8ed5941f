package stats

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// A row of failures or restarts ends with a success, and when the operator restarts or replaces it. A
// further restart after a success goes on with the row.
func TestRowsEnd(t *testing.T) {
	var c Calls
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	rows := func(failed, restarts int) {
		t.Helper()
		var x status.Extension
		if c.Describe(&x); x.FailedInRow != int64(failed) || x.RestartsInRow != restarts {
			t.Errorf("%d failures and %d restarts in a row, want %d and %d", x.FailedInRow, x.RestartsInRow, failed,
				restarts)
		}
	}
	for range 3 {
		c.Restarted(now)
		c.Failed(new(status.Failure))
	}
	rows(3, 3)
	c.Succeeded()
	rows(0, 0)
	c.Restarted(now)
	rows(0, 4)
	c.Failed(new(status.Failure))
	c.Forget()
	rows(0, 0)
	c.Restarted(now.Add(time.Minute))
	rows(0, 1)
	c.Restarted(now.Add(time.Hour))
	rows(0, 1)
	var x status.Extension
	if c.Describe(&x); x.Restarts != 6 {
		t.Errorf("%d restarts in all", x.Restarts)
	}
}

// Counting a known tool allocates nothing, nor do events without listeners.
func TestCountersWithoutListenersAllocateNothing(t *testing.T) {
	var c History
	var f Feed
	result := json.RawMessage(`{"content":[],"isError":true}`)
	count := func() {
		c.End(&Ended{
			At: time.Now(),
			CallEvent: status.CallEvent{
				Extension: "x",
				Tool:      "ext_x_t",
				Method:    "tools/call",
				Outcome:   OutcomeOf(result, nil),
			},
			Entry:    true,
			Request:  result,
			Response: result,
		})
		f.State("x", supervisor.Event{State: supervisor.Ready})
	}
	for range keptCalls + 1 { // grows the buffers of the ring to their final size
		count()
	}
	if n := testing.AllocsPerRun(1000, count); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m := c.tools.all()[toolKey{"x", "ext_x_t"}]
	if n := m.ended[1].Load(); n < 1000 || outcomes[1] != status.OutcomeToolError {
		t.Errorf("%d failures of the tool were counted", n)
	}
}

func TestOutcomes(t *testing.T) {
	if len(outcomes) > len(toolCounters{}.ended) {
		t.Fatalf("%d outcomes, room for %d", len(outcomes), len(toolCounters{}.ended))
	}
	for want, end := range map[status.Outcome]struct {
		result string
		err    error
	}{
		status.OutcomeOK:        {result: `{"content":[{"type":"text","text":"\"isError\":true"}]}`},
		status.OutcomeToolError: {result: `{"content":[],"isError" : true}`},
		"rejected":              {err: protocol.Errorf(protocol.Rejected, "no")},
		"extension_error":       {err: errors.New("of no kind")},
	} {
		if got := OutcomeOf(json.RawMessage(end.result), end.err); got != want {
			t.Errorf("%+v is %s, want %s", end, got, want)
		}
	}
}

// A table is bounded, for any number of keys and concurrent users.
func TestTableIsBounded(t *testing.T) {
	var c table[string, atomic.Int64]
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range maxKeys {
				c.get(fmt.Sprintf("%d/%d", g%2, i)).Add(1)
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for _, n := range c.all() {
		sum += n.Load()
	}
	if len(c.all()) > maxKeys+1 || sum != 4*maxKeys || c.get("").Load() == 0 {
		t.Errorf("%d keys, %d counted, %d beyond the bound", len(c.all()), sum, c.get("").Load())
	}
}

// Denials count in a row until a call is not denied. A flood of them records a text once a second.
func TestDenialsInARow(t *testing.T) {
	var c Calls
	var x status.Extension
	at := time.Now()
	deny := func(at time.Time) (kept bool) {
		c.Requested(status.Outcome(protocol.Rejected), false, 0)
		if kept = c.Denied(at); kept {
			c.KeepDenial(&status.Denial{Time: at, Reason: "no"})
		}
		c.Describe(&x)
		return kept
	}
	if !deny(at) || deny(at.Add(time.Millisecond)) || !deny(at.Add(denialSpan)) {
		t.Error("the first and the third are recorded, and the second is not")
	}
	if x.DeniedInRow != 3 || x.Denied != 3 || x.LastDenial == nil || !x.LastDenial.Time.Equal(at.Add(denialSpan)) {
		t.Errorf("%+v", x)
	}
	c.Requested(status.OutcomeToolError, true, time.Millisecond)
	if c.Describe(&x); x.DeniedInRow != 0 {
		t.Errorf("%d in a row after a call that passed", x.DeniedInRow)
	}
}

// What a policy has denied no longer counts once the policy is changed or started again; what others denied does, and
// what the policy denied since.
func TestForgottenDenials(t *testing.T) {
	var c Calls
	var h History
	var x status.Extension
	for _, policy := range []string{"other", "guard"} {
		e := endedCall("rejected")
		e.Policy = policy
		h.End(e)
		c.Requested(e.Outcome, false, 0)
		c.Denied(e.At)
		c.KeepDenial(&status.Denial{Policy: policy, Time: e.At})
	}
	now := time.Now()
	c.ForgetDenials("other", now)
	c.ForgetDenials("guard", now.Add(-time.Hour))
	h.ForgetDenials("guard", now.Add(-time.Hour))
	if list := h.Denials(now); len(list) != 2 {
		t.Errorf("%+v", list)
	}
	if c.Describe(&x); x.DeniedInRow != 2 {
		t.Errorf("the row that guard denied last has %d calls", x.DeniedInRow)
	}
	c.ForgetDenials("guard", now)
	if c.Describe(&x); x.DeniedInRow != 0 {
		t.Errorf("the row has %d calls", x.DeniedInRow)
	}
	h.ForgetDenials("guard", now)
	if list := h.Denials(now); len(list) != 1 || list[0].Policy != "other" {
		t.Errorf("%+v", list)
	}
}
