package exthost

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/latency"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// callStats counts what happened to one extension since the host was opened,
// through all its builds.
type callStats struct {
	count, errors, refused atomic.Int64
	failure                atomic.Pointer[Failure] // the last
	timeoutSaid            atomic.Int64            // when the log was told of a timeout, in nanoseconds since 1970
	took                   histogram
	sent, received         atomic.Int64 // bytes of params and results

	started  histogram // from the spawn of an instance until it could be called
	restarts atomic.Int64

	late, unknown, noise atomic.Uint64 // of instances that have ended, as in [runtime.Info]
}

// record counts a call that an instance had.
func (s *callStats) record(took time.Duration, params, result json.RawMessage, err error) {
	s.count.Add(1)
	if err != nil {
		s.errors.Add(1)
	}
	s.took.record(took)
	s.sent.Add(int64(len(params)))
	s.received.Add(int64(len(result)))
}

// Failure is how a call that an instance had failed.
type Failure struct {
	Time   time.Time     `json:"time"`
	Tool   string        `json:"tool,omitempty"` // its registered name; "" for another request
	Kind   protocol.Kind `json:"kind"`
	Reason string        `json:"reason,omitempty"` // in the host's words, of a timeout or the end of the process
}

// timeoutSpacing is between two timeouts of one extension that the log is told of.
const timeoutSpacing = 10 * time.Second

// failed keeps how a call of a tool failed. That a caller gave up says nothing, and what
// an extension answers is for policies to mask before anybody sees it.
func (s *callStats) failed(tool string, err error) (kind protocol.Kind) {
	f := &Failure{Time: time.Now(), Tool: tool, Kind: protocol.KindOf(err)}
	if f.Kind == protocol.CallTimeout || processEnded(err) {
		f.Reason = message(err)
	}
	if f.Kind != protocol.Canceled {
		s.failure.Store(f)
	}
	return f.Kind
}

// saysTimeout reports whether the log is to be told of another timeout.
func (s *callStats) saysTimeout(now time.Time) bool {
	last := s.timeoutSaid.Load()
	return now.UnixNano()-last > int64(timeoutSpacing) && s.timeoutSaid.CompareAndSwap(last, now.UnixNano())
}

// ended takes over what an instance counted that has ended.
func (s *callStats) ended(i runtime.Info) {
	s.late.Add(i.Late)
	s.unknown.Add(i.Unknown)
	s.noise.Add(i.Noise)
}

// Latency is how long an extension had its calls, their waiting for an instance
// not included, or a policy its decisions, since the host was opened.
type Latency struct {
	P50 time.Duration `json:"p50_ns"` // half of them took at most this, within 7 %
	P95 time.Duration `json:"p95_ns"` // 19 of 20
}

// histogram takes its room when a second duration is recorded: most of many
// extensions are started once and never called.
type histogram struct {
	first atomic.Int64 // one more than the first duration; 0 before that
	of    atomic.Pointer[latency.Histogram]
}

func (h *histogram) record(d time.Duration) {
	if h.of.Load() == nil {
		if h.first.CompareAndSwap(0, int64(max(d, 0))+1) {
			return
		}
		h.of.CompareAndSwap(nil, h.sole())
	}
	h.of.Load().Record(d)
}

// sole holds the first duration alone, if there was one.
func (h *histogram) sole() *latency.Histogram {
	of := new(latency.Histogram)
	if first := h.first.Load(); first > 0 {
		of.Record(time.Duration(first - 1))
	}
	return of
}

// latency returns nil when nothing was recorded.
func (h *histogram) latency() *Latency {
	if of := h.of.Load(); of != nil {
		return latencyOf(of)
	}
	return latencyOf(h.sole())
}

func (h *histogram) totals() Durations {
	if of := h.of.Load(); of != nil {
		return of.Totals()
	}
	return h.sole().Totals()
}

// latencyOf returns nil when nothing was recorded.
func latencyOf(h *latency.Histogram) *Latency {
	q := h.Quantiles(0.5, 0.95)
	if q == nil {
		return nil
	}
	return &Latency{P50: q[0], P95: q[1]}
}
