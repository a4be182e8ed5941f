package governance

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrTimeout is the cause of the ctx of a decision that took too long. The ctx of a caller that waits no more has
// another cause.
var ErrTimeout = errors.New("no decision in time")

// limited is the context of one decision. It ends as that of [context.WithDeadlineCause] with [ErrTimeout] does, but
// its timer begins when the policy first waits for its end: most policies decide at once and never wait, and
// each call has several decisions.
type limited struct {
	context.Context // of the exchange
	deadline        time.Time
	timed           atomic.Pointer[timed] // nil until something waits or the policy has decided
}

// timed is a context with a timer.
type timed struct {
	context.Context
	cancel context.CancelFunc
}

// neverWaited stands for the context of a policy that has decided before something waited.
var neverWaited = new(timed)

// end frees the timer, and ends the context for what the policy has left running.
func (l *limited) end() {
	if !l.timed.CompareAndSwap(nil, neverWaited) {
		l.timed.Load().cancel()
	}
}

// look returns the context with the timer. After the decision, that has ended.
func (l *limited) look() context.Context {
	for {
		t := l.timed.Load()
		if t != nil && t != neverWaited {
			return t
		}
		ctx, cancel := context.WithDeadlineCause(l.Context, l.deadline, ErrTimeout)
		if t == neverWaited {
			cancel()
		}
		if l.timed.CompareAndSwap(t, &timed{ctx, cancel}) {
			return ctx
		}
		cancel()
	}
}

func (l *limited) Done() <-chan struct{}       { return l.look().Done() }
func (l *limited) Deadline() (time.Time, bool) { return l.look().Deadline() }

// Err implements [context.Context]. It needs no timer before the deadline.
func (l *limited) Err() error {
	if l.timed.Load() == nil && time.Until(l.deadline) > 0 {
		return l.Context.Err()
	}
	return l.look().Err()
}

// Value implements [context.Context]. Once there is a timer, contexts that the policy derives find that by it.
func (l *limited) Value(key any) any {
	if t := l.timed.Load(); t != nil && t != neverWaited {
		return t.Value(key)
	}
	return l.Context.Value(key)
}
