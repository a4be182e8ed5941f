package governance

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// detach shows m a copy of the exchange in the background. The exchange does not wait.
func (r *exchangeRun) detach(flow Flow, m *member) {
	seen := *r.x
	watch := &exchangeRun{p: r.p, x: &seen, record: r.record, sent: r.sent}
	r.p.under.Enter() // cannot fail: the exchange of r is still inside
	ok := m.later.Push(func() {
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
	args := []any{"flow", flow, "required", m.spec.Required, "error", err}
	if p, ok := errors.AsType[*panicked](err); ok {
		args = append(args, "stack", string(p.stack))
	}
	m.warn(log, "a policy could not decide", args...)
}
