package governance

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// What an observer that nobody waits for may do at once, and owe.
const (
	observerWorkers = 4
	observerQueue   = 256
)

// queue runs jobs on a few goroutines, which end when there are none.
type queue struct {
	mu      sync.Mutex
	jobs    []func()
	workers int
}

// push reports whether the queue had room.
func (q *queue) push(job func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) >= observerQueue {
		return false
	}
	q.jobs = append(q.jobs, job)
	if q.workers < observerWorkers {
		q.workers++
		go q.work() // ended by an empty queue; the gate waits for its jobs
	}
	return true
}

func (q *queue) work() {
	for {
		q.mu.Lock()
		if len(q.jobs) == 0 {
			q.jobs = nil
			q.workers--
			q.mu.Unlock()
			return
		}
		job := q.jobs[0]
		q.jobs[0], q.jobs = nil, q.jobs[1:]
		q.mu.Unlock()
		job()
	}
}

// detach shows an observer the exchange as it is now, without waiting for it.
func (g *passage) detach(flow Flow, m *member) {
	seen := *g.x
	watch := &passage{p: g.p, x: &seen, record: g.record, sent: g.sent}
	g.p.under.enter() // as a part of g, which is under way
	ok := m.later.push(func() {
		defer g.p.under.leave()
		// What it decides has no effect, and its errors are its own.
		_ = watch.apply(g.p.running, flow, m, m.consult(g.p.running, flow, &seen, m.spec.Timeout))
	})
	if !ok {
		g.p.under.leave()
		g.note(m, Step{Policy: m.spec.Name, Category: m.spec.Category, Flow: flow, Outcome: Dropped, Reason: "it has too much to do"})
	}
}

// throttle lets one message a second pass.
type throttle struct{ next atomic.Int64 }

func (t *throttle) pass() bool {
	now := time.Now().UnixNano()
	next := t.next.Load()
	return now >= next && t.next.CompareAndSwap(next, now+int64(time.Second))
}

// warn logs what m does wrong, not more often than once a second.
func (m *member) warn(log *slog.Logger, message string, args ...any) {
	if m.warned.pass() {
		log.Warn(message, append([]any{"policy", m.spec.Name}, args...)...)
	}
}

func (m *member) warnError(log *slog.Logger, err error, flow Flow) {
	args := []any{"flow", flow, "required", m.spec.Required, "error", err}
	var p *panicked
	if errors.As(err, &p) {
		args = append(args, "stack", string(p.stack))
	}
	m.warn(log, "a policy could not decide", args...)
}
