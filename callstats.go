package exthost

import (
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/latency"
)

// callStats counts the calls of one extension.
type callStats struct {
	count, errors, refused atomic.Int64
	took                   atomic.Pointer[latency.Histogram] // nil before the first call
}

// record counts a call that an instance had.
func (s *callStats) record(took time.Duration, err error) {
	s.count.Add(1)
	if err != nil {
		s.errors.Add(1)
	}
	h := s.took.Load()
	if h == nil {
		s.took.CompareAndSwap(nil, new(latency.Histogram))
		h = s.took.Load()
	}
	h.Record(took)
}

// Latency is how long an extension had its calls, their waiting for an instance
// not included, since the host was opened.
type Latency struct {
	P50 time.Duration `json:"p50_ns"` // half of them took at most this, within 7 %
	P95 time.Duration `json:"p95_ns"` // 19 of 20
}

// latency returns nil when there was no call.
func (s *callStats) latency() *Latency {
	h := s.took.Load()
	if h == nil {
		return nil
	}
	return latencyOf(h)
}

// latencyOf returns nil when nothing was recorded.
func latencyOf(h *latency.Histogram) *Latency {
	q := h.Quantiles(0.5, 0.95)
	if q == nil {
		return nil
	}
	return &Latency{P50: q[0], P95: q[1]}
}
