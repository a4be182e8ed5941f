package directory

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Remote nodes hear each change of a node's pending approval requests without a change of places, and know
// its features.
func TestWaitingApprovalsAreHeard(t *testing.T) {
	simulate(t, func(t *testing.T, n *network) {
		var told atomic.Int64
		a := n.start("a", func(o *Options) { o.Features = []string{"operations"} })
		b := n.start("b", func(o *Options) { o.Waiting = func() { told.Add(1) } })
		old := n.start("old")
		waiting := func(of string, want int) func() bool {
			return func() bool {
				for _, x := range b.Nodes() {
					if x.Name == of {
						return x.Approvals == want
					}
				}
				return false
			}
		}
		within(t, time.Second, "b knows both", func() bool { return waiting("a", 0)() && waiting("old", 0)() })
		time.Sleep(time.Second)
		told.Store(0)
		before := b.changed()
		a.SetOwn(Own{Waiting: 2, Asked: 1})
		within(t, time.Second, "two wait, and b is told", func() bool { return waiting("a", 2)() && told.Load() == 1 })
		a.SetOwn(Own{Waiting: 2, Asked: 2})
		time.Sleep(time.Second)
		if told.Load() != 2 || b.changed() != before {
			t.Errorf("told of %d changes and of %d of places, want 2 and none", told.Load(), b.changed()-before)
		}
		for i := range int64(1000) { // announced together
			a.SetOwn(Own{Waiting: 3, Asked: 3 + i})
		}
		time.Sleep(time.Second)
		if told.Load() > 5 || !waiting("a", 3)() {
			t.Errorf("told of %d changes", told.Load())
		}
		if version, ok := b.Knows(a.self, "operations"); !ok || version != "1.2.3" {
			t.Errorf("a is %q, %v", version, ok)
		}
		if _, ok := b.Knows(old.self, "operations"); ok {
			t.Error("the old node knows a feature that it does not state")
		}
		if _, ok := b.Knows(wire.Address{Node: "a", Run: wire.NewRun()}, "operations"); ok {
			t.Error("a run that is not there knows a feature")
		}
		told.Store(0)
		a.stop()
		within(t, time.Second, "what waited at a node that has gone does not wait",
			func() bool { return told.Load() == 1 })
	})
}
