package governance

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// detach shows m a copy of the exchange in the background. The exchange does not wait.
func (r *exchangeRun) detach(flow Flow, m *member) {
	seen := *r.x
	watch := &exchangeRun{p: r.p, x: &seen, record: r.record, sent: r.sent}
	r.p.under.Enter() // cannot fail: the exchange of r is still inside
	ok := m.later.push(func() {
		defer r.p.under.Leave()
		// The decision has no effect, and apply has logged the error.
		_ = watch.apply(r.p.running, flow, m, m.evaluate(r.p.running, flow, &seen, m.spec.Timeout))
	})
	if !ok {
		r.p.under.Leave()
		r.recordStep(m, Step{
			Policy:   m.spec.Name,
			Category: m.spec.Category,
			Flow:     flow,
			Outcome:  Dropped,
			Reason:   "it has too much to do",
		})
	}
}

const (
	maxWorkers = 4   // goroutines of one queue
	maxJobs    = 256 // jobs of one queue that wait for a goroutine
)

// queue runs jobs on up to maxWorkers goroutines, which end when no job is left. The queue cannot
// wait for its jobs; its owner counts them. The zero value is empty. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex // guards the fields below
	jobs    []func()
	workers int
}

// push adds a job. It returns false when maxJobs jobs are waiting.
func (q *queue) push(job func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) >= maxJobs {
		return false
	}
	q.jobs = append(q.jobs, job)
	if q.workers < maxWorkers {
		q.workers++
		go q.work() // ends when no job is left
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

// throttle allows one event per second.
type throttle struct{ next atomic.Int64 }

func (t *throttle) allow() bool {
	now := time.Now().UnixNano()
	next := t.next.Load()
	return now >= next && t.next.CompareAndSwap(next, now+int64(time.Second))
}

// warn logs an error of m, at most once per second.
func (m *member) warn(log *slog.Logger, message string, args ...any) {
	if m.warned.allow() {
		log.Warn(message, append([]any{"policy", m.spec.Name}, args...)...)
	}
}

func (m *member) warnError(log *slog.Logger, err error, flow Flow) {
	args := []any{"flow", flow, "required", m.required(), "error", err}
	if p, ok := errors.AsType[*panicked](err); ok {
		args = append(args, "stack", string(p.stack))
	}
	m.warn(log, "a policy could not decide", args...)
}
