package exthost

import (
	"sync"
	"testing"
	"time"
)

// The first duration counts as much as the others, however many record at once.
func TestHistogramKeepsTheFirst(t *testing.T) {
	var h histogram
	if h.latency() != nil || h.totals().Count != 0 {
		t.Error("an empty histogram counts something")
	}
	h.record(time.Millisecond)
	if l := h.latency(); l == nil || l.P50 < time.Millisecond/2 || h.totals().Count != 1 {
		t.Errorf("one duration: %+v, %+v", l, h.totals())
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				h.record(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if n := h.totals(); n.Count != 801 || n.Sum != 801*time.Millisecond {
		t.Errorf("%+v", n)
	}
}
