// Package refusals counts refused requests of one kind, and logs some of them.
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
	pause    = time.Minute // between log lines with the same client, address and reason
	maxKnown = 256         // max such combinations remembered
	maxText  = 200         // max bytes of a reason
)

// Log counts refusals. It is safe for concurrent use.
type Log struct {
	what   string
	log    *slog.Logger
	limit  *rate.Limiter // of all lines
	mu     sync.Mutex    // guards the fields below
	report status.Refusals
	known  map[status.Refusal]*known // by refusal without its time
}

type known struct {
	logged time.Time
	since  int // refusals not logged since
}

// New returns a log. what is the message of its log lines.
func New(what string, log *slog.Logger) *Log {
	return &Log{
		what:  what,
		log:   log,
		limit: rate.NewLimiter(rate.Every(time.Second), 10),
		known: make(map[status.Refusal]*known),
	}
}

// Add counts a refusal, and logs it unless the same was logged within the last minute.
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

// Report returns the count and the latest refusal.
func (l *Log) Report() status.Refusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report
}
