// Package throttle bounds what a log says about a cluster.
package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The bounds of what a node or a hub logs about its cluster: other nodes cause most of these lines, as often as they
// like.
const (
	window    = time.Minute
	maxOfText = 50   // lines of one text in a window, about different nodes
	maxKnown  = 4096 // texts and nodes that are told apart
)

// Handler passes on the first record of a text and a node in each minute, counts the others, and states their
// number with the next one. Records below info pass.
type Handler struct {
	slog.Handler
	*throttled
}

type throttled struct {
	mu     sync.Mutex // guards what follows
	since  time.Time
	now    map[line]int // records in this window
	before map[line]int // in the window before
}

// line is what counts as the same; a line without a node counts all of its text.
type line struct{ text, node string }

// New returns a handler that passes records on to h.
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

// take reports whether a line is logged, and how often it was not in the window before.
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
