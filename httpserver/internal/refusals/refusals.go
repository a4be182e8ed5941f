// Package refusals counts what a server refuses of one kind, and logs some of it.
package refusals

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/status"
)

const (
	pause    = time.Minute // between two log lines about the same client, address and reason
	maxKnown = 256         // of these that are told apart
	maxText  = 200         // bytes of a reason
)

// Log counts refusals. Many goroutines may use it at once.
type Log struct {
	what   string
	log    *slog.Logger
	limit  *rate.Limiter // of all lines, whatever their addresses
	mu     sync.Mutex    // guards what follows
	report status.Refusals
	known  map[status.Refusal]*known // without times
}

type known struct {
	logged time.Time
	since  int // refusals that were not logged
}

// New returns a log. what is the message of its lines.
func New(what string, log *slog.Logger) *Log {
	return &Log{
		what:  what,
		log:   log,
		limit: rate.NewLimiter(rate.Every(time.Second), 10),
		known: make(map[status.Refusal]*known),
	}
}

// Add counts a refusal, and logs it unless one that is alike was logged within the last minute.
func (l *Log) Add(r status.Refusal) {
	r.Reason = display.Prefix(r.Reason, maxText)
	like, now := r, time.Now()
	like.Time, r.Time = time.Time{}, now.UTC().Truncate(time.Second)
	l.mu.Lock()
	l.report.Count++
	l.report.Last = &r
	k := l.known[like]
	if k == nil {
		if len(l.known) >= maxKnown {
			clear(l.known)
		}
		k = new(known)
		l.known[like] = k
	}
	k.since++
	tell, since := now.Sub(k.logged) >= pause && l.limit.Allow(), k.since
	if tell {
		k.logged, k.since = now, 0
	}
	l.mu.Unlock()
	if tell {
		l.log.Warn(l.what, "from", r.From, "client", r.Client, "reason", r.Reason, "times", since)
	}
}

// Report returns the count and the last refusal.
func (l *Log) Report() status.Refusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report
}
