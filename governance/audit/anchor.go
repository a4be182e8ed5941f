package audit

import (
	"log/slog"
	"time"
)

// anchor tells the host's log the hash of the last record, so that a copy of it lies where
// who changes the files of the audit log may not reach: in the journal of the system, or at
// who collects the host's output. Only the writer goroutine uses it.
type anchor struct {
	log   *slog.Logger
	path  string
	every time.Duration // negative: only at the close
	last  link          // that the log was told of, or that this host found
	due   <-chan time.Time
}

// arm has due tell when the interval has passed, unless the log knows of head.
func (a *anchor) arm(head link) {
	if a.due == nil && a.every > 0 && head.Seq != a.last.Seq {
		a.due = time.After(a.every)
	}
}

// drop tells the log of head, unless it knows of it.
func (a *anchor) drop(head link) {
	a.due = nil
	if head.Seq == a.last.Seq {
		return
	}
	a.last = head
	a.log.Info("the audit log's last record", "path", a.path, "number", head.Seq, "hash", head.Hash)
}
