package governance

import (
	"context"
	"errors"
	"sync"
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

	mu     sync.Mutex
	ended  bool            // the policy has decided
	timed  context.Context // nil until something waits
	cancel context.CancelFunc
}

// end frees the timer, and ends the context for what the policy has left running.
func (l *limited) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timed != nil {
		l.cancel()
	}
}

// look returns the context with the timer.
func (l *limited) look() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.cancel = context.WithDeadlineCause(l.Context, l.deadline, ErrTimeout)
		if l.ended {
			l.cancel()
		}
	}
	return l.timed
}

func (l *limited) Done() <-chan struct{}       { return l.look().Done() }
func (l *limited) Deadline() (time.Time, bool) { return l.look().Deadline() }

// Err implements [context.Context]. It needs no timer before the deadline.
func (l *limited) Err() error {
	l.mu.Lock()
	begins := l.timed == nil && !l.ended
	l.mu.Unlock()
	if begins && time.Until(l.deadline) > 0 {
		return l.Context.Err()
	}
	return l.look().Err()
}

// Value implements [context.Context]. Once there is a timer, contexts that the policy derives find that by it.
func (l *limited) Value(key any) any {
	l.mu.Lock()
	from := l.timed
	l.mu.Unlock()
	if from == nil {
		from = l.Context
	}
	return from.Value(key)
}
