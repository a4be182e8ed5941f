package stats

import (
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Histogram counts durations. It allocates its buckets only for a second duration: most extensions are started
// once and never called.
type Histogram struct {
	first   atomic.Int64 // the first duration plus one; 0: none
	buckets atomic.Pointer[distribution]
}

// Record counts a duration.
func (h *Histogram) Record(d time.Duration) {
	if h.buckets.Load() == nil {
		if h.first.CompareAndSwap(0, int64(max(d, 0))+1) {
			return
		}
		h.buckets.CompareAndSwap(nil, h.firstAlone())
	}
	h.buckets.Load().Record(d)
}

// firstAlone returns buckets with the first duration, if any.
func (h *Histogram) firstAlone() *distribution {
	buckets := new(distribution)
	if first := h.first.Load(); first > 0 {
		buckets.Record(time.Duration(first - 1))
	}
	return buckets
}

func (h *Histogram) load() *distribution {
	if buckets := h.buckets.Load(); buckets != nil {
		return buckets
	}
	return h.firstAlone()
}

// Latency returns the figures for the status, nil if nothing was recorded.
func (h *Histogram) Latency() *status.Latency { return latencyOf(h.load()) }

// Totals returns the count, sum and distribution.
func (h *Histogram) Totals() status.Durations { return h.load().Totals() }

func latencyOf(h *distribution) *status.Latency {
	q := h.Quantiles(0.5, 0.95)
	if q == nil {
		return nil
	}
	return &status.Latency{P50: protocol.Duration(q[0]), P95: protocol.Duration(q[1])}
}
