package stats

import (
	"sync"
	"testing"
	"time"
)

// The first duration counts like the others, even with concurrent recordings.
func TestHistogramKeepsTheFirst(t *testing.T) {
	var h Histogram
	if h.Latency() != nil || h.Totals().Count != 0 {
		t.Error("an empty histogram counts something")
	}
	h.Record(time.Millisecond)
	if l := h.Latency(); l == nil || time.Duration(l.P50) < time.Millisecond/2 || h.Totals().Count != 1 {
		t.Errorf("one duration: %+v, %+v", l, h.Totals())
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				h.Record(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if n := h.Totals(); n.Count != 801 || n.Sum != 801*time.Millisecond {
		t.Errorf("%+v", n)
	}
}
