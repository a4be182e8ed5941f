// Package diagnostics collects the diagnostics of a host for its status, and logs each of them once.
package diagnostics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Log stores diagnostics. Its methods are safe for concurrent use.
type Log struct {
	log *slog.Logger

	mu          sync.Mutex            // guards the fields below
	starts      []protocol.Diagnostic // diagnostics about starts
	descriptors []protocol.Diagnostic // diagnostics about descriptors in the current snapshot
	refused     []protocol.Diagnostic // reasons why the configuration on disk is not in force
	since       time.Time             // start of the minute that written counts in
	written     int                   // lines about descriptors; may exceed maxLines
}

// maxLines bounds the log lines about descriptors in a minute: an extension or remote node can send new invalid
// descriptors as often as it likes.
const maxLines = 1000

// New returns an empty log that writes to l.
func New(l *slog.Logger) *Log { return &Log{log: l} }

// Write logs a diagnostic without storing it.
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

// WriteNew logs the diagnostics of list that are not in before.
func (l *Log) WriteNew(list, before []protocol.Diagnostic) {
	for _, d := range added(list, before) {
		l.Write(d)
	}
}

// added returns the diagnostics of list that are not in before.
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

// Add stores a diagnostic, and logs it if it is new.
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

// Remove drops added diagnostics for which matches returns true.
func (l *Log) Remove(matches func(protocol.Diagnostic) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts = slices.DeleteFunc(l.starts, matches)
}

// SetDescriptors replaces the diagnostics about descriptors by those of the new snapshot, and logs the new ones, up to
// maxLines in a minute.
func (l *Log) SetDescriptors(diags []protocol.Diagnostic) {
	l.mu.Lock()
	fresh := added(diags, l.descriptors)
	l.descriptors = diags
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
		l.log.Warn("more diagnostics of extensions than are logged; exthost status shows all", "most",
			maxLines)
	}
}

// SetRefused stores and logs why a reload was refused; nil clears it. An error without diagnostics of its own becomes
// one of code config_invalid.
func (l *Log) SetRefused(err error) {
	var diags []protocol.Diagnostic
	if err != nil {
		diags = refusal(err)
		l.log.Error("not reloaded, everything goes on as it was", "next",
			cmp.Or(protocol.NextOf(err), "fix the errors, then exthost reload"))
		for _, d := range diags {
			l.Write(d)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = diags
}

// refusal returns the errors among the diagnostics of err, or err as a diagnostic.
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
			Hint:    cmp.Or(protocol.NextOf(err), "exthost reload, once it is fixed"),
		},
	}
}

// All returns files and all stored diagnostics. It is never nil.
func (l *Log) All(files []protocol.Diagnostic) []protocol.Diagnostic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]protocol.Diagnostic{}, slices.Concat(l.refused, files, l.starts, l.descriptors)...)
}

// Capped returns the first max diagnostics, and one more that states how many are left out.
func Capped(diags []protocol.Diagnostic, max int) []protocol.Diagnostic {
	if len(diags) <= max {
		return diags
	}
	rest := diags[max:]
	last := rest[0]
	last.Message, last.Hint = fmt.Sprintf("and %d more, from here on", len(rest)), ""
	if slices.ContainsFunc(rest, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }) {
		last.Level = protocol.LevelError
	}
	return append(diags[:max:max], last)
}
