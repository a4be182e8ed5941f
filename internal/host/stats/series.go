package stats

import (
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// scale divides time into steps.
type scale struct {
	step  time.Duration
	steps int64 // at most maxSteps
}

const maxSteps = 360

var (
	hour     = scale{10 * time.Second, maxSteps} // for the host
	sixHours = scale{5 * time.Minute, 72}        // for an extension: a step takes 2 KiB
)

// tally counts calls by outcome.
type tally struct {
	calls, denied, errors, toolErrors atomic.Int64
	took                              Histogram
}

// add counts a call; served is how long instances had it, 0 if none had.
func (t *tally) add(o status.Outcome, served time.Duration) {
	t.calls.Add(1)
	switch {
	case o == status.OutcomeOK:
	case o == status.OutcomeToolError:
		t.toolErrors.Add(1)
	case o.IsDenial():
		t.denied.Add(1)
	default:
		t.errors.Add(1)
	}
	if served > 0 {
		t.took.Record(served)
	}
}

// series counts calls in steps of one scale. The zero value is ready to use.
type series struct {
	steps [maxSteps]atomic.Pointer[step] // by step number modulo the scale's steps
}

// step is one step of a series.
type step struct {
	number int64 // steps since 1970
	tally
	memory, busy atomic.Int64 // the highest sample; 0: none
}

// at returns the step at time now. A new step replaces the oldest one; after the clock was set back, one of the future.
func (s *series) at(now time.Time, in scale) *step {
	number := now.UnixNano() / int64(in.step)
	place := &s.steps[number%in.steps]
	for {
		old := place.Load()
		if old != nil && old.number == number {
			return old
		}
		if place.CompareAndSwap(old, &step{number: number}) {
			return place.Load()
		}
	}
}

// sample records what the processes of the host use at time now.
func (s *series) sample(now time.Time, memory, busy int64) {
	b := s.at(now, hour)
	b.memory.Store(max(b.memory.Load(), memory))
	b.busy.Store(max(b.busy.Load(), busy))
}

// history returns the steps up to now that have calls or a sample.
func (s *series) history(now time.Time, in scale) status.History {
	h := status.History{Step: protocol.Duration(in.step), Points: []status.Point{}}
	last := now.UnixNano() / int64(in.step)
	for number := last - in.steps + 1; number <= last; number++ {
		if b := s.steps[number%in.steps].Load(); b != nil && b.number == number &&
			(b.calls.Load() > 0 || b.memory.Load() > 0) {
			h.Points = append(h.Points, status.Point{
				Time:       time.Unix(0, number*int64(in.step)),
				Calls:      b.calls.Load(),
				Denied:     b.denied.Load(),
				Errors:     b.errors.Load(),
				ToolErrors: b.toolErrors.Load(),
				Latency:    b.took.Latency(),
				Memory:     b.memory.Load(),
				Busy:       b.busy.Load(),
			})
		}
	}
	return h
}
