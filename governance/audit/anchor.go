package audit

import (
	"log/slog"
	"time"
)

// anchor writes the hash of the last record to the host's log, such as the system's journal. A
// person who can change the audit files often cannot change that log. Only the writer goroutine
// uses the anchor.
type anchor struct {
	log   *slog.Logger
	path  string
	every time.Duration // negative: only at the close
	last  link          // the last one logged, or the end of the log at the start
	due   <-chan time.Time
}

// arm starts the timer for the next anchor, unless head is already logged.
func (a *anchor) arm(head link) {
	if a.due == nil && a.every > 0 && head.Seq != a.last.Seq {
		a.due = time.After(a.every)
	}
}

// drop logs head, unless it is already logged.
func (a *anchor) drop(head link) {
	a.due = nil
	if head.Seq == a.last.Seq {
		return
	}
	a.last = head
	a.log.Info("the audit log's last record", "path", a.path, "number", head.Seq, "hash", head.Hash)
}
