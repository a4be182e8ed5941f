package exthost

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// What counts a call allocates nothing once its tool is known, and nothing for
// events that nobody listens to.
func TestAccountingWithoutListenersAllocatesNothing(t *testing.T) {
	var h Host
	r := &routed{entry: &tools.Entry{Name: "ext_x_t", Extension: "x"}, call: &protocol.Call{Method: protocol.MethodToolsCall}}
	r.exchange.Response = json.RawMessage(`{"content":[],"isError":true}`)
	account := func() {
		h.account(r, h.feed.clock(), nil)
		h.feed.stateEvent("x", supervisor.Event{State: supervisor.Ready})
	}
	account()
	if n := testing.AllocsPerRun(1000, account); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m := h.tally.tools.all()[toolKey{"x", "ext_x_t"}]
	if n := m[1].Load(); n < 1000 || outcomes[1] != OutcomeToolError {
		t.Errorf("%d failures of the tool were counted", n)
	}
}

func TestOutcomes(t *testing.T) {
	if len(outcomes) > len(toolTally{}) {
		t.Fatalf("%d outcomes, room for %d", len(outcomes), len(toolTally{}))
	}
	for want, end := range map[Outcome]struct {
		result string
		err    error
	}{
		OutcomeOK:         {result: `{"content":[{"type":"text","text":"\"isError\":true"}]}`},
		OutcomeToolError:  {result: `{"content":[],"isError" : true}`},
		"rejected":        {err: protocol.Errorf(protocol.Rejected, "no")},
		"extension_error": {err: errors.New("of no kind")},
	} {
		if got := outcomeOf(json.RawMessage(end.result), end.err); got != want {
			t.Errorf("%+v is %s, want %s", end, got, want)
		}
	}
}

// A table has a bound, whatever keys it is asked for and by however many.
func TestTableIsBounded(t *testing.T) {
	var c table[string, atomic.Int64]
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range maxTallied {
				c.get(fmt.Sprintf("%d/%d", g%2, i)).Add(1)
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for _, n := range c.all() {
		sum += n.Load()
	}
	if len(c.all()) > maxTallied+1 || sum != 4*maxTallied || c.get("").Load() == 0 {
		t.Errorf("%d keys, %d counted, %d beyond the bound", len(c.all()), sum, c.get("").Load())
	}
}

func TestTraceID(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for params, want := range map[string]string{
		``: "", `{}`: "", `{"_meta":1}`: "", `{"_meta":{"traceparent":7}}`: "", `{"_meta":{"traceparent":"-"}}`: "",
		`{"_meta":{"traceparent":"00-` + id + `-b7ad6b7169203331-01"}}`:       id,
		`{"_meta":{"traceparent":"cc-` + id + `-b7ad6b7169203331-01-later"}}`: id,
		`{"_meta":{"traceparent":"00-<script>alert(1)</script>aaaaaaaa-x"}}`:  "",
	} {
		if got := traceID(json.RawMessage(params)); got != want {
			t.Errorf("%s: %q, want %q", params, got, want)
		}
	}
}
