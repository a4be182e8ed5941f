// Package throttle limits repeated log records about a cluster.
package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The limits of what a node or a hub logs about its cluster. Other nodes can cause most of these records as often as
// they like.
const (
	window    = time.Minute
	maxOfText = 50   // records per window with the same message, about different nodes
	maxKnown  = 4096 // pairs of a message and a node that are counted
)

// Handler passes the first record with a given message and node in each minute, and drops the others. The first one of
// the next minute states how many were dropped. Records below info always pass.
type Handler struct {
	slog.Handler
	*throttled
}

type throttled struct {
	mu     sync.Mutex // guards what follows
	since  time.Time
	now    map[line]int // records in this window
	before map[line]int // records in the previous window
}

// line identifies a message about a node; without a node, it counts all records with the message.
type line struct{ text, node string }

// New returns a handler that passes records to h.
func New(h slog.Handler) Handler {
	return Handler{h, &throttled{now: make(map[line]int)}}
}

// Handle implements [slog.Handler].
func (t Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return t.Handler.Handle(ctx, r)
	}
	one := line{text: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "node" {
			one.node = a.Value.String()
		}
		return a.Key != "node"
	})
	repeated, ok := t.take(one, r.Time)
	if !ok {
		return nil
	}
	if repeated > 0 {
		r.AddAttrs(slog.Int("repeated", repeated))
	}
	return t.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (t Handler) WithAttrs(a []slog.Attr) slog.Handler {
	return Handler{t.Handler.WithAttrs(a), t.throttled}
}

// WithGroup implements [slog.Handler].
func (t Handler) WithGroup(name string) slog.Handler {
	return Handler{t.Handler.WithGroup(name), t.throttled}
}

// take reports whether to log a record, and how many were suppressed in the previous window.
func (t *throttled) take(one line, at time.Time) (repeated int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Sub(t.since) >= window {
		t.since, t.before, t.now = at, t.now, make(map[line]int)
	}
	all := line{text: one.text}
	if one != all {
		if t.now[one] == 0 && len(t.now) >= maxKnown {
			return 0, false
		}
		if t.now[one]++; t.now[one] > 1 {
			return 0, false
		}
	}
	limit := maxOfText
	if one == all {
		limit = 1
	}
	if t.now[all]++; t.now[all] > limit {
		return 0, false
	}
	return max(t.before[one]-1, 0), true
}
