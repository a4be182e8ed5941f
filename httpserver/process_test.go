package httpserver

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/exthost/exthost/internal/proc/containment/lineage"
)

// Scans run one at a time and once per connection, however many connections there are.
func TestOneScanAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot := make(chan struct{}, 1)
		var running, most, scans atomic.Int32
		next := make(chan lineage.Relation)
		var clients []*clientProcess
		for range 20 {
			clients = append(clients, &clientProcess{
				slot: slot,
				relate: func() lineage.Relation {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					scans.Add(1)
					return <-next
				},
			})
		}
		var all sync.WaitGroup
		var refused atomic.Int32
		for _, c := range clients {
			for range 2 { // requests on one connection
				all.Go(func() {
					if c.child(t.Context()) != "" {
						refused.Add(1)
					}
				})
			}
		}
		synctest.Wait()
		if running.Load() != 1 {
			t.Errorf("%d scans at once", running.Load())
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		late := &clientProcess{
			slot: slot,
			relate: func() lineage.Relation {
				t.Error("a scan for a request that has ended")
				return lineage.Unrelated
			},
		}
		if late.child(ended) == "" {
			t.Error("a request that has ended is let in")
		}
		for n := range clients {
			next <- []lineage.Relation{lineage.Unrelated, lineage.Descendant}[n%2]
		}
		all.Wait()
		if most.Load() != 1 || scans.Load() != 20 || refused.Load() != 20 {
			t.Errorf("%d scans, %d at once, %d of 40 requests refused", scans.Load(), most.Load(), refused.Load())
		}
	})
}
