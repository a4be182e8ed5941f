package httpserver

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/status"
)

const (
	refusalPause = time.Minute // between log lines with the same client, address and reason
	maxRefusals  = 256         // max such combinations remembered
	maxReason    = 200         // max bytes of a reason
)

// refusalLog counts refusals. It is safe for concurrent use.
type refusalLog struct {
	what   string
	log    *slog.Logger
	limit  *rate.Limiter // of all lines
	mu     sync.Mutex    // guards the fields below
	report status.Refusals
	known  map[status.Refusal]*refusalCount // by refusal without its time
}

type refusalCount struct {
	logged time.Time
	since  int // refusals not logged since
}

// newRefusalLog returns a log. what is the message of its log lines.
func newRefusalLog(what string, log *slog.Logger) *refusalLog {
	return &refusalLog{
		what:  what,
		log:   log,
		limit: rate.NewLimiter(rate.Every(time.Second), 10),
		known: make(map[status.Refusal]*refusalCount),
	}
}

// add counts a refusal, and logs it unless the same was logged within the last minute.
func (l *refusalLog) add(r status.Refusal) {
	r.Reason = display.Prefix(r.Reason, maxReason)
	like, now := r, time.Now()
	like.Time, r.Time = time.Time{}, now.UTC().Truncate(time.Second)
	l.mu.Lock()
	l.report.Count++
	l.report.Last = &r
	k := l.known[like]
	if k == nil {
		if len(l.known) >= maxRefusals {
			clear(l.known)
		}
		k = new(refusalCount)
		l.known[like] = k
	}
	k.since++
	tell, since := now.Sub(k.logged) >= refusalPause && l.limit.Allow(), k.since
	if tell {
		k.logged, k.since = now, 0
	}
	l.mu.Unlock()
	if tell {
		l.log.Warn(l.what, "from", r.From, "client", r.Client, "reason", r.Reason, "times", since)
	}
}

// counts returns the count and the latest refusal.
func (l *refusalLog) counts() status.Refusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report
}
