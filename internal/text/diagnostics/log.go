// Package diagnostics keeps what is wrong with extensions for the status, and logs each
// diagnostic once.
package diagnostics

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Log keeps diagnostics. Its methods may be called by many goroutines at once.
type Log struct {
	log *slog.Logger

	mu      sync.Mutex            // guards what follows
	starts  []protocol.Diagnostic // of starts
	offered []protocol.Diagnostic // of the offers in the current snapshot
	refused []protocol.Diagnostic // why what is on disk is not in force
	since   time.Time             // when the lines of written began
	written int                   // lines about offers; may be above maxLines
}

// maxLines bounds the lines about offers in a minute: an extension, or another node of a cluster, may offer something
// else that is wrong as often as it likes.
const maxLines = 1000

// New returns an empty log that writes to l.
func New(l *slog.Logger) *Log { return &Log{log: l} }

// Write writes a diagnostic to the log and does not keep it.
func (l *Log) Write(d protocol.Diagnostic) {
	level := map[protocol.Level]slog.Level{
		protocol.LevelInfo: slog.LevelDebug, protocol.LevelWarn: slog.LevelWarn, protocol.LevelError: slog.LevelError,
	}[d.Level]
	log := l.log
	if d.Extension != "" {
		log = log.With("extension", d.Extension)
	}
	log.Log(context.Background(), level, d.String(), "code", d.Code)
}

// WriteNew writes those of list that are not in before.
func (l *Log) WriteNew(list, before []protocol.Diagnostic) {
	for _, d := range added(list, before) {
		l.Write(d)
	}
}

// added returns those of list that are not in before.
func added(list, before []protocol.Diagnostic) (fresh []protocol.Diagnostic) {
	known := make(map[protocol.Diagnostic]bool, len(before))
	for _, d := range before {
		known[d] = true
	}
	for _, d := range list {
		if !known[d] {
			fresh = append(fresh, d)
		}
	}
	return fresh
}

// Add keeps a diagnostic, and writes it if it is new.
func (l *Log) Add(d protocol.Diagnostic) {
	l.mu.Lock()
	known := slices.Contains(l.starts, d)
	if !known {
		l.starts = append(l.starts, d)
	}
	l.mu.Unlock()
	if !known {
		l.Write(d)
	}
}

// Remove drops the diagnostics that were added and that match.
func (l *Log) Remove(matches func(protocol.Diagnostic) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts = slices.DeleteFunc(l.starts, matches)
}

// SetOffered keeps the diagnostics of a snapshot's offers in place of those of the
// snapshot before, and writes those that are new, up to a bound in each minute.
func (l *Log) SetOffered(diags []protocol.Diagnostic) {
	l.mu.Lock()
	fresh := added(diags, l.offered)
	l.offered = diags
	if now := time.Now(); now.Sub(l.since) >= time.Minute {
		l.since, l.written = now, 0
	}
	room := max(maxLines-l.written, 0)
	l.written += len(fresh)
	l.mu.Unlock()
	for _, d := range fresh[:min(room, len(fresh))] {
		l.Write(d)
	}
	if room > 0 && len(fresh) > room {
		l.log.Warn("more is wrong with what extensions offer than is logged; exthost status shows all", "most",
			maxLines)
	}
}

// SetRefused keeps why a reload was refused as a whole, and logs it; nil forgets it. An error
// may hold its own diagnostics; another is one of code config_invalid.
func (l *Log) SetRefused(err error) {
	var diags []protocol.Diagnostic
	if err != nil {
		diags = refusal(err)
		l.log.Error("not reloaded, everything goes on as it was", "next", "fix the errors, then exthost reload")
		for _, d := range diags {
			l.Write(d)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = diags
}

// refusal returns the errors among the diagnostics that err holds, or err as one.
func refusal(err error) (diags []protocol.Diagnostic) {
	var holder interface {
		error
		Diagnostics() []protocol.Diagnostic
	}
	if errors.As(err, &holder) {
		for _, d := range holder.Diagnostics() {
			if d.Level == protocol.LevelError {
				diags = append(diags, d)
			}
		}
	}
	if len(diags) > 0 {
		return diags
	}
	return []protocol.Diagnostic{
		{
			Level:   protocol.LevelError,
			Code:    string(protocol.ConfigInvalid),
			Message: protocol.Reason(err),
			Hint:    "exthost reload, once it is fixed",
		},
	}
}

// All returns files, then every diagnostic that is kept. It is never nil.
func (l *Log) All(files []protocol.Diagnostic) []protocol.Diagnostic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]protocol.Diagnostic{}, slices.Concat(l.refused, files, l.starts, l.offered)...)
}
